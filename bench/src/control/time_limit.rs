//! How long a client may have a server to itself.

use std::time::{Duration, Instant};

use super::{Link, LinkError, Reply, Request, server::hear};
use crate::{
    session::Serving,
    transport::{StopReason, StopSignal, TransportError},
};

/// How long a client may do nothing between two slices.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The time of one client, which runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimit {
    /// What it has in all, and when that is over; `None`: no limit, or one that no clock reaches.
    ends: Option<(Duration, Instant)>,
}

impl TimeLimit {
    /// Begins now.
    pub(super) fn begin(limit: Option<Duration>) -> Self {
        Self { ends: limit.and_then(|limit| Some((limit, Instant::now().checked_add(limit)?))) }
    }

    /// Refuses to begin anything when it is over.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] with the limit and its option.
    pub(super) fn admit(&self) -> Result<(), TransportError> {
        match self.left() {
            Some(Duration::ZERO) => Err(TransportError::Unsupported(self.reason())),
            _ => Ok(()),
        }
    }

    /// The client's next request. A slice takes as long as it takes, up to the end of the client's time, which
    /// cuts it off; between two, a client that does nothing must not keep the others waiting.
    ///
    /// # Errors
    /// As [`hear`]; that its time is over, and it did not go.
    pub(super) fn hear(
        &self,
        link: &Link<Reply, Request>,
        serving: &mut Option<Serving>,
        stop: &StopSignal,
    ) -> Result<Request, LinkError> {
        if let Some(serving) = serving {
            match hear(link, stop, self.left()) {
                Err(LinkError::Timeout { .. }) => serving.cut(self.reason()),
                heard => return heard,
            }
        }
        match self.pause() {
            Duration::ZERO => Err(LinkError::Lost(StopReason::PeerLost(self.reason()))),
            pause => hear(link, stop, Some(pause)),
        }
    }

    /// What is left of it; `None` where there is no limit.
    fn left(&self) -> Option<Duration> {
        self.ends.map(|(_, end)| end.saturating_duration_since(Instant::now()))
    }

    /// How long the client may do nothing now. When its time is over, it may hear why for so long, whatever it
    /// does meanwhile.
    fn pause(&self) -> Duration {
        let last = self.ends.and_then(|(_, end)| end.checked_add(LONGEST_PAUSE));
        let left = last.map(|last| last.saturating_duration_since(Instant::now()));
        left.map_or(LONGEST_PAUSE, |left| left.min(LONGEST_PAUSE))
    }

    fn reason(&self) -> String {
        let limit = self.ends.map_or(Duration::MAX, |(limit, _)| limit);
        format!("the client's time here is over, the limit is {limit:?} (serve --limit-time)")
    }
}
