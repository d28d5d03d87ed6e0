//! Something happens to the network between two hosts, each a network namespace.
//!
//! Needs root, and skips without, as the tests of `paths` do.

use std::{
    net::TcpListener,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    between::{At, Between},
    cluster::{Cluster, try_command},
    document::{measured, without_figures},
    process::{Finished, PATIENCE, Running, Server, fabricbench},
    row::{PHASES, Phase, Row, Seen, Who, all, hold},
    scene::{BOUND, Held, Length, Output, Scene, TIMEOUT, is_kept, said_of},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// All packets are lost that the one of the row sends, or both.
    Cut,
    /// All packets of the data path, while the control connection's arrive.
    DataLost,
    /// On the host of the one of the row.
    InterfaceDown,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Cut => "nothing of it arrives",
            Self::DataLost => "nothing arrives on the data path alone",
            Self::InterfaceDown => "its interface goes down",
        }
    }
}

/// What was done to the network; undone when dropped.
struct Broken<'a> {
    cluster: &'a Cluster,
    who: Who,
    mend: &'static str,
}

impl<'a> Broken<'a> {
    fn new(cluster: &'a Cluster, row: &Row<Fault>) -> Self {
        let (breaking, mend) = match row.fault {
            // Unlike netem, every kernel with traffic control has it.
            Fault::Cut => ("tc qdisc add dev eth0 root blackhole", "tc qdisc del dev eth0 root"),
            Fault::DataLost => ("tc qdisc add dev ib0 root blackhole", "tc qdisc del dev ib0 root"),
            Fault::InterfaceDown => ("ip link set eth0 down", "ip link set eth0 up"),
        };
        let broken = Self { cluster, who: row.who, mend };
        broken.on_hosts(breaking);
        broken
    }

    fn on_hosts(&self, command: &str) {
        let (program, arguments) = command.split_once(' ').unwrap();
        let (here, there) = match self.who {
            Who::Client => (true, false),
            Who::Server => (false, true),
            Who::Network => (true, true),
        };
        for (host, concerned) in [(&self.cluster.here, here), (&self.cluster.there, there)] {
            if concerned {
                host.within(|| try_command(program, arguments)).unwrap().unwrap();
            }
        }
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.on_hosts(self.mend);
    }
}

/// Where what is lost next is that of the one of the row.
fn held(row: &Row<Fault>) -> At {
    match (row.fault, row.who, row.phase) {
        // What it has sent is at the server already: it is the next that is lost.
        (Fault::Cut, Who::Client, Phase::Agreeing) => At::Reply("finished", 1),
        (Fault::Cut, Who::Client, Phase::Finishing) => At::Reply("connections", 2),
        (_, _, phase) => phase.held(),
    }
}

