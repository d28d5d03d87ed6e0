//! Taking the connections of a slice, and no others.

use std::{
    io,
    net::{TcpListener, TcpStream},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use fabricbench_grpc::Door;
use rustix::event::{PollFd, PollFlags, poll};

use super::socket::{TURN, again, io_failed, timespec};
use crate::transport::{StopSignal, TransportError};

/// Connections that are taken before those that wait are looked at again.
const MOST_AT_ONCE: usize = 16;

/// Pause after a failed accept. Without it a process out of file descriptors would spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Takes connections by their key. Dropped, it cuts off all that it has not let in.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) listener: TcpListener,
    pub(super) door: Door<TcpStream>,
}

impl Entrance {
    /// The next connection of the client's; `None` when `stop` was given first.
    pub(super) fn next(&mut self, stop: &StopSignal) -> Result<Option<TcpStream>, TransportError> {
        self.listener.set_nonblocking(true).map_err(|error| io_failed("listen", &error))?;
        while !stop.is_given() {
            self.take()?;
            // Whoever is not here yet is looked at again after the wait.
            let cx = &mut Context::from_waker(Waker::noop());
            if let Some((stream, _)) = self.door.poll_admit(cx, Instant::now()) {
                return Ok(Some(stream));
            }
            self.wait()?;
        }
        Ok(None)
    }

    /// Takes some of those that wait in the backlog.
    fn take(&mut self) -> Result<(), TransportError> {
        for _ in 0..MOST_AT_ONCE {
            let accepted = self.listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                Ok((stream, peer))
            });
            match accepted {
                Ok((stream, peer)) => self.door.arrive(stream, peer, Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_of_listener(&error) => return Err(io_failed("accept", &error)),
                // A connection that ended before it was accepted, or no file descriptor, which may be for
                // want of what strangers hold.
                Err(_) => {
                    self.door.displace();
                    thread::sleep(ACCEPT_RETRY);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits until somebody comes or shows something, for a [`TURN`] at the most.
    fn wait(&self) -> Result<(), TransportError> {
        let mut sockets = vec![PollFd::new(&self.listener, PollFlags::IN)];
        sockets.extend(self.door.waiting().map(|stream| PollFd::new(stream, PollFlags::IN)));
        match poll(&mut sockets, Some(&timespec(TURN))).map_err(io::Error::from) {
            Err(error) if !again(&error) => Err(io_failed("wait for connections", &error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Whether it is the listener that failed, for good.
fn is_of_listener(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::OPNOTSUPP].map(Some).contains(&errno)
}
