//! Labels and proofs: what a row says of its path is what the kernel counted.

use fabricbench_emulated_ipoib::Namespace;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Moved, moved, try_command},
    document::{Document, number, proven_by_interface, without_figures},
};

const SIZE: u64 = 64 << 10;

/// What a document says that its cells together moved over an interface on one side.
fn claimed(document: &Document, side: &str) -> Moved {
    let sum = |name: &str| {
        let cells = document.cells().iter();
        cells.map(|cell| cell[side][name].as_u64().unwrap()).sum::<u64>()
    };
    Moved { sent: sum("interface_tx_bytes"), received: sum("interface_rx_bytes") }
}

/// The payload that went through one side of all cells.
fn payload(document: &Document, side: &str) -> Moved {
    let sum = |name: &str| {
        let cells = document.cells().iter();
        cells.map(|cell| cell[side]["proof"][name].as_u64().unwrap()).sum::<u64>()
    };
    Moved { sent: sum("payload_tx_bytes"), received: sum("payload_rx_bytes") }
}

/// Measures over `transport` with the control connection by the other interface, and compares what
/// the document says with the interfaces' own statistics.
fn proven(transport: &str, interface: &str, other: &str, control: &str) -> Option<Document> {
    let cluster = Cluster::new()?;
    let server = cluster.server(control);
    let before = cluster.statistics();
    let options = format!("--transport {transport} -s {SIZE} -n 60 --format json --seed 7");
    let finished = cluster.run(&server, &options).quietly(0);
    let after = cluster.statistics();
    let document = Document::read(&finished.stdout);
    document.all_measured(&[transport], &["latency", "bandwidth"], &[SIZE]);
    document.cells().iter().for_each(proven_by_interface);
    for (host, side) in ["counters", "peer_counters"].into_iter().enumerate() {
        let used = moved(&before[host], &after[host], interface);
        let unused = moved(&before[host], &after[host], other);
        let claimed = claimed(&document, side);
        let payload = payload(&document, side);
        assert!(payload.sent.min(payload.received) > 60 * SIZE, "{payload:?}");
        for (used, claimed, payload, unused) in [
            (used.sent, claimed.sent, payload.sent, unused.sent),
            (used.received, claimed.received, payload.received, unused.received),
        ] {
            assert!(used >= claimed, "{side}: claims {claimed} of {used} bytes on {interface}");
            assert!(claimed >= payload, "{side}: {claimed} for a payload of {payload}");
            // The conversation of client and server, and no payload.
            assert!(unused < payload / 20, "{side}: {unused} bytes on {other}");
        }
    }
    Some(document)
}

fn each_path(document: &Document, expected: &Value) {
    for cell in document.cells() {
        for path in ["path", "peer_path"] {
            for (name, value) in expected.as_object().unwrap() {
                assert_eq!(&cell[path][name], value, "{path} {name}");
            }
        }
    }
}

fn ipoib(transport: &str) {
    let Some(document) = proven(transport, "ib0", "eth0", "10.77.2.2") else { return };
    each_path(
        &document,
        &json!({
            "kind": "ipoib", "interface": "ib0", "emulated": true, "mtu": 65520,
        }),
    );
    for cell in document.cells() {
        assert!(cell["path"]["backing"].as_str().unwrap().starts_with("emulated: "), "{cell}");
        assert!(!cell["path"]["chosen"].as_str().unwrap().is_empty());
    }
}

fn ethernet(transport: &str) {
    let Some(document) = proven(transport, "eth0", "ib0", "10.77.3.2") else { return };
    each_path(
        &document,
        &json!({
            "kind": "ethernet", "interface": "eth0", "backing": "virtual: veth", "mtu": 1500,
        }),
    );
}

#[test]
fn grpc_over_ipoib_is_proven_on_ib0() {
    ipoib("grpc@ipoib");
}

#[test]
fn tcp_over_ipoib_is_proven_on_ib0() {
    ipoib("tcp@ipoib");
}

