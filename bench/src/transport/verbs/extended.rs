//! The extended interface (requests by `ibv_wr_*`, completions by `ibv_cq_ex`) or the plain one:
//! chosen once, when a pair is opened.
//!
//! What the loops call is the same either way. Of the plain interface it costs one comparison with
//! a value that never changes, which the processor predicts.

use std::{cell::Cell, fmt, ops::Deref};

use fabricbench_verbs::{
    AddressHandle, Completion, CompletionChannel, CompletionQueue, Context,
    ExtendedCompletionQueue, ExtendedQueuePair, ExtendedSupport, Kind, Local, MemoryRegion, PeerId,
    PollError, PostError, ProtectionDomain, QueuePair, QueuePairOptions, RegionId, Result,
    SendRequest, SharedReceiveQueue, TimedCompletion,
};
use serde::{Deserialize, Serialize};

use super::{VerbsPort, failed};
use crate::transport::TransportError;

/// Which interface posts requests and reads completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PostMode {
    /// The extended one where the device has it and its provider's is known to be good.
    #[default]
    Auto,
    /// The extended one.
    Extended,
    /// The plain one.
    Plain,
}

/// The one that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface {
    Plain,
    Extended,
    /// With the device's time in completions, of which these bits count.
    Timed {
        mask: u64,
    },
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain (ibv_post_send, ibv_poll_cq)",
            Self::Extended => "extended (ibv_wr_*, ibv_cq_ex)",
            Self::Timed { .. } => "extended (ibv_wr_*, ibv_cq_ex with time stamps)",
        })
    }
}

impl PostMode {
    /// What this means for `port`, with time stamps if `timed`.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] where what was asked for is absent.
    pub(super) fn on(
        self,
        port: &VerbsPort,
        timed: bool,
    ) -> std::result::Result<Interface, TransportError> {
        match self {
            Self::Plain if !timed => Ok(Interface::Plain),
            // Never advised there: finding out what there is can be spared.
            Self::Auto if !timed && port.port.kind == Kind::SoftRoce => Ok(Interface::Plain),
            _ => {
                let support = port.context.extended_support().map_err(failed)?;
                let offered = Offered::from(&support);
                let interface = self.given(&port.port.device, &offered)?;
                if timed { interface.timed(&port.port.device, &offered) } else { Ok(interface) }
            }
        }
    }

    fn given(
        self,
        device: &str,
        offered: &Offered,
    ) -> std::result::Result<Interface, TransportError> {
        let whole = offered.requests && offered.completions;
        match self {
            Self::Plain => Ok(Interface::Plain),
            Self::Auto if whole && offered.advised => Ok(Interface::Extended),
            Self::Auto => Ok(Interface::Plain),
            Self::Extended if whole => Ok(Interface::Extended),
            Self::Extended => {
                let missing: Vec<_> = [
                    (offered.requests, "queue pairs (ibv_wr_*)"),
                    (offered.completions, "completion queues (ibv_cq_ex)"),
                ]
                .into_iter()
                .filter_map(|(has, name)| (!has).then_some(name))
                .collect();
                Err(TransportError::Unsupported(format!(
                    "{device} has no extended {}; post by --post plain",
                    missing.join(" and ")
                )))
            }
        }
    }
}

impl Interface {
    fn timed(self, device: &str, offered: &Offered) -> std::result::Result<Self, TransportError> {
        match (self, offered.stamps) {
            (Self::Plain, Some(_)) => Err(TransportError::Unsupported(format!(
                "{device} has time stamps in extended completions only: --timestamps needs --post \
                 extended"
            ))),
            (_, Some(mask)) => Ok(Self::Timed { mask }),
            (_, None) => Err(TransportError::Unsupported(format!(
                "{device} has no time stamps in completions (ibv_cq_ex): leave --timestamps out"
            ))),
        }
    }
}

/// What of a device's support decides.
struct Offered {
    stamps: Option<u64>,
    requests: bool,
    completions: bool,
    advised: bool,
}

impl From<&ExtendedSupport> for Offered {
    fn from(support: &ExtendedSupport) -> Self {
        Self {
            stamps: support.timestamps.map(|clock| clock.mask),
            requests: support.queue_pair,
            completions: support.completion_queue,
            advised: support.advised,
        }
    }
}

