//! The link: both ends made, set up, and joined by two threads.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::configure::Configuration;
use crate::error::Error;
use crate::namespace::Namespace;
use crate::tun;

/// The smallest MTU, in bytes, at which IPv4 works: RFC 791's 68.
pub const SMALLEST_MTU: u32 = 68;
/// The largest MTU, in bytes, of IPoIB in connected mode: `IPOIB_CM_MTU` of the kernel's
/// `drivers/infiniband/ulp/ipoib/ipoib.h`, 64 KiB less 16.
pub const LARGEST_MTU: u32 = 65_520;

/// What one end of the link shall be.
#[derive(Debug)]
pub struct End<'a> {
    /// The interface's name, 1 to 15 characters.
    pub name: String,
    /// Its network namespace; `None` for the calling thread's.
    pub namespace: Option<&'a Namespace>,
    /// Its addresses.
    pub addresses: Vec<Address>,
}

/// A link that is up. Both interfaces are deleted when it is dropped, and by the kernel if the
/// process dies.
pub struct Link {
    ends: [Configuration; 2],
    carriers: Vec<JoinHandle<()>>,
}

impl Link {
    /// Makes both interfaces with `mtu` bytes each, brings them up and begins to carry packets.
    ///
    /// `on_end` is called once for each direction when it ends, with the reason: the deletion
    /// of an interface, which dropping the link is too.
    ///
    /// # Errors
    ///
    /// When a namespace, a device or an address cannot be had; then nothing is left behind.
    pub fn up<F>(local: &End<'_>, peer: &End<'_>, mtu: u32, on_end: F) -> Result<Self, Error>
    where
        F: Fn(Error) + Clone + Send + 'static,
    {
        Self::up_delayed(local, peer, mtu, Duration::ZERO, on_end)
    }

    /// As [`up`](Self::up), with each packet `delay` on its way: a long link.
    ///
    /// # Errors
    ///
    /// As [`up`](Self::up).
    pub fn up_delayed<F>(
        local: &End<'_>,
        peer: &End<'_>,
        mtu: u32,
        delay: Duration,
        on_end: F,
    ) -> Result<Self, Error>
    where
        F: Fn(Error) + Clone + Send + 'static,
    {
        let (local_device, local_configuration) = make(local, mtu)?;
        let (peer_device, peer_configuration) = make(peer, mtu)?;
        let (local_device, peer_device) = (Arc::new(local_device), Arc::new(peer_device));

        // Built before the first thread, so that dropping it on an error ends that thread.
        let mut link =
            Self { ends: [local_configuration, peer_configuration], carriers: Vec::new() };
        let directions = [
            ((local, &local_device), (peer, &peer_device)),
            ((peer, &peer_device), (local, &local_device)),
        ];
        for ((source, from), (sink, to)) in directions {
            let (from, to, on_end) = (Arc::clone(from), Arc::clone(to), on_end.clone());
            let (source, sink) = (source.name.clone(), sink.name.clone());
            let carrier = thread::Builder::new()
                .name(format!("from-{source}"))
                .spawn(move || {
                    on_end(match delay {
                        Duration::ZERO => carry(&source, &from, &sink, &to),
                        _ => carry_late(&source, &from, &sink, &to, delay),
                    });
                })
                .map_err(|source| Error::Start { source })?;
            link.carriers.push(carrier);
        }
        Ok(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for end in &mut self.ends {
            // Fails only when the interface is gone already, which is what is wanted.
            let _ = end.delete();
        }
        for carrier in self.carriers.drain(..) {
            let _ = carrier.join();
        }
    }
}

/// Makes and sets up one end, in its namespace.
fn make(end: &End<'_>, mtu: u32) -> Result<(File, Configuration), Error> {
    let work = || {
        let device = tun::create(&end.name)?;
        let mut configuration = Configuration::open(&end.name)
            .map_err(|source| Error::step("find", &end.name, source))?;
        configuration
            .bring_up(mtu)
            .map_err(|source| Error::step("set the MTU and bring up", &end.name, source))?;
        for address in &end.addresses {
            configuration.add_address(*address).map_err(|source| Error::Kernel {
                action: format!("add {address} to"),
                name: end.name.clone(),
                source,
            })?;
        }
        Ok((device, configuration))
    };
    match end.namespace {
        Some(namespace) => namespace.within(work)?,
        None => work(),
    }
}

/// Packets on a long link at the most: more than any window holds. Then the interface's queue fills.
const MOST_UNDER_WAY: usize = 4096;

/// As [`carry`], each packet `delay` later.
fn carry_late(source: &str, mut from: &File, sink: &str, mut to: &File, delay: Duration) -> Error {
    let (depart, arrivals) = mpsc::sync_channel::<(Instant, Vec<u8>)>(MOST_UNDER_WAY);
    thread::scope(|scope| {
        let arriving = scope.spawn(move || {
            for (due, packet) in arrivals {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                match to.write(&packet) {
                    Ok(_) => {}
                    Err(error) if is_a_loss(&error) => {}
                    Err(error) => return Some(ended("write to", sink, error)),
                }
            }
            None
        });
        let mut packet = vec![0; tun::LONGEST_PACKET];
        let departed = loop {
            let length = match from.read(&mut packet) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break Some(ended("read from", source, error)),
            };
            if depart.send((Instant::now() + delay, packet[..length].to_vec())).is_err() {
                break None;
            }
        };
        drop(depart);
        let arrived = arriving.join().ok().flatten();
        arrived.or(departed).unwrap_or_else(|| Error::Vanished { name: sink.to_owned() })
    })
}

/// Carries packets one way until the link ends, and says why it did.
fn carry(source: &str, mut from: &File, sink: &str, mut to: &File) -> Error {
    let mut packet = vec![0; tun::LONGEST_PACKET];
    loop {
        let length = match from.read(&mut packet) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return ended("read from", source, error),
        };
        match to.write(&packet[..length]) {
            Ok(_) => {}
            Err(error) if is_a_loss(&error) => {}
            Err(error) => return ended("write to", sink, error),
        }
    }
}

/// Whether a refused packet is one that a link may lose: the interface is set down (EIO), the
/// packet is not IP (EINVAL), or there is no memory for it. The kernel counts it as dropped.
fn is_a_loss(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::ENOMEM | libc::ENOBUFS | libc::EINTR)
    )
}

/// A device that was deleted answers EBADFD, and EFAULT to a read that was waiting.
fn ended(action: &'static str, name: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EBADFD | libc::EFAULT) => Error::Vanished { name: name.to_owned() },
        _ => Error::step(action, name, error),
    }
}
