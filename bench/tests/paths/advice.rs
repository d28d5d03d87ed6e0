//! What is read of real interfaces, and what is said of them.

use std::{fs, process::Command, time::Duration};

use crate::{
    cluster::Cluster,
    document::{Document, measured},
    process::Running,
};

/// `ip netns exec` shows a namespace's own interfaces in `/sys`, and so does this.
#[test]
fn probe_shows_queues_and_offloads_of_the_namespaces_interfaces() {
    let Some(cluster) = Cluster::new() else { return };
    let probe = |arguments: &str| {
        let program = env!("CARGO_BIN_EXE_fabricbench");
        let mut command = Command::new("unshare");
        let within = format!("mount -t sysfs sysfs /sys && exec {program} probe {arguments}");
        command.args(["--mount", "sh", "-c", &within]);
        cluster.here.within(|| Running::start(&mut command)).unwrap().end().quietly(0).stdout
    };
    let document: serde_json::Value = serde_json::from_str(&probe("--json")).unwrap();
    let setup = |name: &str| {
        let setups = document["setups"].as_array().unwrap();
        setups.iter().find(|setup| setup["interface"] == name).unwrap()
    };
    for (name, length) in [("ib0", 500), ("eth0", 1000)] {
        let setup = setup(name);
        // TUN devices and veth pairs have the queues and the length that they are made with.
        assert!(!setup["receive_queues"].as_array().unwrap().is_empty(), "{setup}");
        assert_eq!(setup["transmit_queue_length"], length, "{setup}");
        assert_eq!(setup["interrupts"].as_array().unwrap().len(), 0, "{setup}");
    }
    assert!(document["tcp_buffers"]["receive"].as_u64() > Some(0));
    assert_eq!(document["advice"].as_array().unwrap().len(), 0, "of what software made: none");
    let text = probe("");
    assert!(
        text.contains("queues      1 receive (RPS off), 1 transmit (txqueuelen 500)"),
        "{text}"
    );
}

/// 64 KiB under way over a round trip of 20 ms are 3 MB/s, whatever the link.
#[test]
fn a_receive_buffer_that_is_too_small_is_told() {
    let Some(cluster) = Cluster::with_delay(Duration::from_millis(10)) else { return };
    let limit = || fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 131072\n");
    cluster.there.within(limit).unwrap().unwrap();
    let server = cluster.server("10.77.2.2");
    let run = |options: &str| cluster.run(&server, options).quietly(0).stdout;
    let options =
        "--transport tcp@ipoib,tcp@ethernet --pattern bandwidth -s 64K -D 0.6s --rounds 1";
    let document = Document::read(&run(&format!("{options} --format json")));
    document.cells().iter().for_each(measured);
    let advice = document.0["advice"].as_array().unwrap().clone();
    assert_eq!(advice.len(), 1, "{advice:?}");
    let of = |field: &str| advice[0][field].as_str().unwrap();
    assert_eq!((of("side"), of("interface"), of("cause")), ("client", "ib0", "tcp-window"));
    // What mends it leaves the two figures of which nothing is said.
    let mend = of("mend").split(" on the ").next().unwrap();
    let mended =
        || Command::new("sh").args(["-c", mend]).output().map(|done| done.status.success());
    assert!(cluster.there.within(mended).unwrap().unwrap(), "{mend}");
    let read = || fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem");
    let figures = cluster.there.within(read).unwrap().unwrap();
    let figures: Vec<u64> = figures.split_whitespace().map(|one| one.parse().unwrap()).collect();
    assert_eq!(figures[..2], [4096, 65_536], "{mend}");
    assert!(figures[2] > 131_072, "{mend}");
    cluster.there.within(limit).unwrap().unwrap();
    let table = run(options);
    assert!(table.contains("advice: on the client, ib0: a TCP connection has at most"), "{table}");
    // Then the other side's buffer may be what is left.
    let widened = || fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432\n");
    cluster.there.within(widened).unwrap().unwrap();
    assert!(!run(options).contains("tcp_rmem"));
}

/// A latency has one message under way: no window bounds it.
#[test]
fn no_window_is_too_small_for_a_latency() {
    let Some(cluster) = Cluster::with_delay(Duration::from_millis(5)) else { return };
    let limit = || fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 131072\n");
    cluster.there.within(limit).unwrap().unwrap();
    let server = cluster.server("10.77.2.2");
    let finished = cluster.run(&server, "--transport tcp@ipoib --pattern latency -s 64K -n 20");
    assert!(!finished.quietly(0).stdout.contains("advice:"));
}
