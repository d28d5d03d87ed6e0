//! Two hosts of a cluster, each a network namespace.

use std::{collections::BTreeMap, fs, process::Command, time::Duration};

use fabricbench_emulated_ipoib::{End, Error, LARGEST_MTU, Link, Namespace};

use crate::process::{Finished, Running, Server, fabricbench};

/// `eth0` is a veth pair (10.77.2.0/24, fd77:2::/64), `ib0` an emulated IPoIB link (10.77.3.0/24,
/// fd77:3::/64), `idle` a veth pair that is up and has no address. The first host has the
/// addresses that end in 1.
pub struct Cluster {
    pub here: Namespace,
    pub there: Namespace,
    pub ib0: Option<Link>,
}

/// Bytes an interface has sent and received.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    pub sent: u64,
    pub received: u64,
}

impl Cluster {
    /// `None` where the test may not make one, and need not.
    pub fn new() -> Option<Self> {
        Self::with_delay(Duration::ZERO)
    }

    /// As [`new`](Self::new), with packets on the emulated IPoIB link `delay` on their way.
    pub fn with_delay(delay: Duration) -> Option<Self> {
        let made = Self::make(delay).inspect_err(|error| {
            let demanded =
                std::env::var("FABRICBENCH_DEVICE_TESTS").is_ok_and(|value| value == "1");
            assert!(!demanded, "FABRICBENCH_DEVICE_TESTS=1, but {error}");
            eprintln!("skipped: {error}");
        });
        made.ok()
    }

    fn make(delay: Duration) -> Result<Self, Error> {
        let (here, there) = (Namespace::new()?, Namespace::new()?);
        let end = |namespace, host: u8| End {
            name: "ib0".to_owned(),
            namespace: Some(namespace),
            addresses: [format!("10.77.3.{host}/24"), format!("fd77:3::{host}/64")]
                .map(|address| address.parse().unwrap())
                .to_vec(),
        };
        let link = Link::up_delayed(&end(&here, 1), &end(&there, 2), LARGEST_MTU, delay, |_| {})?;
        let peer = there.path();
        here.within(|| {
            // One hardware address for both ends of a side: a packet meant for one may come by the
            // other.
            for name in ["eth0", "idle"] {
                ip(&format!(
                    "link add {name} address 02:00:00:00:00:01 type veth peer name {name} \
                     address 02:00:00:00:00:02 netns {}",
                    peer.display()
                ));
            }
        })?;
        for (namespace, host) in [(&here, 1), (&there, 2)] {
            namespace.within(|| {
                for name in ["eth0", "idle"] {
                    ip(&format!("link set {name} up"));
                }
                ip(&format!("address add 10.77.2.{host}/24 dev eth0"));
                ip(&format!("address add fd77:2::{host}/64 dev eth0 nodad"));
                // The kernel's own link-local address is not to be used for a second or two.
                ip(&format!("address add fe80::{host}/64 dev eth0 nodad"));
            })?;
        }
        Ok(Self { here, there, ib0: Some(link) })
    }

    /// A server on the second host, reached at `address`.
    pub fn server(&self, address: &str) -> Server {
        self.there.within(|| Server::with(&format!("--listen {address}"))).unwrap()
    }

    /// A client on the first host.
    pub fn start(&self, server: &Server, options: &str) -> Running {
        self.start_command("run", server, options)
    }

    fn start_command(&self, command: &str, server: &Server, options: &str) -> Running {
        let mut command = fabricbench(&format!("{command} {} {options}", server.address));
        self.here.within(|| Running::start(&mut command)).unwrap()
    }

    /// Runs a client on the first host to its end.
    pub fn run(&self, server: &Server, options: &str) -> Finished {
        self.start(server, options).end()
    }

    /// Diagnoses from the first host to its end.
    pub fn diagnose(&self, server: &Server, options: &str) -> Finished {
        self.start_command("diagnose", server, options).end()
    }

    /// Carries out a suite from the first host to its end.
    pub fn suite(&self, server: &Server, options: &str) -> Finished {
        self.start_command("suite tf-grpc", server, options).end()
    }

    /// The kernel's own statistics of every interface on both hosts.
    pub fn statistics(&self) -> [BTreeMap<String, Moved>; 2] {
        [&self.here, &self.there].map(|namespace| namespace.within(statistics).unwrap())
    }
}

/// From `/proc/net/dev` of the calling thread's namespace: the name, then the received bytes and
/// seven other figures, then the sent bytes.
fn statistics() -> BTreeMap<String, Moved> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let interfaces = text.lines().skip(2).map(|line| {
        let (name, figures) = line.split_once(':').unwrap();
        let figures: Vec<u64> =
            figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
        (name.trim().to_owned(), Moved { received: figures[0], sent: figures[8] })
    });
    interfaces.collect()
}

/// How far `name` moved.
pub fn moved(
    before: &BTreeMap<String, Moved>,
    after: &BTreeMap<String, Moved>,
    name: &str,
) -> Moved {
    let (before, after) = (before[name], after[name]);
    Moved { sent: after.sent - before.sent, received: after.received - before.received }
}

/// The `ip` program, in the calling thread's namespace.
pub fn ip(arguments: &str) {
    assert_eq!(try_command("ip", arguments), Ok(()));
}

/// A program that may be refused.
pub fn try_command(program: &str, arguments: &str) -> Result<(), String> {
    let output = Command::new(program).args(arguments.split_whitespace()).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
