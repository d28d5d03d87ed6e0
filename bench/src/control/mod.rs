//! The conversation between client and server: version, capabilities, endpoints, start and stop,
//! the far side's observations.
//!
//! It runs over one TCP connection of its own, apart from everything that is measured: a greeting
//! line, then JSON documents with a length in front, of which the first ones say who may come in.
//! `docs/decisions/0002-control-protocol.md` says why it is no gRPC service.

mod admission;
mod census;
mod client;
mod frame;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod greeting;
mod limits;
mod link;
mod protocol;
mod queue;
mod server;
mod strangers;
mod time_limit;
mod token;

pub use admission::{AdmissionError, Denial, Guard, admit, enter};
pub use census::Census;
pub use client::{Client, ConnectError, parse_host};
pub use frame::{FrameError, LARGEST_FRAME, read_frame, write_frame};
pub use greeting::{GreetingError, PROTOCOL, greet_client, greet_server};
pub use link::{Link, LinkError, SHORTEST_SILENCE};
pub use protocol::{Message, Refusal, Reply, Request};
pub use queue::{Queue, Ticket};
pub use server::{Ending, Notice, ServeError, Server};
pub use token::{LONGEST_TOKEN, SHORTEST_TOKEN, Token, TokenError};
