//! Transport services, and which operation goes with which: the one table of it.

use std::fmt;

use crate::sys::ibv_qp_type as qp_type;

/// The transport service of a queue pair, `enum ibv_qp_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// Reliable connection (`IBV_QPT_RC`): every message arrives once and in order, or the
    /// connection fails.
    ReliableConnection,
    /// Unreliable connection (`IBV_QPT_UC`): a message that is lost, or finds no receive, is gone
    /// without a word to the sender, whose completion only says that it was sent.
    UnreliableConnection,
    /// Unreliable datagram (`IBV_QPT_UD`): to any queue pair, one packet each, lost like those of
    /// an unreliable connection.
    UnreliableDatagram,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 3] =
        [Self::ReliableConnection, Self::UnreliableConnection, Self::UnreliableDatagram];

    /// `RC`, `UC` or `UD`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReliableConnection => "RC",
            Self::UnreliableConnection => "UC",
            Self::UnreliableDatagram => "UD",
        }
    }

    /// Whether a queue pair of this transport can be asked for `operation` (InfiniBand
    /// specification, table "Operations supported by QP type"). That a device takes it is another
    /// matter: atomics are optional even on RC.
    #[inline]
    #[must_use]
    pub const fn supports(self, operation: OperationKind) -> bool {
        use OperationKind::{CompareSwap, FetchAdd, Read, Send, SendImm, Write, WriteImm};
        match (self, operation) {
            (Self::ReliableConnection, _)
            | (Self::UnreliableConnection, Send | SendImm | Write | WriteImm)
            | (Self::UnreliableDatagram, Send | SendImm) => true,
            (Self::UnreliableConnection, Read | CompareSwap | FetchAdd)
            | (Self::UnreliableDatagram, Write | WriteImm | Read | CompareSwap | FetchAdd) => false,
        }
    }

    /// Whether a queue pair has one peer, which it is connected to.
    #[inline]
    #[must_use]
    pub const fn is_connected(self) -> bool {
        !matches!(self, Self::UnreliableDatagram)
    }

    /// Whether what was sent arrives or fails: else a message can get lost without an error.
    #[inline]
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::ReliableConnection)
    }

    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::ReliableConnection => qp_type::IBV_QPT_RC,
            Self::UnreliableConnection => qp_type::IBV_QPT_UC,
            Self::UnreliableDatagram => qp_type::IBV_QPT_UD,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a send request does, without where and with what: [`Operation`](crate::Operation) has
/// that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// A message into the next receive the peer posted.
    Send,
    /// The same, with a value for the peer's completion.
    SendImm,
    /// Bytes written to the peer's memory.
    Write,
    /// The same, and a completion of the peer's with a value.
    WriteImm,
    /// Bytes read from the peer's memory.
    Read,
    /// An atomic compare and swap of a word of the peer's.
    CompareSwap,
    /// An atomic addition to a word of the peer's.
    FetchAdd,
}

impl OperationKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Send,
        Self::SendImm,
        Self::Write,
        Self::WriteImm,
        Self::Read,
        Self::CompareSwap,
        Self::FetchAdd,
    ];

    /// The name, as in `write with immediate`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::SendImm => "send with immediate",
            Self::Write => "write",
            Self::WriteImm => "write with immediate",
            Self::Read => "read",
            Self::CompareSwap => "compare and swap",
            Self::FetchAdd => "fetch and add",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supported(transport: Transport) -> Vec<&'static str> {
        let all = OperationKind::ALL.into_iter();
        all.filter(|&kind| transport.supports(kind)).map(OperationKind::as_str).collect()
    }

    #[test]
    fn each_transport_has_its_operations_and_no_other() {
        assert_eq!(supported(Transport::ReliableConnection).len(), OperationKind::ALL.len());
        assert_eq!(
            supported(Transport::UnreliableConnection),
            ["send", "send with immediate", "write", "write with immediate"]
        );
        assert_eq!(supported(Transport::UnreliableDatagram), ["send", "send with immediate"]);
    }

    #[test]
    fn names_are_those_of_the_field() {
        assert_eq!(Transport::ALL.map(|transport| transport.to_string()), ["RC", "UC", "UD"]);
        // The codes of the header, which rxe's kernel driver is given as they are.
        assert_eq!(Transport::ALL.map(Transport::code), [2, 3, 4]);
    }
}
