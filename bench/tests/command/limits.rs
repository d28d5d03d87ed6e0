//! Limits that an operator sets, and that no client exceeds.

use std::{
    io::{ErrorKind, Read},
    time::Duration,
};

use fabricbench::transport::SliceKey;
use fabricbench_grpc::{ConnectOptions, socket::connect_blocking};
use serde_json::{Value, json};

use crate::{
    document::Document,
    process::{PATIENCE, Running, Server, fabricbench},
    rogue::{Rogue, on_loopback, over_connections},
};

fn server(limits: &str) -> Server {
    Server::open_by(&mut fabricbench(&format!(
        "serve --port 0 --listen 127.0.0.1 --insecure {limits}"
    )))
}

#[track_caller]
fn refused(answer: &Value, words: &[&str]) {
    let reason = answer["refused"]["reason"].as_str().unwrap_or_default();
    for word in words {
        assert!(reason.contains(word), "no `{word}` in {answer}");
    }
}

#[test]
fn a_slice_over_a_limit_is_refused_with_the_limit_and_its_option() {
    let server = server(
        "--limit-message 1000 --limit-memory 1500 --limit-connections 3 --limit-queue-pairs 4",
    );
    let mut rogue = Rogue::welcome(&server);
    for transport in ["tcp@loopback", "grpc@loopback", "grpc-lean@loopback"] {
        let mut prepare =
            |size, connections| rogue.prepare(transport, size, 1, &over_connections(connections));
        refused(&prepare(1001, 1), &["1001 B", "limit of 1000", "serve --limit-message"]);
        refused(&prepare(501, 3), &["1503 B", "limit of 1500", "serve --limit-memory"]);
        refused(&prepare(8, 4), &["4 connections", "limit of 3", "serve --limit-connections"]);
        assert!(prepare(500, 3)["prepared"].is_object());
    }
    // All of a client's threads together.
    rogue.say(&json!({ "prepare": {
        "cell": { "transport": "tcp@loopback", "pattern": "latency", "size": 8 },
        "depth": 1, "seed": 1, "cpu": null, "offers": vec![on_loopback(); 4],
    }}));
    refused(&rogue.hear().unwrap(), &["4 connections", "limit of 3"]);
    // Of a model that a server has in memory.
    let tensors =
        json!({ "model": "own", "lengths": [900, 700], "coalesce": "no", "assign": true });
    rogue.say(&json!({ "prepare": {
        "cell": {
            "transport": "tcp@loopback", "pattern": "tensor-fetch", "size": 1600,
            "tensors": tensors, "roles": { "servers": 1, "workers": 1 },
        },
        "depth": 1, "seed": 1, "cpu": null, "offers": [on_loopback()],
    }}));
    refused(&rogue.hear().unwrap(), &["limit of 1500", "serve --limit-memory"]);
    drop(rogue);
    server.serves();
    // A client like any other is told the same.
    let finished = server.run("--transport tcp@loopback -s 8,2K -n 9 --rounds 1 --format json");
    assert_eq!(finished.code, Some(3), "{finished:?}");
    assert!(finished.stdout.contains("limit of 1000 (serve --limit-message)"), "{finished:?}");
}

/// The test under way ends, its client hears why, and there is no other.
#[test]
fn a_client_that_has_had_its_time_is_cut_off_and_told() {
    const REASON: &str = "the limit is 2s (serve --limit-time)";
    let served = [(); 2].map(|()| server("--limit-time 2s"));
    // One that does as it should.
    let plan = "--transport tcp@loopback,grpc@loopback -s 8 -D 30 --rounds 1 --format json";
    let proper = Running::start(&mut served[0].client(plan));
    // And one that would never end.
    let server = &served[1];
    let mut rogue = Rogue::welcome(server);
    let answer = rogue.prepare("tcp@loopback", 8, 1, &on_loopback());
    let answer = &answer["prepared"]["answers"][0]["tcp"];
    let port = u16::try_from(answer["port"].as_u64().unwrap()).unwrap();
    let SliceKey(key) = serde_json::from_value(answer["key"].clone()).unwrap();
    let options = ConnectOptions::new(([127, 0, 0, 1], port).into()).key(key);
    let (mut data, _) = connect_blocking(&options).unwrap();
    rogue.say(&json!("start"));
    assert_eq!(rogue.hear(), Some(json!("started")));
    data.set_read_timeout(Some(PATIENCE)).unwrap();
    let read = data.read(&mut [0]);
    assert!(!matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock), "{read:?}");
    assert_eq!(read.unwrap_or(0), 0);
    rogue.say(&json!({ "finish": { "messages": 7 } }));
    let finished = rogue.hear().unwrap();
    let error = finished["finished"]["error"].as_str().unwrap_or_default();
    assert!(error.contains(REASON), "{finished}");
    refused(&rogue.prepare("tcp@loopback", 8, 1, &on_loopback()), &[REASON]);
    drop(rogue);
    server.serves();
    let finished = proper.end_within(Duration::from_secs(20));
    assert_eq!(finished.code, Some(4), "{finished:?}");
    let document = Document::read(&finished.stdout);
    for transport in ["tcp@loopback", "grpc@loopback"] {
        let cell = document.cell(transport, "latency", 8).to_string();
        assert!(cell.contains(REASON), "{cell}");
    }
}
