//! The client's half: one HTTP/2 connection, driven by a task of its own.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use super::framing::Pieces;
use super::messages::Messages;
use super::outflow::Outflow;
use super::{Failure, SEND_BUFFER};
use crate::error::{Error, Result};
use crate::marks::{Call, HandedOver, Mark, MarkedStream, Recorder};
use crate::message::Message;
use crate::observer::{Counts, PayloadCheck};
use crate::queue;
use crate::service::{EXCHANGE, FETCH, FetchRequest, PUSH};
use crate::tuning::Tuning;

/// A connection that calls are made on. Cloned it is the same connection, which ends with the last
/// clone and the last call.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    requests: SendRequest<Pieces>,
    authority: Authority,
    /// Bytes of a reply's message.
    limit: usize,
    peer: SocketAddr,
    marks: Option<Arc<Recorder>>,
}

impl Connection {
    /// Speaks HTTP/2 over `stream`, in a task of the runtime that this runs on. `authority` is the
    /// peer's address for URIs.
    pub(crate) async fn over(
        stream: MarkedStream<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>,
        authority: &str,
        peer: SocketAddr,
        tuning: &Tuning,
    ) -> std::result::Result<Connection, String> {
        let authority = Authority::try_from(authority).map_err(|error| error.to_string())?;
        let mut builder = h2::client::Builder::new();
        builder.enable_push(false).max_send_buffer_size(SEND_BUFFER);
        if let Some(http2) = tuning.http2() {
            builder
                .initial_window_size(http2.window)
                .initial_connection_window_size(http2.connection_window)
                .max_frame_size(http2.frame);
        }
        let marks = stream.recorder().cloned();
        let (requests, connection) =
            builder.handshake(stream).await.map_err(|error| error.to_string())?;
        // How it ends, its calls learn; without any, nobody has to.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { requests, authority, limit: tuning.message_limit(), peer, marks })
    }

    pub(crate) fn marks(&self) -> Option<&Arc<Recorder>> {
        self.marks.as_ref()
    }

    /// One message there, and one back.
    pub(crate) fn unary(&self, path: &'static str, message: Message) -> Unary {
        let handed_over = self.marks.as_ref().map(Recorder::hand_over);
        let stage = Stage::New(message);
        Unary { connection: self.clone(), path, handed_over, marked: None, stage }
    }

    /// Asks for messages of the server's.
    pub(crate) fn fetch(
        &self,
        request: FetchRequest,
    ) -> impl Future<Output = Result<Replies>> + Send + use<> + 'static {
        let connection = self.clone();
        async move {
            let (peer, limit) = (connection.peer, connection.limit);
            let reply = async {
                let (response, mut stream) = connection.begin(FETCH).await?;
                stream.send_data(Pieces::of(request.encode()), true)?;
                answered(response.await?, limit)
            };
            match reply.await {
                Ok(messages) => Ok(Replies { messages, ended: false, peer, method: FETCH }),
                Err(failure) => Err(told(failure, peer, FETCH)),
            }
        }
    }

    async fn begin(
        mut self,
        path: &'static str,
    ) -> std::result::Result<(ResponseFuture, h2::SendStream<Pieces>), Failure> {
        poll_fn(|cx| self.requests.poll_ready(cx)).await?;
        // Streams are no calls whose phases are of interest, but take their places.
        if let Some(marks) = &self.marks {
            marks.pass_over();
        }
        let request = self.request(path)?;
        Ok(self.requests.send_request(request, false)?)
    }

    fn request(&self, path: &'static str) -> std::result::Result<Request<()>, Failure> {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        // All three are there, which is all that can be wrong.
        let uri = Uri::from_parts(parts).map_err(|error| Failure::Malformed(error.to_string()))?;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, super::CONTENT_TYPE);
        Ok(request)
    }
}

