//! A port of a device, opened once a run on each side.

use fabricbench_verbs::{Context, Error, GidChoice, Kind, Mtu, Port};

use super::{PairPlan, TransportError, failed, pieces::Message};
use crate::{
    plan::{Pattern, Service, TransportName, VerbsName, VerbsOperation},
    report::{Path, PathKind},
    transport::{Pieces, VerbsSettings},
};

/// An opened port with the GID that its connections use.
#[derive(Debug, Clone)]
pub struct VerbsPort {
    /// The device.
    pub context: Context,
    /// The port.
    pub port: Port,
    /// The GID and why it was chosen.
    pub gid: GidChoice,
    /// Whether the connection manager connects.
    managed: bool,
}

impl VerbsPort {
    /// Opens the device and port that `settings` name, or the first active one.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] where there is no RDMA at all, else
    /// [`TransportError::Failed`].
    pub fn open(settings: &VerbsSettings) -> Result<Self, TransportError> {
        let preferred = match (&settings.device, &settings.prefer) {
            (None, Some(name)) => fabricbench_verbs::open(Some(name), settings.port).ok(),
            _ => None,
        };
        let (context, port) = match preferred {
            Some(opened) => opened,
            None => fabricbench_verbs::open(settings.device.as_deref(), settings.port)
                .map_err(absent)?,
        };
        if port.kind == Kind::Iwarp && !settings.manager {
            return Err(TransportError::Unsupported(format!(
                "{} is iWARP, which connects by the RDMA connection manager only: iWARP needs -R",
                port.device
            )));
        }
        let gid = match settings.gid_address {
            Some(address) => context.choose_gid_by_address(port.number, address),
            None => context.choose_gid(port.number, settings.gid_index),
        };
        let gid = gid.map_err(failed)?;
        Ok(Self { context, port, gid, managed: settings.manager })
    }

    pub(super) fn is_iwarp(&self) -> bool {
        self.port.kind == Kind::Iwarp
    }

    /// Forgets events of before a slice, which was not disturbed by them.
    ///
    /// # Errors
    /// The device is being removed.
    pub fn begin(&self) -> Result<(), TransportError> {
        if let Err(error @ Error::Removed { .. }) = self.context.check() {
            return Err(failed(error));
        }
        Ok(())
    }

    /// Whether nothing befell the device while a slice was measured. A driver that cannot take a
    /// device from its users lets traffic go on after its removal: a figure would be there, of a
    /// device that is not.
    ///
    /// # Errors
    /// The device is being removed, or reported an event after which traffic cannot go on.
    pub fn end(&self) -> Result<(), TransportError> {
        self.context.check().map_err(failed)
    }

    /// How the message of a cell travels: refused where the device cannot carry it in one piece, and
    /// it is not to be split.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] with the limit.
    pub(super) fn admit(&self, plan: &PairPlan) -> Result<Message, TransportError> {
        if self.is_iwarp() {
            admit_iwarp(plan.verbs, plan.cell.pattern).map_err(TransportError::Unsupported)?;
        }
        let limit = self.limit(plan);
        if !plan.cell.pattern.is_called() {
            return cut(plan.cell.size, plan.verbs.operation, &limit, plan.settings.pieces)
                .map_err(TransportError::Unsupported);
        }
        // Requests and replies are each in one piece.
        if plan.cell.largest_message() > u64::from(limit.most) {
            let Limit { most, words } = limit;
            let reason = format!("over {words} {most} B, and calls are not split");
            return Err(TransportError::Unsupported(reason));
        }
        let size = usize::try_from(plan.outgoing()).unwrap_or(usize::MAX);
        Ok(Message::new(size, limit.most))
    }

    fn limit(&self, plan: &PairPlan) -> Limit {
        let port = format!("{} port {}", self.port.device, self.port.number);
        let message = Limit {
            most: self.port.max_message,
            words: format!("the largest message of {port}: max_msg_sz is"),
        };
        if plan.verbs.service != Service::Ud {
            return message;
        }
        let active = self.port.active_mtu.map_or(u32::MAX, Mtu::bytes);
        let datagram = Limit {
            most: active.min(plan.settings.path_mtu.unwrap_or(active)),
            words: format!("the path MTU of {port}, the most that a datagram carries:"),
        };
        if datagram.most <= message.most { datagram } else { message }
    }

    /// The port as a report shows it. `path_mtu` is what both sides agreed on, in bytes.
    #[must_use]
    pub fn path(&self, path_mtu: Option<u32>) -> Path {
        let port = &self.port;
        Path {
            kind: match port.kind {
                Kind::InfiniBand => PathKind::Infiniband,
                Kind::SoftRoce => PathKind::SoftRoce,
                Kind::Iwarp => PathKind::Iwarp,
                _ => PathKind::Roce,
            },
            device: Some(port.device.clone()),
            port: Some(port.number),
            interface: port.netdev.clone().or_else(|| self.gid.entry.netdev.clone()),
            emulated: port.emulated,
            backing: None,
            address: Some(self.gid.entry.gid.to_string()),
            mtu: path_mtu.or(port.active_mtu.map(Mtu::bytes)),
            chosen: Some(format!(
                "GID index {}: {}{}",
                self.gid.entry.index,
                self.gid.reason,
                // Neither end goes on where the kernel took another device for the address.
                if self.managed { "; connected by rdma_cm, device proven" } else { "" }
            )),
        }
    }
}

