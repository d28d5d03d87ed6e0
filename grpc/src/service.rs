//! The service `fabricbench.Raw`, written by hand: raw bytes need no .proto and no generated code.
//!
//! | method | kind | request | reply |
//! | --- | --- | --- | --- |
//! | Ready | unary | empty | empty; not counted |
//! | Echo | unary | any bytes | the same bytes |
//! | Push | client streaming | any bytes, any number | a [`PushSummary`], after the last message |
//! | Call | unary | any bytes | what the server makes of them, or was given for all beforehand; none by default |
//! | Fetch | server streaming | a [`FetchRequest`] | so many messages of such a size |
//! | Exchange | bidirectional streaming | any bytes, any number | from the first message received on, messages of its size, as fast as they are taken, until the last one is received; then a [`PushSummary`] |
//!
//! Numbers are unsigned, 64 bits, big-endian.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tonic::body::Body;
use tonic::codec::Codec;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::Grpc;
use tonic::transport::server::TlsConnectInfo;
use tonic::{Request, Response, Status, Streaming};

use crate::exchange::exchange;
use crate::marks::{Call, Mark, Marked, Recorder};
use crate::message::Message;
use crate::observer::Observer;
use crate::tuning::Tuning;

/// Path of a liveness call that no counter sees.
pub const READY: &str = "/fabricbench.Raw/Ready";
/// Path of the unary call whose reply is its request.
pub const ECHO: &str = "/fabricbench.Raw/Echo";
/// Path of the unary call whose reply is the server's.
pub const CALL: &str = "/fabricbench.Raw/Call";
/// Path of the client-streaming call whose reply confirms what was received.
pub const PUSH: &str = "/fabricbench.Raw/Push";
/// Path of the server-streaming call.
pub const FETCH: &str = "/fabricbench.Raw/Fetch";
/// Path of the call in which both sides push at once.
pub const EXCHANGE: &str = "/fabricbench.Raw/Exchange";

/// The receiver's confirmation of a push, or of the client's half of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushSummary {
    /// Messages received in full.
    pub messages: u64,
    /// Bytes of payload in them.
    pub bytes: u64,
    /// Messages that the server's check refused; `None` if it does not check.
    pub corrupt: Option<u64>,
}

impl PushSummary {
    const LENGTH: usize = 25;

    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(PushSummary::LENGTH);
        bytes.put_u64(self.messages);
        bytes.put_u64(self.bytes);
        bytes.put_u8(u8::from(self.corrupt.is_some()));
        bytes.put_u64(self.corrupt.unwrap_or(0));
        bytes.freeze()
    }

    pub(crate) fn decode(mut bytes: Bytes) -> Option<PushSummary> {
        if bytes.len() != PushSummary::LENGTH {
            return None;
        }
        let messages = bytes.get_u64();
        let payload = bytes.get_u64();
        let checked = bytes.get_u8() == 1;
        let corrupt = bytes.get_u64();
        Some(PushSummary { messages, bytes: payload, corrupt: checked.then_some(corrupt) })
    }
}

/// What a fetch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Messages to send.
    pub messages: u64,
    /// Bytes in each.
    pub size: u64,
}

impl FetchRequest {
    const LENGTH: usize = 16;

    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(FetchRequest::LENGTH);
        bytes.put_u64(self.messages);
        bytes.put_u64(self.size);
        bytes.freeze()
    }

    pub(crate) fn decode(mut bytes: Bytes) -> Option<FetchRequest> {
        (bytes.len() == FetchRequest::LENGTH)
            .then(|| FetchRequest { messages: bytes.get_u64(), size: bytes.get_u64() })
    }

    /// The answer to what is no such request.
    pub(crate) fn refused() -> Status {
        Status::invalid_argument("a fetch request is two 64-bit numbers: messages, and their size")
    }
}

/// The server's side of the service.
#[derive(Clone)]
pub(crate) struct RawService {
    shared: Arc<Shared>,
}

