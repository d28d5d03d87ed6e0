//! A port of a device, opened once a run on each side.

use fabricbench_verbs::{Context, Error, GidChoice, Kind, Mtu, Port};

use super::{PairPlan, TransportError, failed};
use crate::{
    plan::{Pattern, Service, TransportName, VerbsName, VerbsOperation},
    report::{Path, PathKind},
    transport::VerbsSettings,
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

    /// Refuses a cell whose message the device cannot carry in one piece.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] with the limit.
    pub fn admit(&self, plan: &PairPlan) -> Result<u32, TransportError> {
        let size = plan.cell.size;
        if self.is_iwarp() {
            admit_iwarp(plan.verbs, plan.cell.pattern).map_err(TransportError::Unsupported)?;
        }
        if plan.verbs.service == Service::Ud {
            let active = self.port.active_mtu.map_or(u32::MAX, Mtu::bytes);
            let most = active.min(plan.settings.path_mtu.unwrap_or(active));
            if size > u64::from(most) {
                return Err(TransportError::Unsupported(format!(
                    "over the path MTU of {} port {}, the most that a datagram carries: {most} B",
                    self.port.device, self.port.number
                )));
            }
        }
        let most = self.port.max_message;
        u32::try_from(size).ok().filter(|&size| size <= most).ok_or_else(|| {
            TransportError::Unsupported(format!(
                "over the largest message of {} port {}: max_msg_sz is {most} B",
                self.port.device, self.port.number
            ))
        })
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
