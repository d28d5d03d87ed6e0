//! Blocking reads and writes of a socket that end by patience or by the stop signal.

use std::{
    io::{self, IoSlice, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{SendAncillaryBuffer, SendFlags, sendmsg},
};

use crate::transport::{
    Patience, StopSignal, TransportError,
    wait::{go_on, stopped},
};

/// How long a socket call blocks before the stop signal is looked at.
pub(super) const TURN: Duration = Duration::from_millis(100);

/// How much the receiver of a push reads at once: as iperf3 does by default.
pub(super) const READ_BUFFER: usize = 128 << 10;

/// Waits until a byte may come on one of these or, where it says so, go, for a [`TURN`] at the most.
pub(super) fn await_any<'a>(
    streams: impl Iterator<Item = (&'a TcpStream, bool)>,
) -> Result<(), TransportError> {
    let interest = |sends: bool| match sends {
        true => PollFlags::IN | PollFlags::OUT,
        false => PollFlags::IN,
    };
    let mut sockets: Vec<_> =
        streams.map(|(stream, sends)| PollFd::new(stream, interest(sends))).collect();
    match poll(&mut sockets, Some(&timespec(TURN))).map_err(io::Error::from) {
        Err(error) if !again(&error) => Err(io_failed("wait for the server", &error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

pub(super) fn prepare(stream: &TcpStream) -> Result<(), TransportError> {
    let set = || -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(TURN))
    };
    set().map_err(|error| io_failed("set up the socket", &error))
}

pub(super) fn write_all(
    stream: &mut impl Write,
    mut bytes: &[u8],
    stop: &StopSignal,
    patience: Option<Patience>,
) -> Result<(), TransportError> {
    go_on(stop)?;
    let mut clock = Turns::new(patience);
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(closed()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                // Patience is for a stream that does not move, not for a long message.
                clock = Turns::new(patience);
            }
            Err(error) if again(&error) => {
                if !clock.turn(stop)? {
                    return Err(TransportError::Failed(
                        "the receiver takes no more bytes; the data path may be cut".to_owned(),
                    ));
                }
            }
            Err(error) => return Err(io_failed("send", &error)),
        }
    }
    Ok(())
}

/// Hands over as much as the socket takes without waiting: how many bytes, and whether that was all;
/// `None` if it takes nothing now.
pub(super) fn send_at_once(
    stream: &TcpStream,
    slices: &[IoSlice<'_>],
) -> Result<Option<(usize, bool)>, TransportError> {
    let offered: usize = slices.iter().map(|slice| slice.len()).sum();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        let none = &mut SendAncillaryBuffer::default();
        match sendmsg(stream, slices, none, flags).map_err(io::Error::from) {
            Ok(taken) => return Ok(Some((taken, taken == offered))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if again(&error) => return Ok(None),
            Err(error) => return Err(io_failed("send", &error)),
        }
    }
}

/// `Ok(false)` when patience ended before the first byte or in between.
pub(super) fn read_exact(
    stream: &mut TcpStream,
    mut buffer: &mut [u8],
    stop: &StopSignal,
    patience: Option<Patience>,
) -> Result<bool, TransportError> {
    while !buffer.is_empty() {
        match read_some(stream, buffer, stop, patience)? {
            Got::Bytes(got) => buffer = buffer.get_mut(got..).unwrap_or_default(),
            Got::Nothing => return Ok(false),
            Got::End => return Err(closed()),
        }
    }
    Ok(true)
}

/// What a read came to.
pub(super) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing before patience ended.
    Nothing,
    /// The other side has closed.
    End,
}

pub(super) fn read_some(
    stream: &mut impl Read,
    buffer: &mut [u8],
    stop: &StopSignal,
    patience: Option<Patience>,
) -> Result<Got, TransportError> {
    go_on(stop)?;
    let mut clock = Turns::new(patience);
    loop {
        match stream.read(buffer) {
            Ok(0) => return Ok(Got::End),
            Ok(got) => return Ok(Got::Bytes(got)),
            Err(error) if again(&error) => {
                if !clock.turn(stop)? {
                    return Ok(Got::Nothing);
                }
            }
            Err(error) => return Err(io_failed("receive", &error)),
        }
    }
}

/// Counts the time-outs of one wait.
pub(super) struct Turns {
    patience: Option<Patience>,
    since: Option<Instant>,
}

impl Turns {
    pub(super) fn new(patience: Option<Patience>) -> Self {
        Self { patience, since: None }
    }

    pub(super) fn turn(&mut self, stop: &StopSignal) -> Result<bool, TransportError> {
        if stop.is_given() {
            return Err(stopped(stop));
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        Ok(self.patience.is_none_or(|patience| since.elapsed() < patience.0))
    }
}

pub(super) fn no_thread(error: &io::Error) -> TransportError {
    TransportError::Failed(format!(
        "no thread for a connection: {error}; give fewer --connections, --threads or --workers, or raise \
         the server's limit (ulimit -u, or TasksMax of a unit)"
    ))
}

pub(super) fn again(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

pub(super) fn closed() -> TransportError {
    TransportError::Failed("the other side closed the data connection".to_owned())
}

pub(super) fn io_failed(what: &str, error: &io::Error) -> TransportError {
    TransportError::Failed(format!("cannot {what}: {error}"))
}

pub(super) fn failed(error: impl ToString) -> TransportError {
    TransportError::Failed(error.to_string())
}
