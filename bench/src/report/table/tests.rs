use super::*;
use crate::{
    plan::{Axis, Sweep, Value, Variant},
    report::{
        CellSettings, Environment, Latency, Path, PathKind, PlanRecord, RoundRecord, SCHEMA,
        Status, Throughput,
    },
};

pub(in crate::report) fn cell(transport: &str, size: u64) -> CellRecord {
    CellRecord {
        transport: transport.parse().unwrap(),
        pattern: Pattern::Rate,
        size,
        reply: None,
        buffers: None,
        roles: None,
        tensors: None,
        variant: Variant::default(),
        status: Status::Measured,
        reason: None,
        path: Some(Path {
            kind: PathKind::SoftRoce,
            device: Some("rxe0".to_owned()),
            port: Some(1),
            interface: None,
            emulated: true,
            backing: None,
            address: None,
            mtu: None,
            chosen: None,
        }),
        peer_path: None,
        load: None,
        think: None,
        latency: None,
        phases: None,
        throughput: Some(Throughput { bytes_per_s: 8e3, messages_per_s: 1e3, interval_95: None }),
        counters: None,
        peer_counters: None,
        tcp: None,
        cpu: None,
        memory: None,
        payload: None,
        loss: None,
        line_bytes_per_s: None,
        failed_checks: Vec::new(),
        stopped: None,
        settings: Some(CellSettings {
            depth: None,
            warm_up_messages: 1,
            messages: 1,
            waits: None,
            transport: std::collections::BTreeMap::new(),
        }),
        rounds: Vec::new(),
    }
}

/// The latency of a cell, of so many nanoseconds.
pub(in crate::report) fn latency_cell(transport: &str, size: u64, ns: f64) -> CellRecord {
    let latency = Latency {
        p50: Some(ns),
        ..serde_json::from_value(serde_json::json!({
            "unit": "ns", "kind": "half-round-trip", "samples": 20, "min": ns, "p50": ns,
            "p99": null, "p999": null, "max": ns, "mean": ns
        }))
        .unwrap()
    };
    CellRecord { pattern: Pattern::Latency, latency: Some(latency), ..cell(transport, size) }
}

fn plain(document: &Document) -> String {
    table(document, Look::PLAIN)
}

pub(in crate::report) fn document(transports: &[&str], cells: Vec<CellRecord>) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        fabricbench: "0".to_owned(),
        complete: true,
        started_unix_s: 0,
        measured_s: None,
        command: Vec::new(),
        plan: PlanRecord {
            transports: transports.iter().map(|name| name.parse().unwrap()).collect(),
            patterns: vec![Pattern::Rate],
            sizes: vec![8, 16],
            sweep: Sweep::default(),
            stop: String::new(),
            warm_up: String::new(),
            rounds: 1,
            seed: 0,
            precision: None,
            budget_s: None,
            estimate: None,
            loop_kind: "closed".to_owned(),
        },
        client: Environment::default(),
        server: None,
        warnings: Vec::new(),
        drift: None,
        advice: Vec::new(),
        model: None,
        knees: Vec::new(),
        cells,
    }
}

#[test]
fn what_holds_for_several_transports_is_said_once() {
    let mut too_large = cell("verbs-ud-send", 16);
    too_large.status = Status::Unsupported;
    too_large.reason = Some("too large".to_owned());
    let mut also = cell("verbs-ud-send-imm", 16);
    also.status = Status::Unsupported;
    also.reason = Some("too large".to_owned());
    let cells = vec![cell("verbs-ud-send", 8), cell("verbs-ud-send-imm", 8), too_large, also];
    let text = plain(&document(&["verbs-ud-send", "verbs-ud-send-imm"], cells));
    let both = "verbs-ud-send, verbs-ud-send-imm: ";
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(both)).collect();
    assert_eq!(
        lines,
        [
            "soft-RoCE (EMULATED) rxe0 port 1; no counters on the client, no counters on the server",
            "unsupported (2 cells): too large"
        ]
    );
}

#[test]
fn a_search_says_what_it_found() {
    let mut found = cell("verbs-send", 8);
    let settings = found.settings.as_mut().unwrap();
    settings.transport.insert("tuned".to_owned(), "-l 16: the best".to_owned());
    let text = plain(&document(&["verbs-send"], vec![found, cell("verbs-send", 16)]));
    assert!(text.ends_with("verbs-send rate 8 B: tuned: -l 16: the best\n"), "{text}");
}

