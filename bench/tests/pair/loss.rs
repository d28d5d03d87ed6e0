//! A bad link: the figures are there, and what is wrong with it beside them.

use crate::{
    document::Document,
    peer::{Far, here, pair},
};

/// Loss and delay on the way to the server; gone when dropped.
struct BadLink;

impl BadLink {
    fn new() -> Self {
        here("tc qdisc add dev v0 root netem loss 1% delay 1ms");
        Self
    }
}

impl Drop for BadLink {
    fn drop(&mut self) {
        here("tc qdisc del dev v0 root");
    }
}

#[test]
fn loss_and_delay_show_beside_the_figures() {
    let Some(_pair) = pair() else { return };
    let server = Far::start();
    let (transports, patterns) = (["verbs-write", "verbs-send"], ["latency", "bandwidth"]);
    let options = format!("--transport {} -s 64K --rounds 1 --format json", transports.join(","));
    let measure = |messages| {
        let finished = server.0.run(&format!("{options} -n {messages} --warm-up 1"));
        let document = Document::read(&finished.quietly(0).stdout);
        document.all_measured(&transports, &patterns, &[65_536]);
        document
    };
    // On a good link nothing arrives out of order, whatever the emulated processors' pace.
    for cell in measure(20).cells() {
        let (here, there) = (&cell["counters"]["rdma"], &cell["peer_counters"]["rdma"]);
        assert!(here["rcvd_seq_err"].is_null() && there["out_of_seq_request"].is_null(), "{cell}");
    }
    let link = BadLink::new();
    for cell in measure(100).cells() {
        // 1,600 packets of 4096 B at least: that none is lost has the probability 1e-7.
        let (here, there) = (&cell["counters"]["rdma"], &cell["peer_counters"]["rdma"]);
        let count = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
        assert!(count(&there["out_of_seq_request"]) > 0, "the server missed packets: {cell}");
        assert!(count(&here["rcvd_seq_err"]) > 0, "and said so: {cell}");
        assert!(count(&here["completer_retry_err"]) > 0, "they were sent again: {cell}");
        if cell["pattern"] == "latency" {
            let least = cell["latency"]["min"].as_f64().unwrap();
            assert!(least >= 500_000.0, "a round trip takes the delay at least: {cell}");
        }
    }
    drop(link);
    server.serves();
}
