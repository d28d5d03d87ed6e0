//! Counters of a port, from the kernel's text files: the evidence that traffic took this path,
//! and what went wrong on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::sysfs::{self, Sysfs};

/// What a counter tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// Packets or bytes carried.
    Traffic,
    /// Packets lost, late, out of order or sent again.
    Loss,
    /// A receiver that was not ready.
    NotReady,
    /// Congestion marks and waits.
    Congestion,
    /// Faults of the link or refused requests.
    Fault,
}

/// The counters whose meaning this crate knows: name, class, meaning. The first group is
/// InfiniBand's (`counters/`, from the port management agent: the kernel's
/// `Documentation/ABI/stable/sysfs-class-infiniband`), the second soft-RoCE's (`rxe_hw_counters.c`),
/// the third what adapters of several vendors have in common.
const KNOWN: [(&str, Class, &str); 45] = [
    ("port_xmit_data", Class::Traffic, "payload and headers sent, in units of 4 bytes"),
    ("port_rcv_data", Class::Traffic, "payload and headers received, in units of 4 bytes"),
    ("port_xmit_packets", Class::Traffic, "packets sent"),
    ("port_rcv_packets", Class::Traffic, "packets received"),
    ("unicast_xmit_packets", Class::Traffic, "unicast packets sent"),
    ("unicast_rcv_packets", Class::Traffic, "unicast packets received"),
    ("port_xmit_wait", Class::Congestion, "ticks with data to send but no credit"),
    ("port_xmit_discards", Class::Loss, "packets discarded on sending: congestion or link down"),
    ("port_rcv_errors", Class::Fault, "packets received with an error"),
    ("port_rcv_remote_physical_errors", Class::Fault, "packets marked bad by the far side"),
    ("symbol_error", Class::Fault, "minor link errors"),
    ("link_error_recovery", Class::Fault, "times the link recovered from errors"),
    ("link_downed", Class::Fault, "times the link went down"),
    ("local_link_integrity_errors", Class::Fault, "times local link errors passed the threshold"),
    ("excessive_buffer_overrun_errors", Class::Fault, "buffer overruns in a row"),
    ("VL15_dropped", Class::Loss, "management packets dropped for lack of buffers"),
    ("sent_pkts", Class::Traffic, "packets sent"),
    ("rcvd_pkts", Class::Traffic, "packets received"),
    ("rdma_sends", Class::Traffic, "send requests put on the wire"),
    ("rdma_recvs", Class::Traffic, "receive requests completed"),
    ("duplicate_request", Class::Loss, "requests that came twice: an acknowledgement was lost"),
    ("out_of_seq_request", Class::Loss, "requests out of order: a packet before was lost"),
    ("rcvd_seq_err", Class::Loss, "sequence-error answers received: the peer missed a packet"),
    ("completer_retry_err", Class::Loss, "retransmissions after a time-out or an error"),
    ("retry_exceeded_err", Class::Loss, "requests given up after all retries"),
    ("ack_deferred", Class::Congestion, "acknowledgements put off"),
    ("send_err", Class::Fault, "packets the network stack did not take"),
    ("rcvd_rnr_err", Class::NotReady, "receiver-not-ready answers received"),
    ("send_rnr_err", Class::NotReady, "receiver-not-ready answers sent"),
    ("retry_rnr_exceeded_err", Class::NotReady, "requests given up with the receiver not ready"),
    ("out_of_sequence", Class::Loss, "packets out of order"),
    ("packet_seq_err", Class::Loss, "sequence-error answers received"),
    ("implied_nak_seq_err", Class::Loss, "acknowledgements that implied a lost packet"),
    ("local_ack_timeout_err", Class::Loss, "acknowledgements that did not come in time"),
    ("rnr_nak_retry_err", Class::NotReady, "receiver-not-ready answers received"),
    ("out_of_buffer", Class::NotReady, "packets dropped for lack of a posted receive"),
    ("roce_adp_retrans", Class::Loss, "adaptive retransmissions"),
    ("roce_adp_retrans_to", Class::Loss, "adaptive retransmission time-outs"),
    ("roce_slow_restart", Class::Congestion, "slow restarts"),
    ("np_cnp_sent", Class::Congestion, "congestion notifications sent"),
    ("np_ecn_marked_roce_packets", Class::Congestion, "packets that came with a congestion mark"),
    ("rp_cnp_handled", Class::Congestion, "congestion notifications obeyed"),
    ("rp_cnp_ignored", Class::Congestion, "congestion notifications ignored"),
    ("rx_icrc_encapsulated", Class::Fault, "packets with a wrong checksum"),
    ("req_remote_access_errors", Class::Fault, "requests refused by the peer's memory"),
];

