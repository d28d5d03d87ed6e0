//! Which interfaces a name stands for, and names that stand for none here.

use crate::{
    cluster::Cluster,
    document::{Document, measured, without_figures},
    process::{Running, fabricbench},
};

#[test]
fn names_without_a_path_are_unsupported_with_what_there_is() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.2.2");
    let finished = cluster
        .run(
            &server,
            "--transport tcp@absent0,grpc@absent0,tcp@idle,tcp@loopback,grpc@lo,tcp@eth0 -s 8 \
             -n 1 --format json",
        )
        .quietly(3);
    let document = Document::read(&finished.stdout);
    for (transport, words) in [
        ("tcp@absent0", &["absent0", "eth0", "ib0"][..]),
        ("grpc@absent0", &["absent0", "eth0", "ib0"]),
        ("tcp@idle", &["idle", "address"]),
        ("tcp@loopback", &["10.77.2.2", "loopback"]),
        ("grpc@loopback", &["10.77.2.2", "loopback"]),
    ] {
        for pattern in ["latency", "bandwidth"] {
            without_figures(document.cell(transport, pattern, 8), "unsupported", words);
        }
    }
    measured(document.cell("tcp@eth0", "latency", 8));
}

#[test]
fn a_path_that_is_down_is_unsupported() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.2.2");
    cluster.here.within(|| crate::cluster::ip("link set ib0 down")).unwrap();
    let finished = cluster.run(&server, "--transport tcp@ipoib,grpc@ipoib -s 8 -n 1 --format json");
    for cell in Document::read(&finished.quietly(4).stdout).cells() {
        without_figures(cell, "unsupported", &["ib0", "down"]);
    }
}

#[test]
fn a_cluster_without_ipoib_says_so() {
    let Some(mut cluster) = Cluster::new() else { return };
    drop(cluster.ib0.take());
    let server = cluster.server("10.77.2.2");
    let finished = cluster
        .run(&server, "--transport grpc@ipoib,grpc@ethernet -s 8 -n 1 --format json")
        .quietly(3);
    let document = Document::read(&finished.stdout);
    let words = &["IPoIB", "eth0"];
    without_figures(document.cell("grpc@ipoib", "latency", 8), "unsupported", words);
    measured(document.cell("grpc@ethernet", "latency", 8));
}

/// The kernel carries what goes from one of its addresses to another over lo, whatever interface
/// they are on.
#[test]
fn one_host_has_no_path_over_its_own_interfaces() {
    let Some(cluster) = Cluster::new() else { return };
    let options = "run --transport tcp@ethernet,grpc@ipoib,tcp@eth0 -s 8 -n 1 --format json";
    let run = || Running::start(&mut fabricbench(options));
    let finished = cluster.here.within(run).unwrap().end().quietly(4);
    for cell in Document::read(&finished.stdout).cells() {
        without_figures(cell, "unsupported", &["stays on its host", "choose loopback"]);
    }
}

#[test]
fn the_control_connection_may_take_any_way() {
    let Some(cluster) = Cluster::new() else { return };
    for control in ["10.77.2.2", "10.77.3.2", "fd77:2::2", "fd77:3::2", "::"] {
        let mut server = cluster.server(control);
        if control == "::" {
            server.address.set_ip("fd77:3::2".parse().unwrap());
        }
        let options = "--transport tcp@ipoib,grpc@ethernet -s 8 -n 1 --format json";
        let finished = cluster.run(&server, options).quietly(0);
        for cell in Document::read(&finished.stdout).cells() {
            let kind = if cell["transport"] == "tcp@ipoib" { "ipoib" } else { "ethernet" };
            assert_eq!(cell["path"]["kind"], kind, "control by {control}");
            assert_eq!(cell["peer_path"]["kind"], kind, "control by {control}");
        }
    }
}

/// A link-local address means something only with the interface it is on.
#[test]
fn a_link_local_address_is_reached_by_its_zone() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("::");
    let port = server.address.port();
    for host in [format!("[fe80::2%eth0]:{port}"), format!("fe80::2%eth0 --port {port}")] {
        let options = format!("run {host} --transport tcp@ethernet,tcp@ipoib -s 8 -n 1");
        let run = || Running::start(&mut fabricbench(&options));
        cluster.here.within(run).unwrap().end().quietly(0);
    }
    let absent = format!("run fe80::2%absent0 --port {port}");
    let run = || Running::start(&mut fabricbench(&absent));
    cluster.here.within(run).unwrap().end().failed(1, &["fe80::2%absent0"]);
}

#[test]
fn probe_tells_an_emulated_link_from_a_real_one() {
    let Some(cluster) = Cluster::new() else { return };
    let probe = |arguments: &str| {
        let run = || Running::start(&mut fabricbench(arguments));
        cluster.here.within(run).unwrap().end().quietly(0).stdout
    };
    let text = probe("probe");
    assert!(text.contains("grpc@ipoib, tcp@ipoib           yes, by ib0 (emulated)"), "{text}");
    assert!(text.contains("grpc@ethernet, tcp@ethernet     yes, by eth0"), "{text}");
    assert!(text.contains("no address"), "idle has none:\n{text}");
    let document: serde_json::Value = serde_json::from_str(&probe("probe --json")).unwrap();
    assert_eq!(document["interfaces"].as_array().unwrap().len(), 4, "lo, eth0, idle, ib0");
}
