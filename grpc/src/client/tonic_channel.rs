//! Calls over tonic.

use std::error::Error as StdError;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use crate::error::{Error, Result};
use crate::marks::{HandedOver, Marked, MarkedStream, Recorder};
use crate::message::Message;
use crate::queue;
use crate::service::{EXCHANGE, FETCH, FetchRequest, PUSH};
use crate::tls::trusting;
use crate::tuning::Tuning;

/// tonic's channel over one connection.
#[derive(Clone, Debug)]
pub(super) struct TonicChannel {
    grpc: Grpc<Channel>,
    tuning: Tuning,
    peer: SocketAddr,
    marks: Option<Arc<Recorder>>,
}

/// The connection was asked for a second time, that is, the first is lost.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct ConnectionClosed;

impl TonicChannel {
    /// A channel over `stream` that fails, instead of connecting anew, when the stream is lost.
    /// `authority` is the peer's address for URIs, `certificate` that of a peer to talk TLS with.
    /// Its errors are in words.
    pub(super) async fn over(
        stream: MarkedStream<TcpStream>,
        authority: &str,
        peer: SocketAddr,
        certificate: Option<&str>,
        tuning: &Tuning,
    ) -> std::result::Result<TonicChannel, String> {
        let told = |error: tonic::transport::Error| innermost(&error);
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let mut endpoint =
            Endpoint::from_shared(format!("{scheme}://{authority}")).map_err(told)?;
        if let Some(certificate) = certificate {
            endpoint = endpoint.tls_config(trusting(certificate)).map_err(told)?;
        }
        if let Some(http2) = tuning.http2() {
            endpoint = endpoint
                .initial_stream_window_size(http2.window)
                .initial_connection_window_size(http2.connection_window)
                .max_frame_size(http2.frame);
        }
        let marks = stream.recorder().cloned();
        let mut only = Some(stream);
        let channel = endpoint
            .connect_with_connector(tower::service_fn(move |_| {
                std::future::ready(only.take().map(TokioIo::new).ok_or(ConnectionClosed))
            }))
            .await
            .map_err(told)?;
        let grpc = Grpc::new(channel).max_decoding_message_size(tuning.message_limit());
        Ok(TonicChannel { grpc, tuning: tuning.clone(), peer, marks })
    }

    pub(super) fn marks(&self) -> Option<&Arc<Recorder>> {
        self.marks.as_ref()
    }

    /// One message there, and one back.
    pub(super) fn unary(
        mut self,
        path: &'static str,
        message: Message,
    ) -> impl Future<Output = Result<Bytes>> + Send + 'static {
        let handed_over = self.marks.as_ref().map(Recorder::hand_over);
        async move {
            self.ready(path).await?;
            let marked = handed_over.and_then(HandedOver::begin);
            let codec = Marked::new(self.tuning.call_codec(), marked.clone());
            let reply = self
                .grpc
                .unary(Request::new(message), PathAndQuery::from_static(path), codec)
                .await
                .map(Response::into_inner)
                .map_err(|status| from_status(status, self.peer, path));
            if let Some(marked) = &marked {
                marked.end();
            }
            reply
        }
    }

    /// Asks for messages of the server's.
    pub(super) async fn fetch(mut self, request: FetchRequest) -> Result<Streaming<Bytes>> {
        self.ready(FETCH).await?;
        self.pass_over();
        let request = Request::new(request.encode().into());
        let codec = self.tuning.stream_codec();
        self.grpc
            .server_streaming(request, PathAndQuery::from_static(FETCH), codec)
            .await
            .map(Response::into_inner)
            .map_err(|status| from_status(status, self.peer, FETCH))
    }

    /// Sends what `queued` brings, and returns the reply to it.
    pub(super) async fn push(mut self, queued: queue::Receiver) -> Result<Bytes> {
        self.ready(PUSH).await?;
        self.pass_over();
        let codec = self.tuning.stream_codec();
        self.grpc
            .client_streaming(Request::new(queued), PathAndQuery::from_static(PUSH), codec)
            .await
            .map(Response::into_inner)
            .map_err(|status| from_status(status, self.peer, PUSH))
    }

    /// Sends what `queued` brings, and returns what the server sends meanwhile.
    pub(super) async fn exchange(mut self, queued: queue::Receiver) -> Result<Streaming<Bytes>> {
        self.ready(EXCHANGE).await?;
        self.pass_over();
        let codec = self.tuning.stream_codec();
        self.grpc
            .streaming(Request::new(queued), PathAndQuery::from_static(EXCHANGE), codec)
            .await
            .map(Response::into_inner)
            .map_err(|status| from_status(status, self.peer, EXCHANGE))
    }

    /// Streams are no calls whose phases are of interest, but take their places.
    fn pass_over(&self) {
        if let Some(marks) = &self.marks {
            marks.pass_over();
        }
    }

    async fn ready(&mut self, path: &'static str) -> Result<()> {
        self.grpc
            .ready()
            .await
            .map_err(|error| from_status(Status::from_error(error.into()), self.peer, path))
    }
}

/// The server's own refusals come in headers and have no source; whatever has one broke on the way.
pub(super) fn from_status(status: Status, peer: SocketAddr, method: &'static str) -> Error {
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