/// What every call has in common.
pub(crate) struct Shared {
    pub(crate) observer: Arc<Observer>,
    pub(crate) tuning: Tuning,
}

impl RawService {
    pub(crate) fn new(shared: Arc<Shared>) -> RawService {
        RawService { shared }
    }
}

impl Shared {
    fn grpc<C: Codec<Encode = Message, Decode = Bytes>>(&self, codec: C) -> Grpc<C> {
        Grpc::new(codec).max_decoding_message_size(self.tuning.message_limit())
    }

    /// A message of `size` bytes to send.
    pub(crate) fn payload(&self, size: u64) -> Result<Message, Status> {
        self.tuning.admit(size).map_err(|error| Status::out_of_range(error.to_string()))?;
        let payload = self.observer.payload(size);
        if payload.len() as u64 != size {
            return Err(Status::internal(format!(
                "the server's payload source made {} B instead of {size} B",
                payload.len()
            )));
        }
        Ok(payload)
    }
}

impl Service<http::Request<Body>> for RawService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shared = self.shared.clone();
        // Every call is counted, whatever its method: their places are those of their streams.
        let marked = if shared.observer.marks() { marked(&request) } else { None };
        match request.uri().path() {
            ECHO => Box::pin(async move {
                let codec = Marked::new(shared.tuning.call_codec(), marked.clone());
                let mut grpc = shared.grpc(codec);
                let echo = tower::service_fn(|request| {
                    std::future::ready(echo(&shared, request, marked.as_ref()))
                });
                Ok(grpc.unary(echo, request).await)
            }),
            CALL => Box::pin(async move {
                let codec = Marked::new(shared.tuning.call_codec(), marked.clone());
                let mut grpc = shared.grpc(codec);
                let call = tower::service_fn(|request| {
                    std::future::ready(call(&shared, request, marked.as_ref()))
                });
                Ok(grpc.unary(call, request).await)
            }),
            PUSH => Box::pin(async move {
                let mut grpc = shared.grpc(shared.tuning.stream_codec());
                let push = tower::service_fn(|request| push(shared.clone(), request));
                Ok(grpc.client_streaming(push, request).await)
            }),
            FETCH => Box::pin(async move {
                let mut grpc = shared.grpc(shared.tuning.stream_codec());
                let fetch =
                    tower::service_fn(|request| std::future::ready(fetch(&shared, request)));
                Ok(grpc.server_streaming(fetch, request).await)
            }),
            EXCHANGE => Box::pin(async move {
                let mut grpc = shared.grpc(shared.tuning.stream_codec());
                let exchange =
                    tower::service_fn(|request| std::future::ready(Ok(exchange(&shared, request))));
                Ok(grpc.streaming(exchange, request).await)
            }),
            READY => Box::pin(async move {
                let mut grpc = shared.grpc(shared.tuning.call_codec());
                let ready = tower::service_fn(|_: Request<Bytes>| {
                    std::future::ready(Ok(Response::new(Message::default())))
                });
                Ok(grpc.unary(ready, request).await)
            }),
            _ => Box::pin(async move { Ok(unknown_method().into_http()) }),
        }
    }
}

/// The answer to a call of a method that is not there.
pub(crate) fn unknown_method() -> Status {
    Status::unimplemented("fabricbench.Raw has Ready, Echo, Call, Push, Fetch and Exchange")
}

/// The call that a request is of, if it is sampled.
fn marked(request: &http::Request<Body>) -> Option<Call> {
    let extensions = request.extensions();
    let plain = extensions.get::<Option<Arc<Recorder>>>();
    let sealed =
        || extensions.get::<TlsConnectInfo<Option<Arc<Recorder>>>>().map(|tls| tls.get_ref());
    plain.or_else(sealed)?.as_ref()?.handle()
}

