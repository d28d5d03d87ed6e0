//! A stand-in for an IPoIB link, for tests on machines without InfiniBand.
//!
//! Two TUN devices, one in each of two network namespaces, whose hardware type is set to
//! InfiniBand, and a thread for each direction that carries packets between them. To the
//! kernel, and so to every program, they are InfiniBand interfaces with an IP address: ARPHRD
//! 32, `link/infiniband`. What they lack is all that a real one has from its RDMA device: the
//! parent device, the `mode`, `pkey` and `umcast` attributes, and InfiniBand's speed. Figures
//! taken over it say nothing about InfiniBand and have to be labelled as emulated.

mod address;
mod configure;
mod error;
mod link;
mod namespace;
mod tun;

pub use address::Address;
pub use error::Error;
pub use link::{End, LARGEST_MTU, Link, SMALLEST_MTU};
pub use namespace::Namespace;
