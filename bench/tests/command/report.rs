//! `fabricbench report`: results as one page that needs nothing beside it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Finished, Running, fabricbench, run};

/// A folder with results and what is made of them.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn measure(&self, name: &str, options: &str) -> PathBuf {
        let path = self.at(name);
        let mut command = fabricbench(&format!("run --rounds 2 {options}"));
        Running::start(command.arg("-o").arg(&path)).end().quietly(0);
        path
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn report(&self, results: &[&Path], options: &str) -> Finished {
        let mut command = fabricbench(&format!("report {options}"));
        Running::start(command.args(results).arg("-o").arg(self.at("report.html"))).end()
    }

    fn page(&self, results: &[&Path], options: &str) -> String {
        let options = format!("{options} --quiet");
        assert_eq!(self.report(results, options.trim_start()).quietly(0).stdout, "");
        fs::read_to_string(self.at("report.html")).unwrap()
    }
}

fn holds(page: &str, words: &[&str]) {
    for word in words {
        assert!(page.contains(word), "no `{word}` in the page of {} bytes", page.len());
    }
}

#[test]
fn a_result_as_a_page() {
    let folder = Folder::new();
    let options = "--transport grpc@lo,tcp@lo -s 8,64,1K --pattern latency,bandwidth -n 300";
    let result = folder.measure("loop.json", options);
    let page = folder.page(&[&result], "");
    holds(
        &page,
        &[
            "<h2>Read with care</h2>",
            "<strong>Loopback: </strong>grpc@loopback, tcp@loopback",
            "Latency against message size",
            "Bandwidth against message size",
            "Latency: percentiles at 64 B",
            "cumulative distribution at 1 KiB",
            "Processor time of the server, a round trip",
            "12 of 12 cells have figures",
            "300 messages a cell",
            "half round trip, µs</caption>",
            "<th scope=\"col\">share of samples that are no larger</th>",
            "download=\"loop.json.gz\" href=\"data:application/gzip;base64,",
        ],
    );
    assert!(!page.contains("axis)</th>"), "a table is on no axis");
    let said = folder.report(&[&result], "");
    let of = format!("report.html: a page with {} figures\n", page.matches("<figure ").count());
    assert!(said.code == Some(0) && said.stderr.ends_with(&of), "{said:?}");
    // Nothing is fetched: what is referred to is in the page, or is the page's data.
    for attribute in ["src=", "href=\"http", "url(", "@import"] {
        assert!(!page.contains(attribute), "{attribute}");
    }
    let figures = page.matches("<figure ").count();
    assert_eq!(figures, page.matches("class=\"chart wide\"").count());
    assert_eq!(figures, page.matches("class=\"chart narrow\"").count());
    // Percentiles behind which too few samples stand are not drawn, and not in the numbers.
    assert!(page.contains(">90 %<") && !page.contains(">99 %</th>"), "of 300 samples");
    assert!(page.len() < 200_000, "{} bytes", page.len());
}

#[test]
fn results_over_one_another_each_under_its_name() {
    let folder = Folder::new();
    let options = "--transport tcp@lo -s 8,64 --pattern latency -n 40";
    let [before, after] = ["before.json", "after.json"].map(|name| folder.measure(name, options));
    let page = folder.page(&[&before, &after], "--line-rate 10G -s 64");
    holds(&page, &["fabricbench: 2 runs", "tcp@loopback · before", "tcp@loopback · after"]);
    holds(&page, &["before.csv.gz", "after.json.gz", "percentiles at 64 B"]);
    assert!(!page.contains("percentiles at 8 B"), "another size was asked for");
    let again = folder.page(&[&before, &before], "");
    holds(&again, &["before.json (1)", "before.json (2)"]);
}