/// A completion queue of either interface.
#[derive(Debug)]
pub(super) enum Queue {
    Plain(CompletionQueue),
    Extended {
        queue: ExtendedCompletionQueue,
        // When the device completed what was taken last, alone: in ticks of its clock.
        stamp: Cell<u64>,
    },
}

impl Queue {
    pub(super) fn new(
        context: &Context,
        interface: Interface,
        channel: Option<&CompletionChannel>,
        capacity: u32,
    ) -> Result<Self> {
        let timed = matches!(interface, Interface::Timed { .. });
        let extended = |queue| Self::Extended { queue, stamp: Cell::new(0) };
        Ok(match (interface, channel) {
            (Interface::Plain, None) => Self::Plain(context.create_completion_queue(capacity)?),
            (Interface::Plain, Some(channel)) => {
                Self::Plain(context.create_completion_queue_on(channel, capacity)?)
            }
            (_, None) => extended(context.create_extended_completion_queue(capacity, timed)?),
            (_, Some(channel)) => {
                extended(context.create_extended_completion_queue_on(channel, capacity, timed)?)
            }
        })
    }

    /// The queue as queue pairs and channels know it.
    pub(super) fn plain(&self) -> &CompletionQueue {
        match self {
            Self::Plain(queue) => queue,
            Self::Extended { queue, .. } => queue.queue(),
        }
    }

    /// Takes completions out of the queue.
    #[inline]
    pub(super) fn poll<'a>(
        &self,
        into: &'a mut [Completion],
    ) -> std::result::Result<&'a [Completion], PollError> {
        match self {
            Self::Plain(queue) => queue.poll(into),
            Self::Extended { queue, stamp } => poll(queue, stamp, into),
        }
    }

    /// When the device completed what was taken last, in ticks of its clock; of no meaning without
    /// time stamps, or where several were taken at once.
    pub(super) fn stamp(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Extended { stamp, .. } => stamp.get(),
        }
    }
}

/// Completions that are read at once.
const BATCH: usize = 16;

#[inline(never)]
fn poll<'a>(
    queue: &ExtendedCompletionQueue,
    stamp: &Cell<u64>,
    into: &'a mut [Completion],
) -> std::result::Result<&'a [Completion], PollError> {
    let taken = if into.len() == 1 {
        take::<1>(queue, stamp, into)
    } else {
        take::<BATCH>(queue, stamp, into)
    }?;
    Ok(into.get(..taken).unwrap_or_default())
}

fn take<const N: usize>(
    queue: &ExtendedCompletionQueue,
    stamp: &Cell<u64>,
    into: &mut [Completion],
) -> std::result::Result<usize, PollError> {
    let mut timed = [TimedCompletion::default(); N];
    let room = into.len().min(N);
    let taken = queue.poll(timed.get_mut(..room).unwrap_or_default())?;
    for (place, completion) in into.iter_mut().zip(taken) {
        *place = completion.completion;
    }
    if let Some(ticks) = taken.last().and_then(|last| last.timestamp) {
        stamp.set(ticks);
    }
    Ok(taken.len())
}

/// A queue pair of either interface, which is an ordinary one in all but its sends.
#[derive(Debug)]
pub(super) enum Poster {
    Plain(QueuePair),
    Extended(ExtendedQueuePair),
}

impl Deref for Poster {
    type Target = QueuePair;

    #[inline]
    fn deref(&self) -> &QueuePair {
        match self {
            Self::Plain(queue_pair) => queue_pair,
            Self::Extended(queue_pair) => queue_pair.queue_pair(),
        }
    }
}

impl Poster {
    pub(super) fn new(
        domain: &ProtectionDomain,
        interface: Interface,
        (sends, receives): (&Queue, &Queue),
        shared: Option<&SharedReceiveQueue>,
        options: &QueuePairOptions,
    ) -> Result<Self> {
        let (sends, receives) = (sends.plain(), receives.plain());
        Ok(match (interface, shared) {
            (Interface::Plain, None) => {
                Self::Plain(domain.create_queue_pair(sends, receives, options)?)
            }
            (Interface::Plain, Some(shared)) => {
                Self::Plain(domain.create_queue_pair_on(sends, receives, shared, options)?)
            }
            (_, None) => {
                Self::Extended(domain.create_extended_queue_pair(sends, receives, options)?)
            }
            (_, Some(shared)) => {
                let made = domain.create_extended_queue_pair_on(sends, receives, shared, options);
                Self::Extended(made?)
            }
        })
    }

