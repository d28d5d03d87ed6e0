//! The harness of fabricbench: one measuring loop a pattern for every transport.
//!
//! Floors, each of which uses only what is under it; `docs/architecture.md` draws them.
//!
//! | floor | modules |
//! | --- | --- |
//! | 6 | [`cli`]: a file a subcommand |
//! | 5 | [`control`]: the conversation between client and server; [`run`]: a plan, carried out; [`diagnosis`]: what the figures of one path mean; [`doctor`]: what stands in the way of good ones on a host; [`suite`]: a published suite, beside what was published; [`html`]: results as a page and as figures |
//! | 4 | [`session`]: a cell, a transport and a loop meet |
//! | 3 | [`engine`]: the measuring loops |
//! | 2 | [`transport`]: how a message travels; [`observe`]: what the machine did meanwhile; [`comparison`]: results beside each other |
//! | 1 | [`plan`], [`stats`], [`clock`], [`report`], and the crates of the three backends |
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unreachable))]

pub mod cli;
pub mod clock;
pub mod comparison;
pub mod control;
pub mod diagnosis;
pub mod doctor;
pub mod engine;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod html;
pub mod observe;
pub mod plan;
pub mod report;
pub mod run;
pub mod session;
pub mod stats;
pub mod suite;
pub mod transport;