#[test]
fn figures_as_files() {
    let folder = Folder::new();
    let options = "--transport tcp@lo -s 8,64 --pattern latency,bandwidth -n 40";
    let result = folder.measure("loop.json", options);
    let files = folder.at("deep/figures");
    folder.page(&[&result], &format!("--line-rate 10G --svg {}", files.display()));
    let read = |name: &str| fs::read_to_string(files.join(name)).unwrap();
    let latency = read("latency-latency.svg");
    holds(&latency, &["<title id=\"title\">Latency against message size</title>", "tcp@loopback"]);
    holds(&read("throughput-bandwidth.svg"), &["link: 1,250 MB/s (10.0 Gb/s)"]);
    // What a document knows of its links is drawn as well, and what contradicts itself is marked.
    let mut document: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
    for cell in document["cells"].as_array_mut().unwrap() {
        cell["line_bytes_per_s"] = 7e9.into();
        cell["failed_checks"] = json!(["one is two"]);
    }
    let result = folder.write("link.json", document.to_string());
    let page = folder.page(&[&result], "");
    holds(&page, &["link of tcp@loopback: 7,000 MB/s (56.0 Gb/s)", "fails a check: one is two"]);
    holds(&page, &["class=\"hollow\"", "Hollow: a figure that fails a check"]);
    for entry in fs::read_dir(&files).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.starts_with("<?xml") && text.ends_with("</svg>\n"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

#[test]
fn a_load_is_drawn_with_what_was_not_sustained() {
    let folder = Folder::new();
    let options = "--transport tcp@lo -s 64 --pattern calls --sweep rate=200:800:x2 -D 200ms";
    let result = folder.measure("load.json", options);
    let mut document: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
    // A busy machine sustains less than it was asked for.
    for (index, cell) in document["cells"].as_array_mut().unwrap().iter_mut().enumerate() {
        cell["load"]["sustained"] = (index != 2).into();
    }
    let result = folder.write("load.json", document.to_string());
    let page = folder.page(&[&result], "");
    holds(&page, &["Time of a call against load, 64 B", "class=\"hollow\"", "not sustained: "]);
    holds(&page, &["in 1 cells the load that was offered was not sustained"]);
}

#[test]
fn the_knee_of_a_search_has_a_ring() {
    let folder = Folder::new();
    let options = "--pattern calls --transport tcp@loopback -s 64 -D 0.1s --rate search";
    let result = folder.measure("knee.json", options);
    // A machine that stands still under most rates shows no knee.
    let mut document: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
    let mut offered =
        document["cells"].as_array().unwrap().iter().map(|cell| &cell["load"]["offered_per_s"]);
    let offered = offered.find(|offered| offered.is_number()).unwrap().clone();
    document["knees"][0]["knee_per_s"] = offered;
    let result = folder.write("knee.json", document.to_string());
    let page = folder.page(&[&result], "");
    holds(
        &page,
        &["class=\"ring\"", "; the knee", "Rings: the knee, the highest rate that was sustained"],
    );
}

/// A document, all of whose words and numbers somebody else chose.
fn hostile() -> Value {
    let evil =
        "</script></style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&\u{1}\u{202e}";
    let number = [0.0, -1.0, 1e308, 5e-324];
    let transports = ["tcp@<b>", "verbs-write", "grpc@\"x"];
    let patterns = ["latency", "bandwidth", "calls", "ps", "tensor-push"];
    let sizes = [0, 1, u64::MAX];
    let cells: Vec<Value> = (0..40_usize)
        .map(|index| {
            let value = number[index % 4];
            json!({
                "transport": transports[index % 3],
                "pattern": patterns[index % 5],
                "size": sizes[index % 3],
                "status": (if index % 7 == 0 { "failed" } else { "measured" }),
                "reason": evil,
                "buffers": (if index % 2 == 0 { json!({ "shape": evil, "lengths": [] }) } else { Value::Null }),
                "path": { "kind": "soft-roce", "device": evil, "port": 1, "interface": evil, "emulated": true,
                          "backing": evil, "address": evil, "mtu": 1, "chosen": evil },
                "peer_path": null,
                "latency": { "unit": "ns", "kind": "round-trip", "samples": 3, "min": value, "p50": value,
                    "p99": value, "p999": null, "max": value, "mean": value,
                    "p50_interval_95": [value, -value], "histogram": { "format": evil, "of": evil, "unit": evil,
                    "data": evil } },
                "throughput": { "bytes_per_s": value, "messages_per_s": value },
                "cpu": { "client_ns": u64::MAX, "server_ns": 0 },
                "load": (if index % 2 == 0 { json!({ "arrivals": "constant", "offered_per_s": value,
                    "achieved_per_s": null, "bound": 1, "most_in_flight": 1, "held_back": 0, "given_up": 0,
                    "sustained": false }) } else { Value::Null }),
                "settings": { "depth": null, "warm_up_messages": u64::MAX / 2, "messages": u64::MAX / 4,
                              "transport": { "tuned": evil } },
                "rounds": [{ "round": 0, "messages": u64::MAX / 4, "elapsed_ns": 1, "p50": null },
                           { "round": 1, "messages": 0, "elapsed_ns": 0, "p50": null }],
            })
        })
        .collect();
    json!({
        "schema": "fabricbench/1", "fabricbench": evil, "complete": false, "started_unix_s": u64::MAX,
        "command": ["suite", evil],
        "plan": { "transports": transports,
            "patterns": ["latency"], "sizes": [], "stop": evil, "warm_up": evil,
            "rounds": 4_294_967_295_u32, "seed": 0, "loop_kind": evil },
        "client": { "hostname": evil, "fabricbench": evil, "kernel": evil, "cpu": evil },
        "server": { "hostname": evil, "fabricbench": evil },
        "warnings": [evil], "cells": cells,
    })
}

#[test]
fn what_a_document_holds_is_only_ever_text() {
    let folder = Folder::new();
    let result = folder.write("<script>&.json", hostile().to_string());
    let files = folder.at("svg");
    let page = folder.page(&[&result, &result], &format!("--svg {}", files.display()));
    assert_eq!(page.matches("<script>").count(), 1, "ours");
    assert_eq!(page.matches("</script>").count(), 1, "ours");
    // What is to be saved is in letters and digits, which may spell anything.
    let data = |text: &&str| !text.starts_with("data:application/gzip");
    let page = page.split('"').filter(data).collect::<String>();
    for (text, what) in std::iter::once((page, "page".to_owned())).chain(
        fs::read_dir(&files).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            (fs::read_to_string(&path).unwrap(), path.display().to_string())
        }),
    ) {
        for bad in ["<img", "NaN", "inf\"", "\u{1}", "\u{202e}"] {
            assert!(!text.contains(bad), "{bad:?} in {what}");
        }
    }
}

