//! What becomes of either side when something happens to one of them, or to what is between them: a
//! table of who, which fault, in which phase, over which transport.
//!
//! Every row holds that both sides end or recover within `--timeout`, say whom they lost, in which phase
//! and how, that finished cells are kept in a whole document, and that a server which is left serves the
//! next client and holds no more than before.
//!
//! With `FABRICBENCH_FAULTS=DIR` all rows are run, and written to `DIR/rows.jsonl` (`ci/test-faults`);
//! otherwise a part of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "document/mod.rs"]
mod document;
#[path = "process/mod.rs"]
mod process;

#[allow(dead_code, reason = "shared with the tests of paths")]
#[path = "paths/cluster.rs"]
mod cluster;

#[path = "faults/between.rs"]
mod between;
#[path = "faults/page.rs"]
mod page;
#[path = "faults/row.rs"]
mod row;
#[path = "faults/scene.rs"]
mod scene;

#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/signals.rs"]
mod signals;
