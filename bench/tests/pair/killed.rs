//! A process that is killed on one host: the other notices, and nothing stays in either kernel.

use rustix::process::Signal;

use crate::{
    document::{Document, without_figures},
    peer::{Far, MARGIN, PATTERNS, Resources, TIMEOUT, pair},
};

#[test]
fn a_killed_server_ends_the_run() {
    let Some(_pair) = pair() else { return };
    let before = Resources::now();
    for pattern in PATTERNS {
        let server = Far::start();
        let address = server.0.address.to_string();
        let client = server.in_the_middle(pattern);
        server.kill();
        let finished = client.end_within(TIMEOUT + MARGIN);
        let finished = finished.failed(4, &["lost the server", "while measuring", &address]);
        without_figures(&Document::read(&finished.stdout).cells()[0], "failed", &[&address]);
    }
    before.are_back();
    Far::start().serves();
}

#[test]
fn a_killed_client_leaves_the_server_to_the_next() {
    let Some(_pair) = pair() else { return };
    let before = Resources::now();
    let server = Far::start();
    for pattern in PATTERNS {
        let client = server.in_the_middle(pattern);
        client.signal(Signal::KILL);
        drop(client);
        server.serves();
    }
    drop(server);
    before.are_back();
}
