//! The result in the forms that other programs read.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::Value;

use crate::process::{fabricbench, run};

const PLAN: &str =
    "run --transport tcp@loopback,verbs-send --pattern latency,bandwidth -s 8,64 -n 40 --rounds 2";

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn json_lines_are_the_document_in_parts() {
    let finished = run(&format!("{PLAN} --format jsonl"));
    let lines = lines(&finished.stdout);
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "run");
    assert_eq!(kinds[1..9], ["cell"; 8]);
    assert_eq!(kinds[9..], ["end"]);
    assert_eq!(lines[0]["schema"], "fabricbench/1");
    assert!(lines[0]["server"]["hostname"].is_string() && lines[0].get("cells").is_none());
    let measured = |line: &&Value| line["status"] == "measured";
    // Without RDMA here; where there is, there are all.
    assert!(lines.iter().filter(measured).count() >= 4, "{}", finished.stdout);
    assert_eq!(lines[9]["complete"], true);
}

/// Each line is there when its cell is done, not when all are.
#[test]
fn json_lines_come_as_the_run_goes() {
    let plan =
        "run --transport tcp@loopback --pattern latency -s 8,64 -D 60s --rounds 1 --format jsonl";
    let mut running = fabricbench(plan).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["kind"], "run");
    assert!(running.try_wait().unwrap().is_none(), "it is still measuring");
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn markdown_has_a_table_for_each_pattern_and_fences_the_rest() {
    let text = run(&format!("{PLAN} --format markdown")).stdout;
    let rules = text.lines().filter(|line| *line == "| ---: | ---: | ---: |").count();
    assert_eq!(rules, 2, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("| 64 B | ")).count(), 2, "{text}");
    assert!(text.contains("<details><summary>notes</summary>\n\n````text\n"), "{text}");
}

/// Types of Prometheus' text format before OpenMetrics: a file with another one is dropped as a whole.
const CLASSIC_TYPES: [&str; 5] = ["counter", "gauge", "histogram", "summary", "untyped"];

/// By the rules of OpenMetrics and of the format before it: a family's comments before its samples, which stand
/// together and have its name; a type that both know; labels in quotes; each sample once; a number; an end.
#[test]
fn gauges_keep_to_the_rules_of_their_formats() {
    let text = run(&format!("{PLAN} --format openmetrics --sweep threads=1,2")).stdout;
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let (mut family, mut families, mut samples) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let [keyword, name, text, ..] = comment.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            assert!(["TYPE", "UNIT", "HELP"].contains(&keyword), "{line}");
            assert!(keyword != "TYPE" || CLASSIC_TYPES.contains(&text), "{line}");
            if name != family {
                assert!(!families.contains(&name.to_owned()), "{name} twice");
                families.push(name.to_owned());
                name.clone_into(&mut family);
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let labels = series.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{line}"));
        assert!(labels.is_empty() || labels.starts_with('{') && labels.ends_with("\"}"), "{line}");
        assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        assert!(!samples.contains(&series), "{series} twice");
        samples.push(series);
    }
    let p50 = "fabricbench_latency_seconds{transport=\"tcp@loopback\",pattern=\"latency\",size=\"64\",\
               threads=\"2\",kind=\"half-round-trip\",quantile=\"0.5\"}";
    assert!(samples.contains(&p50), "{text}");
    assert!(
        samples.iter().any(|sample| sample.starts_with("fabricbench_throughput_bytes_per_second"))
    );
    assert!(text.contains("fabricbench_run_info{version=\""), "{text}");
}
