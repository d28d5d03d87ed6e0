//! The result document as a program that knows only the published contract reads it.

#![allow(dead_code, reason = "each of several test programs uses a part of it")]

use serde_json::Value;

/// The document, checked against the contract.
#[derive(Debug)]
pub struct Document(pub Value);

impl Document {
    /// Reads what must be one document and nothing beside it.
    #[track_caller]
    pub fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("no JSON document ({error}): {text:?}"));
        assert_eq!(value["schema"], "fabricbench/1");
        assert!(value["complete"].is_boolean());
        assert!(value["plan"]["seed"].is_u64() && value["command"].is_array());
        no_placeholders(&value, "$");
        value["cells"].as_array().unwrap().iter().for_each(check);
        Self(value)
    }

    pub fn cells(&self) -> &[Value] {
        self.0["cells"].as_array().unwrap()
    }

    /// The one cell with these coordinates.
    #[track_caller]
    pub fn cell(&self, transport: &str, pattern: &str, size: u64) -> &Value {
        let is_it = |cell: &&Value| {
            cell["transport"] == transport && cell["pattern"] == pattern && cell["size"] == size
        };
        let found: Vec<_> = self.cells().iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{transport} {pattern} {size}");
        found[0]
    }

    /// Asserts that every combination is there once, and measured.
    #[track_caller]
    pub fn all_measured(&self, transports: &[&str], patterns: &[&str], sizes: &[u64]) {
        assert_eq!(self.0["complete"], true);
        assert_eq!(self.cells().len(), transports.len() * patterns.len() * sizes.len());
        for transport in transports {
            for pattern in patterns {
                for &size in sizes {
                    measured(self.cell(transport, pattern, size));
                }
            }
        }
    }

    /// How many cells have this status.
    pub fn count(&self, status: &str) -> usize {
        self.cells().iter().filter(|cell| cell["status"] == status).count()
    }
}

#[track_caller]
pub fn measured(cell: &Value) {
    let name = name(cell);
    assert_eq!(cell["status"], "measured", "{name}: {}", cell["reason"]);
}

/// Asserts the status and that the reason has all of `words`.
#[track_caller]
pub fn without_figures(cell: &Value, status: &str, words: &[&str]) {
    assert_eq!(cell["status"], status, "{}: {}", name(cell), cell["reason"]);
    let reason = cell["reason"].as_str().unwrap();
    for word in words {
        assert!(reason.contains(word), "no `{word}` in: {reason}");
    }
}

pub fn name(cell: &Value) -> String {
    format!("{} {} {}", cell["transport"], cell["pattern"], cell["size"])
}

/// A number that is there.
#[track_caller]
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} where a number belongs"))
}

