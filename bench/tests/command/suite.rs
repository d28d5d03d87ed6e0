//! `fabricbench suite` on one host.

use std::fs;

use serde_json::Value;

use crate::{document::number, process::run};

/// Enough to see that everything runs; at least 20 messages a figure anyway.
const QUICK: &str = "-D 30ms --warm-up 10ms --rounds 2 --timeout 1m";

fn suite(options: &str) -> Value {
    let finished = run(&format!("suite tf-grpc {QUICK} --format json {options}"));
    serde_json::from_str(&finished.quietly(0).stdout).unwrap()
}

#[test]
fn the_defaults_of_the_publication_over_each_transport() {
    const TRANSPORTS: [&str; 4] =
        ["grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback", "tcp@loopback"];
    let suite = suite(&format!("--transport {}", TRANSPORTS.join(",")));
    assert_eq!(suite["schema"], "fabricbench-suite/1");
    assert_eq!(suite["document"]["schema"], "fabricbench/1");
    let tables = suite["tables"].as_array().unwrap();
    let names: Vec<_> = tables.iter().map(|table| &table["benchmark"]).collect();
    assert_eq!(names, ["p2p-latency", "p2p-bandwidth", "ps-throughput"]);
    for table in tables {
        assert_eq!(table["columns"], serde_json::json!(TRANSPORTS));
        assert_eq!(table["base"], "grpc@loopback");
        // Three payloads, two clusters, three networks.
        assert_eq!(table["published"].as_array().unwrap().len(), 18);
        let rows = table["rows"].as_array().unwrap();
        let payloads: Vec<_> = rows.iter().map(|row| &row["payload"]).collect();
        assert_eq!(payloads, ["10:uniform", "10:random", "10:skew"]);
        // Four of 10 B, three of 10 KiB, three of 1 MiB; six of 1 MiB, three of 10 KiB, one of 10 B.
        assert_eq!((&rows[0]["size"], &rows[2]["size"]), (&3_176_488.into(), &6_322_186.into()));
        for figure in rows.iter().flat_map(|row| row["figures"].as_array().unwrap()) {
            assert_eq!(figure["status"], "measured", "{figure}");
            assert!(number(&figure["value"]) > 0.0 && number(&figure["ratio"]) > 0.0, "{figure}");
            for side in ["client", "server"] {
                assert!(number(&figure[side]["processors"]) > 0.0, "{figure}");
                assert!(number(&figure[side]["peak_memory_bytes"]) > 3e6, "{figure}");
                assert!(number(&figure[side]["sent_bytes_per_s"]) > 0.0, "{figure}");
                assert!(number(&figure[side]["received_bytes_per_s"]) > 0.0, "{figure}");
            }
        }
        assert_eq!(rows[1]["figures"][0]["ratio"], 1.0, "of the base to itself");
    }
    check_units(&suite);
    for cell in suite["document"]["cells"].as_array().unwrap() {
        assert_eq!(cell["counters"]["proof"]["holds"], true, "{cell}");
        assert_eq!(cell["payload"]["corrupt_messages"], 0, "{cell}");
        assert_eq!(cell["buffers"]["lengths"].as_array().unwrap().len(), 10, "{cell}");
    }
}

/// Figures are those of the document, in milliseconds, 10^6 bytes a second and calls a second.
fn check_units(suite: &Value) {
    let cells = suite["document"]["cells"].as_array().unwrap();
    let same = |table: usize, pattern: &str, of: &dyn Fn(&Value) -> f64| {
        let cell = cells.iter().find(|cell| cell["pattern"] == pattern).unwrap();
        let rows = suite["tables"][table]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["size"] == cell["size"]).unwrap();
        let (shown, found) = (number(&row["figures"][0]["value"]), of(cell));
        assert!((shown / found - 1.0).abs() < 1e-9, "{shown} is not {found}: {cell}");
    };
    same(0, "latency", &|cell| number(&cell["latency"]["p50"]) / 1e6);
    same(1, "calls", &|cell| number(&cell["throughput"]["bytes_per_s"]) / 1e6);
    same(2, "ps", &|cell| number(&cell["throughput"]["messages_per_s"]));
}

