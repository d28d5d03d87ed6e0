//! Proof, by counters, that the payload went where a row says.

use std::{thread, time::Instant};

use fabricbench_ipoib::PathProof;
use fabricbench_verbs::{counters::Counters as RdmaCounters, sysfs::Sysfs};

use crate::{
    plan::{Cell, Pattern},
    report::{Counters, Path, Proof},
};

/// How long RDMA counters may lag, beyond the interval at which the kernel asks the device.
const LONGEST_LAG: std::time::Duration = std::time::Duration::from_millis(500);

/// What went through one end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// What was sent from this end.
    pub sent: Messages,
    /// What was received at this end.
    pub received: Messages,
}

/// Messages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Messages {
    /// How many.
    pub count: u64,
    /// Bytes of payload in each.
    pub size: u64,
}

impl Messages {
    fn bytes(self) -> u64 {
        self.count.saturating_mul(self.size)
    }

    /// Packets that they take at the least: a message of n bytes takes n / `mtu`, rounded up.
    fn packets(self, mtu: u64) -> u64 {
        self.count.saturating_mul(self.size.div_ceil(mtu))
    }
}

impl Payload {
    /// At the client, after `messages` of `cell` were sent and `returned` pushed back.
    #[must_use]
    pub fn by_initiator(cell: &Cell, messages: u64, returned: u64) -> Self {
        let (sent, received) = match cell.pattern {
            Pattern::Calls | Pattern::Ps => {
                let replies = Messages { count: messages, size: cell.reply_size() };
                return Self {
                    sent: Messages { count: messages, size: cell.size },
                    received: replies,
                };
            }
            // A fetch is asked for, and a push answered, by some bytes, which stand for nothing here.
            Pattern::TensorPush => (messages, 0),
            Pattern::TensorFetch => (0, messages),
            // An atomic carries its operands there and the value before back.
            _ if cell.transport.is_atomic() => (messages, messages),
            Pattern::Fetch => (0, messages),
            _ if cell.is_full_round_trip() => (0, messages),
            Pattern::Latency => (messages, messages),
            Pattern::Bandwidth | Pattern::Rate | Pattern::Bidirectional => (messages, returned),
        };
        let of_size = |count| Messages { count, size: cell.size };
        Self { sent: of_size(sent), received: of_size(received) }
    }

    /// At the server.
    #[must_use]
    pub fn by_responder(cell: &Cell, messages: u64, returned: u64) -> Self {
        let Self { sent, received } = Self::by_initiator(cell, messages, returned);
        Self { sent: received, received: sent }
    }
}

/// The counters of one end of a path from before a slice.
#[derive(Debug)]
pub enum PathWatch {
    /// A network interface.
    Interface(PathProof),
    /// A port of an RDMA device.
    Rdma {
        /// Device and port.
        place: (String, u8),
        /// Path MTU in bytes.
        mtu: Option<u32>,
        /// The counters as they were.
        before: RdmaCounters,
    },
}

impl PathWatch {
    /// Reads the counters of the path.
    ///
    /// # Errors
    /// The interface is gone, in words.
    pub fn begin(path: &Path) -> Result<Self, String> {
        use crate::report::PathKind::{Infiniband, Iwarp, Roce, SoftRoce};
        match (path.kind, &path.device, path.port, &path.interface) {
            // Not those of the interface under the device: another interface of its name may stand
            // in this network namespace, and adapters do not count RDMA there.
            (Infiniband | Roce | SoftRoce | Iwarp, Some(device), Some(port), _) => Ok(Self::Rdma {
                place: (device.clone(), port),
                mtu: path.mtu,
                before: fresh(device, port),
            }),
            (_, _, _, Some(interface)) => PathProof::begin(interface, None)
                .map(Self::Interface)
                .map_err(|error| error.to_string()),
            _ => Err("the path names neither a device nor an interface".to_owned()),
        }
    }

    /// Compares with what went through, waiting for counters that lag.
    #[must_use]
    pub fn finish(self, payload: Payload) -> Counters {
        match self {
            Self::Interface(proof) => over_interface(&proof, payload),
            Self::Rdma { place, mtu, before } => over_rdma(&place, mtu, &before, payload),
        }
    }
}

fn over_interface(proof: &PathProof, payload: Payload) -> Counters {
    let (sent, received) = (payload.sent.bytes(), payload.received.bytes());
    match proof.finish(sent, received) {
        Ok(verdict) => Counters {
            interface_tx_bytes: Some(verdict.tx_delta),
            interface_rx_bytes: Some(verdict.rx_delta),
            proof: Some(Proof {
                holds: Some(verdict.holds),
                payload_tx_bytes: sent,
                payload_rx_bytes: received,
                text: verdict.text,
            }),
            ..Counters::default()
        },
        // An interface that is gone proves nothing, and the figure is not to be believed.
        Err(error) => Counters {
            proof: Some(Proof {
                holds: Some(false),
                payload_tx_bytes: sent,
                payload_rx_bytes: received,
                text: error.to_string(),
            }),
            ..Counters::default()
        },
    }
}

