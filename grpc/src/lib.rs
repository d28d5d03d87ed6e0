//! Raw-bytes gRPC: a client and a server whose messages are plain bytes, over tonic, stock and
//! tuned, and over a lean stack of this crate's own on h2.
//!
//! There is no protobuf on the data path unless it is [asked for](Tuning::serialized); on the wire
//! it is ordinary gRPC over HTTP/2, and either stack talks to the other. Nothing here knows of
//! benchmarks, and tonic, hyper and h2 are named nowhere else.
//!
//! Everything runs on current-thread runtimes, which have the lowest latency:
//!
//! ```
//! use std::sync::Arc;
//! use bytes::Bytes;
//! use fabricbench_grpc::{Client, ConnectOptions, ListenOptions, Observer, Server, Tuning};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let tuning = Tuning::tuned(1 << 20, 1)?;
//! let server = Server::bind(&ListenOptions::new("127.0.0.1:0".parse()?), &tuning)?;
//! let address = server.local_addr();
//! let observer = Arc::new(Observer::new());
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let serving = tokio::spawn(server.serve(observer.clone(), async { stopped.await.unwrap_or(()) }));
//!
//! let client = Client::connect(&ConnectOptions::new(address), &tuning).await?;
//! assert_eq!(client.echo(Bytes::from_static(b"there and back")).await?, "there and back");
//! assert_eq!(observer.echoed().messages, 1);
//! # drop(client);
//! # stop.send(()).ok();
//! # serving.await??;
//! # Ok(())
//! # })
//! # }
//! ```
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unreachable))]

mod client;
mod codec;
mod door;
mod error;
mod exchange;
#[cfg(fuzzing)]
pub mod fuzzing;
mod incoming;
mod key;
mod lean;
pub mod marks;
mod message;
mod observer;
mod queue;
mod server;
mod service;
pub mod socket;
mod status;
mod tls;
mod tuning;

pub use client::{Client, ExchangeStream, Exchanged, FetchStream, PushStream};
pub use door::{Arriving, Door, HEAD_TIME, MOST_WAITING, TurnedAway, to_displace};
pub use error::{ConnectStage, Error, Result};
pub use key::{Key, random};
pub use message::Message;
pub use observer::{Counts, Observer, PayloadCheck, PayloadSource};
pub use server::{SHUTDOWN_GRACE, Server};
pub use service::{CALL, ECHO, EXCHANGE, FETCH, FetchRequest, PUSH, PushSummary, READY};
pub use socket::{Binding, ConnectOptions, ListenOptions};
pub use status::StatusServer;
pub use tls::Identity;
pub use tuning::{MAX_MESSAGE, MAX_WINDOW, Profile, Setting, Tuning};