/// The messages of an answer, unless it says that there are none.
fn answered(
    response: Response<h2::RecvStream>,
    limit: usize,
) -> std::result::Result<Messages, Failure> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(Failure::Malformed(format!("HTTP status {} where 200 is gRPC's", head.status)));
    }
    // The headers of an answer without messages are its trailers as well.
    if let Some(status) = Status::from_header_map(&head.headers) {
        status_of(status)?;
        if !body.is_end_stream() {
            return Err(Failure::Malformed("the answer goes on after its status".to_owned()));
        }
        return Ok(Messages::new(body, limit));
    }
    Ok(Messages::new(body, limit))
}

fn status_of(status: Status) -> std::result::Result<(), Failure> {
    match status.code() {
        tonic::Code::Ok => Ok(()),
        _ => Err(Failure::Status(status)),
    }
}

fn ended(trailers: Option<HeaderMap>) -> std::result::Result<(), Failure> {
    match trailers.as_ref().and_then(Status::from_header_map) {
        Some(status) => status_of(status),
        None => Err(Failure::Malformed("the answer ends without a gRPC status".to_owned())),
    }
}

/// The only message of an answer that went well; `first` is it, once it is here.
fn poll_only(
    messages: &mut Messages,
    first: &mut Option<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<std::result::Result<Bytes, Failure>> {
    let wrong = |what: &str| Failure::Malformed(format!("{what} where one was expected"));
    while let Some(message) = ready!(messages.poll_next(cx))? {
        if first.replace(message).is_some() {
            return Poll::Ready(Err(wrong("several messages")));
        }
    }
    ended(ready!(messages.poll_trailers(cx))?)?;
    Poll::Ready(first.take().ok_or_else(|| wrong("no message")))
}

/// A call of one message each way. By hand, since a future that the compiler makes is several times
/// the size, and is moved as a whole before it begins.
#[derive(Debug)]
pub(crate) struct Unary {
    connection: Connection,
    path: &'static str,
    handed_over: Option<HandedOver>,
    marked: Option<Call>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    New(Message),
    Sent(ResponseFuture),
    Answered { messages: Messages, first: Option<Bytes> },
}

impl Unary {
    fn mark(&self, mark: Mark) {
        if let Some(call) = &self.marked {
            call.mark(mark);
        }
    }

    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<Bytes, Failure>> {
        loop {
            match &mut self.stage {
                Stage::New(message) => {
                    ready!(self.connection.requests.poll_ready(cx))?;
                    let message = std::mem::take(message);
                    self.marked = self.handed_over.take().and_then(HandedOver::begin);
                    self.mark(Mark::EncodeBegin);
                    let pieces = Pieces::of(message);
                    self.mark(Mark::EncodeEnd);
                    let request = self.connection.request(self.path)?;
                    let (response, mut stream) =
                        self.connection.requests.send_request(request, false)?;
                    stream.send_data(pieces, true)?;
                    self.stage = Stage::Sent(response);
                }
                Stage::Sent(response) => {
                    let response = ready!(Pin::new(response).poll(cx))?;
                    let messages = answered(response, self.connection.limit)?;
                    self.stage = Stage::Answered { messages, first: None };
                }
                Stage::Answered { messages, first } => {
                    let reply = ready!(poll_only(messages, first, cx));
                    self.mark(Mark::DecodeEnd);
                    return Poll::Ready(reply);
                }
            }
        }
    }
}

impl Future for Unary {
    type Output = Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Bytes>> {
        let reply = self.poll_reply(cx);
        if let (Poll::Ready(_), Some(marked)) = (&reply, &self.marked) {
            marked.end();
        }
        reply.map_err(|failure| told(failure, self.connection.peer, self.path))
    }
}

/// Messages that the server sends, and then its status.
#[derive(Debug)]
pub(crate) struct Replies {
    messages: Messages,
    ended: bool,
    peer: SocketAddr,
    method: &'static str,
}

impl Replies {
    /// The next message; `None` after the last.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        let next = ready!(self.poll_message(cx));
        self.ended = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.map_err(|failure| told(failure, self.peer, self.method)))
    }

    fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<std::result::Result<Option<Bytes>, Failure>> {
        if let Some(message) = ready!(self.messages.poll_next(cx))? {
            return Poll::Ready(Ok(Some(message)));
        }
        ended(ready!(self.messages.poll_trailers(cx))?)?;
        Poll::Ready(Ok(None))
    }
}

