//! The command between two hosts of which one dies, or loses its cable or device: two soft-RoCE
//! guests, this one the client's.
//!
//! They run when `FABRICBENCH_PAIR_TESTS=1` is set; otherwise each says why it is skipped and passes.
//! The other guest runs whatever shell scripts it is sent out of band:
//!
//! ```text
//! ci/test-pair
//! ```

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "document/mod.rs"]
mod document;
#[path = "process/mod.rs"]
mod process;

#[path = "pair/peer.rs"]
mod peer;

#[path = "pair/cut.rs"]
mod cut;
#[path = "pair/killed.rs"]
mod killed;
#[path = "pair/loss.rs"]
mod loss;
#[path = "pair/removal.rs"]
mod removal;
