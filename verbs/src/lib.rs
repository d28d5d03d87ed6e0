//! Safe RDMA verbs over libibverbs.
//!
//! A thin layer: what goes over the wire is what the caller posts, posting and polling are the
//! provider's own functions, and nothing in between allocates, locks or makes a system call.
//! What the layer adds is what C leaves to discipline:
//!
//! - **Lifetimes.** An object holds those it depends on: a queue pair its completion queues,
//!   protection domain and memory, all of them the device. They can be dropped in any order.
//! - **Memory.** A device writes to memory on its own, so no `&[u8]` of it can exist. A
//!   [`MemoryRegion`] owns its pages and is copied to and from; work requests name it by
//!   [`RegionId`], and the queue pair keeps it until it is destroyed.
//! - **Reasons.** Every error says in one line what failed, on what, and what to do; a
//!   completion's status has its likely cure; the choice of a GID has its reason.
//! - **Newer devices.** Every C enum is an integer, so a value newer than the header is a number
//!   without a name and not undefined behaviour.
//!
//! libibverbs is loaded when the program starts and need not be there: [`devices`] then says so.
//!
//! # What it relies on
//!
//! Objects are `Send` and `Sync` where libibverbs says that any thread may use them, so providers
//! must do their locking: do not run a program that uses one object in several threads with
//! `MLX5_SINGLE_THREADED` or `MLX4_SINGLE_THREADED` in its environment, which takes the locks of
//! those providers away. A child made by `fork` must not use what its parent made: it does not even
//! have the memory of regions.
//!
//! # What there is
//!
//! | module | what |
//! | --- | --- |
//! | [`device`], [`context`], [`port`], [`gid`] | devices, their limits and ports, which GID to use and why |
//! | [`domain`], [`memory`], [`mapping`], [`numa`] | memory that a device may use, where it lies and in which pages |
//! | [`queue_pair`], [`connect`], [`state`], [`cm`] | queue pairs, and the ways to connect them |
//! | [`transport`] | RC, UC and UD, and which operation goes with which |
//! | [`work`], [`list`], [`gather`], [`refusal`] | work requests, alone, in lists and of several ranges, and why one is refused |
//! | [`datagram`] | destinations of UD requests |
//! | [`completion_queue`], [`completion`], [`channel`], [`status`] | completions, polled or slept for, and how requests end |
//! | [`shared_receive`] | receives that several queue pairs take from |
//! | [`extended`] | posting and polling by function calls, with the device's time |
//! | [`counters`], [`event`], [`locked`] | what a port counted, what befell the device, what may be pinned |
//!
//! # Example
//!
//! Two queue pairs of one device, connected to each other; between two hosts, [`Endpoint`] and
//! [`RemoteRegion`] travel over a channel of the caller's.
//!
//! ```no_run
//! use fabricbench_verbs::*;
//!
//! # fn main() -> Result<()> {
//! let (context, port) = open(None, None)?;
//! let gid = context.choose_gid(port.number, None)?;
//! println!("{} port {}, GID {} ({})", port.device, port.number, gid.entry, gid.reason);
//!
//! let pd = context.alloc_pd()?;
//! let cq = context.create_completion_queue(64)?;
//! let options = QueuePairOptions { max_inline: 64, ..QueuePairOptions::default() };
//! let mut a = pd.create_queue_pair(&cq, &cq, &options)?;
//! let b = pd.create_queue_pair(&cq, &cq, &options)?;
//!
//! let source = pd.register(4096, Access::LOCAL_READ)?;
//! let target = pd.register(4096, Access::REMOTE_WRITE)?;
//! let from = a.attach(&source)?;
//!
//! let (end_a, end_b) =
//!     (a.endpoint(&port, &gid, random_psn()), b.endpoint(&port, &gid, random_psn()));
//! a.connect(&port, &gid, &end_a, &end_b, &ConnectOptions::default())?;
//! b.connect(&port, &gid, &end_b, &end_a, &ConnectOptions::default())?;
//!
//! source.copy_in(0, b"hello")?;
//! let write = Operation::Write(target.remote().at(0));
//! a.post_send(&SendRequest::new(1, write, from.range(0, 5)).inline(true))?;
//!
//! let mut completions = [Completion::default(); 16];
//! loop {
//!     if let [completion, ..] = cq.poll(&mut completions)? {
//!         completion.check()?;
//!         break;
//!     }
//! }
//! assert_eq!(target.load_u8(0)?, b'h');
//! # Ok(())
//! # }
//! ```
//!
//! More, as complete programs, in the examples: `verbs_loopback`, `verbs_datagrams` and
//! `verbs_events`.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unreachable))]

mod attachment;
pub mod channel;
pub mod cm;
pub mod completion;
pub mod completion_queue;
pub mod connect;
pub mod context;
pub mod counters;
pub mod datagram;
pub mod device;
mod device_memory;
pub mod domain;
pub mod error;
pub mod event;
pub mod extended;
pub mod gather;
pub mod gid;
pub mod limits;
pub mod list;
pub mod locked;
pub mod mapping;
pub mod memory;
pub mod numa;
pub mod port;
mod post;
pub mod queue_pair;
pub mod refusal;
pub mod registration;
pub mod shared_receive;
pub mod state;
pub mod status;
mod sys;
pub mod sysfs;
pub mod transport;
pub mod work;

pub use channel::CompletionChannel;
pub use cm::CmError;
pub use completion::{Completion, Opcode};
pub use completion_queue::{CompletionQueue, PollError};
pub use connect::{ConnectOptions, DEFAULT_QKEY, Endpoint, random_psn};
pub use context::{Context, Limits};
pub use counters::{Counters, Traffic};
pub use datagram::{AddressHandle, GRH_BYTES, PeerId};
pub use device::{Device, devices, open};
pub use domain::ProtectionDomain;
pub use error::{Error, Result};
pub use event::{Event, EventKind, Subject};
pub use extended::{
    DeviceClock, ExtendedCompletionQueue, ExtendedQueuePair, ExtendedSupport, TimedCompletion,
};
pub use gather::MOST_SEGMENTS;
pub use gid::{Gid, GidChoice, GidEntry, GidType};
pub use limits::{ExtendedLimits, OnDemand, OnDemandOperations};
pub use list::{RecvList, SendList};
pub use locked::LockedMemory;
pub use mapping::{HugePages, Pages};
pub use memory::{Access, AccessError, MemoryRegion, RemoteAddr, RemoteRegion};
pub use numa::{NodeChoice, Placement};
pub use port::{Kind, LinkLayer, Mtu, Port, PortState};
pub use queue_pair::{Capabilities, QueuePair, QueuePairOptions};
pub use refusal::{PostError, PostFailure};
pub use registration::{Backing, MemoryOptions};
pub use shared_receive::SharedReceiveQueue;
pub use state::State;
pub use status::{CompletionError, Status};
pub use sysfs::Sysfs;
pub use transport::{OperationKind, Transport};
pub use work::{Local, Operation, RecvRequest, RegionId, SendRequest};
