//! A link that is cut in the middle of a test: both sides end in time, and when it is mended the
//! server serves the next client.

use crate::{
    document::{Document, without_figures},
    peer::{Far, MARGIN, PATTERNS, Resources, TIMEOUT, here, pair, there, until},
};

/// A cut; mended when dropped, by these scripts in turn.
struct Cut(&'static [&'static str]);

impl Cut {
    /// Every packet is lost, in both directions, and neither side is told.
    fn in_the_network() -> Self {
        for at in [there, here] {
            at("tc qdisc add dev v0 root netem loss 100%");
        }
        Self(&["tc qdisc del dev v0 root"])
    }

    /// The interface goes down on both hosts, as when the switch between them fails.
    ///
    /// Nothing is under way then: a virtio card keeps packets that it has when it goes down until it
    /// is up again, and rxe 6.1 crashes on those of a queue pair that is no more.
    fn at_the_ports() -> Self {
        let lost = Self::in_the_network();
        for at in [there, here] {
            at("sleep 0.2 && ip link set v0 down");
        }
        std::mem::forget(lost);
        Self(&["ip link set v0 up", "tc qdisc del dev v0 root"])
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        for at in [there, here] {
            self.0.iter().for_each(|script| drop(at(script)));
            until("the port is active", || at("rdma link show rxe0/1").contains("state ACTIVE"));
        }
    }
}

fn cut(cut: fn() -> Cut) {
    let Some(_pair) = pair() else { return };
    let before = Resources::now();
    let server = Far::start();
    let address = server.0.address.to_string();
    for (index, pattern) in PATTERNS.into_iter().enumerate() {
        let client = server.in_the_middle(pattern);
        let cut = cut();
        let finished = client.end_within(TIMEOUT + MARGIN);
        let finished =
            finished.failed(4, &["lost the server", "while measuring", &address, "silent for 2s"]);
        without_figures(&Document::read(&finished.stdout).cells()[0], "failed", &[&address]);
        // While the link is down: not because the client comes back and closes the connection.
        server.0.process.says(|text| {
            (text.matches("silent for 2s").count() > index && text.contains("10.77.1.1"))
                .then_some(())
        });
        drop(cut);
        server.serves();
    }
    drop(server);
    before.are_back();
}

#[test]
fn packets_that_all_get_lost_end_both_sides() {
    cut(Cut::in_the_network);
}

#[test]
fn a_port_that_goes_down_ends_both_sides() {
    cut(Cut::at_the_ports);
}
