//! The harness of fabricbench: one measuring loop a pattern for every transport.

pub mod clock;
pub mod control;
pub mod engine;
pub mod observe;
pub mod plan;
pub mod report;
pub mod session;
pub mod stats;
pub mod transport;
