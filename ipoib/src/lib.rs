//! Network interfaces and the path that traffic took: which are IPoIB and which Ethernet, what
//! stands behind them, which way the kernel sends, proof of which interface carried the bytes,
//! and what the kernel knows of the connections that brought them.
//!
//! The kernel decides, not a name or an option: an interface is IPoIB if its hardware type is
//! InfiniBand's (ARPHRD 32), emulated if it is of that type without the kernel's IPoIB driver,
//! and it carried a measurement if its counters moved by the payload. All answers are of the
//! calling thread's network namespace.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//!
//! use fabricbench_ipoib::{PathName, PathProof, choose, interfaces, route};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What this host has, and, as the control connection would bring it, what the peer has.
//! let (here, there) = (interfaces()?, interfaces()?);
//! let path = choose(&here, &there, &PathName::Loopback, None)?;
//! println!("{}", path.reason);
//!
//! // The kernel agrees, or this is an error that says which way it would go.
//! route::check(&path)?;
//!
//! let listener = TcpListener::bind((path.remote_addr, 0))?;
//! let proof = PathProof::begin(&path.local_interface, Some(path.remote_addr))?;
//! let mut sender = TcpStream::connect(listener.local_addr()?)?;
//! sender.write_all(&[0; 4096])?;
//! listener.accept()?.0.read_exact(&mut [0; 4096])?;
//!
//! let verdict = proof.finish(4096, 0)?;
//! assert!(verdict.holds, "{}", verdict.text);
//! # Ok(())
//! # }
//! ```
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unreachable))]

pub mod advice;
pub mod choice;
pub mod counters;
pub mod interface;
pub mod offloads;
pub mod processors;
pub mod proof;
pub mod route;
pub mod setup;
pub mod shell;
pub mod sockets;

mod address;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod link;
mod netlink;
mod refusal;
mod sysfs;
mod words;

pub use address::{Address, Scope};
pub use advice::{Advice, Cause, Window, advice};
pub use choice::{PathChoice, PathName, choose};
pub use counters::Counters;
pub use error::Error;
pub use interface::{
    Backing, Interface, Ipoib, Kind, Mode, RdmaPort, State, interfaces, interfaces_with,
};
pub use offloads::{Offloads, Switch};
pub use processors::Processors;
pub use proof::{PathProof, Verdict};
pub use route::Route;
pub use setup::{Interrupt, Queue, Setup, TcpBuffers, setups, setups_below, tcp_buffers};
pub use sockets::{TcpInfo, TcpSocket, TcpState, tcp_sockets};
