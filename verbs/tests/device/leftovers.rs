//! What is left in the kernel of objects that are gone: nothing, however they went.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use fabricbench_verbs::{
    ConnectOptions, Context, Endpoint, Gid, GidChoice, Operation, Port, QueuePairOptions,
    RecvRequest, RemoteAddr, RemoteRegion, SendRequest, Status, Transport, random_psn,
};

use crate::pair::{End, OPTIONS, PATIENCE, Pair, alone, device, everything_allowed, resources};

/// Connects, sends a message and lets everything go, on a device that is open already.
fn cycle(context: &Context, port: &Port, number: usize) {
    let pd = context.alloc_pd().unwrap();
    // Each of them in turn with all that it needs.
    let transport = Transport::ALL[number % 3];
    let options = QueuePairOptions { transport, ..OPTIONS };
    let channel = context.create_completion_channel().unwrap();
    let end = || {
        let cq = context.create_completion_queue_on(&channel, 16).unwrap();
        End::of(pd.create_queue_pair(&cq, &cq, &options).unwrap(), cq)
    };
    if transport == Transport::ReliableConnection {
        let mut queue = pd.create_shared_receive_queue(4).unwrap();
        let a = end();
        let cq = context.create_completion_queue(16).unwrap();
        let qp = pd.create_queue_pair_on(&cq, &cq, &queue, &options).unwrap();
        let b = End::of(qp, cq);
        let id = queue.attach(&b.region).unwrap();
        queue.post_recv(&RecvRequest::new(7, id.range(0, 256))).unwrap();
        // Gone only with the queue pair on it, or the device refuses and it stays.
        drop(queue);
        run(Pair::joined(a, b, port.clone(), &everything_allowed()));
    } else {
        let (a, b) = (end(), end());
        let pair = Pair::joined(a, b, port.clone(), &everything_allowed());
        pair.b.qp.post_recv(&RecvRequest::new(7, pair.b.id.range(0, 256))).unwrap();
        // An event that nobody reads.
        pair.b.cq.arm(false).unwrap();
        run(pair);
    }
}

fn run(Pair { a, b, .. }: Pair) {
    a.qp.post_send(&a.request(0, Operation::Send, a.id.range(0, 8))).unwrap();
    a.done();
    assert_eq!(b.done().id(), 7);
}

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    let Some(_guard) = alone() else { return };
    let (context, port) = device();
    let before = resources();
    for number in 0..1000 {
        cycle(&context, &port, number);
    }
    assert_eq!(resources(), before);
    // The count does see what is there.
    let pd = context.alloc_pd().unwrap();
    let end = End::new(&context, &pd, &OPTIONS);
    assert_ne!(resources(), before);
    drop((end, pd));
    assert_eq!(resources(), before);
}

/// The environment variable that makes a process of this test the one to be killed.
const VICTIM: &str = "FABRICBENCH_TEST_VICTIM";

#[test]
fn a_peer_that_is_killed_leaves_nothing_behind() {
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    let Some(_guard) = alone() else { return };
    let before = resources();
    for _ in 0..5 {
        let (context, port) = device();
        let gid = context.choose_gid(port.number, None).unwrap();
        let mut peer = Victim::start();
        let mut end = End::new(&context, &context.alloc_pd().unwrap(), &OPTIONS);
        let local = end.qp.endpoint(&port, &gid, random_psn());
        peer.say(&local, &end.region.remote());
        let (remote, region) = peer.listen();
        // 4.096 us << 10 is 4 ms; with 3 retries over in well under a second.
        let quick = ConnectOptions { timeout: 10, retry: 3, ..everything_allowed() };
        end.reach(&port, &gid, &local, &remote, &quick);
        writeln!(peer.0.stdin.as_mut().unwrap(), "go").unwrap();
        // In the midst of writing to us.
        let start = Instant::now();
        while end.region.load_u64(0).unwrap() == 0 {
            assert!(start.elapsed() < PATIENCE, "the peer does not write");
        }
        assert_ne!(resources(), before);
        peer.0.kill().unwrap();
        peer.0.wait().unwrap();
        end.qp.post_send(&write(&end, region.at(0), 5)).unwrap();
        assert_eq!(end.failure().status, Status::RETRY_EXCEEDED);
        drop((end, context));
        let start = Instant::now();
        while resources() != before {
            assert!(start.elapsed() < PATIENCE, "{} is left, {before} was there", resources());
        }
    }
}

fn write(end: &End, to: RemoteAddr, id: u64) -> SendRequest {
    SendRequest::new(id, Operation::Write(to), end.id.range(0, 8))
}

/// Another process of this test, which writes to us until it is killed.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Victim {
    fn start() -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leftovers::a_peer_that_is_killed_leaves_nothing_behind"])
            .arg("--nocapture")
            .env(VICTIM, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    fn say(&mut self, endpoint: &Endpoint, region: &RemoteRegion) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{}", line(endpoint, region)).unwrap();
    }

    fn listen(&mut self) -> (Endpoint, RemoteRegion) {
        let output = BufReader::new(self.0.stdout.take().unwrap());
        // Between what the harness of the tests prints.
        let line = output.lines().map(Result::unwrap).find(|line| line.starts_with(MARK));
        parse(&line.unwrap_or_else(|| panic!("the other process said nothing")))
    }
}

fn victim() {
    let (context, port) = device();
    let gid: GidChoice = context.choose_gid(port.number, None).unwrap();
    let mut end = End::new(&context, &context.alloc_pd().unwrap(), &OPTIONS);
    let local = end.qp.endpoint(&port, &gid, random_psn());
    let mut heard = String::new();
    std::io::stdin().read_line(&mut heard).unwrap();
    let (remote, region) = parse(&heard);
    end.reach(&port, &gid, &local, &remote, &everything_allowed());
    println!("\n{}", line(&local, &end.region.remote()));
    // Until the other side is connected to us too.
    std::io::stdin().read_line(&mut heard).unwrap();
    end.region.store_u64(0, 1).unwrap();
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        end.qp.post_send(&write(&end, region.at(0), 0)).unwrap();
        end.done();
    }
}

const MARK: &str = "endpoint";

fn line(endpoint: &Endpoint, region: &RemoteRegion) -> String {
    let Endpoint { qpn, psn, lid, gid, path_mtu, responder_resources } = endpoint;
    let gid = u128::from_be_bytes(gid.0);
    let RemoteRegion { addr, len, rkey } = region;
    format!("{MARK} {qpn} {psn} {lid} {gid} {path_mtu} {responder_resources} {addr} {len} {rkey}")
}

fn parse(line: &str) -> (Endpoint, RemoteRegion) {
    let mut words = line.split_whitespace().skip(1).map(|word| word.parse::<u128>().unwrap());
    let mut next = || words.next().unwrap();
    let endpoint = Endpoint {
        qpn: next() as u32,
        psn: next() as u32,
        lid: next() as u16,
        gid: Gid(next().to_be_bytes()),
        path_mtu: next() as u32,
        responder_resources: next() as u8,
    };
    (endpoint, RemoteRegion { addr: next() as u64, len: next() as u64, rkey: next() as u32 })
}
