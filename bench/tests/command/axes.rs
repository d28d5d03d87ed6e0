//! Settings that are swept: a cell for each combination that means something to it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    document::{Document, measured},
    process::run,
};

const SWEEP: &str = "run --transport tcp@loopback,grpc@loopback --pattern latency,bandwidth,calls -s 8,4K -n 40 --rounds 2 \
                     --sweep depth=2:8:x4 --sweep threads=1,2";

/// The variants that the document has of a transport in a pattern at a size, each once.
fn variants(document: &Document, transport: &str, pattern: &str, size: u64) -> Vec<Value> {
    let of = |cell: &&Value| {
        cell["transport"] == transport && cell["pattern"] == pattern && cell["size"] == size
    };
    let found: Vec<_> =
        document.cells().iter().filter(of).map(|cell| cell["variant"].clone()).collect();
    let distinct: BTreeSet<_> = found.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), found.len(), "{found:?}");
    found
}

#[test]
fn every_combination_is_measured_where_it_makes_a_difference() {
    let finished = run(&format!("{SWEEP} --format json")).quietly(0);
    let document = Document::read(&finished.stdout);
    assert_eq!(document.0["plan"]["sweep"], json!({"depth": [2, 8], "threads": [1, 2]}));
    // A stream has no depth, nor has one message in flight; windows are fitted to one, and calls are
    // counted by it.
    let threads = vec![json!({"threads": 1}), json!({"threads": 2})];
    let both: Vec<_> = [2, 8]
        .iter()
        .flat_map(|depth| [1, 2].map(|threads| json!({"depth": depth, "threads": threads})))
        .collect();
    for size in [8, 4096] {
        for (transport, pattern, expected) in [
            ("tcp@loopback", "latency", &threads),
            ("tcp@loopback", "bandwidth", &threads),
            ("grpc@loopback", "latency", &threads),
            ("grpc@loopback", "bandwidth", &both),
            ("tcp@loopback", "calls", &both),
            ("grpc@loopback", "calls", &both),
        ] {
            assert_eq!(variants(&document, transport, pattern, size), *expected);
        }
    }
    assert_eq!(document.cells().len(), 36);
    for cell in document.cells() {
        measured(cell);
        let threads = &cell["settings"]["transport"]["threads"];
        assert_eq!(*threads == "2", cell["variant"]["threads"] == 2, "{cell}");
        assert_eq!(cell["settings"]["messages"], 40);
        if cell["pattern"] == "calls" {
            assert_eq!(cell["settings"]["depth"], cell["variant"]["depth"]);
        }
        assert_eq!(cell["rounds"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn every_format_tells_the_variants_apart() {
    let of = |format: &str| run(&format!("{SWEEP} --format {format}")).quietly(0).stdout;
    let csv = of("csv");
    let mut rows = csv.lines();
    assert!(rows.next().unwrap().ends_with(",client_waits,server_waits,depth,threads"), "{csv}");
    let ends: BTreeSet<_> =
        rows.map(|row| row.rsplitn(3, ',').take(2).collect::<Vec<_>>()).collect();
    assert_eq!(ends.len(), 6, "1 and 2 threads without a depth and with two: {csv}");
    for format in ["long", "perftest"] {
        let text = of(format);
        for label in ["tcp@loopback[threads=1]", "grpc@loopback[depth=8,threads=2]"] {
            assert!(text.contains(label), "no {label} in {text}");
        }
    }
    let table = of("table");
    let header = table.lines().find(|line| line.contains("depth")).unwrap();
    let columns: Vec<_> = header.split_whitespace().collect();
    assert_eq!(columns, ["size", "depth", "threads", "tcp@loopback", "grpc@loopback"]);
}

/// The order of a round is that of the seed, whatever is compared.
#[test]
fn variants_take_turns_in_an_order_that_the_seed_decides() {
    let order = |seed: u32| -> Vec<String> {
        let options = "run --transport tcp@loopback --pattern latency -s 8 -n 20 --rounds 1 \
                       --sweep threads=1:6:+1 --progress lines --format json";
        let finished = run(&format!("{options} --seed {seed}"));
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let cells = finished.stderr.lines().filter(|line| line.contains("latency 8 B:"));
        cells.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let orders: BTreeSet<_> = (1..=3).map(order).collect();
    assert!(orders.len() > 1, "{orders:?}");
    assert!(orders.iter().all(|order| order.len() == 6), "{orders:?}");
    assert_eq!(order(1), order(1));
}

#[test]
fn connections_are_sockets_that_both_kernels_count() {
    let transports = "tcp@loopback,grpc@loopback,grpc-stock@loopback";
    let plan = format!(
        "run --transport {transports} --pattern latency,bandwidth,bidirectional,fetch,calls -s 64,64K \
         -n 90 --rounds 1 -t 4 --sweep connections=1,3 --format json"
    );
    let document = Document::read(&run(&plan).quietly(0).stdout);
    let mut warnings = document.0["warnings"].as_array().unwrap().iter();
    let is_of_the_build =
        |warning: &Value| warning.as_str().unwrap().starts_with("this is a debug build: ");
    assert!(warnings.all(is_of_the_build), "{}", document.0["warnings"]);
    // Of a latency one, of all else two.
    assert_eq!(document.cells().len(), 3 * 2 * (1 + 4 * 2));
    for cell in document.cells() {
        measured(cell);
        let connections = cell["variant"]["connections"].as_u64().unwrap_or(1);
        let tcp = &cell["tcp"];
        assert_eq!(tcp["asked"], connections);
        for side in ["client", "server"] {
            assert_eq!(tcp[side]["connections"], connections, "{cell}");
        }
        assert_eq!(cell["settings"]["messages"], 90);
        assert_eq!(cell["payload"]["corrupt_messages"], 0);
    }
}

#[test]
fn every_thread_has_its_connections() {
    let plan = "run --transport tcp@loopback,grpc@loopback --pattern bandwidth,calls -s 4K -n 50 \
                --rounds 1 --threads 2 --connections 3 --format json";
    let document = Document::read(&run(plan).quietly(0).stdout);
    for cell in document.cells() {
        assert_eq!(cell["tcp"]["server"]["connections"], 6, "{cell}");
        assert_eq!(cell["settings"]["messages"], 50);
    }
    let long = run(&plan.replace("json", "long")).quietly(0).stdout;
    let header: Vec<_> = long.lines().next().unwrap().split("  ").map(str::trim).collect();
    assert!(header.contains(&"conns"), "{long}");
}

#[test]
fn grpc_is_measured_serialized_encrypted_and_on_threads() {
    let plan = "run --transport grpc@loopback,grpc-stock@loopback,tcp@loopback \
                --pattern latency,bandwidth,bidirectional,fetch,calls -s 3,64K -n 30 --rounds 1 -t 4 \
                --sweep serialized=no,yes --sweep tls=no,yes --sweep runtime=current-thread,multi-thread:2 \
                --format json";
    let document = Document::read(&run(plan).quietly(0).stdout);
    assert_eq!(document.cells().len(), 2 * 5 * (2 * 8 + 1));
    for cell in document.cells() {
        measured(cell);
        assert_eq!(cell["payload"]["corrupt_messages"], 0);
        let (variant, settings) = (&cell["variant"], &cell["settings"]["transport"]);
        if cell["transport"] == "tcp@loopback" {
            assert_eq!((variant, &settings["TLS"]), (&Value::Null, &Value::Null));
            continue;
        }
        assert_eq!(settings["TLS"] == "on", variant["tls"] == "yes", "{cell}");
        let messages = settings["messages"].as_str().unwrap();
        assert_eq!(messages.starts_with("serialized"), variant["serialized"] == "yes", "{cell}");
        for side in ["client runtime", "server runtime"] {
            assert_eq!(settings[side], variant["runtime"], "{cell}");
        }
    }
}

#[test]
fn a_row_says_that_it_is_serialized_or_encrypted() {
    let plan = "run --transport grpc@loopback -s 64 -n 20 --rounds 1 --serialized --tls --server-threads 2";
    for format in ["table", "long"] {
        let shown = run(&format!("{plan} --format {format}")).quietly(0).stdout;
        assert!(shown.contains("grpc@loopback[serialized=yes,tls=yes]"), "{shown}");
    }
    let csv = run(&format!("{plan} --format csv")).quietly(0).stdout;
    assert!(csv.lines().next().unwrap().ends_with(",serialized,tls"), "{csv}");
    assert!(csv.lines().skip(1).all(|row| row.ends_with(",yes,yes")), "{csv}");
    let document = Document::read(&run(&format!("{plan} --format json")).quietly(0).stdout);
    let settings = &document.cells()[0]["settings"]["transport"];
    assert_eq!(settings["client runtime"], "current-thread");
    assert_eq!(settings["server runtime"], "multi-thread:2");
}
