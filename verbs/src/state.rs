//! The states of a queue pair, and which attributes take it from one to the next.
#![allow(unsafe_code)]

use std::fmt;
use std::io;

use crate::error::{Error, Result, errno_of};
use crate::queue_pair::QueuePair;
use crate::sys::{self, Zeroed, ibv_qp_attr_mask as mask, ibv_qp_state as state};
use crate::transport::Transport;

/// `enum ibv_qp_state` as an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State(pub u32);

impl State {
    /// Just created.
    pub const RESET: Self = Self(state::IBV_QPS_RESET);
    /// Receives can be posted.
    pub const INIT: Self = Self(state::IBV_QPS_INIT);
    /// Ready to receive.
    pub const RTR: Self = Self(state::IBV_QPS_RTR);
    /// Ready to send.
    pub const RTS: Self = Self(state::IBV_QPS_RTS);
    /// Everything posted is flushed.
    pub const ERROR: Self = Self(state::IBV_QPS_ERR);
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "state {}", self.0),
        }
    }
}

/// The attributes that a change to `to` must set, beside the state itself: InfiniBand
/// specification, table "QP state transition properties". Drivers refuse one too many as they do
/// one too few.
const fn attributes(transport: Transport, to: State) -> mask {
    use Transport::{ReliableConnection, UnreliableConnection, UnreliableDatagram};
    const INIT: u32 = mask::IBV_QP_PKEY_INDEX.0 | mask::IBV_QP_PORT.0;
    const PATH: u32 = mask::IBV_QP_AV.0
        | mask::IBV_QP_PATH_MTU.0
        | mask::IBV_QP_DEST_QPN.0
        | mask::IBV_QP_RQ_PSN.0;
    const PATIENCE: u32 =
        mask::IBV_QP_TIMEOUT.0 | mask::IBV_QP_RETRY_CNT.0 | mask::IBV_QP_RNR_RETRY.0;
    let fields = match (to, transport) {
        (State::INIT, ReliableConnection | UnreliableConnection) => {
            INIT | mask::IBV_QP_ACCESS_FLAGS.0
        }
        (State::INIT, UnreliableDatagram) => INIT | mask::IBV_QP_QKEY.0,
        (State::RTR, ReliableConnection) => {
            PATH | mask::IBV_QP_MAX_DEST_RD_ATOMIC.0 | mask::IBV_QP_MIN_RNR_TIMER.0
        }
        (State::RTR, UnreliableConnection) => PATH,
        (State::RTS, ReliableConnection) => {
            mask::IBV_QP_SQ_PSN.0 | PATIENCE | mask::IBV_QP_MAX_QP_RD_ATOMIC.0
        }
        (State::RTS, UnreliableConnection | UnreliableDatagram) => mask::IBV_QP_SQ_PSN.0,
        _ => 0,
    };
    mask(fields)
}

impl QueuePair {
    /// To the error state: everything posted comes back flushed, and nothing is sent or
    /// received any more.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] when the device is gone.
    pub fn to_error(&self) -> Result<()> {
        let mut attr = sys::ibv_qp_attr::zeroed();
        attr.qp_state = state::IBV_QPS_ERR;
        self.advance(&mut attr, |_| "has the device been removed?".into())
    }

    /// The state the queue pair is in now.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] when the device is gone.
    pub fn state(&self) -> Result<State> {
        let mut attr = sys::ibv_qp_attr::zeroed();
        let mut init = sys::ibv_qp_init_attr::zeroed();
        let fields = mask::IBV_QP_STATE.0.cast_signed();
        // SAFETY: the queue pair is alive and both places are valid.
        let code =
            unsafe { sys::ibv_query_qp(self.as_ptr(), &raw mut attr, fields, &raw mut init) };
        if code != 0 {
            let cure = "has the device been removed?";
            return Err(self.opened().call_failed("ibv_query_qp", errno_of(code), cure));
        }
        Ok(State(attr.qp_state))
    }

    /// To the state that `attr` names, with the attributes that this transport needs for it.
    pub(crate) fn advance(
        &self,
        attr: &mut sys::ibv_qp_attr,
        cure: impl FnOnce(&io::Error) -> String,
    ) -> Result<()> {
        let fields = attributes(self.transport(), State(attr.qp_state));
        self.modify(attr, fields, cure)
    }

    /// To the state that `attr` names, with the attributes that `fields` says are in it.
    pub(crate) fn modify(
        &self,
        attr: &mut sys::ibv_qp_attr,
        fields: mask,
        cure: impl FnOnce(&io::Error) -> String,
    ) -> Result<()> {
        let fields = (fields | mask::IBV_QP_STATE).0.cast_signed();
        // SAFETY: the queue pair is alive and `attr` is filled where `fields` says.
        let code = unsafe { sys::ibv_modify_qp(self.as_ptr(), attr, fields) };
        if code == 0 {
            return Ok(());
        }
        let errno = errno_of(code);
        let cure = cure(&errno);
        Err(Error::Call {
            call: "ibv_modify_qp",
            object: format!(
                "{} queue pair {} of {} (to {})",
                self.transport(),
                self.number(),
                self.opened().name(),
                State(attr.qp_state)
            ),
            errno,
            cure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_sets_what_it_has() {
        let set = |transport, to, field: mask| attributes(transport, to).0 & field.0 != 0;
        let [rc, uc, ud] = Transport::ALL;
        for (field, to, has) in [
            (mask::IBV_QP_ACCESS_FLAGS, State::INIT, [true, true, false]),
            (mask::IBV_QP_QKEY, State::INIT, [false, false, true]),
            (mask::IBV_QP_AV, State::RTR, [true, true, false]),
            (mask::IBV_QP_PATH_MTU, State::RTR, [true, true, false]),
            (mask::IBV_QP_MIN_RNR_TIMER, State::RTR, [true, false, false]),
            (mask::IBV_QP_MAX_DEST_RD_ATOMIC, State::RTR, [true, false, false]),
            (mask::IBV_QP_SQ_PSN, State::RTS, [true, true, true]),
            (mask::IBV_QP_TIMEOUT, State::RTS, [true, false, false]),
            (mask::IBV_QP_MAX_QP_RD_ATOMIC, State::RTS, [true, false, false]),
        ] {
            assert_eq!([rc, uc, ud].map(|transport| set(transport, to, field)), has, "{to}");
        }
        for transport in Transport::ALL {
            assert_eq!(attributes(transport, State::ERROR).0, 0);
        }
    }
}
