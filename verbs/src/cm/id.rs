//! Identifiers of the connection manager, each with an event channel of its own.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cm::address::{self, RawAddress};
use crate::cm::error::CmError;
use crate::cm::event::{EventCode, Outcome};
use crate::sys;

/// The channel on which events of one identifier arrive.
struct Channel(NonNull<sys::rdma_event_channel>);

// SAFETY: a channel is a file descriptor; librdmacm may be called from any thread.
unsafe impl Send for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, after the identifier on it.
        unsafe { sys::rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive and its structure public.
        let fd = unsafe { self.0.as_ref() }.fd;
        // SAFETY: the descriptor stays open as long as the channel, which `self` keeps.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Channel {
    /// A channel whose reading gives up instead of waiting, so that every wait has a deadline.
    fn new() -> Result<Self, CmError> {
        // SAFETY: no arguments; without the library the bindings return null.
        let raw = unsafe { sys::rdma_create_event_channel() };
        let channel = Self(NonNull::new(raw).ok_or_else(unavailable)?);
        rustix::fs::fcntl_getfl(&channel)
            .and_then(|flags| {
                rustix::fs::fcntl_setfl(&channel, flags | rustix::fs::OFlags::NONBLOCK)
            })
            .map_err(|errno| CmError::Unavailable { why: format!("fcntl: {errno}") })?;
        Ok(channel)
    }
}

/// Why there is no event channel.
fn unavailable() -> CmError {
    let errno = io::Error::last_os_error();
    let why = if !sys::cm_library_loaded() {
        "librdmacm.so.1 cannot be loaded; install librdmacm1 (Debian, Ubuntu) or librdmacm (RHEL, \
         Fedora, SUSE)"
            .to_owned()
    } else {
        format!(
            "/dev/infiniband/rdma_cm cannot be used ({errno}); as root `modprobe rdma_ucm`, pass \
             the node into the container, give this user access to it"
        )
    };
    CmError::Unavailable { why }
}

/// What an identifier is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// Reliable connections (`RDMA_PS_TCP`).
    Connection,
    /// Datagrams (`RDMA_PS_UDP`).
    Datagram,
}

/// One event, copied out of the library's memory and acknowledged.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) outcome: Outcome,
    pub(crate) private_data: Vec<u8>,
    /// RDMA reads and atomics the peer may have in flight here.
    pub(crate) responder_resources: u8,
    /// RDMA reads and atomics the peer serves at once.
    pub(crate) initiator_depth: u8,
    /// With [`EventCode::ESTABLISHED`] of datagrams: where they go.
    pub(crate) peer: Option<Reached>,
    /// With [`EventCode::CONNECT_REQUEST`]: the new identifier.
    request: Option<NonNull<sys::rdma_cm_id>>,
}

// SAFETY: the pointer is used once, before the value leaves this module's caller; librdmacm may be
// called from any thread.
unsafe impl Send for Heard {}

/// A receiver of datagrams that has answered.
#[derive(Clone, Copy)]
pub(crate) struct Reached {
    pub(crate) address: sys::ibv_ah_attr,
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached").field("qpn", &self.qpn).finish_non_exhaustive()
    }
}

/// An identifier: a listener, or one end of a connection.
pub(crate) struct Id {
    raw: NonNull<sys::rdma_cm_id>,
    service: Service,
    /// Dropped after the identifier, by [`Drop`] first and fields next.
    channel: Channel,
}

// SAFETY: librdmacm may be called from any thread; the value is used by one at a time.
unsafe impl Send for Id {}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; every event of it has been acknowledged, so the
        // call does not wait for one.
        unsafe { sys::rdma_destroy_id(self.raw.as_ptr()) };
    }
}

impl AsFd for Id {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl Id {
    pub(crate) fn new(service: Service) -> Result<Self, CmError> {
        let channel = Channel::new()?;
        let mut raw = ptr::null_mut();
        let space = match service {
            Service::Connection => sys::rdma_port_space::RDMA_PS_TCP,
            Service::Datagram => sys::rdma_port_space::RDMA_PS_UDP,
        };
        // SAFETY: the channel is alive, the place valid, and no context value is allowed.
        let code = unsafe {
            sys::rdma_create_id(channel.0.as_ptr(), &raw mut raw, ptr::null_mut(), space)
        };
        match NonNull::new(raw) {
            Some(raw) if code == 0 => Ok(Self { raw, service, channel }),
            _ => Err(unavailable()),
        }
    }

