//! Whole runs on a virtual clock: how their time is shared out, when cells are done, and what their
//! comparison shows.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[path = "pacing/budget.rs"]
mod budget;
#[path = "pacing/comparison.rs"]
mod comparison;
#[path = "pacing/drift.rs"]
mod drift;
#[path = "pacing/knee.rs"]
mod knee;
#[path = "pacing/precision.rs"]
mod precision;
#[path = "pacing/scripted.rs"]
mod scripted;
