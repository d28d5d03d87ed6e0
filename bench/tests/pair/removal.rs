//! An RDMA device that is taken away on one of the hosts in the middle of a test.

use crate::{
    document::{Document, without_figures},
    peer::{Far, MARGIN, PATTERNS, TIMEOUT, here, pair, there, until},
};

/// The deletion of rxe0, which lasts until nobody uses it; the device is made again when dropped.
struct Deletion(fn(&str) -> String);

impl Deletion {
    fn begin(at: fn(&str) -> String) -> Self {
        at("rdma link delete rxe0 </dev/null >/dev/null 2>&1 &");
        Self(at)
    }

    /// Waits until it has ended.
    #[track_caller]
    fn ends(&self) {
        until("nobody uses rxe0 any longer", || {
            (self.0)("test ! -e /sys/class/infiniband/rxe0 && echo gone || true").contains("gone")
        });
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.ends();
        (self.0)("rdma link add rxe0 type rxe netdev v0");
    }
}

fn remove(at: fn(&str) -> String, words: &[&str]) {
    let Some(_pair) = pair() else { return };
    let server = Far::start();
    for pattern in [PATTERNS[0], PATTERNS[3]] {
        let client = server.in_the_middle(pattern);
        let deletion = Deletion::begin(at);
        // The test would last a minute.
        let finished = client.end_within(TIMEOUT + MARGIN).quietly(4);
        without_figures(&Document::read(&finished.stdout).cells()[0], "failed", words);
        deletion.ends();
        drop(deletion);
        server.serves();
    }
}

#[test]
fn a_device_removed_on_the_client_ends_the_test() {
    remove(here, &["rxe0", "removed"]);
}

#[test]
fn a_device_removed_on_the_server_ends_the_test() {
    remove(there, &["the server", "rxe0", "removed"]);
}
