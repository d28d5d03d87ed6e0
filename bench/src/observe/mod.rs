//! What the machine did while something was measured, and what machine it is.

mod cpu;
mod environment;
mod frequency;
mod memory;
mod memory_copy;
mod path;
mod sockets;

pub use cpu::{CpuTime, RunDelay};
pub use environment::{allocates_by, environment, is_emulated_machine};
pub use frequency::processor_mhz;
pub use memory::{PeakMemory, available_memory, total_memory};
pub use memory_copy::memory_copy;
pub use path::{PathWatch, Payload};
pub use sockets::connections;