/// Class and meaning of the counter `name`, if it is a known one.
#[must_use]
pub fn meaning(name: &str) -> Option<(Class, &'static str)> {
    KNOWN.iter().find(|known| known.0 == name).map(|&(_, class, words)| (class, words))
}

/// All counters of a port at one time, or the difference of two such readings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Values in the kernel's own units, by the kernel's own names.
    pub values: BTreeMap<String, u64>,
    /// What could not be read, and why.
    pub absent: BTreeMap<String, String>,
    /// How old a value may be: the kernel asks the device for `hw_counters` no more often than
    /// this. Wait that long after the last packet before reading, or it may be missed.
    pub refresh: Duration,
}

/// What a port carried, in plain units. Absent where the device does not count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Packets sent.
    pub sent_packets: Option<u64>,
    /// Packets received.
    pub received_packets: Option<u64>,
    /// Bytes sent, headers included.
    pub sent_bytes: Option<u64>,
    /// Bytes received, headers included.
    pub received_bytes: Option<u64>,
}

impl Traffic {
    /// Whether the device counts anything at all in both directions.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        (self.sent_packets.is_some() && self.received_packets.is_some())
            || (self.sent_bytes.is_some() && self.received_bytes.is_some())
    }
}

impl Counters {
    /// Reads `counters/` and `hw_counters/` of the port. Never fails: a directory or file that
    /// cannot be read is in `absent` with the reason.
    #[must_use]
    pub fn read(sysfs: &Sysfs, device: &str, port: u8) -> Self {
        let mut read =
            Self { values: BTreeMap::new(), absent: BTreeMap::new(), refresh: Duration::ZERO };
        let port = sysfs.port(device, port);
        for directory in ["counters", "hw_counters"] {
            read.read_directory(&port.join(directory), directory);
        }
        read
    }

