//! Client and server of the crate, talking to each other on this host.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed test may panic anywhere"
)]

mod connections;
mod door;
mod failures;
mod interoperation;
mod marks;
mod messages;
mod strangers;
mod support;
mod tls;
