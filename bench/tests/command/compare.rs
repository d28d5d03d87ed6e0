//! Results beside each other: real ones, edited ones, and what is no result.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    document::number,
    process::{Finished, Running, fabricbench, run},
};

const PLAN: &str = "run --transport tcp@loopback -s 64,4K";

/// Result files in a folder of their own.
struct Results(TempDir);

impl Results {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Measures into the file `name`.
    fn measured(&self, name: &str, options: &str) -> Value {
        let path = self.path(name);
        let options = if options.is_empty() { "-n 300" } else { options };
        run(&format!("{PLAN} {options} -o {}", path.display())).quietly(0);
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn write(&self, name: &str, content: &Value) {
        fs::write(self.path(name), content.to_string()).unwrap();
    }

    /// `fabricbench compare` of files by name, with options as they are.
    fn compare(&self, files: &[&str], options: &[&str]) -> Finished {
        let mut command: Command = fabricbench("compare");
        command.args(files.iter().map(|name| self.path(name))).args(options);
        Running::start(&mut command).end()
    }
}

/// Makes all times of `document` longer, and all rates smaller.
fn slow_down(document: &mut Value, factor: f64) {
    let scale = |value: &mut Value, factor: f64| {
        if let Some(number) = value.as_f64() {
            *value = (number * factor).into();
        }
    };
    for cell in document["cells"].as_array_mut().unwrap() {
        if let Some(latency) = cell["latency"].as_object_mut() {
            for name in ["min", "p50", "p99", "p999", "max", "mean", "stddev"] {
                scale(&mut latency[name], factor);
            }
            let ends = latency["p50_interval_95"].as_array_mut().unwrap();
            ends.iter_mut().for_each(|end| scale(end, factor));
        }
        for name in ["bytes_per_s", "messages_per_s"] {
            scale(&mut cell["throughput"][name], 1.0 / factor);
        }
        for round in cell["rounds"].as_array_mut().unwrap() {
            scale(&mut round["p50"], factor);
            let elapsed = number(&round["elapsed_ns"]) * factor;
            round["elapsed_ns"] = (elapsed as u64).into();
        }
    }
}

/// Rounds that are all alike, and medians that are known well, so that only what is edited differs however
/// busy the machine was.
fn steady(document: &mut Value) {
    for cell in document["cells"].as_array_mut().unwrap() {
        let first = cell["rounds"][0].clone();
        cell["rounds"].as_array_mut().unwrap().fill(first);
        if cell["latency"].is_object() {
            let p50 = number(&cell["latency"]["p50"]);
            cell["latency"]["p50_interval_95"] = [0.99 * p50, 1.01 * p50].into();
        }
    }
}

#[test]
fn a_run_is_no_different_from_itself() {
    let results = Results::new();
    results.measured("a.json", "");
    results.measured("b.json", "");
    let finished = results.compare(&["a.json", "a.json"], &["--fail-on", "latency.p50 > 1"]);
    let table = finished.quietly(0).stdout;
    assert!(
        table.contains("of 4 figures: 0 slower, 0 faster, 4 with no difference shown"),
        "{table}"
    );
    assert!(
        table.contains("tcp@loopback latency 4 KiB") && table.contains("gate passed"),
        "{table}"
    );
    // Another run of the same may differ, and is compared in any case.
    let finished = results.compare(&["a.json", "b.json"], &["--format", "json"]);
    let document: Value = serde_json::from_str(&finished.quietly(0).stdout).unwrap();
    assert_eq!(document["schema"], "fabricbench-comparison/1");
    let cells = document["comparisons"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for figure in cells.iter().flat_map(|cell| cell["figures"].as_array().unwrap()) {
        let [low, high] = [0, 1].map(|end| number(&figure["interval_95"][end]));
        let ratio = number(&figure["ratio"]);
        assert!(low <= ratio && ratio <= high && low > 0.0, "{figure}");
        // Readers of JSON may be off by the last digit.
        assert!((ratio * number(&figure["base"]) / number(&figure["new"]) - 1.0).abs() < 1e-12);
        let differs = low > 1.0 || high < 1.0;
        assert_eq!(figure["finding"] != "no-difference-shown", differs, "{figure}");
    }
}

#[test]
fn what_became_slower_by_half_trips_the_gate() {
    let results = Results::new();
    let mut document = results.measured("a.json", "");
    steady(&mut document);
    results.write("a.json", &document);
    slow_down(&mut document, 1.5);
    results.write("slow.json", &document);
    let gate = |base, new, gate| results.compare(&[base, new], &["--fail-on", gate]);
    let tripped = gate("a.json", "slow.json", "latency.p50 > 1.10 @ tcp@* latency 4K").quietly(5);
    assert!(tripped.stdout.contains("50 % slower"), "{}", tripped.stdout);
    assert!(
        tripped.stdout.contains("gate TRIPPED: latency.p50 > 1.10 @ tcp@* latency 4K by 1 of 1")
    );
    gate("a.json", "slow.json", "bandwidth < 0.9 @ tcp@loopback bandwidth").quietly(5);
    gate("a.json", "slow.json", "latency.p50 > 1.6").quietly(0);
    gate("slow.json", "a.json", "latency.p50 > 1.10").quietly(0);
    // Several new ones are each held to it.
    let several =
        results.compare(&["a.json", "a.json", "slow.json"], &["--fail-on", "latency.p50>1.1"]);
    let text = several.quietly(5).stdout;
    assert!(text.contains("gate passed") && text.contains("gate TRIPPED"), "{text}");
    let markdown = results.compare(
        &["a.json", "slow.json"],
        &["--format", "markdown", "--fail-on", "latency.p50 > 1.1"],
    );
    let text = markdown.quietly(5).stdout;
    assert!(text.starts_with("**Gate tripped by 2 figures; of 4 figures: 4 slower"), "{text}");
    assert!(text.contains("<details>") && text.contains("</details>"), "{text}");
}

#[test]
fn a_gate_that_can_never_trip_is_an_error() {
    let results = Results::new();
    results.measured("a.json", "");
    for gate in [
        "latency.p50 > 1.1 @ verbs-*",
        "latency.p50 > 1.1 @ tcp@* latency 63",
        "latency.p50 > 1.1 @ tcp@* bandwidth",
    ] {
        let finished = results.compare(&["a.json", "a.json"], &["--fail-on", gate]);
        finished.failed(2, &[gate, "no cell of either file"]);
    }
    for (gate, words) in [
        ("latency.p51 > 1.1", "latency.p99"),
        ("latency.p50 = 1.1", "METRIC > RATIO"),
        ("latency.p50 > much", "no ratio"),
        ("latency.p50 > 0.9", "without a difference"),
        ("latency.p50 > 1.1 @ tcp@* latency 4Q", "no size"),
        ("latency.p50 > 1.1 @", "METRIC > RATIO"),
    ] {
        results.compare(&["a.json", "a.json"], &["--fail-on", gate]).failed(2, &[words]);
    }
}

#[test]
fn what_is_not_comparable_is_refused_until_it_is_asked_for() {
    let results = Results::new();
    let mut document = results.measured("a.json", "");
    document["client"]["cpu"] = "another".into();
    document["client"]["kernel"] = "7.0".into();
    document["cells"][0]["path"]["emulated"] = true.into();
    results.write("b.json", &document);
    let refused =
        results.compare(&["a.json", "b.json"], &["--fail-on", "latency.p50 > 9"]).quietly(6);
    for words in [
        "not comparable: processor of the client: ",
        "differs: kernel of the client: ",
        "not comparable: emulated on the client: no against yes (1 cell)",
        "nothing was compared",
        "gate not judged",
    ] {
        assert!(refused.stdout.contains(words), "no `{words}` in:\n{}", refused.stdout);
    }
    let anyway = results.compare(&["a.json", "b.json"], &["--anyway"]).quietly(0);
    assert!(
        anyway.stdout.contains("compared anyway: processor of the client"),
        "{}",
        anyway.stdout
    );
    assert!(anyway.stdout.contains("of 4 figures"), "{}", anyway.stdout);
}

#[test]
fn cells_of_one_file_and_cells_without_figures_are_listed() {
    let results = Results::new();
    let mut document = results.measured("a.json", "");
    let failed = &mut document["cells"][0];
    failed["status"] = "failed".into();
    failed["reason"] = "it was cut".into();
    for figures in ["latency", "throughput", "cpu"] {
        failed.as_object_mut().unwrap().remove(figures);
    }
    document["cells"][1]["size"] = 8192.into();
    document["cells"][2]["failed_checks"] = serde_json::json!(["more than the line carries"]);
    document["warnings"] = serde_json::json!(["became slower", "\u{1b}[2J", "c", "d"]);
    document["complete"] = false.into();
    results.write("b.json", &document);
    let text = results.compare(&["a.json", "b.json"], &[]).quietly(0).stdout;
    for words in [
        "not measured: tcp@loopback latency 64 B: failed in the new file: it was cut",
        "only in base: tcp@loopback latency 4 KiB",
        "only in new: tcp@loopback latency 8 KiB",
        "INCOMPLETE",
        "tcp@loopback bandwidth 64 B: in the new file, more than the line carries",
        "warning in new: became slower\nwarning in new: \\u{1b}[2J",
        "warnings in new: 1 more",
        "of 2 figures",
    ] {
        assert!(text.contains(words), "no `{words}` in:\n{text}");
    }
    // What was measured before and is not now cannot be said to be no slower.
    let gate = ["--fail-on", "latency.p50 > 1.1"];
    let text = results.compare(&["a.json", "b.json"], &gate).quietly(6).stdout;
    assert!(text.contains("gate not judged"), "{text}");
}

#[test]
fn what_is_no_result_is_said_in_a_line() {
    let results = Results::new();
    let document = results.measured("a.json", "");
    let other = |schema: &str| {
        let mut other = document.clone();
        other["schema"] = schema.into();
        other.to_string()
    };
    for (content, words) in [
        (String::new(), "is empty"),
        ("NaN".to_owned(), "not one JSON document"),
        ("[1, 2]".to_owned(), "no result"),
        ("{}".to_owned(), "no `schema`"),
        (r#"{"schema": "fabricbench/9", "cells": {}}"#.to_owned(), "fabricbench/9"),
        (other("fabricbench/0"), "fabricbench/0"),
        (r#"{"schema": "fabricbench/1"}"#.to_owned(), "no result"),
        (document.to_string()[..2000].to_owned(), "not one JSON document"),
        (document.to_string().replace("\"mean\":", "\"mean\":1e999,\"median\":"), "no result"),
        ("[".repeat(100_000), "not one JSON document"),
    ] {
        fs::write(results.path("bad.json"), &content).unwrap();
        results.compare(&["a.json", "bad.json"], &[]).failed(1, &["bad.json", words]);
        results.compare(&["bad.json", "a.json"], &[]).failed(1, &["bad.json", words]);
    }
    results.compare(&["a.json", "none.json"], &[]).failed(1, &["none.json", "cannot read"]);
    results.compare(&["a.json", "."], &[]).failed(1, &["cannot read"]);
    run("compare a.json").failed(2, &["NEW"]);
}

/// Results of before histograms were kept have the median's interval and rounds.
#[test]
fn a_result_without_histograms_is_compared_by_what_it_has() {
    let results = Results::new();
    let mut document = results.measured("a.json", "-n 6000");
    for cell in document["cells"].as_array_mut().unwrap() {
        if let Some(latency) = cell["latency"].as_object_mut() {
            assert!(latency.remove("histogram").is_some());
        }
    }
    results.write("old.json", &document);
    let text = results.compare(&["old.json", "a.json"], &[]).quietly(0).stdout;
    assert!(
        text.contains("of 6 figures: 0 slower, 0 faster, 4 with no difference shown, 2 not tested"),
        "{text}"
    );
    document["cells"][0]["latency"]["histogram"] =
        serde_json::json!({"format": "", "of": "", "unit": "ns", "data": "AAAA"});
    results.write("broken.json", &document);
    let text = results.compare(&["a.json", "broken.json"], &[]).quietly(0).stdout;
    assert!(text.contains("a histogram is not in HdrHistogram's V2 format"), "{text}");
}

#[test]
fn thousands_of_cells_are_compared() {
    let results = Results::new();
    let mut document = results.measured("a.json", "");
    let cells = document["cells"].as_array().unwrap().clone();
    let (latency, bandwidth) = (&cells[0], &cells[2]);
    assert_eq!(
        (&latency["pattern"], &bandwidth["pattern"]),
        (&"latency".into(), &"bandwidth".into())
    );
    let many = (1..=5000_u64).map(|size| {
        let mut cell = if size % 50 == 0 { latency } else { bandwidth }.clone();
        cell["size"] = size.into();
        cell
    });
    document["cells"] = many.collect();
    results.write("many.json", &document);
    let compare = |format| {
        results.compare(&["many.json", "many.json"], &["--format", format]).quietly(0).stdout
    };
    let compared: Value = serde_json::from_str(&compare("json")).unwrap();
    assert_eq!(compared["comparisons"][0]["cells"].as_array().unwrap().len(), 5000);
    let text = compare("markdown");
    assert!(text.len() < 65_536, "{} characters are no comment", text.len());
    assert!(text.contains("rows more"), "{text}");
}
