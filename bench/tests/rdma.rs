//! The command over RDMA: soft-RoCE in the guest, with the networks of `ci/network`.
//!
//! They run when `FABRICBENCH_DEVICE_TESTS=1` is set, and then fail if there is no such device;
//! otherwise each says why it is skipped and passes:
//!
//! ```text
//! ci/guest run --env FABRICBENCH_DEVICE_TESTS=1 -- \
//!     sh -c 'ci/network up && target/debug/deps/rdma-HASH'
//! ```

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "document/mod.rs"]
mod document;
#[path = "process/mod.rs"]
mod process;
#[path = "readme/mod.rs"]
mod readme;

#[path = "rdma/pair.rs"]
mod pair;

#[path = "rdma/axes.rs"]
mod axes;
#[path = "rdma/buffers.rs"]
mod buffers;
#[path = "rdma/calls.rs"]
mod calls;
#[path = "rdma/interface.rs"]
mod interface;
#[path = "rdma/limits.rs"]
mod limits;
#[path = "rdma/lost_peer.rs"]
mod lost_peer;
#[path = "rdma/manager.rs"]
mod manager;
#[path = "rdma/memory.rs"]
mod memory;
#[path = "rdma/open_loop.rs"]
mod open_loop;
#[path = "rdma/operations.rs"]
mod operations;
#[path = "rdma/perftest.rs"]
mod perftest;
#[path = "rdma/probe.rs"]
mod probe;
#[path = "rdma/results.rs"]
mod results;
#[path = "rdma/split.rs"]
mod split;
#[path = "rdma/suite.rs"]
mod suite;
#[path = "rdma/sweep.rs"]
mod sweep;
#[path = "rdma/system_calls.rs"]
mod system_calls;
#[path = "rdma/think.rs"]
mod think;
#[path = "rdma/waiting.rs"]
mod waiting;