#[test]
fn a_document_without_cells_is_a_page_that_says_so() {
    let folder = Folder::new();
    let mut document = hostile();
    document["cells"] = json!([]);
    document["server"] = Value::Null;
    let result = folder.write("empty.json", document.to_string());
    let page = folder.page(&[&result], "");
    holds(&page, &["0 of 0 cells have figures", "no server reached", "<strong>Cut off: </strong>"]);
}

#[test]
fn what_is_no_result_is_named_with_the_reason() {
    let folder = Folder::new();
    let good = folder.measure("good.json", "--transport tcp@lo -s 8 --pattern latency -n 20");
    let mut older: Value = serde_json::from_slice(&fs::read(&good).unwrap()).unwrap();
    older["schema"] = "fabricbench/2".into();
    for (content, words) in [
        (String::new(), ["bad.json", "empty"]),
        ("[]".to_owned(), ["bad.json", "invalid"]),
        ("{}".to_owned(), ["bad.json", "missing field"]),
        ("{\"schema\": \"other/7\"}".to_owned(), ["bad.json", "other/7"]),
        (older.to_string(), ["bad.json", "fabricbench/2"]),
        ("[".repeat(100_000), ["bad.json", "line 1"]),
    ] {
        let bad = folder.write("bad.json", content);
        folder.report(&[&good, &bad], "").failed(1, &words);
        assert!(!folder.at("report.html").exists(), "a page of half of what was asked for");
    }
    folder.report(&[&folder.at("absent.json")], "").failed(1, &["absent.json", "No such file"]);
    folder.report(&[], "").failed(2, &["RESULT"]);
    let nowhere = format!("report {} -o /proc/none/report.html", good.display());
    run(&nowhere).failed(1, &["/proc/none/report.html", "--output"]);
    let nowhere = format!("--svg {}", good.join("x").display());
    folder.report(&[&good], &nowhere).failed(1, &["good.json/x", "--svg"]);
}

#[test]
fn a_page_takes_the_place_of_no_result() {
    let folder = Folder::new();
    let result = folder.write("r.json", "{}");
    std::os::unix::fs::symlink("r.json", folder.at("link.json")).unwrap();
    for place in ["r.json", "link.json"] {
        let command = format!("report {} -o {}", result.display(), folder.at(place).display());
        run(&command).failed(2, &["take the place of the result"]);
    }
    assert_eq!(fs::read_to_string(result).unwrap(), "{}");
}

/// A file of 2 GiB, of which nothing is read.
#[test]
fn what_is_larger_than_any_result_is_refused() {
    let folder = Folder::new();
    let large = folder.write("large.json", "");
    folder.report(&[&large], "").failed(1, &["large.json is empty", "before it measured"]);
    fs::OpenOptions::new().write(true).open(&large).unwrap().set_len(2 << 30).unwrap();
    folder.report(&[&large], "").failed(1, &["large.json", "more than 1073741824 bytes"]);
}

#[test]
fn a_suite_has_bars_beside_the_published_ones() {
    let folder = Folder::new();
    let result = folder.at("suite.json");
    let options = "suite tf-grpc -D 30ms --warm-up 10ms --rounds 2 --scheme uniform --timeout 1m";
    let mut command = fabricbench(&format!("{options} --transport grpc@lo,tcp@lo --format json"));
    let printed = Running::start(command.arg("-o").arg(&result)).end().quietly(0).stdout;
    let whole = folder.write("whole.json", printed);
    for result in [result, whole] {
        let page = folder.page(&[&result], "");
        holds(&page, &["TF-gRPC-Bench, P2P-Latency", "TF-gRPC-Bench, PS-Throughput: published"]);
        holds(&page, &["10:uniform, cluster B", "arXiv 1804.01138"]);
    }
}
