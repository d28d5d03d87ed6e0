//! What the connection manager reports, in words, with the likely cure.

use std::fmt;
use std::io;

use crate::sys::rdma_cm_event_type as code;

/// `enum rdma_cm_event_type` as an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventCode(pub u32);

impl EventCode {
    /// `RDMA_CM_EVENT_ADDR_RESOLVED`.
    pub const ADDR_RESOLVED: Self = Self(code::RDMA_CM_EVENT_ADDR_RESOLVED);
    /// `RDMA_CM_EVENT_ADDR_ERROR`.
    pub const ADDR_ERROR: Self = Self(code::RDMA_CM_EVENT_ADDR_ERROR);
    /// `RDMA_CM_EVENT_ROUTE_RESOLVED`.
    pub const ROUTE_RESOLVED: Self = Self(code::RDMA_CM_EVENT_ROUTE_RESOLVED);
    /// `RDMA_CM_EVENT_ROUTE_ERROR`.
    pub const ROUTE_ERROR: Self = Self(code::RDMA_CM_EVENT_ROUTE_ERROR);
    /// `RDMA_CM_EVENT_CONNECT_REQUEST`.
    pub const CONNECT_REQUEST: Self = Self(code::RDMA_CM_EVENT_CONNECT_REQUEST);
    /// `RDMA_CM_EVENT_CONNECT_RESPONSE`.
    pub const CONNECT_RESPONSE: Self = Self(code::RDMA_CM_EVENT_CONNECT_RESPONSE);
    /// `RDMA_CM_EVENT_CONNECT_ERROR`.
    pub const CONNECT_ERROR: Self = Self(code::RDMA_CM_EVENT_CONNECT_ERROR);
    /// `RDMA_CM_EVENT_UNREACHABLE`.
    pub const UNREACHABLE: Self = Self(code::RDMA_CM_EVENT_UNREACHABLE);
    /// `RDMA_CM_EVENT_REJECTED`.
    pub const REJECTED: Self = Self(code::RDMA_CM_EVENT_REJECTED);
    /// `RDMA_CM_EVENT_ESTABLISHED`.
    pub const ESTABLISHED: Self = Self(code::RDMA_CM_EVENT_ESTABLISHED);
    /// `RDMA_CM_EVENT_DISCONNECTED`.
    pub const DISCONNECTED: Self = Self(code::RDMA_CM_EVENT_DISCONNECTED);
    /// `RDMA_CM_EVENT_DEVICE_REMOVAL`.
    pub const DEVICE_REMOVAL: Self = Self(code::RDMA_CM_EVENT_DEVICE_REMOVAL);
    /// `RDMA_CM_EVENT_ADDR_CHANGE`.
    pub const ADDR_CHANGE: Self = Self(code::RDMA_CM_EVENT_ADDR_CHANGE);
    /// `RDMA_CM_EVENT_TIMEWAIT_EXIT`.
    pub const TIMEWAIT_EXIT: Self = Self(code::RDMA_CM_EVENT_TIMEWAIT_EXIT);

    /// The name after `RDMA_CM_EVENT_`, or `None` for one newer than this crate.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 16] = [
            "ADDR_RESOLVED",
            "ADDR_ERROR",
            "ROUTE_RESOLVED",
            "ROUTE_ERROR",
            "CONNECT_REQUEST",
            "CONNECT_RESPONSE",
            "CONNECT_ERROR",
            "UNREACHABLE",
            "REJECTED",
            "ESTABLISHED",
            "DISCONNECTED",
            "DEVICE_REMOVAL",
            "MULTICAST_JOIN",
            "MULTICAST_ERROR",
            "ADDR_CHANGE",
            "TIMEWAIT_EXIT",
        ];
        NAMES.get(usize::try_from(self.0).ok()?).copied()
    }

    /// Whether nothing can come over the connection after it.
    #[must_use]
    pub fn ends_connection(self) -> bool {
        [
            Self::CONNECT_ERROR,
            Self::UNREACHABLE,
            Self::REJECTED,
            Self::DISCONNECTED,
            Self::DEVICE_REMOVAL,
            Self::TIMEWAIT_EXIT,
        ]
        .contains(&self)
    }
}

