//! `verbs_peer`, an example of fabricbench-verbs, in a process of its own, against this one, which
//! uses the `ibverbs` crate.
//!
//! `FABRICBENCH_VERBS_PEER` is the path of the example. rxe0 must be there.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::Ipv6Addr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use ibverbs::{
    CompletionQueue, Context, MemoryRegion, ProtectionDomain, QueuePair, ibv_qp_type, ibv_wc,
};

const DEVICE: &str = "rxe0";

/// The largest count times size.
const MEMORY: usize = 4 << 20;

/// The most messages posted at once.
const DEPTH: u32 = 64;

/// An emulated machine is slow, and a hang must end.
const PATIENCE: Duration = Duration::from_secs(30);

fn peer() -> Command {
    Command::new(
        std::env::var("FABRICBENCH_VERBS_PEER").expect("the path of the example verbs_peer"),
    )
}

fn context(device: &str) -> Context {
    let devices = ibverbs::devices().unwrap();
    let is_it = |found: &ibverbs::Device<'_>| found.name().unwrap().to_str() == Ok(device);
    devices.iter().find(is_it).unwrap_or_else(|| panic!("no device {device}")).open().unwrap()
}

/// The text of a GID: its bytes are in network order, as an IPv6 address's.
fn text(gid: ibverbs::Gid) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(gid.subnet_prefix()) << 64 | u128::from(gid.interface_id()))
}

fn interface(index: u32) -> String {
    let entries = fs::read_dir("/sys/class/net").unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let index_of = |name: &String| fs::read_to_string(format!("/sys/class/net/{name}/ifindex"));
    let mut found =
        names.filter(|name| index_of(name).is_ok_and(|text| text.trim() == index.to_string()));
    found.next().unwrap_or_else(|| "-".to_owned())
}

#[test]
fn both_see_the_same_devices_ports_and_gids() {
    let mut here = Vec::new();
    for device in &ibverbs::devices().unwrap() {
        let name = device.name().unwrap().to_str().unwrap();
        here.push(format!("device {name}"));
        for entry in device.open().unwrap().gid_table() {
            here.push(format!(
                "gid {name} {} {} {} {} {}",
                entry.port_num,
                entry.gid_index,
                text(entry.gid),
                entry.gid_type,
                interface(entry.ndev_ifindex)
            ));
        }
    }
    let output = peer().arg("list").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8(output.stdout).unwrap();
    // The crate offers no ports: of those, the kernel is the judge.
    let (ports, mut there): (Vec<&str>, Vec<&str>) =
        listed.lines().partition(|line| line.starts_with("port "));
    here.sort_unstable();
    there.sort_unstable();
    assert_eq!(there, here);
    assert!(
        here.iter().any(|line| line.starts_with("gid rxe0 1 1 ::ffff:10.77.1.1 2")),
        "{here:?}"
    );

    let directory = format!("/sys/class/infiniband/{DEVICE}/ports");
    let mut told = Vec::new();
    for port in fs::read_dir(&directory).unwrap() {
        let number = port.unwrap().file_name().into_string().unwrap();
        let read = |name| fs::read_to_string(format!("{directory}/{number}/{name}")).unwrap();
        let lid = u32::from_str_radix(read("lid").trim().trim_start_matches("0x"), 16).unwrap();
        told.push((number.clone(), read("state").split(':').next().unwrap().to_owned(), lid));
    }
    assert_eq!(told.len(), ports.len(), "{ports:?}");
    for (number, state, lid) in told {
        let line = format!("port {DEVICE} {number} {state} {lid} 4096");
        assert!(ports.contains(&line.as_str()), "no `{line}` among {ports:?}");
    }
}

