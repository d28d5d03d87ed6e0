//! A path that breaks while it is measured.

use std::{fs, thread, time::Duration};

use rustix::process::Signal;

use crate::{
    cluster::{Cluster, ip},
    document::{Document, measured, without_figures},
};

/// Breaks the path under the first cell, which goes on for ever, and asserts that it fails in time
/// and the cells by the other path are measured all the same.
fn broken(transport: &str, breaking: impl FnOnce(&mut Cluster)) {
    let Some(mut cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.2.2");
    let options = format!(
        "--transport {transport} --pattern latency -s 8,16 -D 20s --rounds 1 --timeout 3s \
         --format json"
    );
    let client = cluster.start(&server, &options);
    server.process.says_word("testing");
    thread::sleep(Duration::from_millis(800));
    breaking(&mut cluster);
    // No completion for 3 s, then a second cell that finds no path, or cannot connect within 3 s.
    let finished = client.end_within(Duration::from_secs(12));
    let document = Document::read(&finished.stdout);
    assert_eq!(finished.code, Some(4), "{finished:?}");
    // Sizes are in random order.
    assert!(document.count("failed") > 0 && document.count("measured") == 0, "{document:?}");
    let failed = document.cells().iter().filter(|cell| cell["status"] == "failed");
    failed.for_each(|cell| without_figures(cell, "failed", &[]));
    // The control connection was by the other way: the server is there for the next client.
    let next = cluster.run(&server, "--transport tcp@ethernet -s 8 -n 1 --format json").quietly(0);
    measured(&Document::read(&next.stdout).cells()[0]);
}

#[test]
fn tcp_over_an_interface_that_goes_down() {
    broken("tcp@ipoib", |cluster| {
        cluster.there.within(|| ip("link set ib0 down")).unwrap();
    });
}

#[test]
fn grpc_over_an_interface_that_goes_down() {
    broken("grpc@ipoib", |cluster| {
        cluster.there.within(|| ip("link set ib0 down")).unwrap();
    });
}

#[test]
fn tcp_over_an_interface_that_vanishes() {
    broken("tcp@ipoib", |cluster| drop(cluster.ib0.take()));
}

#[test]
fn grpc_over_an_interface_that_vanishes() {
    broken("grpc@ipoib", |cluster| drop(cluster.ib0.take()));
}

/// The server's host is cut off: no reset and no close reaches the client.
#[test]
fn a_server_behind_a_cut_cable_is_given_up_in_time() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.2.2");
    let address = server.address.to_string();
    let options = "--transport tcp@ethernet --pattern latency -s 8 -D 60s --timeout 2s";
    let client = cluster.start(&server, options);
    server.process.says_word("testing");
    thread::sleep(Duration::from_millis(800));
    cluster.there.within(|| ip("link set eth0 down")).unwrap();
    let finished = client.end_within(Duration::from_secs(5));
    finished.failed(4, &["lost the server", &address, "silent for 2s"]);
    // It gives the client up as well, and ends when asked.
    server.process.says_word("silent for 5s");
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.end_within(Duration::from_secs(3)).code, Some(0));
}

/// 64 KiB under way over a round trip of 20 ms: 12 MB take four seconds. Over TCP bytes that move are
/// seen, over gRPC an answer only.
#[test]
fn a_call_over_grpc_that_outlasts_patience_says_what_to_give() {
    let Some(cluster) = Cluster::with_delay(Duration::from_millis(10)) else { return };
    let limit = || fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 131072\n");
    cluster.there.within(limit).unwrap().unwrap();
    let server = cluster.server("10.77.2.2");
    let model = tempfile::NamedTempFile::new().unwrap();
    let tensors = serde_json::json!([{ "name": "a", "shape": [3_000_000] }]);
    let text = serde_json::json!({ "model": "own", "element_bytes": 4, "tensors": tensors });
    fs::write(model.path(), text.to_string()).unwrap();
    let options = "--pattern tensor-push -n 1 --rounds 1 --timeout 2s --format json";
    let model = model.path().display();
    let run = |transport: &str| {
        cluster.run(&server, &format!("{options} --transport {transport} --model {model}"))
    };
    Document::read(&run("tcp@ipoib").quietly(0).stdout).cells().iter().for_each(measured);
    let words = &["--timeout too short", "cover the largest call"];
    let document = Document::read(&run("grpc@ipoib").quietly(4).stdout);
    document.cells().iter().for_each(|cell| without_figures(cell, "failed", words));
}
