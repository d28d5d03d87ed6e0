//! TUN devices, and the only unsafe code of this crate: the ioctls that make one.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use crate::error::Error;

/// `ARPHRD_INFINIBAND` of `<linux/if_arp.h>`: the hardware type by which the kernel, and
/// everything that asks it, tells an IPoIB interface from another.
const INFINIBAND: libc::c_ulong = libc::ARPHRD_INFINIBAND as libc::c_ulong;

/// Leave checksums and segmentation to whoever takes the packets, as adapters under IPoIB do:
/// TCP then crosses in packets of 64 KiB at any MTU. Without, an MTU of 2044 is six times as
/// slow.
const OFFLOADS: libc::c_ulong =
    (libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN) as libc::c_ulong;

/// The longest packet that a device hands over, in bytes: the longest that IP has, after the
/// header in which the kernel says what it left undone (`struct virtio_net_hdr`).
pub const LONGEST_PACKET: usize = 65_535 + 10;

/// The longest interface name: `IFNAMSIZ` less its terminating zero.
pub const LONGEST_NAME: usize = libc::IFNAMSIZ - 1;

/// `struct ifreq` as `TUNSETIFF` reads it. `libc::ifreq` ends in a union, of which a safe
/// initialiser leaves bytes undefined; the kernel reads all of them.
#[repr(C)]
struct NameAndFlags {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; REST],
}

const REST: usize = size_of::<libc::ifreq>() - libc::IFNAMSIZ - size_of::<libc::c_short>();
const _: () = assert!(size_of::<NameAndFlags>() == size_of::<libc::ifreq>());

/// Makes the TUN device `name` in the calling thread's network namespace, with InfiniBand as
/// its hardware type. It is down and has no address. A read takes one packet that the kernel
/// sent out by it, a write to another such device hands it in there. The device is gone when
/// the file is closed.
///
/// # Errors
///
/// When `/dev/net/tun` cannot be opened, the name is taken or not one the kernel takes, or
/// the caller has no CAP_NET_ADMIN.
pub fn create(name: &str) -> Result<File, Error> {
    let mut request = NameAndFlags {
        name: [0; libc::IFNAMSIZ],
        // Exclusive: without it a persistent TUN device of the same name would be taken over.
        flags: (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL)
            as libc::c_short,
        rest: [0; REST],
    };
    // The kernel reads a `%` as a pattern to number devices by, and would choose the name.
    let acceptable = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !matches!(name, "." | "..")
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/:%".contains(&byte));
    if !acceptable {
        return Err(Error::Name { name: name.to_owned() });
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());

    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .map_err(|source| Error::OpenTun { source })?;

    // SAFETY: the descriptor is open for the whole call, and TUNSETIFF reads and writes one
    // `struct ifreq`, which `request` is as long as and laid out like (asserted above).
    let status = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if status < 0 {
        return Err(Error::create(name, io::Error::last_os_error()));
    }

    set(&device, Value::Hardware(INFINIBAND)).map_err(|error| Error::create(name, error))?;
    set(&device, Value::Offloads(OFFLOADS)).map_err(|error| Error::create(name, error))?;
    Ok(device)
}

/// What is set by an ioctl that takes its argument by value.
enum Value {
    Hardware(libc::c_ulong),
    Offloads(libc::c_ulong),
}

fn set(device: &File, value: Value) -> io::Result<()> {
    let (request, argument) = match value {
        Value::Hardware(arphrd) => (libc::TUNSETLINK, arphrd),
        Value::Offloads(bits) => (libc::TUNSETOFFLOAD, bits),
    };
    // SAFETY: the descriptor is open for the whole call, and both requests take their argument
    // by value: the kernel touches no memory of ours.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), request, argument) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