#[test]
fn payloads_modes_and_roles_are_as_asked() {
    let suite = suite(
        "--transport grpc@lo,tcp@lo --benchmark ps-throughput,p2p-latency --buffers 2x1M --buffers 3x1K+7 \
         --mode both --servers 2 --workers 3 -- --cpus none",
    );
    let tables = suite["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 2);
    for table in tables {
        let columns = ["grpc@lo[serialized=no]", "grpc@lo[serialized=yes]", "tcp@lo"];
        let columns = columns.map(|column| column.replace("@lo", "@loopback"));
        assert_eq!(table["columns"], serde_json::json!(columns));
        assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    }
    // Of buffers of 1 MB the publication has IPoIB and RDMA on one cluster, and latencies alone.
    assert_eq!(tables[0]["published"].as_array().unwrap().len(), 2);
    assert_eq!(tables[1]["published"].as_array().unwrap().len(), 0);
    let cells = suite["document"]["cells"].as_array().unwrap();
    let roles = serde_json::json!({ "servers": 2, "workers": 3 });
    assert!(cells.iter().all(|cell| cell["pattern"] != "ps" || cell["roles"] == roles));
}

#[test]
fn the_text_has_the_tables_and_the_file_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let options =
        "--transport grpc@loopback,tcp@loopback --scheme skew-small --iovecs 5 --categories s,m=2K";
    let finished = run(&format!("suite tf-grpc {QUICK} {options} -o {}", file.display()));
    let text = finished.quietly(0).stdout;
    for words in [
        "arXiv 1804.01138",
        "\nP2P-Latency: ms [ratio to grpc@loopback]; half of the round trip",
        "\nP2P-Bandwidth: MB/s [ratio to grpc@loopback]; one call after the other",
        "\nPS-Throughput: RPC/s [ratio to grpc@loopback]; 1 parameter server(s), 1 worker(s)",
        "5:skew-small:s,m=2K",
        "warm-up of each slice: 5ms, at least 1 message",
        "\nuse of each process: processors; memory",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    assert!(!text.contains("published"), "nothing was, of these payloads: {text}");
    let document: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(
        (&document["schema"], &document["complete"]),
        (&"fabricbench/1".into(), &true.into())
    );
}

#[test]
fn published_figures_of_another_setup_are_told_from_what_is_measured() {
    let words = "not of the same setup, and so not to be compared: give --servers 2 --workers 3";
    let options = "--transport tcp@lo --benchmark p2p-latency,ps-throughput --scheme random";
    let text =
        |more: &str| run(&format!("suite tf-grpc {QUICK} {options} {more}")).quietly(0).stdout;
    let usual = text("");
    assert_eq!(usual.matches(words).count(), 1, "{usual}");
    let (before, behind) = usual.split_once(words).unwrap();
    assert!(before.contains("PS-Throughput: "), "{usual}");
    assert!(behind.contains("of 2 parameter servers and 3 workers"), "{usual}");
    let published = text("--servers 2 --workers 3");
    assert!(!published.contains(words), "{published}");
}

#[test]
fn what_stands_behind_the_dashes_has_the_last_word() {
    let suite = suite(
        "--transport tcp@lo --benchmark p2p-latency --scheme uniform -t 3 -- -n 10 --rounds 1 -t 2",
    );
    let plan = &suite["document"]["plan"];
    assert_eq!(plan["rounds"], 1, "{plan}");
    assert!(plan["stop"].as_str().unwrap().starts_with("10 "), "{plan}");
    assert_eq!(suite["document"]["cells"][0]["settings"]["messages"], 10);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (arguments, words) in [
        ("suite tf-grpc --scheme upside-down", ["upside-down", "uniform, random"]),
        ("suite tf-grpc --iovecs 0", ["--iovecs", "1024"]),
        ("suite tf-grpc --iovecs 1025", ["--iovecs", "1024"]),
        ("suite tf-grpc --scheme nope", ["--scheme", "skew-small"]),
        ("suite tf-grpc --categories q", ["--categories q", "s, m and l"]),
        ("suite tf-grpc --categories s=x", ["--categories s=x", "s, m and l"]),
        ("suite tf-grpc --scheme skew --categories s", ["--categories s", "scheme skew"]),
        ("suite tf-grpc --scheme skew --buffers 10x1M", ["--scheme", "--buffers"]),
        ("suite tf-grpc --benchmark p2p-latency --servers 2", ["--servers", "--pattern ps"]),
        ("suite tf-grpc --transport udp@lo", ["udp@lo", "tcp@PATH"]),
        ("suite tf-grpc --transport tcp@lo --mode both", ["serialized", "makes no difference"]),
        ("suite osu", ["osu", "--help"]),
    ] {
        run(arguments).failed(2, &words);
    }
}
