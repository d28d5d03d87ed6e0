//! The server: a listening socket of ours under tonic's HTTP/2 server, or under the lean one.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep, timeout};
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::error::{Error, Result};
use crate::lean;
use crate::marks::{MarkedStream, Recorder};
use crate::observer::{Observer, Registration};
use crate::service::{RawService, Shared};
use crate::socket::{self, Binding, ListenOptions};
use crate::tls::Identity;
use crate::tuning::{Profile, Tuning};

/// Time that calls under way have to finish after the shutdown signal; then their connections are
/// closed.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Pause after a failed accept. Without it a process out of file descriptors would spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A server that listens, but does not serve yet: connections wait in the backlog.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    binding: Binding,
    tuning: Tuning,
    identity: Option<Identity>,
}

impl Server {
    /// Listens. Needs no runtime.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::NoSuchInterface`], [`Error::InvalidInterfaceName`],
    /// [`Error::BindDevice`], [`Error::NotLean`].
    pub fn bind(options: &ListenOptions, tuning: &Tuning) -> Result<Server> {
        if tuning.profile() == Profile::Lean && options.identity.is_some() {
            return Err(Error::NotLean { what: "TLS" });
        }
        let (listener, binding) = socket::listen(options)?;
        let address = listener.local_addr().map_err(|cause| Error::Listen {
            address: options.address,
            interface: options.interface.clone(),
            cause,
        })?;
        let identity = options.identity.clone();
        Ok(Server { listener, address, binding, tuning: tuning.clone(), identity })
    }

    /// Address and port it listens on; the port is the real one where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What ties the listening socket, and each accepted one, to an interface.
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Serves until `shutdown` resolves; then gives the calls under way [`SHUTDOWN_GRACE`], and
    /// closes every connection.
    ///
    /// Runs on any tokio runtime with time and I/O enabled; a current-thread one is enough and has
    /// the lowest latency. If the returned future is dropped, connections live on until their
    /// runtime is dropped.
    ///
    /// # Errors
    /// [`Error::Serve`] if tokio cannot take the socket over, or tonic gives up.
    pub async fn serve(
        self,
        observer: Arc<Observer>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let address = self.address;
        let failed = |detail: String| Error::Serve { address, detail };
        let listener =
            TcpListener::from_std(self.listener).map_err(|error| failed(error.to_string()))?;
        let incoming = Incoming {
            listener,
            tuning: self.tuning.clone(),
            observer: observer.clone(),
            sealed: self.identity.is_some(),
            pause: None,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            // An error means that `stop` is gone, which is a reason to stop as well.
            let _ = stopped.await;
        };
        let shared = Arc::new(Shared { observer: observer.clone(), tuning: self.tuning });
        let mut serving = pin!(async {
            match shared.tuning.profile() {
                Profile::Lean => {
                    lean::serve(incoming, shared, stopped).await;
                    Ok(())
                }
                Profile::Stock | Profile::Tuned => {
                    serve_tonic(incoming, shared, self.identity.as_ref(), stopped).await
                }
            }
        });
        tokio::select! {
            ended = &mut serving => return ended.map_err(|error| failed(error.to_string())),
            () = shutdown => {}
        }
        // The receiver is gone only if `serving` has ended by itself.
        let _ = stop.send(());
        let ended = match timeout(SHUTDOWN_GRACE, &mut serving).await {
            Ok(ended) => ended,
            Err(_) => {
                observer.shut_down_connections();
                serving.await
            }
        };
        ended.map_err(|error| failed(error.to_string()))
    }
}

async fn serve_tonic(
    incoming: Incoming,
    shared: Arc<Shared>,
    identity: Option<&Identity>,
    stopped: impl Future<Output = ()>,
) -> std::result::Result<(), tonic::transport::Error> {
    let mut builder = tonic::transport::Server::builder();
    if let Some(http2) = shared.tuning.http2() {
        builder = builder
            .initial_stream_window_size(http2.window)
            .initial_connection_window_size(http2.connection_window)
            .max_frame_size(http2.frame);
    }
    if let Some(identity) = identity {
        builder = builder.tls_config(identity.server())?;
    }
    builder.serve_with_incoming_shutdown(RawService::new(shared), incoming, stopped).await
}

/// Accepted connections, with their options set.
pub(crate) struct Incoming {
    listener: TcpListener,
    tuning: Tuning,
    observer: Arc<Observer>,
    // Whether TLS is spoken over what is accepted.
    sealed: bool,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Stream for Incoming {
    type Item = io::Result<AcceptedStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(cx)) {
                Ok((stream, peer)) => match socket::set_options(&stream, &self.tuning) {
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
                },
                Err(_) => {
                    self.observer.count_accept_error();
                    self.pause = Some(Box::pin(sleep(ACCEPT_RETRY)));
                }
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