/// The counters of a port as they are, not as they were when somebody last asked: the kernel keeps an
/// answer of the device for `refresh`, and one that is older than a slice would give the slice's
/// packets to its neighbour.
fn fresh(device: &str, port: u8) -> RdmaCounters {
    let sysfs = Sysfs::default();
    let kept = RdmaCounters::read(&sysfs, device, port);
    if kept.refresh.is_zero() {
        return kept;
    }
    thread::sleep(kept.refresh);
    RdmaCounters::read(&sysfs, device, port)
}

fn over_rdma(
    (device, port): &(String, u8),
    mtu: Option<u32>,
    before: &RdmaCounters,
    payload: Payload,
) -> Counters {
    let since = Instant::now();
    loop {
        let moved = fresh(device, *port).since(before);
        let (holds, text) = judge(device, &moved, mtu, payload);
        if holds == Some(false) && since.elapsed() < LONGEST_LAG + moved.refresh {
            thread::sleep(std::time::Duration::from_millis(10));
            continue;
        }
        return Counters {
            rdma: moved.values.into_iter().filter(|&(_, moved)| moved != 0).collect(),
            proof: Some(Proof {
                holds,
                payload_tx_bytes: payload.sent.bytes(),
                payload_rx_bytes: payload.received.bytes(),
                text,
            }),
            ..Counters::default()
        };
    }
}

/// Judges by bytes where the device counts them, else by packets.
fn judge(
    device: &str,
    moved: &RdmaCounters,
    mtu: Option<u32>,
    payload: Payload,
) -> (Option<bool>, String) {
    let traffic = moved.traffic();
    if let (Some(sent), Some(received)) = (traffic.sent_bytes, traffic.received_bytes) {
        let (least_sent, least_received) = (payload.sent.bytes(), payload.received.bytes());
        let text = format!(
            "{device} sent {sent} bytes for a payload of {least_sent} and received {received} for \
             {least_received}"
        );
        return (Some(sent >= least_sent && received >= least_received), text);
    }
    let mtu = u64::from(mtu.unwrap_or(4096).max(1));
    if let (Some(sent), Some(received)) = (traffic.sent_packets, traffic.received_packets) {
        let (least_sent, least_received) =
            (payload.sent.packets(mtu), payload.received.packets(mtu));
        let text = format!(
            "{device} sent {sent} packets where the payload takes {least_sent} and received \
             {received} where it takes {least_received}"
        );
        return (Some(sent >= least_sent && received >= least_received), text);
    }
    (None, format!("{device} shows no traffic counters to this process"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PAYLOAD: Payload = Payload {
        sent: Messages { count: 10, size: 5000 },
        received: Messages { count: 0, size: 5000 },
    };

    /// A made tree after the kernel's documented layout, before and after.
    fn moved(files: &[(&str, u64)]) -> RdmaCounters {
        let root = tempfile::tempdir().unwrap();
        let ports = root.path().join("class/infiniband/dev0/ports/1");
        let read = |scale: u64| {
            for (name, value) in files {
                let path = ports.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{}\n", value * scale)).unwrap();
            }
            RdmaCounters::read(&Sysfs::at(root.path()), "dev0", 1)
        };
        let before = read(0);
        read(1).since(&before)
    }

    #[test]
    fn bytes_decide_where_they_are_counted() {
        let bytes =
            |words| moved(&[("counters/port_xmit_data", words), ("counters/port_rcv_data", 9)]);
        assert_eq!(judge("dev0", &bytes(12_500), Some(1024), PAYLOAD).0, Some(true));
        let (holds, text) = judge("dev0", &bytes(12_499), Some(1024), PAYLOAD);
        assert_eq!(holds, Some(false));
        assert!(text.contains("sent 49996 bytes for a payload of 50000"), "{text}");
    }

    #[test]
    fn packets_decide_elsewhere() {
        let packets =
            |count| moved(&[("hw_counters/sent_pkts", count), ("hw_counters/rcvd_pkts", 9)]);
        assert_eq!(judge("dev0", &packets(50), Some(1024), PAYLOAD).0, Some(true));
        assert_eq!(judge("dev0", &packets(49), Some(1024), PAYLOAD).0, Some(false));
    }

    #[test]
    fn a_call_takes_its_request_there_and_its_reply_back() {
        let cell =
            Cell { reply: Some(7), ..Cell::new("tcp@lo".parse().unwrap(), Pattern::Calls, 100) };
        let payload = Payload::by_responder(&cell, 3, 0);
        assert_eq!((payload.sent.bytes(), payload.received.bytes()), (21, 300));
    }

    #[test]
    fn no_counter_is_no_proof_and_no_failure() {
        assert_eq!(judge("dev0", &moved(&[]), Some(1024), PAYLOAD).0, None);
    }
}
