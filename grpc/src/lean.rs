//! gRPC straight on HTTP/2: what the wire format demands, and no layer more.
//!
//! The same service as tonic's side of this crate, and the same bytes on the wire; each talks to the
//! other. What is not here of gRPC: compression, deadlines (`grpc-timeout`), metadata of the user's.
//!
//! A message goes out as it is: its prefix and its bytes are two pieces of one DATA frame (`framing`),
//! which one system call writes. It comes in as one frame where the frame limit admits it, and is
//! then a slice of what was read. Nothing is copied on either side but small messages of a stream,
//! which are gathered.

mod client;
mod framing;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod messages;
mod outflow;
mod server;

pub(crate) use client::{Connection, Replies, Unary, exchange, push};
use http::header::HeaderValue;
pub(crate) use server::serve;
use tonic::{Code, Status};

/// The content type of what is sent. Peers may send a suffix, as in `application/grpc+proto`.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// Bytes that HTTP/2 holds for one stream before it takes no more: what is queued here is not in the
/// cache any more when it is written.
const SEND_BUFFER: usize = 1 << 20;

/// What ended a call.
#[derive(Debug)]
enum Failure {
    /// The HTTP/2 connection or stream broke.
    Http2(h2::Error),
    /// One side says no, in gRPC's words.
    Status(Status),
    /// The peer's bytes are no gRPC.
    Malformed(String),
}

impl Failure {
    /// What a server answers with.
    fn into_status(self) -> Status {
        match self {
            Failure::Http2(error) => Status::new(Code::Unavailable, error.to_string()),
            Failure::Status(status) => status,
            Failure::Malformed(what) => Status::new(Code::Internal, what),
        }
    }
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Failure {
        Failure::Http2(error)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Status(status)
    }
}
