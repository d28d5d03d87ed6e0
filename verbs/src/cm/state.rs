//! The states of a queue pair that is connected by the connection manager: which values come from
//! it and which from the options.
#![allow(unsafe_code)]

use crate::cm::error::CmError;
use crate::cm::id::{Id, Service, call_failed};
use crate::connect::ConnectOptions;
use crate::error::{Error, Result};
use crate::queue_pair::QueuePair;
use crate::state::State;
use crate::sys::{self, Zeroed, ibv_qp_attr_mask as mask, ibv_qp_state as state};
use crate::transport::Transport;

/// The fields this crate knows, `IBV_QP_STATE` to `IBV_QP_DEST_QPN`. Kernels have given more to
/// the connection manager's users (bits for RoCE addresses), which `ibv_modify_qp` does not take.
const KNOWN_FIELDS: u32 = (1 << 21) - 1;

/// How many RDMA reads and atomics each end has in flight at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depths {
    /// That this end serves at once.
    pub(crate) responder: u8,
    /// That this end starts at once.
    pub(crate) initiator: u8,
}

/// Takes `queue_pair` to INIT, unless it is there already.
pub(crate) fn to_init(id: &Id, queue_pair: &QueuePair, options: &ConnectOptions) -> Result<()> {
    if queue_pair.state()? == State::RESET {
        modify(id, queue_pair, state::IBV_QPS_INIT, |attr, _| {
            attr.qp_access_flags = options.access.bits();
        })?;
    }
    Ok(())
}

/// Takes `queue_pair` from INIT to RTS, towards the peer `id` knows.
pub(crate) fn to_ready(
    id: &Id,
    queue_pair: &QueuePair,
    options: &ConnectOptions,
    depths: Depths,
) -> Result<()> {
    modify(id, queue_pair, state::IBV_QPS_RTR, |attr, fields| {
        attr.min_rnr_timer = options.min_rnr_timer;
        attr.max_dest_rd_atomic = depths.responder;
        if let Some(wanted) = options.path_mtu {
            attr.path_mtu = attr.path_mtu.min(wanted.code());
        }
        // The route may ask for a level of its own: only a wish that is one overrides it.
        if fields & mask::IBV_QP_AV.0 != 0 {
            if options.service_level != 0 {
                attr.ah_attr.sl = options.service_level;
            }
            if options.traffic_class != 0 {
                attr.ah_attr.grh.traffic_class = options.traffic_class;
            }
        }
    })?;
    modify(id, queue_pair, state::IBV_QPS_RTS, |attr, _| {
        attr.timeout = options.timeout;
        attr.retry_cnt = options.retry;
        attr.rnr_retry = options.rnr_retry;
        attr.max_rd_atomic = depths.initiator;
    })
}

/// Asks for the values of a state, lets `choose` change them (it is told which fields count), and
/// sets them. A field that the connection manager did not ask for is not set: on iWARP, say, most
/// are its own business.
fn modify(
    id: &Id,
    queue_pair: &QueuePair,
    to: u32,
    choose: impl FnOnce(&mut sys::ibv_qp_attr, u32),
) -> Result<()> {
    let mut attr = sys::ibv_qp_attr::zeroed();
    attr.qp_state = to;
    let mut fields = 0;
    // SAFETY: the identifier is alive and both places are valid.
    let code = unsafe { sys::rdma_init_qp_attr(id.as_ptr(), &raw mut attr, &raw mut fields) };
    if code != 0 {
        return Err(call_failed("rdma_init_qp_attr", &id.subject()).into());
    }
    let fields = fields.cast_unsigned() & KNOWN_FIELDS;
    choose(&mut attr, fields);
    queue_pair.modify(&mut attr, mask(fields), |_| {
        format!("{}: is the queue pair new, and does the peer answer pings?", id.subject())
    })
}

/// Refuses options that fit no queue pair, and a queue pair of another transport or another device
/// than the one the identifier is bound to.
pub(crate) fn suits(id: &Id, queue_pair: &QueuePair, options: &ConnectOptions) -> Result<()> {
    let context = queue_pair.context();
    options.check(context.name())?;
    let wanted = match id.service() {
        Service::Connection => Transport::ReliableConnection,
        Service::Datagram => Transport::UnreliableDatagram,
    };
    if queue_pair.transport() != wanted {
        return Err(Error::Unsupported {
            device: context.name().to_owned(),
            what: format!(
                "a {} queue pair where the connection manager was asked for {wanted}; it does RC \
                 and UD, endpoints can be exchanged for all",
                queue_pair.transport()
            ),
        });
    }
    let (wanted, found) = (context.name().to_owned(), id.device());
    match (found, id.local()) {
        (Some(found), _) if found == wanted => Ok(()),
        (found, Some(address)) => {
            let found = found.unwrap_or_else(|| "none".to_owned());
            Err(CmError::OtherDevice { address, wanted, found }.into())
        }
        (_, None) => Err(Error::Foreign { what: "the queue pair", parent: "device" }),
    }
}