/// What one cell must hold, whatever it is of.
fn check(cell: &Value) {
    let name = name(cell);
    assert!(cell["transport"].is_string() && cell["size"].as_u64().is_some_and(|size| size > 0));
    let patterns = ["latency", "bandwidth", "bidirectional", "fetch", "rate", "calls", "ps"];
    let of_tensors = ["tensor-push", "tensor-fetch"];
    let mut known = patterns.iter().chain(&of_tensors);
    assert!(known.any(|pattern| cell["pattern"] == *pattern), "{name}");
    let moves_tensors = of_tensors.iter().any(|pattern| cell["pattern"] == *pattern);
    assert_eq!(cell["tensors"].is_object(), moves_tensors, "{name}");
    if cell["status"] != "measured" {
        assert!(
            ["unsupported", "failed", "skipped"].iter().any(|status| cell["status"] == *status)
        );
        assert!(cell["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{name}");
        for figures in
            ["latency", "throughput", "counters", "peer_counters", "cpu", "memory", "tcp"]
        {
            assert!(cell[figures].is_null(), "{name} has {figures}");
        }
        return;
    }
    assert!(cell["reason"].is_null(), "{name}");
    for path in [&cell["path"], &cell["peer_path"]] {
        let kinds =
            ["infiniband", "roce", "soft-roce", "iwarp", "ipoib", "ethernet", "loopback", "other"];
        assert!(kinds.iter().any(|kind| path["kind"] == *kind), "{name}: {path}");
        assert!(path["emulated"].is_boolean());
        assert!(path["interface"].is_string() || path["device"].is_string(), "{name}: {path}");
    }
    // A process of this size or more; a server that is no fabricbench need not tell.
    assert!(number(&cell["memory"]["client_peak_bytes"]) > 1e6, "{name}");
    let server = &cell["memory"]["server_peak_bytes"];
    assert!(server.is_null() || number(server) > 1e6, "{name}: {server}");
    check_tcp(cell, &name);
    let messages = check_settings(cell, &name);
    match cell["pattern"].as_str() {
        Some("latency" | "calls" | "ps" | "tensor-push" | "tensor-fetch") => {
            check_latency(&cell["latency"], messages, &name);
        }
        _ => assert!(cell["latency"].is_null(), "{name}"),
    }
    let (bytes, rate) =
        (number(&cell["throughput"]["bytes_per_s"]), number(&cell["throughput"]["messages_per_s"]));
    assert!(rate > 0.0, "{name}");
    let ratio = bytes / rate / number(&cell["size"]);
    assert!((ratio - 1.0).abs() < 1e-9, "{name}: bytes and messages disagree by {ratio}");
    // Of other operations and patterns their own tests know what must have passed.
    let plain = match cell["pattern"].as_str() {
        Some("latency" | "bandwidth") => cell["latency"]["kind"] != "round-trip",
        Some("calls" | "ps" | "tensor-push" | "tensor-fetch") => true,
        _ => false,
    };
    if moves_tensors {
        check_tensors(cell, &name);
    }
    if plain && cell["loss"].is_null() {
        check_payload(cell, &name);
    }
}

/// That each tensor is placed on one server, and the rates are those of the cell.
fn check_tensors(cell: &Value, name: &str) {
    let tensors = &cell["tensors"];
    let lengths: Vec<u64> =
        tensors["lengths"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect();
    assert_eq!(cell["size"], lengths.iter().sum::<u64>(), "{name}");
    let servers = tensors["servers"].as_array().unwrap();
    assert_eq!(cell["roles"]["servers"], servers.len(), "{name}");
    let mut placed = Vec::new();
    for server in servers {
        let of = server["tensors"].as_array().unwrap().iter();
        let of: Vec<usize> = of.map(|one| one.as_u64().unwrap() as usize).collect();
        assert_eq!(server["bytes"], of.iter().map(|&one| lengths[one]).sum::<u64>(), "{name}");
        assert!((1..=of.len() as u64).contains(&server["calls"].as_u64().unwrap()), "{name}");
        placed.extend(of);
    }
    placed.sort_unstable();
    assert_eq!(placed, (0..lengths.len()).collect::<Vec<_>>(), "{name}");
    let rate = |name: &str| number(&cell["throughput"][name]);
    let same = |one: f64, other: f64| assert!((one / other - 1.0).abs() < 1e-9, "{name}: {cell}");
    same(number(&tensors["transfer_mb_per_s"]), rate("bytes_per_s") / 1e6);
    same(number(&tensors["tensors_per_s"]), rate("messages_per_s") * lengths.len() as f64);
}

/// What the kernel's TCP says of the connections of what goes over TCP, and of nothing else.
fn check_tcp(cell: &Value, name: &str) {
    let (tcp, over_tcp) = (&cell["tcp"], cell["transport"].as_str().unwrap().contains('@'));
    assert_eq!(tcp.is_object(), over_tcp, "{name}: {tcp}");
    for side in [&tcp["client"], &tcp["server"]].into_iter().filter(|side| !side.is_null()) {
        let (connections, rounds) =
            (side["connections"].as_u64().unwrap(), cell["rounds"].as_array().unwrap().len());
        assert_eq!(side["readings"], connections * rounds as u64, "{name}: {tcp}");
        assert!(number(&side["retransmits"]) <= number(&side["segments_sent"]), "{name}: {tcp}");
        for spread in ["mss", "congestion_window", "rtt_us", "rtt_variance_us"] {
            let [least, mean, most] =
                ["least", "mean", "most"].map(|name| number(&side[spread][name]));
            assert!(0.0 <= least && least <= mean && mean <= most, "{name}: {spread} in {side}");
        }
    }
    let both = tcp["client"].is_object() && tcp["server"].is_object();
    assert_eq!(over_tcp && !both, tcp["reason"].is_string(), "{name}: a side or a reason: {tcp}");
}

/// Returns the number of timed messages.
fn check_settings(cell: &Value, name: &str) -> u64 {
    let messages = cell["settings"]["messages"].as_u64().unwrap();
    let rounds = cell["rounds"].as_array().unwrap();
    let sum: u64 = rounds.iter().map(|round| round["messages"].as_u64().unwrap()).sum();
    assert_eq!(sum, messages, "{name}: the rounds add up");
    assert!(cell["settings"]["warm_up_messages"].as_u64().unwrap() >= rounds.len() as u64);
    assert!(rounds.iter().all(|round| number(&round["elapsed_ns"]) > 0.0), "{name}");
    messages
}

fn check_latency(latency: &Value, messages: u64, name: &str) {
    assert_eq!(latency["unit"], "ns");
    let one_sided = ["verbs-read", "verbs-fetch-add", "verbs-compare-swap"];
    let whole = name.contains("calls")
        || name.contains("\"ps\"")
        || name.contains("tensor-")
        || one_sided.iter().any(|transport| name.contains(transport));
    assert_eq!(latency["kind"], if whole { "round-trip" } else { "half-round-trip" });
    let samples = latency["samples"].as_u64().unwrap();
    // Where messages may be lost, those that were have none.
    let lossy = name.contains("verbs-uc") || name.contains("verbs-ud");
    assert!(samples == messages || (lossy && samples < messages), "{name}: a sample a message");
    let (min, max) = (number(&latency["min"]), number(&latency["max"]));
    let mean = number(&latency["mean"]);
    assert!(0.0 < min && min <= mean && mean <= max, "{name}: {latency}");
    match samples {
        0 | 1 => assert!(latency["stddev"].is_null(), "{name}: {latency}"),
        // No sample is further from the mean than the range; the factor is the divisor n - 1.
        _ => {
            let most = (max - min) * (samples as f64 / (samples - 1) as f64).sqrt();
            let deviation = number(&latency["stddev"]);
            assert!((0.0..=most).contains(&deviation), "{name}: {latency}");
        }
    }
    let mut last = min;
    // 10 / (1 - q) samples must stand behind a percentile.
    for (percentile, needs) in [("p50", 20), ("p99", 1000), ("p999", 10_000)] {
        let absent = &latency["absent"][percentile];
        if samples < needs {
            assert!(latency[percentile].is_null(), "{name}: {percentile} of {samples}");
            assert_eq!(absent["needs_samples"], needs);
            assert_eq!(absent["has_samples"], samples);
        } else {
            let value = number(&latency[percentile]);
            assert!(last <= value && value <= max, "{name}: {percentile} in {latency}");
            assert!(absent.is_null(), "{name}");
            last = value;
        }
    }
}

/// What one side sent, the other received; and counters say it went that way, or that they cannot
/// say.
fn check_payload(cell: &Value, name: &str) {
    let size = cell["size"].as_u64().unwrap();
    let settings = &cell["settings"];
    // A step of workers and parameter servers is a message to each server; of tensors it is one.
    let each = match cell["pattern"].as_str() {
        Some("ps") => cell["roles"]["servers"].as_u64().unwrap(),
        _ => 1,
    };
    let messages = each
        * (settings["messages"].as_u64().unwrap() + settings["warm_up_messages"].as_u64().unwrap());
    let back = match cell["pattern"].as_str() {
        Some("latency") => messages * size,
        Some("calls" | "ps") => messages * cell["reply"].as_u64().unwrap(),
        _ => 0,
    };
    let (there, back) = match cell["pattern"].as_str() {
        Some("tensor-fetch") => (0, messages * size),
        _ => (messages * size, back),
    };
    for (side, sent, received) in [("counters", there, back), ("peer_counters", back, there)] {
        let proof = &cell[side]["proof"];
        assert_eq!(proof["payload_tx_bytes"], sent, "{name}: {side}");
        assert_eq!(proof["payload_rx_bytes"], received, "{name}: {side}");
        assert_ne!(proof["holds"], false, "{name}: {side}: {}", proof["text"]);
        assert!(proof["text"].as_str().is_some_and(|text| !text.is_empty()));
    }
    // The one byte of a smallest written message is the stamp that its receiver waits for.
    let waited_for = match cell["pattern"].as_str() {
        Some("latency") => true,
        Some("calls" | "ps") => cell["reply"] == 1,
        _ => false,
    };
    let is_stamp = cell["transport"] == "verbs-write" && waited_for && size == 1;
    let verified = cell["payload"]["verified_messages"].as_u64().unwrap();
    assert!(verified > 0 || is_stamp, "{name}");
    assert_eq!(cell["payload"]["corrupt_messages"], 0, "{name}");
}

/// Asserts that both sides' interface counters moved by the payload at least, as the proof says.
#[track_caller]
pub fn proven_by_interface(cell: &Value) {
    let name = name(cell);
    for side in ["counters", "peer_counters"] {
        let counters = &cell[side];
        assert_eq!(counters["proof"]["holds"], true, "{name}: {}", counters["proof"]["text"]);
        for (moved, payload) in
            [("interface_tx_bytes", "payload_tx_bytes"), ("interface_rx_bytes", "payload_rx_bytes")]
        {
            let (moved, payload) = (number(&counters[moved]), number(&counters["proof"][payload]));
            assert!(moved >= payload, "{name}: {side} {moved} for {payload}");
        }
    }
}

/// JSON has no NaN and no infinity; a text that stands for one would be no better.
fn no_placeholders(value: &Value, place: &str) {
    match value {
        Value::String(text) => {
            let text = text.to_ascii_lowercase();
            assert!(!["nan", "inf", "-inf", "infinity", "n/a"].contains(&text.as_str()), "{place}");
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                no_placeholders(value, &format!("{place}[{index}]"));
            }
        }
        Value::Object(values) => {
            for (name, value) in values {
                no_placeholders(value, &format!("{place}.{name}"));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