fn echo(
    shared: &Shared,
    request: Request<Bytes>,
    marked: Option<&Call>,
) -> Result<Response<Message>, Status> {
    mark(marked, Mark::HandlerBegin);
    let payload = request.into_inner();
    shared.observer.received(&shared.observer.echoed, &payload);
    mark(marked, Mark::HandlerEnd);
    Ok(Response::new(payload.into()))
}

fn call(
    shared: &Shared,
    request: Request<Bytes>,
    marked: Option<&Call>,
) -> Result<Response<Message>, Status> {
    mark(marked, Mark::HandlerBegin);
    let observer = &shared.observer;
    let request = request.into_inner();
    observer.received(&observer.called, &request);
    let reply = observer.answer(&request)?;
    mark(marked, Mark::HandlerEnd);
    Ok(Response::new(reply))
}

fn mark(marked: Option<&Call>, mark: Mark) {
    if let Some(marked) = marked {
        marked.mark(mark);
    }
}

async fn push(
    shared: Arc<Shared>,
    request: Request<Streaming<Bytes>>,
) -> Result<Response<Message>, Status> {
    let summary = receive_all(&shared, request.into_inner(), |_| ()).await?;
    Ok(Response::new(summary.encode().into()))
}

/// Counts and checks every message of `stream`; tells `begun` the size of the first.
pub(crate) async fn receive_all(
    shared: &Shared,
    mut stream: Streaming<Bytes>,
    begun: impl Fn(u64),
) -> Result<PushSummary, Status> {
    let mut received = Received::new(&shared.observer);
    while let Some(payload) = stream.message().await? {
        if received.summary.messages == 0 {
            begun(payload.len() as u64);
        }
        received.take(&shared.observer, &payload);
    }
    Ok(received.summary)
}

/// What a push, or the client's half of an exchange, has brought so far.
pub(crate) struct Received {
    pub(crate) summary: PushSummary,
}

impl Received {
    pub(crate) fn new(observer: &Observer) -> Received {
        let corrupt = observer.checks().then_some(0);
        Received { summary: PushSummary { messages: 0, bytes: 0, corrupt } }
    }

    /// Counts and checks a message.
    pub(crate) fn take(&mut self, observer: &Observer, payload: &[u8]) {
        self.summary.messages += 1;
        self.summary.bytes += payload.len() as u64;
        if !observer.received(&observer.pushed, payload) {
            self.summary.corrupt = self.summary.corrupt.map(|count| count + 1);
        }
    }
}

fn fetch(shared: &Arc<Shared>, request: Request<Bytes>) -> Result<Response<FetchReply>, Status> {
    let request = FetchRequest::decode(request.into_inner()).ok_or_else(FetchRequest::refused)?;
    let payload = shared.payload(request.size)?;
    Ok(Response::new(FetchReply { shared: shared.clone(), payload, left: request.messages }))
}

/// The same payload so many times.
struct FetchReply {
    shared: Arc<Shared>,
    payload: Message,
    left: u64,
}

impl Stream for FetchReply {
    type Item = Result<Message, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.shared.observer.fetched.add(self.payload.len());
        Poll::Ready(Some(Ok(self.payload.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_and_requests_survive_the_wire() {
        for corrupt in [None, Some(0), Some(u64::MAX)] {
            let summary = PushSummary { messages: 3, bytes: u64::MAX - 1, corrupt };
            assert_eq!(PushSummary::decode(summary.encode()), Some(summary));
        }
        let request = FetchRequest { messages: u64::MAX, size: 7 };
        assert_eq!(FetchRequest::decode(request.encode()), Some(request));
    }

    #[test]
    fn other_lengths_are_not_taken_for_them() {
        for length in (0..60).filter(|&length| length != PushSummary::LENGTH) {
            assert_eq!(PushSummary::decode(Bytes::from(vec![0; length])), None);
        }
        for length in (0..60).filter(|&length| length != FetchRequest::LENGTH) {
            assert_eq!(FetchRequest::decode(Bytes::from(vec![0; length])), None);
        }
    }
}
