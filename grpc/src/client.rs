//! The client: one connection, one socket of ours, and an error as soon as it is lost.

mod tonic_channel;
mod upload;

use std::future::Future;
use std::net::{SocketAddr, SocketAddrV6};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;
use tonic::codegen::tokio_stream::Stream;

use self::tonic_channel::{TonicChannel, from_status};
pub use self::upload::{ExchangeStream, Exchanged, PushStream};
use crate::error::{ConnectStage, Error, Result};
use crate::lean;
use crate::marks::{MarkedStream, Recorder};
use crate::message::Message;
use crate::service::{CALL, ECHO, FETCH, FetchRequest, READY};
use crate::socket::{self, Binding, ConnectOptions, Connected};
use crate::tuning::{Profile, Tuning};

/// One connection to a server: its own socket, never shared and never replaced.
///
/// Dropping it closes the connection the next time its runtime runs, or when the runtime is
/// dropped.
#[derive(Debug)]
pub struct Client {
    stack: Stack,
    tuning: Tuning,
    local: SocketAddr,
    peer: SocketAddr,
    binding: Binding,
}

/// What speaks gRPC over the socket.
#[derive(Clone, Debug)]
enum Stack {
    Tonic(TonicChannel),
    Lean(lean::Connection),
}

impl Client {
    /// Connects, and waits until the server has answered an empty call: afterwards both sides'
    /// HTTP/2 settings are in force. The server's counters do not count that call.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::ConnectTimeout`], [`Error::NotThisService`],
    /// [`Error::NoSuchInterface`], [`Error::InvalidInterfaceName`], [`Error::BindDevice`],
    /// [`Error::NotLean`].
    pub async fn connect(options: &ConnectOptions, tuning: &Tuning) -> Result<Client> {
        if tuning.profile() == Profile::Lean && options.certificate.is_some() {
            return Err(Error::NotLean { what: "TLS" });
        }
        let deadline = Instant::now() + options.timeout;
        let Connected { stream, local, peer, binding } = socket::connect(options, tuning).await?;
        let late = || Error::ConnectTimeout {
            peer,
            interface: options.interface.clone(),
            after: options.timeout,
            stage: ConnectStage::Grpc,
        };
        let strange = |detail: String| Error::NotThisService { peer, detail };
        let sealed = options.certificate.is_some();
        let stream = MarkedStream::new(stream, options.marks.clone(), sealed);
        let authority = without_scope(peer).to_string();
        let speaking = async {
            Ok(match tuning.profile() {
                Profile::Lean => {
                    Stack::Lean(lean::Connection::over(stream, &authority, peer, tuning).await?)
                }
                Profile::Stock | Profile::Tuned => {
                    let certificate = options.certificate.as_deref();
                    Stack::Tonic(
                        TonicChannel::over(stream, &authority, peer, certificate, tuning).await?,
                    )
                }
            })
        };
        let stack = timeout_at(deadline, speaking).await.map_err(|_| late())?.map_err(strange)?;
        let client = Client { stack, tuning: tuning.clone(), local, peer, binding };
        timeout_at(deadline, client.unary(READY, Bytes::new().into()))
            .await
            .map_err(|_| late())?
            .map_err(|error| match error {
            Error::ConnectionLost { detail, .. } | Error::Protocol { detail, .. } => {
                strange(detail)
            }
            Error::Refused { code, message, .. } => strange(format!("{code} ({message})")),
            other => other,
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

    /// Where its calls are marked; `None`: nowhere.
    pub fn marks(&self) -> Option<&Arc<Recorder>> {
        match &self.stack {
            Stack::Tonic(channel) => channel.marks(),
            Stack::Lean(connection) => connection.marks(),
        }
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
    pub fn echo<M: Into<Message>>(
        &self,
        message: M,
    ) -> impl Future<Output = Result<Bytes>> + Send + use<M> + 'static {
        self.admitted(ECHO, message.into())
    }

    /// Sends `message` and returns the server's reply
    /// ([`Observer::answer_with`](crate::Observer::answer_with),
    /// [`Observer::reply_with`](crate::Observer::reply_with)).
    ///
    /// Any number of calls may be under way on one connection; the future borrows nothing.
    ///
    /// # Errors
    /// As [`echo`](Client::echo).
    pub fn call<M: Into<Message>>(
        &self,
        message: M,
    ) -> impl Future<Output = Result<Bytes>> + Send + use<M> + 'static {
        self.admitted(CALL, message.into())
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
        let (stack, peer) = (self.stack.clone(), self.peer);
        async move {
            admitted?;
            let request = FetchRequest { messages, size };
            let messages = match stack {
                Stack::Tonic(channel) => FetchedMessages::Tonic(channel.fetch(request).await?),
                Stack::Lean(connection) => FetchedMessages::Lean(connection.fetch(request).await?),
            };
            Ok(FetchStream { messages, peer })
        }
    }

    fn admitted(&self, path: &'static str, message: Message) -> Unary {
        match self.tuning.admit(message.len() as u64) {
            Ok(()) => self.unary(path, message),
            Err(refused) => Unary::Refused(Some(refused)),
        }
    }

    fn unary(&self, path: &'static str, message: Message) -> Unary {
        match &self.stack {
            Stack::Tonic(channel) => Unary::Tonic(Box::pin(channel.clone().unary(path, message))),
            Stack::Lean(connection) => Unary::Lean(connection.unary(path, message)),
        }
    }
}

/// A call of one message each way.
enum Unary {
    /// It is not made. The error, until it is told.
    Refused(Option<Error>),
    // Apart: a future is moved as a whole, and tonic's has several KiB.
    Tonic(Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>),
    Lean(lean::Unary),
}

impl Future for Unary {
    type Output = Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Bytes>> {
        match &mut *self {
            Unary::Refused(error) => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                // Polled after its end, which a future may answer as it likes.
                None => Poll::Pending,
            },
            Unary::Tonic(calling) => calling.as_mut().poll(cx),
            Unary::Lean(calling) => Pin::new(calling).poll(cx),
        }
    }
}

/// Messages that a fetch brings.
#[derive(Debug)]
pub struct FetchStream {
    messages: FetchedMessages,
    peer: SocketAddr,
}

#[derive(Debug)]
enum FetchedMessages {
    Tonic(Streaming<Bytes>),
    Lean(lean::Replies),
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
        match &mut self.messages {
            FetchedMessages::Tonic(messages) => Pin::new(messages)
                .poll_next(cx)
                .map(|next| next.transpose())
                .map_err(|status| from_status(status, self.peer, FETCH)),
            FetchedMessages::Lean(messages) => messages.poll_next(cx),
        }
    }
}

/// URIs have no scope; the address is only the :authority here, the socket is connected already.
fn without_scope(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0).into(),
        SocketAddr::V4(_) => address,
    }
}