    pub(super) fn attach(&mut self, region: &MemoryRegion) -> Result<RegionId> {
        match self {
            Self::Plain(queue_pair) => queue_pair.attach(region),
            Self::Extended(queue_pair) => queue_pair.attach(region),
        }
    }

    pub(super) fn attach_peer(
        &mut self,
        handle: &AddressHandle,
        number: u32,
        qkey: u32,
    ) -> Result<PeerId> {
        match self {
            Self::Plain(queue_pair) => queue_pair.attach_peer(handle, number, qkey),
            Self::Extended(queue_pair) => queue_pair.attach_peer(handle, number, qkey),
        }
    }

    pub(super) fn is_extended(&self) -> bool {
        matches!(self, Self::Extended(_))
    }

    /// Posts requests, all by one call to the device where the interface can.
    pub(super) fn post_sends(
        &self,
        requests: &[SendRequest],
    ) -> std::result::Result<(), PostError> {
        match self {
            Self::Plain(queue_pair) => {
                requests.iter().try_for_each(|request| queue_pair.post_send(request))
            }
            Self::Extended(queue_pair) => queue_pair.post_send(requests),
        }
    }

    /// Posts one request that is gathered from its own range and those of `more`: by the plain
    /// interface, which `PairPlan::post` sees to.
    #[inline]
    pub(super) fn post_gathered(
        &self,
        request: &SendRequest,
        more: &[Local],
    ) -> std::result::Result<(), PostError> {
        // What almost all are: the way of one range is the shorter one.
        if more.is_empty() {
            return self.post_send(request);
        }
        self.post_send_gathered(request, more)
    }

    /// Posts one request.
    #[inline]
    pub(super) fn post_send(&self, request: &SendRequest) -> std::result::Result<(), PostError> {
        match self {
            Self::Plain(queue_pair) => queue_pair.post_send(request),
            Self::Extended(queue_pair) => queue_pair.post_send(std::slice::from_ref(request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(requests: bool, completions: bool, advised: bool) -> Offered {
        Offered { stamps: None, requests, completions, advised }
    }

    #[test]
    fn the_extended_interface_is_taken_where_it_is_good_unless_told_otherwise() {
        let on = |mode: PostMode, offered: Offered| mode.given("mlx5_0", &offered).unwrap();
        assert_eq!(on(PostMode::Auto, offered(true, true, true)), Interface::Extended);
        assert_eq!(on(PostMode::Auto, offered(true, true, false)), Interface::Plain);
        assert_eq!(on(PostMode::Auto, offered(true, false, true)), Interface::Plain);
        assert_eq!(on(PostMode::Extended, offered(true, true, false)), Interface::Extended);
        assert_eq!(on(PostMode::Plain, offered(true, true, true)), Interface::Plain);
    }

    #[test]
    fn what_is_missing_is_told_by_name() {
        let refused = |requests, completions| {
            let offered = offered(requests, completions, true);
            PostMode::Extended.given("qedr0", &offered).unwrap_err().to_string()
        };
        let text = refused(false, true);
        assert_eq!(text, "qedr0 has no extended queue pairs (ibv_wr_*); post by --post plain");
        assert!(refused(true, false).contains("completion queues (ibv_cq_ex)"));
        assert!(refused(false, false).contains(" and "));
    }

    #[test]
    fn time_stamps_need_a_device_that_has_them_and_the_extended_interface() {
        let stamped = Offered { stamps: Some(7), ..offered(true, true, true) };
        let on = |interface: Interface, offered: &Offered| interface.timed("mlx5_0", offered);
        assert_eq!(on(Interface::Extended, &stamped), Ok(Interface::Timed { mask: 7 }));
        let plain = on(Interface::Plain, &stamped).unwrap_err().to_string();
        assert!(plain.contains("--timestamps needs --post extended"), "{plain}");
        let none = on(Interface::Extended, &offered(true, true, true)).unwrap_err();
        assert!(none.to_string().contains("mlx5_0 has no time stamps"), "{none}");
    }
}