/// Waits until the kernel says of both ends that they carry, which it does up to a second later.
#[track_caller]
fn carries(cluster: &Cluster) {
    let deadline = Instant::now() + PATIENCE;
    let is_up = || {
        let shown = Command::new("ip").args(["link", "show", "eth0"]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("state UP")
    };
    while ![&cluster.here, &cluster.there].iter().all(|host| host.within(is_up).unwrap()) {
        assert!(Instant::now() < deadline, "eth0 does not come up");
        thread::sleep(Duration::from_millis(20));
    }
}

fn carry_out(row: Row<Fault>) -> Seen {
    let cluster = Cluster::new().unwrap();
    carries(&cluster);
    let serve = format!("--listen 10.77.2.2 --timeout {}s", TIMEOUT.as_secs());
    let server = cluster.there.within(|| Server::with(&serve)).unwrap();
    let before = Held::idle(&server, || serves(&cluster, &server));
    let between = cluster.there.within(|| {
        let listener = TcpListener::bind("10.77.2.2:0").unwrap();
        Between::new(listener, server.address, held(&row))
    });
    let begin = || {
        let start = |options: String| Running::start(&mut fabricbench(&options));
        Scene::new(&row, Length::Endless, Output::of(row.phase), between.unwrap(), start)
    };
    let scene = cluster.here.within(begin).unwrap();
    let seen = match row.fault {
        Fault::DataLost => data_lost(&cluster, row, scene, &server),
        _ => all_lost(&cluster, row, scene, &server),
    };
    carries(&cluster);
    serves(&cluster, &server);
    before.is_back(&server.process);
    seen
}

/// Asserts that the other host is served over Ethernet. The kernel may have asked for the hardware address
/// while an interface was down, and says for up to 3 s that there is no route.
#[track_caller]
fn serves(cluster: &Cluster, server: &Server) {
    let client = format!("run {} --wait 30s --transport tcp@ethernet -s 8 -n 1", server.address);
    let client = cluster.here.within(|| Running::start(&mut fabricbench(&client))).unwrap();
    client.end_within(BOUND).quietly(0);
}

/// Neither hears the other, or one does not.
fn all_lost(cluster: &Cluster, row: Row<Fault>, mut scene: Scene, server: &Server) -> Seen {
    let broken = Broken::new(cluster, &row);
    scene.goes_on();
    let (known, phase, peer) = (scene.known, row.phase, scene.address().to_string());
    let (finished, document) = scene.end();
    let document = document.unwrap();
    let finished = match phase {
        Phase::Connecting => finished.failed(1, &[&peer]),
        Phase::Writing => finished.quietly(0),
        _ => finished.failed(3, &["lost the server", phase.of_client(), &peer]),
    };
    is_kept(&document, phase, "failed", &[&peer]);
    let word = match (phase, row.fault, row.who) {
        (Phase::Connecting, ..) => "refused: ",
        // Its client goes on as far as TCP does without an acknowledgement, and that is a moment.
        (Phase::Writing, Fault::Cut, Who::Server) => "",
        _ => "silent for 2s",
    };
    let said = said_of(server, known, word);
    drop(broken);
    seen(finished, said)
}

/// The cell fails, and the run goes on.
fn data_lost(cluster: &Cluster, row: Row<Fault>, mut scene: Scene, server: &Server) -> Seen {
    let broken = Broken::new(cluster, &row);
    scene.goes_on();
    let (known, phase) = (scene.known, row.phase);
    let (finished, document) = scene.end();
    let document = document.unwrap();
    let (code, failed) = match phase {
        Phase::Connecting => (4, 2),
        Phase::Agreeing | Phase::WarmUp | Phase::Measuring => (3, 1),
        // Nothing is sent there any more.
        Phase::Finishing | Phase::Writing => (0, 0),
    };
    let finished = finished.quietly(code);
    assert_eq!(document.0["complete"], true);
    let of =
        |status: &'static str| document.cells().iter().filter(move |cell| cell["status"] == status);
    assert_eq!((of("failed").count(), of("measured").count()), (failed, 2 - failed));
    let words: &[&str] = match phase {
        Phase::WarmUp | Phase::Measuring => &[phase.of_client(), "no completion within 2s"],
        _ => &["10.77.3.2"],
    };
    of("failed").for_each(|cell| without_figures(cell, "failed", words));
    of("measured").for_each(measured);
    let said = said_of(server, known, ": done");
    drop(broken);
    let reason = of("failed").next().map(|cell| cell["reason"].as_str().unwrap().to_owned());
    Seen { client: reason.unwrap_or_default(), ..seen(finished, said) }
}

fn seen(finished: Finished, server: String) -> Seen {
    Seen { code: finished.code, client: finished.stderr.trim_end().to_owned(), server }
}

/// Whether namespaces can be made here; they must where the tests of devices are asked for.
fn possible() -> bool {
    Cluster::new().is_some()
}

fn rows(
    fault: Fault,
    whose: &[Who],
    transports: [&'static str; 2],
) -> impl Iterator<Item = Row<Fault>> {
    let of = move |who| {
        PHASES
            .into_iter()
            .flat_map(move |phase| transports.map(|transport| Row { who, fault, phase, transport }))
    };
    let rows: Vec<_> = whose.iter().copied().flat_map(of).collect();
    // Of a part, while measuring over TCP.
    rows.into_iter()
        .filter(move |row| all() || row.phase == Phase::Measuring && row.transport == transports[0])
}

const OVER_ETHERNET: [&str; 2] = ["tcp@ethernet", "grpc@ethernet"];
const OVER_IPOIB: [&str; 2] = ["tcp@ipoib", "grpc@ipoib"];

#[test]
fn a_network_that_is_cut() {
    if possible() {
        let whose = [Who::Network, Who::Client, Who::Server];
        hold(rows(Fault::Cut, &whose, OVER_ETHERNET), Fault::name, carry_out);
    }
}

#[test]
fn an_interface_that_goes_down() {
    if possible() {
        let whose = [Who::Client, Who::Server];
        hold(rows(Fault::InterfaceDown, &whose, OVER_ETHERNET), Fault::name, carry_out);
    }
}

#[test]
fn a_data_path_that_is_lost_alone() {
    if possible() {
        hold(rows(Fault::DataLost, &[Who::Network], OVER_IPOIB), Fault::name, carry_out);
    }
}
