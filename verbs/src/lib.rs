//! Safe RDMA verbs.

pub mod completion;
pub mod connect;
pub mod device;
pub mod domain;
pub mod error;
pub mod event;
pub mod gid;
pub mod locked;
pub mod memory;
pub mod port;
pub mod queue_pair;
mod sys;
pub mod sysfs;
pub mod work;

pub use completion::{Completion, CompletionError, CompletionQueue, Opcode, PollError, Status};
pub use connect::{ConnectOptions, Endpoint, State, random_psn};
pub use device::{Context, Device, Limits, devices, open};
pub use domain::ProtectionDomain;
pub use error::{Error, Result};
pub use event::{Event, EventKind, Subject};
pub use gid::{Gid, GidChoice, GidEntry, GidType};
pub use locked::LockedMemory;
pub use memory::{Access, AccessError, MemoryRegion, RemoteAddr, RemoteRegion};
pub use port::{Kind, LinkLayer, Mtu, Port, PortState};
pub use queue_pair::{Capabilities, QueuePair, QueuePairOptions, Transport};
pub use work::{
    Local, Operation, PostError, PostFailure, RecvList, RecvRequest, RegionId, SendList,
    SendRequest,
};
