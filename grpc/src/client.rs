//! The client: one connection, one socket of ours, and an error as soon as it is lost.

mod upload;

use std::error::Error as StdError;
use std::future::Future;
use std::net::{SocketAddr, SocketAddrV6};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

pub use self::upload::{ExchangeStream, Exchanged, PushStream};
use crate::error::{ConnectStage, Error, Result};
use crate::marks::{Marked, MarkedStream, Recorder};
use crate::service::{CALL, ECHO, FETCH, FetchRequest, READY};
use crate::socket::{self, Binding, ConnectOptions, Connected};
use crate::tls::trusting;
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
        let channel = timeout_at(deadline, channel_over(stream, options, peer, tuning))
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

    /// Asks for `messages` messages of `size` bytes each. The future borrows nothing: any number
    /// of fetches may be under way on one connection.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`], [`Error::ConnectionLost`], [`Error::Refused`].
    pub fn fetch(
        &self,
        messages: u64,
        size: u64,
    ) -> impl Future<Output = Result<FetchStream>> + Send + use<> + 'static {
        let admitted = self.tuning.admit(size);
        if admitted.is_ok() {
            self.pass_over();
        }
        let (mut grpc, peer) = (self.grpc.clone(), self.peer);
        let codec = self.tuning.stream_codec();
        async move {
            admitted?;
            let lost = |status| from_status(status, peer, FETCH);
            grpc.ready().await.map_err(|error| lost(Status::from_error(error.into())))?;
            let reply = grpc
                .server_streaming(
                    Request::new(FetchRequest { messages, size }.encode()),
                    PathAndQuery::from_static(FETCH),
                    codec,
                )
                .await
                .map_err(lost)?;
            Ok(FetchStream { messages: reply.into_inner(), peer })
        }
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
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for who waits for several streams at once.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        let next = Pin::new(&mut self.messages).poll_next(cx);
        next.map(|next| next.transpose().map_err(|status| from_status(status, self.peer, FETCH)))
    }
}

/// The connection was asked for a second time, that is, the first is lost.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct ConnectionClosed;

/// A channel over `stream` that fails, instead of connecting anew, when the stream is lost.
async fn channel_over(
    stream: TcpStream,
    options: &ConnectOptions,
    peer: SocketAddr,
    tuning: &Tuning,
) -> std::result::Result<Channel, tonic::transport::Error> {
    let scheme = if options.certificate.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", without_scope(peer)))?;
    if let Some(certificate) = &options.certificate {
        endpoint = endpoint.tls_config(trusting(certificate))?;
    }
    if let Some(http2) = tuning.http2() {
        endpoint = endpoint
            .initial_stream_window_size(http2.window)
            .initial_connection_window_size(http2.window)
            .max_frame_size(http2.frame);
    }
    let mut only = Some(MarkedStream::new(stream, options.marks.clone()));
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
