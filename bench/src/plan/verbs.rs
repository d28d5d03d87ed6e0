//! What the verbs transports can carry: operations, their names and patterns. Which service has which
//! operation is told by the table of the verbs crate.

use std::fmt;

use fabricbench_verbs::{OperationKind, Transport};
use serde::{Deserialize, Serialize};

use super::Pattern;

/// The transport service of a queue pair (`-c` of perftest).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Reliable connection: what is lost on the way is sent again.
    #[default]
    Rc,
    /// Unreliable connection: what is lost on the way stays lost.
    Uc,
    /// Unreliable datagram: the same, a message is one packet, and no connection is made.
    Ud,
}

impl Service {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rc, Self::Uc, Self::Ud];

    /// Whether a message may be lost without an error.
    #[must_use]
    pub fn is_lossy(self) -> bool {
        self != Self::Rc
    }

    /// As the verbs crate names it.
    #[must_use]
    pub fn transport(self) -> Transport {
        match self {
            Self::Rc => Transport::ReliableConnection,
            Self::Uc => Transport::UnreliableConnection,
            Self::Ud => Transport::UnreliableDatagram,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Uc => "uc",
            Self::Ud => "ud",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
        })
    }
}

/// A verbs operation that can carry a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerbsOperation {
    /// RDMA write into memory that the receiver polls.
    Write,
    /// RDMA write with an immediate, which completes one of the receiver's posted receives.
    WriteImm,
    /// Send into a posted receive.
    Send,
    /// The same with an immediate.
    SendImm,
    /// RDMA read of the far side's memory.
    Read,
    /// Atomic fetch-and-add on 8 bytes of the far side's memory.
    FetchAdd,
    /// Atomic compare-and-swap on the same.
    CompareSwap,
}

/// Bytes that an atomic works on.
pub const ATOMIC_BYTES: u64 = 8;

use Pattern::{Bandwidth, Bidirectional, Calls, Fetch, Latency, Ps, Rate};
use VerbsOperation as Op;

const PUSHED: &[Pattern] = &[Latency, Bandwidth, Bidirectional, Rate, Calls, Ps];

/// Those of a service that loses messages: a call whose request or reply is lost has no end.
const PUSHED_AND_LOST: &[Pattern] = &[Latency, Bandwidth, Bidirectional, Rate];

type Row = (Op, &'static str, OperationKind, &'static [Pattern]);

/// Operation, its name, as the verbs crate names it, and the patterns that it can be measured in.
const TABLE: [Row; 7] = [
    (Op::Write, "write", OperationKind::Write, PUSHED),
    (Op::WriteImm, "write-imm", OperationKind::WriteImm, PUSHED),
    (Op::Send, "send", OperationKind::Send, PUSHED),
    (Op::SendImm, "send-imm", OperationKind::SendImm, PUSHED),
    (Op::Read, "read", OperationKind::Read, &[Latency, Fetch, Rate]),
    (Op::FetchAdd, "fetch-add", OperationKind::FetchAdd, &[Latency, Rate]),
    (Op::CompareSwap, "compare-swap", OperationKind::CompareSwap, &[Latency, Rate]),
];

impl VerbsOperation {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Write,
        Self::WriteImm,
        Self::Send,
        Self::SendImm,
        Self::Read,
        Self::FetchAdd,
        Self::CompareSwap,
    ];

    fn row(self) -> &'static Row {
        // Every operation has its row: a test holds that.
        let [first, ..] = &TABLE;
        TABLE.iter().find(|row| row.0 == self).unwrap_or(first)
    }

    /// Its name within a transport's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether `service` has it.
    #[must_use]
    pub fn is_of(self, service: Service) -> bool {
        service.transport().supports(self.row().2)
    }

    /// The patterns it can be measured in, over `service`.
    #[must_use]
    pub fn patterns(self, service: Service) -> &'static [Pattern] {
        match self.row().3 {
            PUSHED if service.is_lossy() => PUSHED_AND_LOST,
            patterns => patterns,
        }
    }

    /// Whether the far side's processor takes no part: the initiator alone moves the data.
    #[must_use]
    pub fn is_one_sided(self) -> bool {
        matches!(self, Self::Read | Self::FetchAdd | Self::CompareSwap)
    }

    /// Whether it is an atomic, whose size is fixed.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    /// Whether it writes to the far side's memory.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm)
    }

    /// Whether it completes a receive at the far side.
    #[must_use]
    pub fn takes_receive(self) -> bool {
        matches!(self, Self::Send | Self::SendImm | Self::WriteImm)
    }
}

/// A service with one of its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerbsName {
    /// The service.
    pub service: Service,
    /// The operation.
    pub operation: VerbsOperation,
}

impl VerbsName {
    /// Every pair that verbs define, in the table's order.
    pub fn all() -> impl Iterator<Item = Self> {
        Service::ALL.into_iter().flat_map(|service| {
            VerbsOperation::ALL
                .into_iter()
                .filter(move |operation| operation.is_of(service))
                .map(move |operation| Self { service, operation })
        })
    }

    /// Reads what follows `verbs-`: `write`, `uc-send`, `atomic`; in `default` if no service is
    /// named.
    ///
    /// # Errors
    /// `None`: no operation has that name. `Some`: the service lacks it, in words.
    pub(super) fn parse(text: &str, default: Service) -> Result<Self, Option<String>> {
        let named = Service::ALL.into_iter().find_map(|service| {
            let rest = text.strip_prefix(service.word())?.strip_prefix('-')?;
            Some((service, rest))
        });
        let (service, name) = named.unwrap_or((default, text));
        let name = if name == "atomic" { Op::FetchAdd.name() } else { name };
        let operation =
            VerbsOperation::ALL.into_iter().find(|known| known.name() == name).ok_or(None)?;
        if operation.is_of(service) {
            return Ok(Self { service, operation });
        }
        let has: Vec<_> = VerbsOperation::ALL
            .into_iter()
            .filter(|known| known.is_of(service))
            .map(VerbsOperation::name)
            .collect();
        Err(Some(format!("{service} has no {name}; it has {}", has.join(", "))))
    }
}

impl fmt::Display for VerbsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service {
            Service::Rc => write!(f, "verbs-{}", self.operation.name()),
            service => write!(f, "verbs-{}-{}", service.word(), self.operation.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_row_and_a_name_of_its_own() {
        for operation in VerbsOperation::ALL {
            assert_eq!(operation.row().0, operation);
        }
        let all: Vec<_> = VerbsName::all().map(|name| name.to_string()).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (13, 13), "7 of RC, 4 of UC, 2 of UD: {all:?}");
    }

    #[test]
    fn what_a_service_lacks_is_refused_by_name() {
        let refused = VerbsName::parse("ud-write", Service::Rc).unwrap_err().unwrap();
        assert_eq!(refused, "UD has no write; it has send, send-imm");
        assert!(
            VerbsName::parse("uc-atomic", Service::Rc)
                .unwrap_err()
                .unwrap()
                .contains("no fetch-add")
        );
        assert!(VerbsName::parse("read", Service::Uc).is_err(), "the default service counts");
        assert_eq!(VerbsName::parse("teleport", Service::Rc), Err(None));
    }
}
