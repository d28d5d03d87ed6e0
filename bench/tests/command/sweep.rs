//! Sweeps that succeed: every figure is there, means what the contract says, and is proven.

use crate::{
    document::{Document, number, proven_by_interface},
    process::{Server, run},
};

const TRANSPORTS: [&str; 4] =
    ["grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback", "tcp@loopback"];
const PATTERNS: [&str; 2] = ["latency", "bandwidth"];

fn sweep(sizes: &[u64], options: &str) -> Document {
    let list: Vec<_> = sizes.iter().map(u64::to_string).collect();
    let finished = run(&format!(
        "run --format json --transport {} --sizes {} {options}",
        TRANSPORTS.join(","),
        list.join(",")
    ))
    .quietly(0);
    let document = Document::read(&finished.stdout);
    document.all_measured(&TRANSPORTS, &PATTERNS, sizes);
    for cell in document.cells() {
        assert_eq!(cell["path"]["kind"], "loopback");
        assert_eq!(cell["path"]["emulated"], false);
        proven_by_interface(cell);
    }
    document
}

#[test]
fn small_messages_over_every_transport() {
    let document = sweep(&[1, 2, 63, 64, 65, 4095, 4096, 4097, 65_536], "-n 40");
    for cell in document.cells() {
        assert_eq!(cell["settings"]["messages"], 40);
        assert_eq!(cell["rounds"].as_array().unwrap().len(), 3);
    }
    assert_eq!(document.0["plan"]["rounds"], 3);
    assert_eq!(document.0["client"]["hostname"], document.0["server"]["hostname"]);
}

/// gRPC refuses messages over 4 MiB unless told otherwise, and HTTP/2's windows are smaller still.
#[test]
fn messages_over_grpcs_default_limit() {
    sweep(&[4 << 20, (4 << 20) + 1, 5 << 20], "-n 3 --rounds 1 --timeout 1m");
}

#[test]
fn messages_of_64_mib() {
    // On a busy machine one round trip takes longer than the ordinary time-out.
    sweep(&[64 << 20], "-n 2 --rounds 1 --timeout 1m");
}

#[test]
fn as_many_messages_as_were_asked_for() {
    for messages in [1, 2, 7, 1000] {
        let finished = run(&format!(
            "run --format json --transport tcp@loopback,grpc@loopback -s 8 -n {messages}"
        ));
        let document = Document::read(&finished.quietly(0).stdout);
        document.all_measured(&["tcp@loopback", "grpc@loopback"], &PATTERNS, &[8]);
        for cell in document.cells() {
            assert_eq!(cell["settings"]["messages"], messages, "{cell}");
        }
    }
}

#[test]
fn percentiles_need_their_samples() {
    let latency = |messages: u64| {
        let options = "--transport tcp@loopback --pattern latency -s 8 --format json";
        let finished = run(&format!("run {options} -n {messages}")).quietly(0);
        Document::read(&finished.stdout).cells()[0]["latency"].clone()
    };
    let few = latency(19);
    assert!(few["p50"].is_null() && few["max"].is_number());
    assert_eq!(few["absent"]["p50"]["needs_samples"], 20);
    let median = latency(999);
    assert!(median["p50"].is_number() && median["p99"].is_null());
    let [low, high] = [0, 1].map(|end| number(&median["p50_interval_95"][end]));
    assert!(low <= number(&median["p50"]) && number(&median["p50"]) <= high);
    let tail = latency(10_000);
    assert!(tail["p99"].is_number() && tail["p999"].is_number());
    assert!(tail["absent"].is_null());
}

#[test]
fn a_duration_is_filled() {
    let finished = run("run --format json --transport tcp@loopback -s 8 -D 0.3s").quietly(0);
    let document = Document::read(&finished.stdout);
    document.all_measured(&["tcp@loopback"], &PATTERNS, &[8]);
    for cell in document.cells() {
        let rounds = cell["rounds"].as_array().unwrap();
        let elapsed: f64 = rounds.iter().map(|round| number(&round["elapsed_ns"])).sum();
        assert!(elapsed >= 0.3e9, "{elapsed} ns");
        assert!(cell["settings"]["messages"].as_u64().unwrap() >= 20);
    }
}

/// Nagle's algorithm and delayed acknowledgements together wait 40 ms: half of it would show.
#[test]
fn no_reply_waits_for_an_acknowledgement() {
    let finished = run(&format!(
        "run --format json --transport {} --pattern latency -s 200:300:+20 -n 60",
        TRANSPORTS.join(",")
    ));
    for cell in Document::read(&finished.quietly(0).stdout).cells() {
        assert!(number(&cell["latency"]["p50"]) < 10e6, "{cell}");
    }
}

#[test]
fn the_same_seed_gives_the_same_order_and_payload() {
    let finished =
        run("run --format json --transport tcp@loopback -s 8 -n 3 --seed 18446744073709551615");
    let document = Document::read(&finished.quietly(0).stdout);
    assert_eq!(document.0["plan"]["seed"], u64::MAX);
}

#[test]
fn a_server_by_every_form_of_its_address() {
    let six = Server::with("--listen ::1");
    let port = six.address.port();
    assert!(six.address.is_ipv6());
    for host in [format!("[::1]:{port}"), format!("::1 --port {port}"), format!("[::1] -p {port}")]
    {
        run(&format!("run {host} --transport tcp@loopback,grpc@loopback -s 8 -n 2")).quietly(0);
    }
    let both = Server::with("");
    let port = both.address.port();
    for host in
        [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("::1 --port {port}")]
    {
        run(&format!("run {host} --transport tcp@loopback -s 8 -n 2")).quietly(0);
    }
}

#[test]
fn every_format_shows_every_cell() {
    let plan = "--transport tcp@loopback,grpc@loopback -s 8,64K -n 20";
    let of = |format: &str| run(&format!("run {plan} --format {format}")).quietly(0).stdout;
    let csv = of("csv");
    assert_eq!(csv.lines().count(), 1 + 8, "{csv}");
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    let table = of("table");
    for part in ["latency", "bandwidth", "tcp@loopback", "grpc@loopback", "64 KiB", "us", "MB/s"] {
        assert!(table.contains(part), "{table}");
    }
    assert!(!table.contains("NaN") && !table.contains("inf"));
    let long = of("long");
    let rows = long.lines().filter(|line| line.starts_with("grpc@loopback"));
    assert_eq!(rows.filter(|row| row.ends_with("measured")).count(), 4, "{long}");
}