    fn read_directory(&mut self, path: &Path, directory: &str) {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                self.absent.insert(format!("{directory}/"), error.to_string());
                return;
            }
        };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let number =
                sysfs::read(&entry.path()).map_err(|error| error.to_string()).and_then(|text| {
                    text.parse::<u64>().map_err(|_| format!("reads {text:?}, not a number"))
                });
            // A setting among the counters: milliseconds that a reading is kept.
            if name == "lifespan" {
                self.refresh = self.refresh.max(Duration::from_millis(number.unwrap_or(0)));
                continue;
            }
            // One name in both directories: the first, InfiniBand's own, keeps it.
            let name =
                if self.values.contains_key(&name) { format!("{directory}/{name}") } else { name };
            match number {
                Ok(value) => _ = self.values.insert(name, value),
                Err(reason) => _ = self.absent.insert(name, reason),
            }
        }
    }

    /// The value of one counter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.get(name).copied()
    }

    /// What was counted between `before` and this reading. A counter that went back, or is in
    /// one of the two only, is absent with the reason.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut difference =
            Self { values: BTreeMap::new(), absent: self.absent.clone(), refresh: self.refresh };
        for (name, &now) in &self.values {
            let reason = match before.get(name) {
                Some(then) if now >= then => {
                    difference.values.insert(name.clone(), now - then);
                    continue;
                }
                Some(then) => format!("went back from {then} to {now}: wrapped or reset"),
                None => "not in the reading before".to_owned(),
            };
            difference.absent.insert(name.clone(), reason);
        }
        for name in before.values.keys().filter(|name| !self.values.contains_key(*name)) {
            difference
                .absent
                .entry(name.clone())
                .or_insert_with(|| "not in the reading after".to_owned());
        }
        difference
    }

    /// What the port carried: InfiniBand's counters, which adapters also keep for RoCE, or
    /// soft-RoCE's, which counts packets only.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let either = |one, other| self.get(one).or_else(|| self.get(other));
        let bytes = |name| self.get(name).and_then(|words| words.checked_mul(4));
        Traffic {
            sent_packets: either("port_xmit_packets", "sent_pkts"),
            received_packets: either("port_rcv_packets", "rcvd_pkts"),
            sent_bytes: bytes("port_xmit_data"),
            received_bytes: bytes("port_rcv_data"),
        }
    }

    /// The known counters of `class` that are not zero, with their meaning: on a difference,
    /// what happened in between.
    pub fn moved(&self, class: Class) -> impl Iterator<Item = (&str, u64, &'static str)> {
        self.values.iter().filter(|&(_, &value)| value != 0).filter_map(move |(name, &value)| {
            let (of, words) = meaning(name)?;
            (of == class).then_some((name.as_str(), value, words))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Sysfs) {
        let dir = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(dir.path());
        for (name, text) in files {
            let path = sysfs.port("dev0", 1).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (dir, sysfs)
    }

    #[test]
    fn infiniband_data_counters_are_words_of_four_bytes() {
        let (_dir, sysfs) = tree(&[
            ("counters/port_xmit_data", "250\n"),
            ("counters/port_rcv_data", "5\n"),
            ("counters/port_xmit_packets", "3\n"),
            ("counters/symbol_error", "N/A (no PMA)\n"),
        ]);
        let read = Counters::read(&sysfs, "dev0", 1);
        let traffic = read.traffic();
        assert_eq!((traffic.sent_bytes, traffic.received_bytes), (Some(1000), Some(20)));
        assert_eq!((traffic.sent_packets, traffic.received_packets), (Some(3), None));
        assert!(traffic.is_counted());
        assert!(read.absent["symbol_error"].contains("N/A (no PMA)"));
        assert!(read.absent.contains_key("hw_counters/"));
    }

    #[test]
    fn soft_roce_counts_packets_only_and_its_lifespan_is_no_counter() {
        let (_dir, sysfs) = tree(&[
            ("hw_counters/sent_pkts", "7\n"),
            ("hw_counters/rcvd_pkts", "8\n"),
            ("hw_counters/lifespan", "10\n"),
        ]);
        let read = Counters::read(&sysfs, "dev0", 1);
        let traffic = read.traffic();
        assert_eq!((traffic.sent_packets, traffic.received_packets), (Some(7), Some(8)));
        assert_eq!(traffic.sent_bytes, None);
        assert_eq!(read.refresh, Duration::from_millis(10));
        assert_eq!(read.values.len(), 2);
    }

    #[test]
    fn one_name_in_both_directories_keeps_both_values() {
        let (_dir, sysfs) =
            tree(&[("counters/link_downed", "1\n"), ("hw_counters/link_downed", "2\n")]);
        let read = Counters::read(&sysfs, "dev0", 1);
        assert_eq!(read.get("link_downed"), Some(1));
        assert_eq!(read.get("hw_counters/link_downed"), Some(2));
    }

    #[test]
    fn an_absent_device_is_a_reason_not_a_zero() {
        let read = Counters::read(&Sysfs::at("/nonexistent"), "dev0", 1);
        assert!(read.values.is_empty());
        assert!(!read.traffic().is_counted());
        assert!(read.absent["counters/"].contains("No such file"));
    }

    #[test]
    fn a_difference_has_no_counter_that_went_back_or_came_new() {
        let of = |files: &[(&str, &str)]| {
            let (_dir, sysfs) = tree(files);
            Counters::read(&sysfs, "dev0", 1)
        };
        let before = of(&[
            ("hw_counters/sent_pkts", "5"),
            ("hw_counters/rcvd_pkts", "9"),
            ("hw_counters/gone", "1"),
        ]);
        let after = of(&[
            ("hw_counters/sent_pkts", "12"),
            ("hw_counters/rcvd_pkts", "3"),
            ("hw_counters/rcvd_seq_err", "4"),
        ]);
        let difference = after.since(&before);
        assert_eq!(difference.values, BTreeMap::from([("sent_pkts".to_owned(), 7)]));
        assert!(difference.absent["rcvd_pkts"].contains("from 9 to 3"));
        assert!(difference.absent["rcvd_seq_err"].contains("before"));
        assert!(difference.absent["gone"].contains("after"));
        let moved: Vec<_> =
            after.moved(Class::Loss).map(|(name, value, _)| (name, value)).collect();
        assert_eq!(moved, [("rcvd_seq_err", 4)]);
    }

    #[test]
    fn no_counter_is_explained_twice() {
        let names: std::collections::BTreeSet<_> = KNOWN.iter().map(|known| known.0).collect();
        assert_eq!(names.len(), KNOWN.len());
        assert_eq!(meaning("sent_pkts").unwrap().0, Class::Traffic);
        assert_eq!(meaning("no_such"), None);
    }
}