/// Sends what `queued` brings, and returns the reply to it.
pub(crate) async fn push(connection: Connection, queued: queue::Receiver) -> Result<Bytes> {
    let (peer, limit) = (connection.peer, connection.limit);
    let reply = async {
        let (response, stream) = connection.begin(PUSH).await?;
        let mut response = std::pin::pin!(response);
        // A server that does not want it says so before the end.
        let answer = upload(stream, queued, |cx| {
            response.as_mut().poll(cx).map(|answer| Ok(answer.map_err(Failure::from)))
        });
        let mut messages = answered(answer.await??, limit)?;
        let mut first = None;
        poll_fn(|cx| poll_only(&mut messages, &mut first, cx)).await
    };
    reply.await.map_err(|failure| told(failure, peer, PUSH))
}

/// Sends what `queued` brings while it receives what the server sends meanwhile. Returns what was
/// received, and its last message, which is not counted with the others.
pub(crate) async fn exchange(
    connection: Connection,
    queued: queue::Receiver,
    check: &impl PayloadCheck,
) -> Result<(Counts, Bytes)> {
    let (peer, limit) = (connection.peer, connection.limit);
    let mut arrivals = Arrivals::default();
    let reply = async {
        let (response, stream) = connection.begin(EXCHANGE).await?;
        let mut response = std::pin::pin!(response);
        let mut replies = None;
        upload(stream, queued, |cx| {
            loop {
                let Some(replies) = &mut replies else {
                    let answer = ready!(response.as_mut().poll(cx))?;
                    let messages = answered(answer, limit)?;
                    replies = Some(Replies { messages, ended: false, peer, method: EXCHANGE });
                    continue;
                };
                match ready!(replies.poll_message(cx))? {
                    Some(message) => arrivals.take(message, check),
                    None => return Poll::Ready(Ok(())),
                }
            }
        })
        .await
    };
    reply.await.map_err(|failure| told(failure, peer, EXCHANGE))?;
    Ok(arrivals.counted())
}

/// What came in an exchange. Which message is the last shows at the end.
#[derive(Debug, Default)]
struct Arrivals {
    counts: Counts,
    corrupt: u64,
    last: Option<Bytes>,
}

impl Arrivals {
    fn take(&mut self, message: Bytes, check: &impl PayloadCheck) {
        if let Some(before) = self.last.replace(message) {
            self.counts.messages += 1;
            self.counts.bytes += before.len() as u64;
            self.corrupt += u64::from(!check.accepts(&before));
        }
    }

    fn counted(self) -> (Counts, Bytes) {
        let counts = Counts { corrupt: Some(self.corrupt), ..self.counts };
        (counts, self.last.unwrap_or_default())
    }
}

/// Sends what `queued` brings until `answer` is ready, which it may be before the end.
async fn upload<T>(
    stream: h2::SendStream<Pieces>,
    mut queued: queue::Receiver,
    mut answer: impl FnMut(&mut Context<'_>) -> Poll<std::result::Result<T, Failure>>,
) -> std::result::Result<T, Failure> {
    let mut outflow = Some(Outflow::new(stream));
    poll_fn(|cx| {
        if let Some(sending) = &mut outflow {
            let next = |cx: &mut Context<'_>| Pin::new(&mut queued).poll_next(cx);
            match sending.poll_take(cx, next) {
                Poll::Ready(Ok(())) => {
                    if let Some(sent) = outflow.take() {
                        // If the stream is broken, the answer says how.
                        drop(sent.end());
                    }
                }
                Poll::Ready(Err(_)) => outflow = None,
                Poll::Pending => {}
            }
        }
        answer(cx)
    })
    .await
}

/// A failure in the words of this crate's users.
fn told(failure: Failure, peer: SocketAddr, method: &'static str) -> Error {
    match failure {
        Failure::Http2(error) => Error::ConnectionLost { peer, method, detail: error.to_string() },
        Failure::Status(status) => Error::Refused {
            peer,
            method,
            code: status.code().description(),
            message: status.message().to_owned(),
        },
        Failure::Malformed(detail) => Error::Protocol { peer, method, detail },
    }
}
