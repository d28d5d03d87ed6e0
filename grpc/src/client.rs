//! The client: one connection, one socket of ours, and an error as soon as it is lost.

use std::error::Error as StdError;
use std::future::Future;
use std::net::{SocketAddr, SocketAddrV6};
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use crate::error::{ConnectStage, Error, Result};
use crate::marks::{Marked, MarkedStream, Recorder};
use crate::queue;
use crate::service::{CALL, ECHO, FETCH, FetchRequest, PUSH, PushSummary, READY};
use crate::socket::{self, Binding, ConnectOptions, Connected};
use crate::tuning::Tuning;

/// One connection to a server: its own socket, never shared and never replaced.
///
/// Dropping it closes the connection the next time its runtime runs, or when the runtime is
/// dropped.
#[derive(Debug)]
pub struct Client {
    grpc: Grpc<Channel>,
    tuning: Tuning,
    local: SocketAddr,
    peer: SocketAddr,
    binding: Binding,
    marks: Option<Arc<Recorder>>,
}

impl Client {
    /// Connects, and waits until the server has answered an empty call: afterwards both sides'
    /// HTTP/2 settings are in force. The server's counters do not count that call.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::ConnectTimeout`], [`Error::NotThisService`],
    /// [`Error::NoSuchInterface`], [`Error::InvalidInterfaceName`], [`Error::BindDevice`].
    pub async fn connect(options: &ConnectOptions, tuning: &Tuning) -> Result<Client> {
        let deadline = Instant::now() + options.timeout;
        let Connected { stream, local, peer, binding } = socket::connect(options, tuning).await?;
        let late = || Error::ConnectTimeout {
            peer,
            interface: options.interface.clone(),
            after: options.timeout,
            stage: ConnectStage::Grpc,
        };
        let strange = |detail: String| Error::NotThisService { peer, detail };
        let channel =
            timeout_at(deadline, channel_over(stream, options.marks.clone(), peer, tuning))
                .await
                .map_err(|_| late())?
                .map_err(|error| strange(innermost(&error)))?;
        let grpc = Grpc::new(channel).max_decoding_message_size(tuning.message_limit());
        let marks = options.marks.clone();
        let client = Client { grpc, tuning: tuning.clone(), local, peer, binding, marks };
        timeout_at(deadline, client.unary(READY, Bytes::new()))
            .await
            .map_err(|_| late())?
            .map_err(|status| match status.source() {
                Some(source) => strange(innermost(source)),
                None => strange(status.to_string()),
            })?;
        Ok(client)
    }

    /// The socket's own address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The server's address.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// What ties the socket to an interface.
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Sends `message` and returns the server's copy of it.
    ///
    /// Any number of calls may be under way on one connection; the future borrows nothing.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`], [`Error::ConnectionLost`], [`Error::Refused`]. A peer that is
    /// stopped, not gone, gives no error: bound the call with a deadline.
    pub fn echo(
        &self,
        message: Bytes,
    ) -> impl Future<Output = Result<Bytes>> + Send + use<> + 'static {
        self.admitted(ECHO, message)
    }

    /// Sends `message` and returns the server's reply, which was settled on its side beforehand
    /// ([`Observer::reply_with`](crate::Observer::reply_with)).
    ///
    /// Any number of calls may be under way on one connection; the future borrows nothing.
    ///
    /// # Errors
    /// As [`echo`](Client::echo).
    pub fn call(
        &self,
        message: Bytes,
    ) -> impl Future<Output = Result<Bytes>> + Send + use<> + 'static {
        self.admitted(CALL, message)
    }

    /// Starts a push: a stream of messages that the server confirms at its end.
    pub fn push(&self) -> PushStream {
        let (sender, receiver) = queue::channel();
        let mut grpc = self.grpc.clone();
        let codec = self.tuning.stream_codec();
        self.pass_over();
        let call = tokio::spawn(async move {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.client_streaming(Request::new(receiver), PathAndQuery::from_static(PUSH), codec)
                .await
                .map(Response::into_inner)
        });
        PushStream {
            sender: Some(sender),
            call: Call { task: Some(call) },
            tuning: self.tuning.clone(),
            peer: self.peer,
        }
    }

    /// Asks for `messages` messages of `size` bytes each.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`], [`Error::ConnectionLost`], [`Error::Refused`].
    pub async fn fetch(&self, messages: u64, size: u64) -> Result<FetchStream> {
        self.tuning.admit(size)?;
        self.pass_over();
        let lost = |status| from_status(status, self.peer, FETCH);
        let mut grpc = self.grpc.clone();
        grpc.ready().await.map_err(|error| lost(Status::from_error(error.into())))?;
        let reply = grpc
            .server_streaming(
                Request::new(FetchRequest { messages, size }.encode()),
                PathAndQuery::from_static(FETCH),
                self.tuning.stream_codec(),
            )
            .await
            .map_err(lost)?;
        Ok(FetchStream { messages: reply.into_inner(), peer: self.peer })
    }

    fn admitted(
        &self,
        path: &'static str,
        message: Bytes,
    ) -> impl Future<Output = Result<Bytes>> + Send + use<> + 'static {
        let admitted = self.tuning.admit(message.len() as u64);
        let call = self.unary(path, message);
        let peer = self.peer;
        async move {
            admitted?;
            call.await.map_err(|status| from_status(status, peer, path))
        }
    }

    fn unary(
        &self,
        path: &'static str,
        message: Bytes,
    ) -> impl Future<Output = std::result::Result<Bytes, Status>> + Send + use<> + 'static {
        let marked = self.marks.as_ref().and_then(Recorder::begin);
        let mut grpc = self.grpc.clone();
        let codec = Marked::new(self.tuning.call_codec(), marked.clone());
        async move {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let reply = grpc
                .unary(Request::new(message), PathAndQuery::from_static(path), codec)
                .await
                .map(Response::into_inner);
            if let Some(marked) = marked {
                marked.end();
            }
            reply
        }
    }

    /// Streams are no calls whose phases are of interest, but take their numbers.
    fn pass_over(&self) {
        if let Some(marks) = &self.marks {
            marks.pass_over();
        }
    }
}

