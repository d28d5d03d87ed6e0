//! A greeted connection on which both sides can tell that the other is alive.

use std::{
    io,
    marker::PhantomData,
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use super::{FrameError, Message, read_frame, write_frame};
use crate::transport::{StopReason, StopSignal};

/// How often a sign of life is sent.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The shortest silence that can mean anything: two signs of life missed.
pub const SHORTEST_SILENCE: Duration = Duration::from_secs(2 * HEARTBEAT.as_secs());

/// Documents that may wait to be heard: who answers in turn has one.
const MOST_UNHEARD: usize = 4;

/// Why nothing was received.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The peer is gone, or the user interrupted.
    #[error("{0}")]
    Lost(StopReason),
    /// The peer lives and does not answer.
    #[error("{peer} did not answer within {after:?}")]
    Timeout {
        /// The peer's address.
        peer: String,
        /// How long was waited.
        after: Duration,
    },
}

/// One end: says `S`, hears `R`.
#[derive(Debug)]
pub struct Link<S, R> {
    peer: String,
    stream: Arc<TcpStream>,
    writing: Arc<Mutex<()>>,
    heard: Receiver<R>,
    lost: StopSignal,
    silence: Duration,
    heartbeat: Option<(Sender<()>, JoinHandle<()>)>,
    reader: Option<JoinHandle<()>>,
    says: PhantomData<fn(S)>,
}

impl<S: Serialize, R: DeserializeOwned + Send + 'static> Link<S, R> {
    /// Takes over a greeted connection. `lost` is given when the peer closes it, breaks the
    /// protocol, or is silent for `silence` ([`SHORTEST_SILENCE`] at the least). `peer` names it: a
    /// connection that was reset does not know any more.
    ///
    /// # Errors
    /// The socket refuses its time-outs, or no thread can be had.
    pub fn new(
        stream: TcpStream,
        peer: String,
        silence: Duration,
        lost: StopSignal,
    ) -> io::Result<Self> {
        let silence = silence.max(SHORTEST_SILENCE);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        let stream = Arc::new(stream);
        let writing = Arc::new(Mutex::new(()));
        let (hear, heard) = mpsc::sync_channel(MOST_UNHEARD);
        let reader = thread::Builder::new().name("control-reader".to_owned()).spawn({
            let (stream, lost, peer) = (stream.clone(), lost.clone(), peer.clone());
            move || read_until_lost(&stream, &hear, &lost, &peer, silence)
        })?;
        let (end, ended) = mpsc::channel();
        let heartbeat = thread::Builder::new().name("control-heartbeat".to_owned()).spawn({
            let (stream, writing) = (stream.clone(), writing.clone());
            move || beat_until(&ended, &stream, &writing)
        })?;
        Ok(Self {
            peer,
            stream,
            writing,
            heard,
            lost,
            silence,
            heartbeat: Some((end, heartbeat)),
            reader: Some(reader),
            says: PhantomData,
        })
    }

    /// The peer's address.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The signal that is given when the peer is lost.
    #[must_use]
    pub fn lost(&self) -> &StopSignal {
        &self.lost
    }

    /// Says something.
    ///
    /// # Errors
    /// [`LinkError::Lost`].
    pub fn say(&self, what: S) -> Result<(), LinkError> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        write_locked(&self.stream, &self.writing, &Message::Say(what)).map_err(|error| {
            // The words of the reader, which may be about to notice as well.
            let how = match error.kind() {
                BrokenPipe | ConnectionReset => "closed the control connection".to_owned(),
                _ => format!("is gone: {error}"),
            };
            self.lost.give(StopReason::PeerLost(format!("{} {how}", self.peer)));
            self.lost_error()
        })
    }

    /// Waits for what the peer says next.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn hear(&self, most: Duration) -> Result<R, LinkError> {
        // In short turns, so that an interrupt by the user ends the wait as well.
        let turn = Duration::from_millis(50);
        let mut left = most;
        loop {
            match self.heard.recv_timeout(left.min(turn)) {
                Ok(said) => return Ok(said),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost_error()),
                Err(RecvTimeoutError::Timeout) if self.lost.is_given() => {
                    return Err(self.lost_error());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            left = left.saturating_sub(turn);
            if left.is_zero() {
                return Err(LinkError::Timeout { peer: self.peer.clone(), after: most });
            }
        }
    }

    /// Says something and waits for the answer, as long as the peer may be silent.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn ask(&self, what: S, most: Duration) -> Result<R, LinkError> {
        self.say(what)?;
        self.hear(most)
    }

    /// How long the peer may be silent.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.silence
    }

    fn lost_error(&self) -> LinkError {
        let unexplained = || StopReason::PeerLost(format!("{} is gone", self.peer));
        LinkError::Lost(self.lost.reason().unwrap_or_else(unexplained))
    }
}