    /// Makes the identifier of a request, which is still on this listener's channel, one with a
    /// channel of its own.
    pub(crate) fn of_request(&self, heard: &Heard) -> Result<Option<Self>, CmError> {
        let Some(raw) = heard.request else { return Ok(None) };
        let moved = Channel::new().and_then(|channel| {
            // SAFETY: identifier and channel are alive, and the request's event is acknowledged.
            let code = unsafe { sys::rdma_migrate_id(raw.as_ptr(), channel.0.as_ptr()) };
            if code == 0 { Ok(channel) } else { Err(call_failed("rdma_migrate_id", "a request")) }
        });
        match moved {
            Ok(channel) => Ok(Some(Self { raw, service: self.service, channel })),
            Err(error) => {
                // SAFETY: ours alone since the event; the kernel refuses the request with it.
                unsafe { sys::rdma_destroy_id(raw.as_ptr()) };
                Err(error)
            }
        }
    }

    pub(crate) fn service(&self) -> Service {
        self.service
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rdma_cm_id {
        self.raw.as_ptr()
    }

    /// The name of the device the kernel bound it to, if it did.
    pub(crate) fn device(&self) -> Option<String> {
        // SAFETY: the identifier is alive and its structure public.
        let context = unsafe { self.raw.as_ref() }.verbs;
        let context = NonNull::new(context)?.as_ptr();
        // SAFETY: a context that librdmacm keeps open. Only this field is looked at: others have
        // locks that other threads may hold.
        let device = unsafe { (*context).device };
        // SAFETY: null, or a device of the list that librdmacm keeps.
        let device = unsafe { device.as_ref() }?;
        // SAFETY: the name is a string of the device, NUL-terminated in its array.
        let name = unsafe { CStr::from_ptr(device.name.as_ptr()) };
        Some(name.to_string_lossy().into_owned())
    }

    /// The own address, as far as it is known.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        // SAFETY: the identifier is alive and its structure public; zeroed until it is known.
        let route = unsafe { &raw const (*self.as_ptr()).route.addr.src_addr_union };
        // SAFETY: the union is as large as any address.
        unsafe { address::read(route.cast()) }
    }

    /// The peer's address, as far as it is known.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        // SAFETY: as for `local`.
        let route = unsafe { &raw const (*self.as_ptr()).route.addr.dst_addr_union };
        // SAFETY: the union is as large as any address.
        unsafe { address::read(route.cast()) }
    }

    /// Both ends and the device, for errors.
    pub(crate) fn subject(&self) -> String {
        let text = |address: Option<SocketAddr>| {
            address.map_or_else(|| "?".to_owned(), |address| address.to_string())
        };
        let device = self.device().unwrap_or_else(|| "no device".to_owned());
        match self.remote() {
            Some(remote) => format!("{} to {remote} over {device}", text(self.local())),
            None => format!("{} over {device}", text(self.local())),
        }
    }

    /// Binds to a local address, which binds to the device that has it.
    pub(crate) fn bind(&self, local: SocketAddr) -> Result<(), CmError> {
        let mut raw = RawAddress::new(local);
        // SAFETY: the identifier is alive and the address whole; the call copies it.
        let code = unsafe { sys::rdma_bind_addr(self.as_ptr(), raw.as_mut_ptr().cast()) };
        if code == 0 { Ok(()) } else { Err(call_failed("rdma_bind_addr", &local.to_string())) }
    }