/// A push under way. Dropped without [`finish`](PushStream::finish), it is cancelled.
#[derive(Debug)]
pub struct PushStream {
    sender: Option<queue::Sender>,
    call: Call,
    tuning: Tuning,
    peer: SocketAddr,
}

impl PushStream {
    /// Hands `message` over, waiting for room.
    ///
    /// When it resolves, the message stands in this stream's queue, which holds 1 MiB and 4096
    /// messages, or one message if that is larger. From there tonic encodes it, HTTP/2 buffers up
    /// to 1 MiB (hyper's send buffer) and what it has begun, within the server's window, and then
    /// come the sockets' buffers. So nothing is said of its arrival: only
    /// [`finish`](PushStream::finish) does.
    ///
    /// If the future is dropped before it resolves, the message is not sent.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`]; and as soon as the call has ended, [`Error::ConnectionLost`],
    /// [`Error::Refused`] or [`Error::Protocol`].
    pub async fn send(&mut self, message: Bytes) -> Result<()> {
        self.tuning.admit(message.len() as u64)?;
        let sent = match &mut self.sender {
            Some(sender) => sender.send(message).await,
            None => Err(queue::Gone),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(queue::Gone) => {
                self.sender = None;
                Err(self.why_it_ended().await)
            }
        }
    }

    /// Ends the stream and waits for the server to confirm what it has received.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`], [`Error::Refused`], [`Error::Protocol`].
    pub async fn finish(mut self) -> Result<PushSummary> {
        self.sender = None;
        let reply = self.call.outcome(self.peer).await?;
        PushSummary::decode(reply)
            .ok_or_else(|| self.broken("the reply is not a summary of the push"))
    }

    async fn why_it_ended(&mut self) -> Error {
        match self.call.outcome(self.peer).await {
            Ok(_) => self.broken("the server replied before the last message"),
            Err(error) => error,
        }
    }

    fn broken(&self, detail: &str) -> Error {
        Error::Protocol { peer: self.peer, method: PUSH, detail: detail.to_owned() }
    }
}

/// The task that waits for the reply to a push.
#[derive(Debug)]
struct Call {
    /// `None` once its outcome has been told: a `JoinHandle` must not be polled again then.
    task: Option<JoinHandle<std::result::Result<Bytes, Status>>>,
}

impl Call {
    async fn outcome(&mut self, peer: SocketAddr) -> Result<Bytes> {
        let Some(task) = &mut self.task else {
            return Err(ended(peer, "the push has ended already, with an error told before"));
        };
        let joined = task.await;
        self.task = None;
        match joined {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(status)) => Err(from_status(status, peer, PUSH)),
            Err(error) => Err(ended(peer, &error.to_string())),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn ended(peer: SocketAddr, detail: &str) -> Error {
    Error::ConnectionLost { peer, method: PUSH, detail: detail.to_owned() }
}

/// Messages that a fetch brings.
#[derive(Debug)]
pub struct FetchStream {
    messages: Streaming<Bytes>,
    peer: SocketAddr,
}

impl FetchStream {
    /// The next message, received in full; `None` after the last.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`], [`Error::Refused`].
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        self.messages.message().await.map_err(|status| from_status(status, self.peer, FETCH))
    }
}

/// The connection was asked for a second time, that is, the first is lost.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct ConnectionClosed;

/// A channel over `stream` that fails, instead of connecting anew, when the stream is lost.
async fn channel_over(
    stream: TcpStream,
    marks: Option<Arc<Recorder>>,
    peer: SocketAddr,
    tuning: &Tuning,
) -> std::result::Result<Channel, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_shared(format!("http://{}", without_scope(peer)))?;
    if let Some(http2) = tuning.http2() {
        endpoint = endpoint
            .initial_stream_window_size(http2.window)
            .initial_connection_window_size(http2.window)
            .max_frame_size(http2.frame);
    }
    let mut only = Some(MarkedStream::new(stream, marks));
    endpoint
        .connect_with_connector(tower::service_fn(move |_| {
            std::future::ready(only.take().map(TokioIo::new).ok_or(ConnectionClosed))
        }))
        .await
}

/// URIs have no scope; the address is only the :authority here, the socket is connected already.
fn without_scope(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0).into(),
        SocketAddr::V4(_) => address,
    }
}

/// The server's own refusals come in headers and have no source; whatever has one broke on the way.
fn from_status(status: Status, peer: SocketAddr, method: &'static str) -> Error {
    match status.source() {
        Some(source) => Error::ConnectionLost { peer, method, detail: innermost(source) },
        None => Error::Refused {
            peer,
            method,
            code: status.code().description(),
            message: status.message().to_owned(),
        },
    }
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