impl<S, R> Drop for Link<S, R> {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some((end, thread)) = self.heartbeat.take() {
            drop(end);
            let _ = thread.join();
        }
        if let Some(thread) = self.reader.take() {
            let _ = thread.join();
        }
    }
}

fn write_locked<T: Serialize>(
    mut stream: &TcpStream,
    writing: &Mutex<()>,
    message: &Message<T>,
) -> io::Result<()> {
    let _turn = writing.lock().unwrap_or_else(PoisonError::into_inner);
    write_frame(&mut stream, message)
}

fn read_until_lost<R: DeserializeOwned>(
    mut stream: &TcpStream,
    hear: &SyncSender<R>,
    lost: &StopSignal,
    peer: &str,
    silence: Duration,
) {
    let how = loop {
        match read_frame(&mut stream) {
            Ok(Message::Alive) => {}
            Ok(Message::Say(said)) => match hear.try_send(said) {
                Ok(()) => {}
                // Nobody listens any more: the link is being dropped.
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(_)) => break format!("{peer} does not wait for answers"),
            },
            Err(error) if error.is_end() => {
                break format!("{peer} closed the control connection");
            }
            Err(FrameError::Io(error))
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                break format!(
                    "{peer} has been silent for {silence:?}; it hangs, or the network is cut"
                );
            }
            Err(error) => break format!("{peer}: {error}"),
        }
    };
    lost.give(StopReason::PeerLost(how));
}

fn beat_until(ended: &Receiver<()>, stream: &TcpStream, writing: &Mutex<()>) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(HEARTBEAT) {
        // A failure shows at the reader, which knows how to say so.
        if write_locked(stream, writing, &Message::<()>::Alive).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::TcpListener, time::Instant};

    fn pair(silence: Duration) -> (Link<u32, u32>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let raw = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        (Link::new(stream, "a peer".to_owned(), silence, StopSignal::new()).unwrap(), raw)
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn both_ends_talk() {
        let (here, raw) = pair(LONG);
        let there =
            Link::<u32, u32>::new(raw, "a peer".to_owned(), LONG, StopSignal::new()).unwrap();
        here.say(4).unwrap();
        let heard = there.hear(LONG).unwrap();
        there.say(heard + 1).unwrap();
        assert_eq!(here.hear(LONG), Ok(5));
    }

    #[test]
    fn a_close_is_noticed_at_once() {
        let (here, raw) = pair(LONG);
        drop(raw);
        let error = here.hear(LONG).unwrap_err();
        assert!(error.to_string().contains("closed the control connection"), "{error}");
        assert!(here.lost().is_given());
    }

    #[test]
    fn a_close_that_writing_notices_is_told_in_the_same_words() {
        let (here, _raw) = pair(LONG);
        here.stream.shutdown(Shutdown::Write).unwrap();
        let error = here.say(1).unwrap_err();
        assert!(error.to_string().contains("closed the control connection"), "{error}");
    }

    #[test]
    fn a_silent_peer_is_noticed_in_time() {
        let (here, _raw) = pair(SHORTEST_SILENCE);
        let since = Instant::now();
        let error = here.hear(LONG).unwrap_err();
        assert!(error.to_string().contains("silent for 2s"), "{error}");
        assert!(since.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn signs_of_life_keep_a_quiet_peer() {
        let (here, raw) = pair(SHORTEST_SILENCE);
        let there =
            Link::<u32, u32>::new(raw, "a peer".to_owned(), SHORTEST_SILENCE, StopSignal::new())
                .unwrap();
        thread::sleep(SHORTEST_SILENCE * 2);
        here.say(1).unwrap();
        assert_eq!(there.hear(LONG), Ok(1));
    }

    #[test]
    fn an_interrupt_ends_a_wait() {
        let (here, _raw) = pair(LONG);
        here.lost().give(StopReason::Interrupted);
        assert_eq!(here.hear(LONG), Err(LinkError::Lost(StopReason::Interrupted)));
    }

    #[test]
    fn a_peer_that_does_not_wait_its_turn_is_lost_not_stored() {
        let (here, mut raw) = pair(LONG);
        for _ in 0..MOST_UNHEARD + 2 {
            let _ = write_frame(&mut raw, &Message::Say(1));
        }
        let since = Instant::now();
        while !here.lost().is_given() && since.elapsed() < LONG {
            thread::sleep(Duration::from_millis(5));
        }
        let reason = here.lost().reason().unwrap().to_string();
        assert!(reason.contains("does not wait for answers"), "{reason}");
    }

    #[test]
    fn nonsense_on_the_wire_loses_the_peer_with_a_reason() {
        let (here, mut raw) = pair(LONG);
        io::Write::write_all(&mut raw, b"\0\0\0\x03{]}").unwrap();
        let error = here.hear(LONG).unwrap_err();
        assert!(error.to_string().contains("unreadable"), "{error}");
    }
}