impl fmt::Display for EventCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "event {}", self.0),
        }
    }
}

/// An event and its status: 0, an error number as the kernel writes it (negative), or, with
/// [`EventCode::REJECTED`], the reason of the InfiniBand specification (12.6.7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Outcome {
    /// What happened.
    pub event: EventCode,
    /// The status that came with it.
    pub status: i32,
}

/// Nobody listens: `IB_CM_REJ_INVALID_SERVICE_ID`.
const NOBODY_LISTENS: i32 = 8;
/// The application said no: `IB_CM_REJ_CONSUMER_DEFINED`.
const BY_APPLICATION: i32 = 28;
/// The same for datagrams, whose answers come with [`EventCode::UNREACHABLE`]: `IB_SIDR_UNSUPPORTED`
/// and `IB_SIDR_REJECT` (InfiniBand specification, 12.11.2).
const NO_SERVICE: i32 = 1;
const SERVICE_REFUSED: i32 = 2;

impl Outcome {
    /// Whether the peer has nobody that listens on the port asked for.
    #[must_use]
    pub fn nobody_listens(self) -> bool {
        match self.event {
            EventCode::REJECTED => [NOBODY_LISTENS, -libc::ECONNREFUSED].contains(&self.status),
            event => event == EventCode::UNREACHABLE && self.status == NO_SERVICE,
        }
    }

    /// Whether the program at the other end refused, as
    /// [`Request::reject`](crate::cm::Request::reject) does.
    #[must_use]
    pub fn refused_by_peer(self) -> bool {
        let refusals =
            [(EventCode::REJECTED, BY_APPLICATION), (EventCode::UNREACHABLE, SERVICE_REFUSED)];
        refusals.contains(&(self.event, self.status))
    }

