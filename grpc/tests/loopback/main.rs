//! Client and server of the crate, talking to each other on this host.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test may panic anywhere")]

mod connections;
mod failures;
mod messages;
mod support;
