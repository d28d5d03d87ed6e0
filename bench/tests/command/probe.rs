//! Findings of the host that the tests run on, whatever it is.

use fabricbench::doctor::{Check, Finding, Severity};
use serde_json::Value;

use crate::process::run;

fn findings(options: &str) -> Vec<Finding> {
    let document: Value =
        serde_json::from_str(&run(&format!("probe --format json {options}")).quietly(0).stdout)
            .unwrap();
    serde_json::from_value(document["findings"].clone()).unwrap()
}

/// `--ignore` for each check that found something worse than what is fine.
fn ignoring(findings: &[Finding]) -> String {
    let bad = findings.iter().filter(|finding| finding.severity <= Severity::Advice);
    bad.map(|finding| format!(" --ignore {}", finding.check.name())).collect()
}

#[test]
fn findings_are_in_the_document_beside_what_was_there_before() {
    for options in ["--json", "--format json"] {
        let text = run(&format!("probe {options}")).quietly(0).stdout;
        let document: Value = serde_json::from_str(&text).unwrap();
        for part in ["environment", "interfaces", "setups", "rdma", "advice", "findings"] {
            assert!(document.get(part).is_some(), "no {part} in:\n{text}");
        }
    }
    let found = findings("");
    // Each host has these, and they are told in one way or another.
    for check in
        [Check::ClockSource, Check::Machine, Check::CpuLimit, Check::Governor, Check::RdmaCore]
    {
        assert!(found.iter().any(|finding| finding.check == check), "no {check:?} in {found:#?}");
    }
    let severities: Vec<_> = found.iter().map(|finding| finding.severity).collect();
    assert!(severities.is_sorted(), "{severities:?}");
    let has_device = std::path::Path::new("/sys/class/infiniband").exists();
    let is_told = found
        .iter()
        .any(|finding| finding.check == Check::Device && finding.severity == Severity::Problem);
    assert!(has_device || is_told, "{found:#?}");
}

#[test]
fn the_first_line_counts_what_was_found() {
    let found = findings("");
    let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
    let problems = count(Severity::Problem);
    let expected = format!(
        "{problems} problem{}, {}",
        if problems == 1 { "" } else { "s" },
        count(Severity::Advice)
    );
    let brief = run("probe --brief").quietly(0).stdout;
    assert!(brief.starts_with(&expected), "{brief}");
    assert!(!brief.contains("network interfaces"), "{brief}");
    let whole = run("probe").quietly(0).stdout;
    assert!(whole.starts_with(&brief) && whole.contains("network interfaces"), "{whole}");
}

#[test]
fn a_gate_ends_with_five_where_it_names_what_was_found() {
    let found = findings("");
    let any = |worst| found.iter().any(|finding| finding.severity <= worst);
    for (gate, worst) in [("problem", Severity::Problem), ("advice", Severity::Advice)] {
        let code = if any(worst) { 5 } else { 0 };
        for format in ["", "--brief", "--json"] {
            run(&format!("probe {format} --fail-on {gate}")).quietly(code);
        }
        let accepted = ignoring(&found);
        let left = run(&format!("probe --brief --fail-on {gate}{accepted}")).quietly(0).stdout;
        assert!(left.starts_with("0 problems, 0 advice"), "{left}");
    }
}

#[test]
fn what_is_ignored_is_named_by_check_and_subject() {
    let found = findings("");
    let clock = |found: &[Finding]| found.iter().any(|finding| finding.check == Check::ClockSource);
    assert!(clock(&found));
    assert!(!clock(&findings("--ignore clock-source")));
    assert!(!clock(&findings("--ignore clock-source@host")));
    assert!(clock(&findings("--ignore clock-source@mlx5_0")));
    run("probe --ignore clock").failed(2, &["there is no check `clock`", "in brackets"]);
    run("probe --json --format text").failed(2, &["--json"]);
}