    /// The next event, if one waits.
    pub(crate) fn next(&self) -> Result<Option<Heard>, CmError> {
        let mut event = ptr::null_mut();
        // SAFETY: the channel is alive and the place valid.
        let code = unsafe { sys::rdma_get_cm_event(self.channel.0.as_ptr(), &raw mut event) };
        if code != 0 {
            let errno = io::Error::last_os_error();
            return match errno.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(call_failed("rdma_get_cm_event", &self.subject())),
            };
        }
        let Some(place) = NonNull::new(event) else { return Ok(None) };
        // SAFETY: the event just read, alive until it is acknowledged below.
        let heard = copy(unsafe { place.as_ref() }, self.service);
        // SAFETY: acknowledged once; nothing of it is used after.
        unsafe { sys::rdma_ack_cm_event(place.as_ptr()) };
        Ok(Some(heard))
    }

    /// The next event, or `None` when `deadline` has passed.
    pub(crate) fn wait(&self, deadline: Instant) -> Result<Option<Heard>, CmError> {
        loop {
            if let Some(heard) = self.next()? {
                return Ok(Some(heard));
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Ok(None);
            };
            // A round number up: a rest below the clock's grain would spin.
            let left = Timespec::try_from(left + Duration::from_millis(1)).ok();
            let mut waiting = [PollFd::new(&self.channel, PollFlags::IN)];
            match poll(&mut waiting, left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    return Err(CmError::Call {
                        call: "poll",
                        subject: self.subject(),
                        errno: errno.into(),
                        cure: "this is not expected to happen",
                    });
                }
            }
        }
    }

    /// Waits for one of the events `wanted`.
    ///
    /// # Errors
    ///
    /// [`CmError::Failed`] for any other, [`CmError::TimedOut`].
    pub(crate) fn expect(
        &self,
        step: &'static str,
        wanted: &[EventCode],
        waiting: (Instant, Duration),
        cure: &'static str,
    ) -> Result<Heard, CmError> {
        let (deadline, waited) = waiting;
        loop {
            let Some(heard) = self.wait(deadline)? else {
                return Err(CmError::TimedOut { step, subject: self.subject(), waited, cure });
            };
            let Outcome { event, status } = heard.outcome;
            if wanted.contains(&event) && status == 0 {
                return Ok(heard);
            }
            // A bonded interface has failed over: this identifier is not touched by it.
            if event != EventCode::ADDR_CHANGE {
                return Err(CmError::Failed {
                    step,
                    subject: self.subject(),
                    outcome: heard.outcome,
                    private_data: heard.private_data,
                });
            }
        }
    }
}

/// What an event says, in memory of its own.
fn copy(event: &sys::rdma_cm_event, service: Service) -> Heard {
    let outcome = Outcome { event: EventCode(event.event), status: event.status };
    let mut heard = Heard {
        outcome,
        private_data: Vec::new(),
        responder_resources: 0,
        initiator_depth: 0,
        peer: None,
        request: NonNull::new(event.id).filter(|_| outcome.event == EventCode::CONNECT_REQUEST),
    };
    let (data, length) = match service {
        Service::Connection => {
            // SAFETY: events of connections have this member; all zero without parameters.
            let given = unsafe { &event.param.conn };
            heard.responder_resources = given.responder_resources;
            heard.initiator_depth = given.initiator_depth;
            (given.private_data, given.private_data_len)
        }
        Service::Datagram => {
            // SAFETY: events of datagrams have this member; all zero without parameters.
            let given = unsafe { &event.param.ud };
            if outcome.event == EventCode::ESTABLISHED {
                let (address, qpn, qkey) = (given.ah_attr, given.qp_num, given.qkey);
                heard.peer = Some(Reached { address, qpn, qkey });
            }
            (given.private_data, given.private_data_len)
        }
    };
    if !data.is_null() {
        // SAFETY: the library says that so many bytes are there.
        let bytes = unsafe { slice::from_raw_parts(data.cast::<u8>(), usize::from(length)) };
        heard.private_data = bytes.to_vec();
    }
    heard
}

/// The error of a call that just failed and set `errno`.
pub(crate) fn call_failed(call: &'static str, subject: &str) -> CmError {
    let errno = io::Error::last_os_error();
    let cure = match errno.raw_os_error() {
        Some(libc::EADDRINUSE) => "another program has this port: choose another, or 0 for any",
        Some(libc::EADDRNOTAVAIL) => "no interface of this host has the address: ip addr",
        Some(libc::ENODEV) => {
            "no RDMA device is on the interface with this address: rdma link, and ip addr"
        }
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
            "no route from this interface: ip route get"
        }
        Some(libc::EAFNOSUPPORT | libc::EINVAL) => {
            "both addresses must be of one family, and a link-local one needs its interface \
             (%IFACE)"
        }
        Some(libc::EACCES | libc::EPERM) => "ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "look at the kernel log",
    };
    CmError::Call { call, subject: subject.to_owned(), errno, cure }
}