    /// What is likely to help.
    #[must_use]
    pub fn cure(self) -> &'static str {
        match (self.event, self.status) {
            _ if self.nobody_listens() => {
                "nobody listens there: start the peer first, and compare address and port"
            }
            _ if self.refused_by_peer() => "the peer's program refused: look at what it says",
            (EventCode::REJECTED, 3 | 27) => {
                "the peer has no resources left: fewer connections, or fewer outstanding reads"
            }
            (EventCode::REJECTED, 10) => {
                "the peer still knows an older connection of the same numbers: try again"
            }
            (EventCode::REJECTED, 12 | 13) => {
                "the peer's GID or LID does not fit: compare both ports"
            }
            (EventCode::REJECTED, 26) => "the peer takes only a smaller path MTU",
            (EventCode::REJECTED, _) => "the peer's connection manager refused: look at its log",
            (EventCode::ADDR_ERROR, _) => {
                "the address does not answer on this network: ping it from this interface \
                 (ip route get ADDRESS), and see that both ends use one address family"
            }
            (EventCode::ROUTE_ERROR, _) => {
                "no path to that address: on InfiniBand, is a subnet manager running (sminfo)?"
            }
            (EventCode::UNREACHABLE, _) => {
                "the peer's connection manager does not answer: is its RDMA device up, and UDP \
                 port 4791 (RoCE) open?"
            }
            (EventCode::DISCONNECTED, _) => "the peer closed the connection, or is gone",
            (EventCode::DEVICE_REMOVAL, _) => "the device is being removed: open another one",
            _ => "look at the peer and at the kernel log",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REASONS: [&str; 34] = [
            "",
            "no queue pair",
            "no EE context",
            "no resources",
            "time-out",
            "unsupported request",
            "invalid communication id",
            "invalid communication instance",
            "invalid service id",
            "invalid transport type",
            "stale connection",
            "no such reliable datagram channel",
            "invalid GID",
            "invalid LID",
            "invalid service level",
            "invalid traffic class",
            "invalid hop limit",
            "invalid packet rate",
            "invalid alternate GID",
            "invalid alternate LID",
            "invalid alternate service level",
            "invalid alternate traffic class",
            "invalid alternate hop limit",
            "invalid alternate packet rate",
            "redirected with its port",
            "redirected",
            "invalid path MTU",
            "insufficient responder resources",
            "refused by the application",
            "invalid RNR retry count",
            "duplicate communication id",
            "invalid class version",
            "invalid flow label",
            "invalid alternate flow label",
        ];
        let Self { event, status } = *self;
        match usize::try_from(status) {
            Ok(0) => write!(f, "{event}"),
            Ok(reason) if event == EventCode::REJECTED => {
                let words = REASONS.get(reason).copied().unwrap_or("reason not known");
                write!(f, "{event}, reason {reason}: {words}")
            }
            Ok(answer) if event == EventCode::UNREACHABLE => {
                let words = ["", "no such service", "refused", "no queue pair", "redirected"];
                let words = words.get(answer).copied().unwrap_or("answer not known");
                write!(f, "{event}, answer {answer}: {words}")
            }
            _ => {
                let errno = io::Error::from_raw_os_error(status.wrapping_abs());
                write!(f, "{event}, status {status}: {errno}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_line_up_with_the_codes() {
        assert_eq!(EventCode::ADDR_ERROR.to_string(), "ADDR_ERROR");
        assert_eq!(EventCode::REJECTED.to_string(), "REJECTED");
        assert_eq!(EventCode::TIMEWAIT_EXIT.to_string(), "TIMEWAIT_EXIT");
        assert_eq!(EventCode(99).to_string(), "event 99");
    }

    #[test]
    fn a_rejection_is_told_by_its_reason() {
        let rejected = |status| Outcome { event: EventCode::REJECTED, status };
        assert_eq!(rejected(8).to_string(), "REJECTED, reason 8: invalid service id");
        assert!(rejected(8).nobody_listens() && rejected(8).cure().contains("start the peer"));
        // iWARP has only TCP's word for it.
        assert!(rejected(-libc::ECONNREFUSED).nobody_listens());
        assert!(rejected(28).refused_by_peer() && !rejected(28).nobody_listens());
        assert_eq!(rejected(28).to_string(), "REJECTED, reason 28: refused by the application");
        assert_eq!(rejected(33).to_string(), "REJECTED, reason 33: invalid alternate flow label");
        assert_eq!(rejected(34).to_string(), "REJECTED, reason 34: reason not known");
        assert!(rejected(26).cure().contains("path MTU"));
    }

    #[test]
    fn the_answers_to_datagrams_are_no_error_numbers() {
        let answer = |status| Outcome { event: EventCode::UNREACHABLE, status };
        assert_eq!(answer(1).to_string(), "UNREACHABLE, answer 1: no such service");
        assert!(answer(1).nobody_listens() && !answer(2).nobody_listens());
        assert!(answer(2).refused_by_peer() && answer(2).cure().contains("refused"));
        assert_eq!(answer(77).to_string(), "UNREACHABLE, answer 77: answer not known");
    }

    #[test]
    fn other_statuses_are_error_numbers_with_a_cure() {
        let outcome = Outcome { event: EventCode::ADDR_ERROR, status: -libc::ETIMEDOUT };
        assert!(outcome.to_string().contains("status -110: Connection timed out"), "{outcome}");
        assert!(outcome.cure().contains("one address family"));
        let outcome = Outcome { event: EventCode::UNREACHABLE, status: -libc::ETIMEDOUT };
        assert!(outcome.cure().contains("4791"));
        let outcome = Outcome { event: EventCode::DISCONNECTED, status: 0 };
        assert_eq!(outcome.to_string(), "DISCONNECTED");
    }
}