/// The other process; killed when dropped.
struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Self {
        let mut child = peer()
            .args(["exchange", DEVICE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, to, from: BufReader::new(from) }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    #[track_caller]
    fn says(&mut self, word: &str) {
        assert_eq!(self.hear(), word, "standard error has the reason");
    }

    fn end(mut self) {
        self.say("end");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Messages of one direction, with content of their own.
struct Messages {
    count: usize,
    size: usize,
    seed: usize,
}

/// Both directions take this: around the path MTU (4096) and its multiples, and many at once.
const ALL: [Messages; 9] = [
    Messages { count: 1, size: 1, seed: 1 },
    Messages { count: 1, size: 64, seed: 2 },
    Messages { count: 1, size: 4095, seed: 3 },
    Messages { count: 1, size: 4096, seed: 4 },
    Messages { count: 1, size: 4097, seed: 5 },
    Messages { count: 4, size: 65_536, seed: 6 },
    Messages { count: 1, size: 1 << 20, seed: 7 },
    Messages { count: 64, size: 8, seed: 8 },
    Messages { count: 32, size: 10_000, seed: 9 },
];

impl Messages {
    fn content(&self, number: usize) -> impl Iterator<Item = u8> {
        let start = self.seed + 7 * number;
        (0..self.size).map(move |at| (start + 31 * at + (at >> 8)) as u8)
    }

    /// As the line that tells the other side what to do.
    fn line(&self, verb: &str) -> String {
        format!("{verb} {} {} {}", self.count, self.size, self.seed)
    }
}

/// This side: the crate's queue pair, connected to the peer's.
struct Side<'a> {
    qp: QueuePair<'a>,
    cq: &'a CompletionQueue<'a>,
    region: MemoryRegion<u8>,
}

impl<'a> Side<'a> {
    fn connect(
        context: &Context,
        pd: &'a ProtectionDomain<'a>,
        cq: &'a CompletionQueue<'a>,
        peer: &mut Peer,
    ) -> Self {
        let table = context.gid_table();
        let gid = table.iter().find(|entry| text(entry.gid).to_ipv4_mapped().is_some()).unwrap();
        let prepared = pd
            .create_qp(cq, cq, ibv_qp_type::IBV_QPT_RC)
            .set_gid_index(gid.gid_index)
            .set_max_send_wr(DEPTH)
            .set_max_recv_wr(DEPTH)
            .set_timeout(14)
            .set_retry_count(7)
            .build()
            .unwrap();
        let here = prepared.endpoint();
        let line = peer.hear();
        let words: Vec<_> = line.split(' ').collect();
        let ["endpoint", number, lid, address] = words[..] else { panic!("{line}") };
        peer.say(&format!("endpoint {} {} {}", here.num, here.lid, text(here.gid.unwrap())));
        let address: Ipv6Addr = address.parse().unwrap();
        let remote = ibverbs::QueuePairEndpoint {
            num: number.parse().unwrap(),
            lid: lid.parse().unwrap(),
            gid: Some(ibverbs_sys::ibv_gid { raw: address.octets() }.into()),
        };
        Self { qp: prepared.handshake(remote).unwrap(), cq, region: pd.allocate(MEMORY).unwrap() }
    }

    fn send(&mut self, messages: &Messages) {
        for number in 0..messages.count {
            let at = number * messages.size..(number + 1) * messages.size;
            for (place, byte) in self.region[at.clone()].iter_mut().zip(messages.content(number)) {
                *place = byte;
            }
            // SAFETY: the region lives as long as the queue pair, and is not written before the
            // send has completed.
            unsafe { self.qp.post_send(&mut self.region, at, number as u64) }.unwrap();
        }
        for number in 0..messages.count {
            assert_eq!(self.completion().wr_id(), number as u64);
        }
    }

    fn post_receives(&mut self, messages: &Messages) {
        self.region[..messages.count * messages.size].fill(0);
        for number in 0..messages.count {
            let at = number * messages.size..(number + 1) * messages.size;
            // SAFETY: the region lives as long as the queue pair, and is not read before the
            // receive has completed.
            unsafe { self.qp.post_receive(&mut self.region, at, number as u64) }.unwrap();
        }
    }

    fn receive(&mut self, messages: &Messages) {
        for number in 0..messages.count {
            let done = self.completion();
            assert_eq!((done.wr_id(), done.len()), (number as u64, messages.size));
            let arrived = &self.region[number * messages.size..(number + 1) * messages.size];
            let same = arrived.iter().copied().eq(messages.content(number));
            assert!(same, "message {number} of {} B arrived with other content", messages.size);
        }
    }

    fn completion(&self) -> ibv_wc {
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [ibv_wc::default()];
        loop {
            if let [done] = self.cq.poll(&mut buffer).unwrap() {
                assert!(done.is_valid(), "{:?}", done.error());
                return *done;
            }
            assert!(Instant::now() < deadline, "no completion within {PATIENCE:?}");
        }
    }
}

fn with_sides(run: impl FnOnce(&mut Side<'_>, &mut Peer)) {
    let context = context(DEVICE);
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(2 * DEPTH as i32, 0).unwrap();
    let mut peer = Peer::start();
    let mut side = Side::connect(&context, &pd, &cq, &mut peer);
    run(&mut side, &mut peer);
    peer.end();
}

#[test]
fn what_fabricbench_sends_arrives() {
    with_sides(|side, peer| {
        for messages in &ALL {
            side.post_receives(messages);
            peer.say(&messages.line("send"));
            side.receive(messages);
            peer.says("sent");
        }
    });
}

#[test]
fn what_is_sent_to_fabricbench_arrives() {
    with_sides(|side, peer| {
        for messages in &ALL {
            peer.say(&messages.line("receive"));
            peer.says("posted");
            side.send(messages);
            peer.says("received");
        }
    });
}

#[test]
fn both_directions_take_turns_on_one_connection() {
    with_sides(|side, peer| {
        for round in 0..50 {
            let messages = Messages { count: 1, size: 100, seed: round };
            peer.say(&messages.line("receive"));
            peer.says("posted");
            side.send(&messages);
            peer.says("received");
            side.post_receives(&messages);
            peer.say(&messages.line("send"));
            side.receive(&messages);
            peer.says("sent");
        }
    });
}
