//! Which way the bytes went: the command between two network namespaces joined by an emulated
//! IPoIB link and by veth pairs, checked against the interfaces' own statistics.
//!
//! Needs root. Without, each test says why it is skipped and passes, or fails if
//! `FABRICBENCH_DEVICE_TESTS=1` demands it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "document/mod.rs"]
mod document;
#[path = "process/mod.rs"]
mod process;

#[path = "paths/cluster.rs"]
mod cluster;

#[path = "paths/advice.rs"]
mod advice;
#[path = "paths/binding.rs"]
mod binding;
#[path = "paths/choice.rs"]
mod choice;
#[path = "paths/connections.rs"]
mod connections;
#[path = "paths/diagnosis.rs"]
mod diagnosis;
#[path = "paths/faults.rs"]
mod faults;
#[path = "paths/proof.rs"]
mod proof;
#[path = "paths/suite.rs"]
mod suite;
