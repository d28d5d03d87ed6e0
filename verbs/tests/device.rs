//! Tests on a real device: soft-RoCE in a guest, or an adapter.
//!
//! They run when `FABRICBENCH_DEVICE_TESTS=1` is set, and then fail if there is no device;
//! otherwise each says why it is skipped and passes:
//!
//! ```text
//! ci/guest run --env FABRICBENCH_DEVICE_TESTS=1 -- \
//!     sh -c 'ci/network up --without-ipoib && target/debug/deps/device-HASH'
//! ```
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which fail by panicking")]

#[path = "device/pair.rs"]
mod pair;

#[path = "device/absence.rs"]
mod absence;
#[path = "device/cm.rs"]
mod cm;
#[path = "device/datagrams.rs"]
mod datagrams;
#[path = "device/events.rs"]
mod events;
#[path = "device/examples.rs"]
mod examples;
#[path = "device/extended.rs"]
mod extended;
#[path = "device/failures.rs"]
mod failures;
#[path = "device/gather.rs"]
mod gather;
#[path = "device/hot_path.rs"]
mod hot_path;
#[path = "device/leftovers.rs"]
mod leftovers;
#[path = "device/lifetimes.rs"]
mod lifetimes;
#[path = "device/memory.rs"]
mod memory;
#[path = "device/port.rs"]
mod port;
#[path = "device/removal.rs"]
mod removal;
#[path = "device/shared_receive.rs"]
mod shared_receive;
#[path = "device/transfers.rs"]
mod transfers;
#[path = "device/transports.rs"]
mod transports;
