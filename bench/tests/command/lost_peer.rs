//! A server that is lost in the middle of a test ends the run in time, by name, with what was
//! measured before.

use std::{thread, time::Duration};

use rustix::process::Signal;

use crate::{
    document::{Document, measured, without_figures},
    process::{Running, Server},
};

/// The client's `--timeout`, and what may be added to it.
const TIMEOUT: Duration = Duration::from_secs(2);
const MARGIN: Duration = Duration::from_secs(2);

/// Loses the server by `signal` while the last cells are measured.
fn lose(transport: &str, pattern: &str, signal: Signal, words: &[&str]) {
    let server = Server::start();
    let address = server.address.to_string();
    // The first cell is measured and done, the second goes on for ever.
    let options = format!(
        "--transport {transport} --pattern {pattern} -D 2s --rounds 1 --timeout 2s \
         --progress lines --format json"
    );
    let client = Running::start(&mut server.client(&options));
    // Behind the line that says how long it will take.
    client.says(|text| (text.lines().count() == 2 && text.ends_with('\n')).then_some(()));
    thread::sleep(Duration::from_millis(500));
    server.process.signal(signal);
    let finished = client.end_within(TIMEOUT + MARGIN);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let line = finished.stderr.lines().last().unwrap();
    assert!(line.starts_with("fabricbench: lost the server: "), "{line}");
    assert!(line.contains(&address), "{line}");
    for word in words {
        assert!(line.contains(word), "no `{word}` in: {line}");
    }
    let document = Document::read(&finished.stdout);
    assert_eq!(document.0["complete"], false);
    // Sizes are in random order.
    for cell in document.cells() {
        match cell["status"].as_str() {
            Some("measured") => measured(cell),
            Some("failed") => without_figures(cell, "failed", &[&address]),
            _ => without_figures(cell, "skipped", &["before its turn"]),
        }
    }
    assert_eq!((document.count("measured"), document.count("failed")), (1, 1));
}

/// A killed server and a stopped one, for a transport and a pattern with its sizes.
macro_rules! lost {
    ($($name:ident: $transport:literal, $pattern:literal;)*) => {
        mod killed {
            use super::*;
            $(#[test]
            fn $name() {
                lose($transport, $pattern, Signal::KILL, &["closed the control connection"]);
            })*
        }
        mod stopped {
            use super::*;
            $(#[test]
            fn $name() {
                lose($transport, $pattern, Signal::STOP, &["silent for 2s"]);
            })*
        }
    };
}

lost! {
    tcp_latency: "tcp@loopback", "latency -s 8,64,128";
    tcp_bandwidth: "tcp@loopback", "bandwidth -s 8,64K,1M";
    tcp_bidirectional: "tcp@loopback", "bidirectional -s 8,64K,1M";
    tcp_fetch: "tcp@loopback", "fetch -s 8,64K,1M";
    tcp_connections: "tcp@loopback", "bandwidth --connections 3 -s 8,64K,1M";
    grpc_latency: "grpc@loopback", "latency -s 8,64,128";
    grpc_bandwidth: "grpc@loopback", "bandwidth -s 8,64K,1M";
    grpc_bidirectional: "grpc@loopback", "bidirectional -s 8,64K,1M";
    grpc_fetch: "grpc@loopback", "fetch -s 8,64K,1M";
    grpc_connections: "grpc@loopback", "bandwidth --connections 3 -s 8,64K,1M";
    grpc_stock_bandwidth: "grpc-stock@loopback", "bandwidth -s 8,64K,1M";
    grpc_lean_latency: "grpc-lean@loopback", "latency -s 8,64,128";
    grpc_lean_bandwidth: "grpc-lean@loopback", "bandwidth -s 8,64K,1M";
    grpc_lean_bidirectional: "grpc-lean@loopback", "bidirectional -s 8,64K,1M";
    grpc_lean_fetch: "grpc-lean@loopback", "fetch -s 8,64K,1M";
}