#[test]
fn a_table_fits_a_line() {
    let names: Vec<String> = crate::plan::VerbsName::all().map(|name| name.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let cells = names.iter().map(|name| cell(name, 8)).collect();
    let text = plain(&document(&names, cells));
    let rows = text.lines().filter(|line| line.trim_start().starts_with("size"));
    let columns: Vec<_> = rows.map(|row| (row.len(), row.split_whitespace().count())).collect();
    assert_eq!(columns.iter().map(|(_, count)| count - 1).sum::<usize>(), 13, "{text}");
    assert!(columns.iter().all(|(width, _)| *width <= Look::PLAIN.line), "{columns:?}");
}

/// Variants of a push at 8 and 16 B, beside a transport that has none.
fn swept(variants: impl Iterator<Item = u64> + Clone) -> Document {
    let mut cells = Vec::new();
    for size in [8, 16] {
        for qp in variants.clone() {
            let variant = Variant::default()
                .with(Axis::Qp, Value::Number(qp))
                .with(Axis::Post, Value::Word("plain".to_owned()));
            cells.push(CellRecord { variant, ..cell("verbs-write", size) });
        }
        cells.push(cell("tcp@loopback", size));
    }
    document(&["verbs-write", "tcp@loopback"], cells)
}

#[test]
fn few_variants_stand_side_by_side() {
    let text = plain(&swept(1..=2));
    let header = text.lines().nth(1).unwrap();
    let columns: Vec<_> = header.split_whitespace().collect();
    let named = |qp: u64| format!("verbs-write[qp={qp},post=plain]");
    assert_eq!(columns, ["size", &named(1), &named(2), "tcp@loopback"]);
    assert!(text.contains("\nverbs-write, tcp@loopback: soft-RoCE"), "said once: {text}");
}

#[test]
fn many_variants_are_rows_of_which_each_fits_a_line() {
    let text = plain(&swept(1..=5));
    let rows: Vec<Vec<_>> =
        text.lines().skip(1).take(13).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["size", "qp", "post", "verbs-write", "tcp@loopback"]);
    assert_eq!(rows[1], ["8", "B", "1.00"], "what nothing touches has a row of its own");
    assert_eq!(rows[2], ["8", "B", "1", "plain", "1.00"]);
    assert_eq!(rows[12], ["16", "B", "5", "plain", "1.00"]);
    assert!(text.lines().take(14).all(|line| line.len() <= Look::PLAIN.line), "{text}");
}

#[test]
fn a_line_of_reasons_names_few_variants_and_counts_many() {
    let mut document = swept(1..=6);
    for cell in document.cells.iter_mut().filter(|cell| cell.size == 8).take(5) {
        cell.status = Status::Unsupported;
        cell.reason = Some("too many".to_owned());
    }
    let text = plain(&document);
    let line = "verbs-write in 5 of 6 variants: unsupported (5 cells): too many";
    assert!(text.contains(line), "{text}");
    document.cells[4].reason = Some("far too many".to_owned());
    let text = plain(&document);
    let line = "verbs-write[qp=5,post=plain]: unsupported (rate 8 B): far too many";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_narrow_terminal_has_more_blocks_each_with_its_sizes() {
    let names = ["verbs-write", "verbs-send", "grpc@loopback", "tcp@loopback"];
    let cells = names.iter().flat_map(|name| [cell(name, 8), cell(name, 16)]).collect();
    let document = document(&names, cells);
    let headers = |line| {
        let text = table(&document, Look { line, ..Look::PLAIN });
        let of = text.lines().filter(|line| line.trim_start().starts_with("size"));
        of.map(|line| line.len()).collect::<Vec<_>>()
    };
    assert_eq!(headers(120).len(), 1);
    let narrow = headers(50);
    assert!(narrow.len() == 2 && narrow.iter().all(|width| *width <= 50), "{narrow:?}");
    assert_eq!(headers(1).len(), 4, "one column at the least");
}

#[test]
fn the_best_of_a_row_is_green_and_what_is_missing_red() {
    let mut fast = cell("verbs-write", 8);
    let mut slow = cell("tcp@loopback", 8);
    let rates = [fast.throughput.as_mut().unwrap(), slow.throughput.as_mut().unwrap()];
    for (rate, bytes_per_s) in rates.into_iter().zip([10e3, 8e3]) {
        rate.bytes_per_s = bytes_per_s;
        rate.messages_per_s = bytes_per_s / 8.0;
    }
    for (cell, elapsed_ns) in [(&mut fast, 8_000_000), (&mut slow, 10_000_000)] {
        let round = |round| RoundRecord {
            round,
            messages: 1000,
            elapsed_ns: elapsed_ns + u64::from(round),
            p50: None,
        };
        cell.rounds = (0..3).map(round).collect();
    }
    let mut failed = cell("verbs-send", 8);
    failed.status = Status::Failed;
    let mut document =
        document(&["verbs-write", "verbs-send", "tcp@loopback"], vec![fast, failed, slow]);
    document.warnings.push("slow".to_owned());
    let text = table(&document, Look { styled: true, ..Look::PLAIN });
    let row = text.lines().nth(2).unwrap();
    assert!(row.contains("\u{1b}[1m\u{1b}[32m1.25\u{1b}[0m"), "{row:?}");
    assert!(row.contains("\u{1b}[31mfailed\u{1b}[0m"), "{row:?}");
    assert!(row.ends_with("1.00"), "{row:?}");
    assert!(text.contains("\u{1b}[33mwarning: slow\u{1b}[0m\n"), "{text:?}");
    // Nothing but colours is added.
    let mut bare = text.clone();
    for code in ["[0m", "[1m", "[31m", "[32m", "[33m"] {
        bare = bare.replace(&format!("\u{1b}{code}"), "");
    }
    assert_eq!(bare, plain(&document));
}
