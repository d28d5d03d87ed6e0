//! What the kernel's TCP knows of the connections stands beside the figures, on both sides.

use serde_json::Value;

use crate::{
    cluster::{Cluster, try_command},
    document::{Document, number},
};

const TRANSPORTS: &str = "tcp@ethernet,grpc@ethernet";

fn word(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} where a count belongs"))
}

#[test]
fn connections_are_counted_by_both_kernels() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.3.2");
    for threads in [1, 3] {
        let options = format!(
            "--transport {TRANSPORTS} -s 64K -n 60 --rounds 2 --threads {threads} --format json"
        );
        let document = Document::read(&cluster.run(&server, &options).quietly(0).stdout);
        for cell in document.cells() {
            let (client, server) = (&cell["tcp"]["client"], &cell["tcp"]["server"]);
            assert_eq!(
                (word(&client["connections"]), word(&server["connections"])),
                (threads, threads)
            );
            assert_eq!(
                cell["settings"]["transport"]["established connections"],
                threads.to_string()
            );
            // 1500 B less the headers of IPv4 and of TCP with its time stamps.
            assert_eq!(number(&client["mss"]["least"]), 1448.0);
            let algorithms = client["congestion_control"].as_array().unwrap();
            assert_eq!(algorithms, &[cell_environment(&document, "congestion_control")]);
            // What was acknowledged here arrived there, and it is the payload at least.
            let payload = word(&cell["counters"]["proof"]["payload_tx_bytes"]);
            let acknowledged = word(&client["bytes_acked"]);
            assert!(acknowledged >= payload, "{acknowledged} of {payload} B: {cell}");
            // The opening of a connection is counted as acknowledged, and as no byte that arrived.
            assert_eq!(word(&server["bytes_received"]) + threads * 2, acknowledged, "{cell}");
        }
    }
}

fn cell_environment(document: &Document, name: &str) -> Value {
    document.0["client"][name].clone()
}

/// Packets that leave by eth0 get lost: by chance where the kernel has that, else where a queue that
/// is too short for TCP's bursts overflows.
fn lose_packets(cluster: &Cluster) -> Result<(), String> {
    let chance = "qdisc add dev eth0 root netem loss 2% limit 10000";
    let queue = "qdisc add dev eth0 root tbf rate 400mbit burst 20kb limit 40kb";
    let lose = || try_command("tc", chance).or_else(|_| try_command("tc", queue));
    cluster.here.within(lose).unwrap()
}

#[test]
fn segments_sent_again_show_beside_the_figures() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.3.2");
    let options = format!("--transport {TRANSPORTS},tcp@ipoib --pattern bandwidth -s 256K -D 0.6s");
    let measured = |format: &str| {
        cluster.run(&server, &format!("{options} --format {format}")).quietly(0).stdout
    };
    if let Err(refused) = lose_packets(&cluster) {
        eprintln!("skipped: {refused}");
        return;
    }
    let lossy = Document::read(&measured("json"));
    for transport in TRANSPORTS.split(',') {
        // A link without loss is no measure for it: a busy machine sends again there as well.
        let again =
            word(&lossy.cell(transport, "bandwidth", 256 << 10)["tcp"]["client"]["retransmits"]);
        assert!(again > 10, "{again}");
        let called_out = |document: &Document| {
            let warnings = document.0["warnings"].as_array().unwrap().clone();
            let is_it = |warning: &Value| {
                warning.as_str().unwrap().starts_with(&format!("{transport}: in 1 of 1 cells TCP"))
            };
            warnings.iter().any(is_it)
        };
        assert!(called_out(&lossy), "{}", lossy.0["warnings"]);
    }
    let warnings = lossy.0["warnings"].to_string();
    assert!(!warnings.contains("tcp@ipoib"), "the other path is as it was: {warnings}");

    let csv = measured("csv");
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    for row in rows {
        assert_eq!(row[at("tcp_connections")], "1");
        let again: u64 = row[at("tcp_retransmits")].parse().unwrap();
        assert!(again > 0 || row[0] == "tcp@ipoib", "{row:?}");
        assert!(row[at("tcp_rtt_us")].parse::<f64>().unwrap() > 0.0, "{row:?}");
    }
    let long = measured("long");
    let header: Vec<_> = long.lines().next().unwrap().split("  ").map(str::trim).collect();
    assert!(header.contains(&"retrans") && header.contains(&"TCP rtt us"), "{long}");
    assert!(long.contains("the path loses packets"), "{long}");
}
