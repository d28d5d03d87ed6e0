//! The server's half: a task for each connection, and one for each call that has to wait.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use h2::server::{Builder, SendResponse};
use h2::{RecvStream, SendStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use super::framing::Pieces;
use super::messages::Messages;
use super::outflow::Outflow;
use super::{Failure, SEND_BUFFER};
use crate::incoming::{AcceptedStream, Incoming};
use crate::marks::{Call, Mark, Recorder};
use crate::message::Message;
use crate::service::{
    CALL, ECHO, EXCHANGE, FETCH, FetchRequest, PUSH, READY, Received, Shared, unknown_method,
};

/// Calls under way on one connection at the most; a client has to wait with others.
const MOST_CALLS: u32 = 1 << 16;

/// Serves the connections of `incoming` until `stop` resolves; then no new ones and no new calls,
/// but to the end of those that are there.
pub(crate) async fn serve(incoming: Incoming, shared: Arc<Shared>, stop: impl Future<Output = ()>) {
    let (ending, ended) = watch::channel(());
    let mut connections = JoinSet::new();
    {
        let mut incoming = pin!(incoming);
        let mut stop = pin!(stop);
        poll_fn(|cx| {
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            // Those that have ended.
            while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
            while let Poll::Ready(next) = incoming.as_mut().poll_next(cx) {
                match next {
                    Some(Ok(stream)) => {
                        connections.spawn(connection(stream, shared.clone(), ended.clone()));
                    }
                    Some(Err(_)) => {}
                    None => return Poll::Ready(()),
                }
            }
            Poll::Pending
        })
        .await;
    }
    drop(ending);
    while connections.join_next().await.is_some() {}
}

/// One connection from its first byte to its last. Whatever ends it, its peer has caused or knows.
async fn connection(stream: AcceptedStream, shared: Arc<Shared>, mut ended: watch::Receiver<()>) {
    let recorder = stream.recorder();
    let mut builder = Builder::new();
    builder.max_concurrent_streams(MOST_CALLS).max_send_buffer_size(SEND_BUFFER);
    if let Some(http2) = shared.tuning.http2() {
        builder
            .initial_window_size(http2.window)
            .initial_connection_window_size(http2.connection_window)
            .max_frame_size(http2.frame);
    }
    let Ok(mut http2) = builder.handshake::<_, Pieces>(stream).await else { return };
    let mut ended = pin!(async move { drop(ended.changed().await) });
    let mut is_ending = false;
    let mut begun = Vec::new();
    let mut calls = JoinSet::new();
    poll_fn(|cx| {
        if !is_ending && ended.as_mut().poll(cx).is_ready() {
            is_ending = true;
            http2.graceful_shutdown();
        }
        loop {
            // All that one read brought, before any is answered: one write takes the answers.
            match http2.poll_accept(cx) {
                Poll::Ready(Some(Ok(call))) => {
                    begun.push(call);
                    continue;
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending if begun.is_empty() => break,
                Poll::Pending => {}
            }
            for (request, respond) in begun.drain(..) {
                let marked = recorder.as_ref().and_then(Recorder::handle);
                let mut call = Box::pin(answer(shared.clone(), request, respond, marked));
                // Most are all here, and need no task.
                if call.as_mut().poll(cx).is_pending() {
                    calls.spawn(call);
                }
            }
        }
        while let Poll::Ready(Some(_)) = calls.poll_join_next(cx) {}
        Poll::Pending
    })
    .await;
}

/// Answers one call. Its failures are the client's to know, who is told or gone.
async fn answer(
    shared: Arc<Shared>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Pieces>,
    marked: Option<Call>,
) {
    let (head, body) = request.into_parts();
    let is_grpc = head.headers.get(CONTENT_TYPE).is_some_and(|given| {
        let given = given.as_bytes();
        given
            .strip_prefix(super::CONTENT_TYPE.as_bytes())
            .is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'+' | b';')))
    });
    if !is_grpc {
        let mut response = Response::new(());
        *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
        drop(respond.send_response(response, true));
        return;
    }
    let mut answer = Answer { respond: &mut respond, stream: None };
    let messages = Messages::new(body, shared.tuning.message_limit());
    let answered = match head.uri.path() {
        ECHO | CALL | READY => unary(&shared, head.uri.path(), messages, &mut answer, marked).await,
        // Apart: a future is moved as a whole, and most calls are none of these.
        PUSH => Box::pin(push(&shared, messages, &mut answer)).await,
        FETCH => Box::pin(fetch(&shared, messages, &mut answer)).await,
        EXCHANGE => Box::pin(exchange(&shared, messages, &mut answer)).await,
        _ => Err(unknown_method().into()),
    };
    if let Err(failure) = answered {
        answer.refuse(&failure.into_status());
    }
}

/// Where the answer to a call goes.
struct Answer<'a> {
    respond: &'a mut SendResponse<Pieces>,
    /// Once its headers are sent.
    stream: Option<SendStream<Pieces>>,
}

