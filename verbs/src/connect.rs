//! Connecting: what the two sides exchange, and how a queue pair gets ready to send.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::error::{Error, Result};
use crate::gid::{Gid, GidChoice};
use crate::memory::Access;
use crate::port::{Kind, Mtu, Port};
use crate::queue_pair::QueuePair;
use crate::state::State;
use crate::sys::{self, Zeroed};
use crate::transport::Transport;

/// Hops a RoCE v2 packet may take: the default IP time to live of Linux.
const HOP_LIMIT: u8 = 64;

/// The Q_Key that perftest and rdma-core's examples use. Any other will do.
pub const DEFAULT_QKEY: u32 = 0x1111_1111;

/// One end of a connection, or a receiver of datagrams, as the other end needs to know it: plain
/// data to exchange by any other channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Queue pair number, 24 bits.
    pub qpn: u32,
    /// Packet sequence number this end starts to send with, 24 bits.
    pub psn: u32,
    /// Local identifier of the port; 0 on Ethernet.
    pub lid: u16,
    /// The GID this end uses.
    pub gid: Gid,
    /// Active MTU of the port in bytes.
    pub path_mtu: u32,
    /// RDMA reads and atomics this end can serve at once.
    pub responder_resources: u8,
}

/// What is chosen for a connection. The defaults are perftest's where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// What the peer may do in the regions that allow it.
    pub access: Access,
    /// Index in the port's table of partition keys.
    pub pkey_index: u16,
    /// Largest path MTU to use; the smaller of both ports' active MTUs is the limit anyway.
    pub path_mtu: Option<Mtu>,
    /// The key of datagrams (Q_Key): this end takes those that carry it. Its highest bit is for
    /// privileged users and not to be set. UD only.
    pub qkey: u32,
    /// How long the peer shall wait after "receiver not ready": the 5-bit code of the
    /// specification, 12 is 0.64 ms. This and the next three: RC only.
    pub min_rnr_timer: u8,
    /// How long to wait for an acknowledgement: 4.096 us times 2 to the power of it.
    pub timeout: u8,
    /// Retransmissions before the request fails, at most 7.
    pub retry: u8,
    /// Retries after "receiver not ready", 7 means without end.
    pub rnr_retry: u8,
    /// Service level, 0 to 15; on RoCE the Ethernet priority.
    pub service_level: u8,
    /// Traffic class of the global route header; on RoCE v2 the IP type of service.
    pub traffic_class: u8,
}

impl ConnectOptions {
    /// Checks the fields that have fewer bits than their type: a driver would mask them to another
    /// value, or shift by them.
    pub(crate) fn check(&self, device: &str) -> Result<()> {
        let fields = [
            ("timeout", self.timeout.into(), 31),
            ("RNR timer", self.min_rnr_timer.into(), 31),
            ("retry", self.retry.into(), 7),
            ("RNR retry", self.rnr_retry.into(), 7),
            ("service level", self.service_level.into(), 15),
            ("Q_Key", self.qkey, i32::MAX.cast_unsigned()),
        ];
        match fields.into_iter().find(|&(_, value, most)| value > most) {
            None => Ok(()),
            Some((name, value, most)) => Err(Error::Unsupported {
                device: device.to_owned(),
                what: format!("{name} {value} (at most {most})"),
            }),
        }
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
            pkey_index: 0,
            path_mtu: None,
            qkey: DEFAULT_QKEY,
            min_rnr_timer: 12,
            timeout: 14,
            retry: 7,
            rnr_retry: 7,
            service_level: 0,
            traffic_class: 0,
        }
    }
}

/// A packet sequence number to start with, different each time, so that packets of an earlier
/// connection with the same numbers do not fit.
#[must_use]
pub fn random_psn() -> u32 {
    (RandomState::new().build_hasher().finish() & 0x00ff_ffff) as u32
}

impl QueuePair {
    /// This queue pair as the peer needs to know it, on `port` with the GID chosen for it.
    #[must_use]
    pub fn endpoint(&self, port: &Port, gid: &GidChoice, psn: u32) -> Endpoint {
        Endpoint {
            qpn: self.number(),
            psn: psn & 0x00ff_ffff,
            lid: port.lid,
            gid: gid.entry.gid,
            path_mtu: port.active_mtu.unwrap_or(Mtu::B1024).bytes(),
            responder_resources: self.opened().limits().responder_resources,
        }
    }

