//! Datagrams: where they go, and what comes before their bytes.
//!
//! A UD queue pair is not connected. Each send names a destination that was attached to the queue
//! pair, by [`PeerId`], as it names its memory by [`RegionId`](crate::RegionId): the queue pair
//! holds what the device needs to reach it.
//!
//! A datagram is one packet, and nobody says when it is lost: on the way, because the receiver's
//! Q_Key is another, or because no receive was posted. The sender's completion says that it left.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::connect::{ConnectOptions, Endpoint, address, no_way, path_mtu};
use crate::domain::{Domain, ProtectionDomain};
use crate::error::{Error, Result};
use crate::gid::GidChoice;
use crate::port::{Mtu, Port};
use crate::queue_pair::QueuePair;
use crate::refusal::{PostError, PostFailure};
use crate::sys;
use crate::transport::Transport;

/// Bytes of the global route header, `struct ibv_grh`. A UD receive begins with that many, which
/// hold the header where [`Completion::has_grh`](crate::Completion::has_grh) says so and are
/// undefined elsewhere; the datagram's own bytes follow. A receive must be longer by them than the
/// datagrams it is for, and [`Completion::byte_len`](crate::Completion::byte_len) counts them.
pub const GRH_BYTES: usize = 40;

struct Handle {
    raw: NonNull<sys::ibv_ah>,
    domain: Arc<Domain>,
    path_mtu: Mtu,
}

// SAFETY: libibverbs objects may be used from any thread at once.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; queue pairs that send with it held it.
        unsafe { sys::ibv_destroy_ah(self.raw.as_ptr()) };
    }
}

/// The way to a port of another host, for datagrams to any of its queue pairs. Clones are handles
/// to the same one; queue pairs hold those attached to them.
#[derive(Clone)]
pub struct AddressHandle(Arc<Handle>);

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressHandle").field("path_mtu", &self.0.path_mtu).finish_non_exhaustive()
    }
}

impl AddressHandle {
    /// Bytes of a datagram at most: the smaller of both ends' MTUs.
    #[must_use]
    pub fn path_mtu(&self) -> Mtu {
        self.0.path_mtu
    }
}

impl ProtectionDomain {
    /// Creates the way from `port`, with the GID chosen for it, to the port that `remote` is on.
    /// Service level, traffic class and the largest MTU come from `options`. On RoCE the kernel
    /// looks up the peer's hardware address here, which can take seconds when nobody answers.
    ///
    /// # Errors
    ///
    /// [`Error::Call`], which names both GIDs; [`Error::Unsupported`] for options out of range;
    /// [`Error::Foreign`] and [`Error::PortNotFound`] for a port that this domain's device has not.
    pub fn create_address_handle(
        &self,
        port: &Port,
        gid: &GidChoice,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<AddressHandle> {
        options.check(&port.device)?;
        let device = self.0.context();
        own_port(port, device.name(), device.limits().ports)?;
        let mut address = address(port, gid, remote, options)?;
        // SAFETY: the domain is alive, and `address` is a complete description with a port that
        // the device has.
        let raw = unsafe { sys::ibv_create_ah(self.0.as_ptr(), &raw mut address) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let errno = io::Error::last_os_error();
            let cure = no_way(gid, remote, &errno);
            self.0.context().call_failed("ibv_create_ah", errno, &cure)
        })?;
        let local = port.active_mtu.unwrap_or(Mtu::B1024).bytes();
        let path_mtu = path_mtu(local, remote.path_mtu, options.path_mtu);
        Ok(AddressHandle(Arc::new(Handle { raw, domain: Arc::clone(&self.0), path_mtu })))
    }
}

/// Refuses a port that is not one of `device`'s, numbered from 1 to `ports`. Some providers make
/// the handle without the kernel, and look the port up in tables of that length.
fn own_port(port: &Port, device: &str, ports: u8) -> Result<()> {
    if port.device != device {
        return Err(Error::Foreign { what: "the port", parent: "device" });
    }
    if port.number == 0 || port.number > ports {
        let (device, port) = (device.to_owned(), port.number);
        return Err(Error::PortNotFound { device, port, ports });
    }
    Ok(())
}