impl Answer<'_> {
    /// Sends the headers of an answer with messages.
    fn begin(&mut self) -> Result<SendStream<Pieces>, Failure> {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, super::CONTENT_TYPE);
        Ok(self.respond.send_response(response, false)?)
    }

    /// An answer of one message.
    fn reply(&mut self, message: Pieces) -> Result<(), Failure> {
        let stream = self.begin()?;
        let stream = self.stream.insert(stream);
        stream.send_data(message, false)?;
        end(stream)
    }

    /// Says no. If that does not get there, the stream is broken, and the client knows.
    fn refuse(&mut self, status: &Status) {
        let mut trailers = HeaderMap::new();
        if status.add_header(&mut trailers).is_err() {
            return;
        }
        match &mut self.stream {
            Some(stream) => drop(stream.send_trailers(trailers)),
            None => {
                let mut response = Response::new(());
                *response.headers_mut() = trailers;
                response.headers_mut().insert(CONTENT_TYPE, super::CONTENT_TYPE);
                drop(self.respond.send_response(response, true));
            }
        }
    }
}

/// Ends an answer that went well.
fn end(stream: &mut SendStream<Pieces>) -> Result<(), Failure> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    Ok(stream.send_trailers(trailers)?)
}

async fn unary(
    shared: &Shared,
    method: &str,
    mut messages: Messages,
    answer: &mut Answer<'_>,
    marked: Option<Call>,
) -> Result<(), Failure> {
    let mark = |mark| {
        if let Some(call) = &marked {
            call.mark(mark);
        }
    };
    let message = messages.only().await?;
    mark(Mark::DecodeEnd);
    mark(Mark::HandlerBegin);
    let observer = &shared.observer;
    let reply = match method {
        ECHO => {
            observer.received(&observer.echoed, &message);
            message.into()
        }
        CALL => {
            observer.received(&observer.called, &message);
            observer.answer(&message)?
        }
        _ => Message::default(),
    };
    mark(Mark::HandlerEnd);
    mark(Mark::EncodeBegin);
    let reply = Pieces::of(reply);
    mark(Mark::EncodeEnd);
    answer.reply(reply)
}

async fn push(
    shared: &Shared,
    mut messages: Messages,
    answer: &mut Answer<'_>,
) -> Result<(), Failure> {
    let mut received = Received::new(&shared.observer);
    while let Some(message) = poll_fn(|cx| messages.poll_next(cx)).await? {
        received.take(&shared.observer, &message);
    }
    answer.reply(Pieces::of(received.summary.encode()))
}

async fn fetch(
    shared: &Shared,
    mut messages: Messages,
    answer: &mut Answer<'_>,
) -> Result<(), Failure> {
    let request = FetchRequest::decode(messages.only().await?).ok_or_else(FetchRequest::refused)?;
    let payload = shared.payload(request.size)?;
    let mut left = request.messages;
    let mut outflow = Outflow::new(answer.begin()?);
    poll_fn(|cx| {
        outflow.poll_take(cx, |_| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            shared.observer.fetched.add(payload.len());
            Poll::Ready(Some(payload.clone()))
        })
    })
    .await?;
    end(answer.stream.insert(outflow.into_stream()?))
}

/// Receives, and sends meanwhile. Neither direction waits for the other: each goes on until it has
/// to wait for the peer.
async fn exchange(
    shared: &Shared,
    mut messages: Messages,
    answer: &mut Answer<'_>,
) -> Result<(), Failure> {
    let mut received = Received::new(&shared.observer);
    let first = poll_fn(|cx| messages.poll_next(cx)).await?;
    let Some(first) = first else {
        return answer.reply(Pieces::of(received.summary.encode()));
    };
    received.take(&shared.observer, &first);
    let payload = shared.payload(first.len() as u64)?;
    let mut outflow = Outflow::new(answer.begin()?);
    let mut sending = true;
    let outcome = poll_fn(|cx| {
        while let Some(message) = ready!(receive_or_send(
            cx,
            |cx| messages.poll_next(cx),
            |cx| send_copies(cx, &mut outflow, &payload, shared, &mut sending),
        ))? {
            received.take(&shared.observer, &message);
        }
        Poll::Ready(Ok::<_, Failure>(()))
    })
    .await;
    let stream = answer.stream.insert(outflow.into_stream()?);
    outcome?;
    stream.send_data(Pieces::of(received.summary.encode()), false)?;
    end(stream)
}

/// What `receive` has; while it has nothing, `send` has a turn.
fn receive_or_send<T>(
    cx: &mut Context<'_>,
    mut receive: impl FnMut(&mut Context<'_>) -> Poll<T>,
    mut send: impl FnMut(&mut Context<'_>),
) -> Poll<T> {
    let received = receive(cx);
    if received.is_pending() {
        send(cx);
    }
    received
}

fn send_copies(
    cx: &mut Context<'_>,
    outflow: &mut Outflow,
    payload: &Message,
    shared: &Shared,
    sending: &mut bool,
) {
    if !*sending {
        return;
    }
    let next = |_: &mut Context<'_>| {
        shared.observer.fetched.add(payload.len());
        Poll::Ready(Some(payload.clone()))
    };
    // It has no end; and of its failure the receiving half hears as well.
    if outflow.poll_take(cx, next).is_ready() {
        *sending = false;
    }
}
