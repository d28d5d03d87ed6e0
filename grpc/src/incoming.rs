//! Connections as a server takes them: all that come, or those that show the key of its door.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep, sleep_until};
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::door::Door;
use crate::marks::{MarkedStream, Recorder};
use crate::observer::{Observer, Registration};
use crate::socket;
use crate::tuning::Tuning;

/// Pause after a failed accept. Without it a process out of file descriptors would spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Accepted connections, with their options set.
pub(crate) struct Incoming {
    // Until all that are expected are in.
    listener: Option<TcpListener>,
    // `None`: whoever comes is let in.
    door: Option<Door<TcpStream>>,
    tuning: Tuning,
    observer: Arc<Observer>,
    // Whether TLS is spoken over what is accepted.
    sealed: bool,
    pause: Option<Pin<Box<Sleep>>>,
    // To the end of the time of who waits at the door.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Incoming {
    pub(crate) fn new(
        listener: TcpListener,
        door: Option<Door<TcpStream>>,
        tuning: Tuning,
        observer: Arc<Observer>,
        sealed: bool,
    ) -> Incoming {
        let listener = Some(listener);
        Incoming { listener, door, tuning, observer, sealed, pause: None, patience: None }
    }

    /// The next that comes, whoever it is.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<(TcpStream, SocketAddr)> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let Some(listener) = &self.listener else { return Poll::Pending };
            match ready!(listener.poll_accept(cx)) {
                Ok(accepted) => return Poll::Ready(accepted),
                Err(_) => {
                    self.observer.count_accept_error();
                    // It may be for want of what strangers hold.
                    if let Some(door) = &mut self.door {
                        door.displace();
                    }
                    self.pause = Some(Box::pin(sleep(ACCEPT_RETRY)));
                }
            }
        }
    }

    /// The next that is let in.
    fn poll_admit(&mut self, cx: &mut Context<'_>) -> Poll<(TcpStream, SocketAddr)> {
        loop {
            let came = self.poll_accept(cx);
            let (Some(door), now) = (&mut self.door, Instant::now()) else { return came };
            let is_all = came.is_pending();
            if let Poll::Ready((stream, peer)) = came {
                door.arrive(stream, peer, now);
            }
            if let Some(admitted) = door.poll_admit(cx, now) {
                if door.is_full() {
                    // Nobody else is expected: who still waits here or in the backlog is cut off.
                    (self.listener, self.door, self.patience) = (None, None, None);
                }
                return Poll::Ready(admitted);
            }
            if is_all {
                ready!(self.poll_patience(cx));
            }
        }
    }

    /// Ready when somebody at the door has had its time.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.door.as_ref().and_then(Door::deadline) else {
            self.patience = None;
            return Poll::Pending;
        };
        let deadline = deadline.into();
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if patience.deadline() != deadline {
            patience.as_mut().reset(deadline);
        }
        patience.as_mut().poll(cx)
    }
}

impl Stream for Incoming {
    type Item = io::Result<AcceptedStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let (stream, peer) = ready!(self.poll_admit(cx));
            match socket::set_options(&stream, &self.tuning) {
                Ok(()) => {
                    // Without a second handle (out of descriptors) the connection works; it
                    // only cannot be closed before its time.
                    let handle = SockRef::from(&stream).try_clone().ok();
                    let registration = self.observer.register(peer, handle);
                    let marks = self.observer.recorder(peer, self.sealed);
                    return Poll::Ready(Some(Ok(AcceptedStream {
                        stream: MarkedStream::new(stream, marks, self.sealed),
                        _registration: registration,
                    })));
                }
                // The peer has gone between accept and here.
                Err(_) => self.observer.count_accept_error(),
            }
        }
    }
}

/// A connection that is listed in the observer as long as it is open.
pub(crate) struct AcceptedStream {
    stream: MarkedStream<TcpStream>,
    _registration: Registration,
}

impl AcceptedStream {
    /// Where the connection is marked, for the handlers of its calls.
    pub(crate) fn recorder(&self) -> Option<Arc<Recorder>> {
        self.stream.recorder().cloned()
    }
}

impl Connected for AcceptedStream {
    type ConnectInfo = Option<Arc<Recorder>>;

    fn connect_info(&self) -> Option<Arc<Recorder>> {
        self.recorder()
    }
}

impl AsyncRead for AcceptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for AcceptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    /// Without it h2 copies every payload behind its frame header.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