#[test]
fn grpc_over_ethernet_is_proven_on_eth0() {
    ethernet("grpc@ethernet");
}

#[test]
fn tcp_over_ethernet_is_proven_on_eth0() {
    ethernet("tcp@ethernet");
}

#[test]
fn a_named_interface_is_proven_as_what_it_is() {
    ipoib("grpc@ib0");
    ethernet("tcp@eth0");
}

#[test]
fn all_paths_side_by_side_in_every_format() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.2.2");
    let transports = ["grpc@ipoib", "grpc@ethernet", "tcp@ipoib", "tcp@ethernet"];
    let options = format!("--transport {} -s 64,1M -n 4", transports.join(","));
    let finished = cluster.run(&server, &format!("{options} --format json")).quietly(0);
    let document = Document::read(&finished.stdout);
    document.all_measured(&transports, &["latency", "bandwidth"], &[64, 1 << 20]);
    document.cells().iter().for_each(proven_by_interface);
    for format in ["table", "long"] {
        let text = cluster.run(&server, &format!("{options} --format {format}")).quietly(0).stdout;
        if format == "table" {
            assert!(text.contains("IPoIB (EMULATED) ib0"), "{text}");
            assert!(text.contains("Ethernet (virtual: veth) eth0"), "{text}");
        }
    }
    let csv = cluster.run(&server, &format!("{options} --format csv")).quietly(0).stdout;
    for row in csv.lines().filter(|row| row.contains("@ipoib")) {
        assert!(row.contains(",ipoib,") && row.contains("ib0,true"), "{row}");
    }
}

/// Makes the packets that `from` sends by eth0 leave by `idle`, and arrive at `to` as if by eth0:
/// what no row may show as eth0's. Fails where the kernel has no such filter.
fn divert(from: &Namespace, to: &Namespace) -> Result<(), String> {
    let redirect = |by: &str, direction: &str, to: &str| {
        try_command("tc", &format!("qdisc add dev {by} clsact"))?;
        let every_packet =
            format!("filter add dev {by} {direction} protocol all u32 match u32 0 0");
        try_command("tc", &format!("{every_packet} action mirred {direction} redirect dev {to}"))
    };
    from.within(|| redirect("eth0", "egress", "idle")).unwrap()?;
    to.within(|| redirect("idle", "ingress", "eth0")).unwrap()
}

#[test]
fn traffic_that_goes_elsewhere_is_an_error_and_no_figure() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.3.2");
    let options = format!(
        "--transport tcp@ethernet,grpc@ethernet,tcp@ipoib -s {SIZE} -n 4 --rounds 1 --format json"
    );
    cluster.run(&server, &options).quietly(0);
    if let Err(refused) = divert(&cluster.here, &cluster.there) {
        eprintln!("skipped: {refused}");
        return;
    }
    let before = cluster.statistics();
    let finished = cluster.run(&server, &options).quietly(3);
    let after = cluster.statistics();
    // It did go there, by idle, and in full.
    assert!(moved(&before[0], &after[0], "idle").sent > 4 * 4 * SIZE);
    let document = Document::read(&finished.stdout);
    for cell in document.cells() {
        if cell["transport"] == "tcp@ipoib" {
            proven_by_interface(cell);
            assert!(number(&cell["throughput"]["bytes_per_s"]) > 0.0);
        } else {
            without_figures(
                cell,
                "failed",
                &["path not proven", "row says eth0", "traffic went elsewhere"],
            );
        }
    }
}

/// In the other direction: what the client receives does not come by eth0.
#[test]
fn traffic_that_comes_back_elsewhere_is_an_error_as_well() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.3.2");
    if let Err(refused) = divert(&cluster.there, &cluster.here) {
        eprintln!("skipped: {refused}");
        return;
    }
    let options = "--transport tcp@ethernet --pattern latency -s 64K -n 4 --format json";
    let finished = cluster.run(&server, options).quietly(4);
    let document = Document::read(&finished.stdout);
    without_figures(&document.cells()[0], "failed", &["path not proven", "eth0", "received"]);
}