    /// Takes an RC or UC queue pair from new to ready to send, towards `remote`. Receives may be
    /// posted before, after [`QueuePair::to_init`].
    ///
    /// # Errors
    ///
    /// What the three steps give.
    pub fn connect(
        &self,
        port: &Port,
        gid: &GidChoice,
        local: &Endpoint,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<()> {
        if self.state()? == State::RESET {
            self.to_init(port, options)?;
        }
        self.to_ready_to_receive(port, gid, local, remote, options)?;
        self.to_ready_to_send(local, remote, options)
    }

    /// Takes a UD queue pair from new to ready to send, with packets numbered from `psn` on.
    /// Receives may be posted before, after [`QueuePair::to_init`]; destinations are attached
    /// ([`QueuePair::attach_peer`]), before or after.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for other transports, which have a peer; what
    /// [`QueuePair::to_init`] gives; [`Error::Call`].
    pub fn activate(&self, port: &Port, psn: u32, options: &ConnectOptions) -> Result<()> {
        if self.transport().is_connected() {
            return Err(self.unsupported(port, "without a peer; connect it"));
        }
        if self.state()? == State::RESET {
            self.to_init(port, options)?;
        }
        let mut attr = sys::ibv_qp_attr::zeroed();
        attr.qp_state = State::RTR.0;
        self.advance(&mut attr, |_| "is it in INIT?".into())?;
        attr.qp_state = State::RTS.0;
        attr.sq_psn = psn & 0x00ff_ffff;
        self.advance(&mut attr, |_| "is it in RTR?".into())
    }

    fn unsupported(&self, port: &Port, how: &str) -> Error {
        Error::Unsupported {
            device: port.device.clone(),
            what: format!("making a {} queue pair ready {how}", self.transport()),
        }
    }

    /// RESET to INIT: from now on receives can be posted.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] on iWARP, which connects through the RDMA connection manager
    /// only; [`Error::Call`].
    pub fn to_init(&self, port: &Port, options: &ConnectOptions) -> Result<()> {
        options.check(&port.device)?;
        if port.kind == Kind::Iwarp {
            return Err(Error::Unsupported {
                device: port.device.clone(),
                what: "connecting without the RDMA connection manager (iWARP needs it)".into(),
            });
        }
        let mut attr = sys::ibv_qp_attr::zeroed();
        attr.qp_state = State::INIT.0;
        attr.pkey_index = options.pkey_index;
        attr.port_num = port.number;
        attr.qkey = options.qkey;
        attr.qp_access_flags = match self.transport() {
            // There is nothing else that a peer could do.
            Transport::UnreliableConnection => options.access.bits() & Access::REMOTE_WRITE.bits(),
            _ => options.access.bits(),
        };
        self.advance(&mut attr, |_| "check port and partition key index".into())
    }

    /// INIT to RTR: the queue pair knows its peer and answers it. On RoCE the kernel looks up
    /// the peer's hardware address here, which can take seconds when nobody answers.
    ///
    /// # Errors
    ///
    /// [`Error::Call`], which names both GIDs; [`Error::Unsupported`] for UD, which knows no peer.
    pub fn to_ready_to_receive(
        &self,
        port: &Port,
        gid: &GidChoice,
        local: &Endpoint,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<()> {
        if !self.transport().is_connected() {
            return Err(self.unsupported(port, "towards one peer; activate it, then attach_peer"));
        }
        let mut attr = sys::ibv_qp_attr::zeroed();
        attr.qp_state = State::RTR.0;
        attr.path_mtu = path_mtu(local.path_mtu, remote.path_mtu, options.path_mtu).code();
        attr.dest_qp_num = remote.qpn;
        attr.rq_psn = remote.psn;
        attr.max_dest_rd_atomic = local.responder_resources;
        attr.min_rnr_timer = options.min_rnr_timer;
        attr.ah_attr = address(port, gid, remote, options)?;
        self.advance(&mut attr, |errno| no_way(gid, remote, errno))
    }

    /// RTR to RTS: the queue pair sends.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn to_ready_to_send(
        &self,
        local: &Endpoint,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<()> {
        let mut attr = sys::ibv_qp_attr::zeroed();
        attr.qp_state = State::RTS.0;
        attr.sq_psn = local.psn;
        attr.timeout = options.timeout;
        attr.retry_cnt = options.retry;
        attr.rnr_retry = options.rnr_retry;
        attr.max_rd_atomic = self.opened().limits().initiator_depth.min(remote.responder_resources);
        self.advance(&mut attr, |_| "check timeout (0 to 31) and retries (0 to 7)".into())
    }
}

/// Where to send packets for `remote`.
pub(crate) fn address(
    port: &Port,
    gid: &GidChoice,
    remote: &Endpoint,
    options: &ConnectOptions,
) -> Result<sys::ibv_ah_attr> {
    let mut address = sys::ibv_ah_attr::zeroed();
    address.dlid = remote.lid;
    address.sl = options.service_level;
    address.port_num = port.number;
    // Within an InfiniBand subnet the LID suffices and a global route header only costs;
    // Ethernet knows nothing but GIDs.
    if port.is_ethernet() || gid.explicit || remote.lid == 0 {
        let index = gid.entry.index;
        address.is_global = 1;
        address.grh = sys::ibv_global_route {
            dgid: sys::ibv_gid { raw: remote.gid.0 },
            flow_label: 0,
            sgid_index: u8::try_from(index).map_err(|_| Error::Unsupported {
                device: port.device.clone(),
                what: format!("GID index {index} in a route (at most 255)"),
            })?,
            hop_limit: HOP_LIMIT,
            traffic_class: options.traffic_class,
        };
    }
    Ok(address)
}

/// What to do when the kernel finds no way to `remote`.
pub(crate) fn no_way(gid: &GidChoice, remote: &Endpoint, errno: &std::io::Error) -> String {
    let (own, peer) = (&gid.entry, remote.gid);
    let cure = match errno.raw_os_error() {
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) => {
            "the peer's address does not answer: ping it, and compare GID indexes"
        }
        _ => "check that both GIDs are of one type and network",
    };
    format!("from GID {own} to {peer}: {cure}")
}

/// The largest MTU that both ends and the caller allow; 1024 if an end gives an odd one.
pub(crate) fn path_mtu(local: u32, remote: u32, wanted: Option<Mtu>) -> Mtu {
    let both = local.min(remote);
    let both = Mtu::from_bytes(both).unwrap_or(Mtu::B1024);
    wanted.map_or(both, |wanted| wanted.min(both))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_wider_than_their_bits_are_refused() {
        ConnectOptions::default().check("dev0").unwrap();
        let error = ConnectOptions { timeout: 64, ..Default::default() }.check("dev0").unwrap_err();
        assert!(error.to_string().contains("timeout 64 (at most 31)"), "{error}");
        let error = ConnectOptions { qkey: 1 << 31, ..Default::default() }.check("dev0");
        assert!(error.unwrap_err().to_string().contains("Q_Key 2147483648"));
        assert!(ConnectOptions { retry: 8, ..Default::default() }.check("dev0").is_err());
    }

    #[test]
    fn the_path_mtu_is_the_smallest_of_both_ends_and_the_wish() {
        assert_eq!(path_mtu(4096, 1024, None).bytes(), 1024);
        assert_eq!(path_mtu(2048, 4096, Some(Mtu::B4096)).bytes(), 2048);
        assert_eq!(path_mtu(4096, 4096, Some(Mtu::B1024)).bytes(), 1024);
        assert_eq!(path_mtu(4096, 777, None).bytes(), 1024);
    }

    #[test]
    fn sequence_numbers_have_24_bits_and_differ() {
        let drawn: std::collections::HashSet<u32> = (0..64).map(|_| random_psn()).collect();
        assert!(drawn.iter().all(|&psn| psn < 1 << 24));
        assert!(drawn.len() > 60, "{drawn:?}");
    }
}
