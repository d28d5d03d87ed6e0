//! The harness of fabricbench: one measuring loop a pattern for every transport.

pub mod clock;
pub mod engine;
pub mod observe;
pub mod plan;
pub mod report;
pub mod stats;
pub mod transport;
