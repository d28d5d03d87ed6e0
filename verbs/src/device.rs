//! Devices: what this host has.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::context::{Context, Opened};
use crate::error::{Error, Result};
use crate::port::Port;
use crate::sys;
use crate::sysfs::Sysfs;

/// The list libibverbs gave; the devices in it live as long as it does.
struct List(NonNull<*mut sys::ibv_device>);

// SAFETY: libibverbs does not change a list it has given out, and its functions on devices may
// be called from any thread.
unsafe impl Send for List {}
// SAFETY: as above; nothing is written through the list.
unsafe impl Sync for List {}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from ibv_get_device_list and is freed once, here.
        unsafe { sys::ibv_free_device_list(self.0.as_ptr()) };
    }
}

/// An RDMA device of this host, not opened yet.
#[derive(Clone)]
pub struct Device {
    /// Keeps `device` alive.
    _list: Arc<List>,
    device: NonNull<sys::ibv_device>,
    name: String,
    node: String,
}

// SAFETY: `device` points into the list, which is shared by count and safe to use from any thread.
unsafe impl Send for Device {}
// SAFETY: as above; the device structure is only read.
unsafe impl Sync for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The RDMA devices of this host, in the order libibverbs lists them.
///
/// # Errors
///
/// Never an empty list: [`Error::LibraryAbsent`], [`Error::KernelSupportAbsent`],
/// [`Error::NodeAbsent`] or [`Error::NoDevice`] say why there is none and how to get one.
pub fn devices() -> Result<Vec<Device>> {
    if !sys::library_loaded() {
        return Err(Error::LibraryAbsent);
    }
    let mut count = 0;
    // SAFETY: `count` is a valid place for the number of devices.
    let list = unsafe { sys::ibv_get_device_list(&raw mut count) };
    let Some(list) = NonNull::new(list) else {
        return Err(Error::KernelSupportAbsent { errno: io::Error::last_os_error() });
    };
    let list = Arc::new(List(list));
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the list holds `count` device pointers and lives in `list` beyond this use.
    let pointers = unsafe { std::slice::from_raw_parts(list.0.as_ptr().cast_const(), count) };
    let devices: Vec<Device> = pointers
        .iter()
        .filter_map(|&pointer| NonNull::new(pointer))
        .map(|device| Device::new(&list, device))
        .collect();
    if devices.is_empty() { Err(why_none(&Sysfs::default())) } else { Ok(devices) }
}

/// Tells a host without devices from a container that does not see their nodes: libibverbs
/// leaves a device out when its node under `/dev/infiniband` is absent.
fn why_none(sysfs: &Sysfs) -> Error {
    match sysfs.device_names().as_slice() {
        [] => Error::NoDevice,
        names => Error::NodeAbsent { devices: names.join(", ") },
    }
}

/// Opens the device named `name`, or the first that has an active port, and finds the port:
/// `port`, or the first active one.
///
/// # Errors
///
/// What [`devices`] and [`Device::open`] give; [`Error::DeviceNotFound`],
/// [`Error::PortNotFound`], [`Error::NoActivePort`].
pub fn open(name: Option<&str>, port: Option<u8>) -> Result<(Context, Port)> {
    let mut candidates = devices()?;
    if let Some(name) = name {
        let available: Vec<String> = candidates.iter().map(|d| d.name.clone()).collect();
        candidates.retain(|device| device.name == name);
        if candidates.is_empty() {
            return Err(Error::DeviceNotFound {
                name: name.to_owned(),
                available: available.join(", "),
            });
        }
    }
    let only = candidates.len() == 1;
    let mut seen = Vec::new();
    for device in &candidates {
        let context = match device.open() {
            Ok(context) => context,
            Err(error) if only => return Err(error),
            Err(error) => {
                seen.push(error.to_string());
                continue;
            }
        };
        let numbers = match port {
            Some(number) => number..=number,
            None => 1..=context.limits().ports,
        };
        for number in numbers {
            match context.port(number) {
                Ok(port) if port.is_active() => return Ok((context, port)),
                Ok(port) => seen.push(format!("{} port {number} is {}", device.name, port.state)),
                Err(error) if only => return Err(error),
                Err(error) => seen.push(error.to_string()),
            }
        }
    }
    Err(Error::NoActivePort { states: seen.join(", ") })
}

impl Device {
    fn new(list: &Arc<List>, device: NonNull<sys::ibv_device>) -> Self {
        // SAFETY: `device` is an element of the live list, and its structure is public.
        let raw = unsafe { device.as_ref() };
        let text = |field: &[std::ffi::c_char]| {
            // SAFETY: c_char and u8 have the same layout, and the length is kept.
            let bytes = unsafe { &*(ptr::from_ref(field) as *const [u8]) };
            CStr::from_bytes_until_nul(bytes)
                .map(|text| text.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let (name, node) = (text(&raw.name), text(&raw.dev_name));
        Self { _list: Arc::clone(list), device, name, node: format!("/dev/infiniband/{node}") }
    }

    /// The kernel's name, for example `mlx5_0` or `rxe0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The character device a process needs access to.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// `enum ibv_transport_type` as an integer.
    pub(crate) fn transport(&self) -> i32 {
        // SAFETY: the device is an element of the live list, and its structure is public.
        unsafe { self.device.as_ref() }.transport_type
    }

    /// Opens the device.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`], [`Error::NodeAbsent`], or [`Error::Call`].
    pub fn open(&self) -> Result<Context> {
        // SAFETY: the device is an element of the list this value keeps alive.
        let context = unsafe { sys::ibv_open_device(self.device.as_ptr()) };
        let Some(raw) = NonNull::new(context) else {
            let errno = io::Error::last_os_error();
            // After a refusal libibverbs looks for the node elsewhere and reports that it is
            // not there: opening it tells the reason.
            let node = std::fs::File::options().read(true).write(true).open(&self.node);
            return Err(open_failure(&self.name, &self.node, node.err().unwrap_or(errno)));
        };
        Opened::new(raw, self.clone()).map(|opened| Context(Arc::new(opened)))
    }
}

fn open_failure(device: &str, node: &str, errno: io::Error) -> Error {
    match errno.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            Error::PermissionDenied { device: device.to_owned(), node: node.to_owned() }
        }
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
            Error::NodeAbsent { devices: device.to_owned() }
        }
        _ => Error::Call {
            call: "ibv_open_device",
            object: format!("{device} ({node})"),
            errno,
            cure: "see the kernel log for the driver's reason".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_and_no_visible_node_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(dir.path());
        assert!(matches!(why_none(&sysfs), Error::NoDevice));
        std::fs::create_dir_all(sysfs.device("mlx5_0")).unwrap();
        std::fs::create_dir_all(sysfs.device("mlx5_1")).unwrap();
        let text = why_none(&sysfs).to_string();
        assert!(text.contains("mlx5_0, mlx5_1 exists but /dev/infiniband"), "{text}");
    }

    #[test]
    fn a_refused_open_says_why() {
        let of = |code| {
            open_failure("rxe0", "/dev/infiniband/uverbs0", io::Error::from_raw_os_error(code))
                .to_string()
        };
        assert!(of(libc::EACCES).contains("permission denied on /dev/infiniband/uverbs0"));
        assert!(of(libc::ENOENT).contains("--device=/dev/infiniband"));
        assert!(of(libc::ENOMEM).starts_with("ibv_open_device on rxe0"));
    }
}