/// A destination as a queue pair knows it, from [`QueuePair::attach_peer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerId {
    /// Which queue pair; unique in the process.
    owner: u64,
    /// From 1, so that no peer costs a request no space.
    number: NonZeroU32,
}

/// What a request to a peer carries.
pub(crate) struct Destination {
    handle: NonNull<sys::ibv_ah>,
    qpn: u32,
    qkey: u32,
    most: u32,
}

impl QueuePair {
    /// Lets datagrams of this queue pair go to queue pair `qpn` on the port that `handle` leads
    /// to, with the Q_Key it expects. The handle from now on lives at least as long as this queue
    /// pair.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] for a handle of another protection domain, [`Error::Unsupported`] when
    /// this queue pair is no UD one.
    pub fn attach_peer(&mut self, handle: &AddressHandle, qpn: u32, qkey: u32) -> Result<PeerId> {
        if self.transport() != Transport::UnreliableDatagram {
            return Err(Error::Unsupported {
                device: self.opened().name().to_owned(),
                what: format!("peers of a {} queue pair (UD has them)", self.transport()),
            });
        }
        if !Arc::ptr_eq(&handle.0.domain, &self.protection_domain().0) {
            return Err(Error::Foreign { what: "the address handle", parent: "protection domain" });
        }
        let before = u32::try_from(self.destinations().len())
            .map_err(|_| PostError::unposted(PostFailure::UnknownPeer))?;
        self.hold(
            handle,
            Destination { handle: handle.0.raw, qpn, qkey, most: handle.0.path_mtu.bytes() },
        );
        let number = NonZeroU32::MIN.saturating_add(before);
        Ok(PeerId { owner: self.attachments().tag(), number })
    }

    /// The address part of a datagram of `length` bytes.
    #[inline]
    pub(crate) fn destination(
        &self,
        peer: Option<PeerId>,
        length: u32,
    ) -> Result<sys::wr_t, PostError> {
        let Some(PeerId { owner, number }) = peer else {
            return Err(PostError::unposted(PostFailure::MissingPeer));
        };
        let index = number.get() as usize - 1;
        let known = (owner == self.attachments().tag()).then(|| self.destinations().get(index));
        let Some(&Destination { handle, qpn, qkey, most }) = known.flatten() else {
            return Err(PostError::unposted(PostFailure::UnknownPeer));
        };
        // A device drops it, and some complete it as if it were sent.
        if length > most {
            return Err(PostError::unposted(PostFailure::DatagramTooLong { length, max: most }));
        }
        Ok(sys::wr_t { ud: sys::ud_t { ah: handle.as_ptr(), remote_qpn: qpn, remote_qkey: qkey } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Kind, LinkLayer, PortState};

    #[test]
    fn a_handle_is_for_a_port_that_the_device_has() {
        let mut port = Port {
            device: "dev0".into(),
            number: 2,
            kind: Kind::Other,
            emulated: false,
            link_layer: LinkLayer::ETHERNET,
            state: PortState::ACTIVE,
            active_mtu: None,
            max_mtu: None,
            max_message: 1 << 30,
            lid: 0,
            gid_slots: 8,
            gigabits: None,
            netdev: None,
        };
        own_port(&port, "dev0", 2).unwrap();
        assert!(matches!(own_port(&port, "dev1", 2), Err(Error::Foreign { .. })));
        // The fields are the caller's to change.
        for number in [0, 3, u8::MAX] {
            port.number = number;
            let error = own_port(&port, "dev0", 2).unwrap_err();
            assert!(matches!(error, Error::PortNotFound { ports: 2, .. }), "{error}");
        }
    }

    #[test]
    fn the_header_has_the_size_of_the_c_structure() {
        assert_eq!(size_of::<sys::ibv_grh>(), GRH_BYTES);
    }

    #[test]
    fn no_peer_costs_a_request_no_space() {
        assert_eq!(size_of::<Option<PeerId>>(), size_of::<PeerId>());
    }
}