/// The most that a port carries at once.
struct Limit {
    /// In bytes.
    most: u32,
    /// What it is, with its place before the number.
    words: String,
}

/// Cuts a message of `size` bytes as asked, or tells why it cannot be carried.
fn cut(
    size: u64,
    operation: VerbsOperation,
    limit: &Limit,
    pieces: Pieces,
) -> Result<Message, String> {
    let Limit { most, words } = limit;
    let piece = match pieces {
        Pieces::Of(piece) if piece > *most => {
            return Err(format!(
                "pieces of {piece} B (--split) are over {words} {most} B; give at most that"
            ));
        }
        Pieces::Of(piece) => piece,
        Pieces::Largest | Pieces::Whole => *most,
    };
    if size > u64::from(piece) {
        if pieces == Pieces::Whole {
            return Err(format!("over {words} {most} B; --split sends it in pieces"));
        }
        if operation.is_atomic() {
            return Err(format!(
                "an atomic is one operation: {} is not split (--split)",
                operation.name()
            ));
        }
    }
    let size = usize::try_from(size).map_err(|_| format!("{size} B have no address here"))?;
    Ok(Message::new(size, piece))
}

/// iWARP is a subset of what the other kinds do (RFC 5040, section 1): it connects always, and has
/// neither immediates nor atomics. A push is confirmed by a send with an immediate.
fn admit_iwarp(verbs: VerbsName, pattern: Pattern) -> Result<(), String> {
    let has = matches!(verbs.operation, VerbsOperation::Write | VerbsOperation::Send);
    if has && verbs.service == Service::Rc && pattern == Pattern::Latency {
        return Ok(());
    }
    Err(format!(
        "{} in the pattern {pattern} on iWARP, which has no immediates, atomics, UC or UD: \
         measured there are verbs-write and verbs-send in the pattern latency",
        TransportName::Verbs(verbs)
    ))
}

/// No RDMA here is a property of the host; anything else is a failure.
fn absent(error: Error) -> TransportError {
    match error {
        Error::LibraryAbsent
        | Error::KernelSupportAbsent { .. }
        | Error::NoDevice
        | Error::NoActivePort { .. }
        | Error::NodeAbsent { .. } => TransportError::Unsupported(error.to_string()),
        other => TransportError::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_limit_is_cut_where_asked_and_else_told_how() {
        let limit = Limit { most: 4096, words: "the limit:".to_owned() };
        let cut = |size, pieces| cut(size, VerbsOperation::Send, &limit, pieces);
        for pieces in [Pieces::Whole, Pieces::Largest, Pieces::Of(4096)] {
            assert!(!cut(4096, pieces).unwrap().is_split(), "{pieces:?}");
        }
        let told = cut(4097, Pieces::Whole).unwrap_err();
        assert_eq!(told, "over the limit: 4096 B; --split sends it in pieces");
        assert_eq!(cut(4097, Pieces::Largest), Ok(Message::new(4097, 4096)));
        assert_eq!(cut(4097, Pieces::Of(1024)), Ok(Message::new(4097, 1024)));
        assert_eq!(cut(64, Pieces::Of(8)).unwrap().pieces(), 8, "also what would go whole");
        let told = cut(64, Pieces::Of(4097)).unwrap_err();
        assert!(told.contains("4097 B (--split) are over the limit: 4096 B"), "{told}");
    }

    #[test]
    fn an_atomic_is_never_cut() {
        let limit = Limit { most: 4096, words: String::new() };
        let cut = |pieces| cut(8, VerbsOperation::FetchAdd, &limit, pieces);
        assert!(cut(Pieces::Largest).is_ok() && cut(Pieces::Of(8)).is_ok());
        assert!(cut(Pieces::Of(4)).unwrap_err().contains("fetch-add is not split"));
    }

    #[test]
    fn what_iwarp_lacks_is_refused_by_name() {
        let admit =
            |service, operation, pattern| admit_iwarp(VerbsName { service, operation }, pattern);
        for operation in [VerbsOperation::Write, VerbsOperation::Send] {
            assert_eq!(admit(Service::Rc, operation, Pattern::Latency), Ok(()));
            assert!(admit(Service::Rc, operation, Pattern::Bandwidth).is_err());
            assert!(admit(Service::Uc, operation, Pattern::Latency).is_err());
        }
        let refused = admit(Service::Rc, VerbsOperation::FetchAdd, Pattern::Latency).unwrap_err();
        assert!(
            refused.starts_with("verbs-fetch-add in the pattern latency on iWARP"),
            "{refused}"
        );
    }
}
