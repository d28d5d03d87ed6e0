//! Everything that is set on HTTP/2, on tonic's buffers and on the sockets, in one place.
//!
//! [`Tuning::stock`] is tonic as it comes, which is what most programs run; [`Tuning::tuned`] is
//! tonic set up for the planned messages. A benchmark should show both: tuned alone is a boast,
//! stock alone a straw man.

use std::fmt;
use std::time::Duration;

use tonic::codec::BufferSettings;

use crate::codec::{BytesCodec, GRPC_PREFIX, PROTOBUF_PREFIX};
use crate::error::{Error, Result};

/// Largest gRPC message in bytes: the length prefix is an unsigned 32-bit number
/// (gRPC over HTTP/2, "Length-Prefixed-Message").
pub const MAX_MESSAGE: u64 = u32::MAX as u64;

/// Largest HTTP/2 flow-control window in bytes (RFC 9113, section 6.9.1).
pub const MAX_WINDOW: u32 = (1 << 31) - 1;

/// The service's own messages (summary of a push, request of a fetch) pass whatever is planned.
const SERVICE_MESSAGE: u64 = 64;

/// A window is never smaller than that of a stream in hyper's client: 2 MiB keep 100 Gb/s busy over
/// a round trip of 160 us. On loopback larger ones cost more for each byte: the sender runs
/// further ahead, and the receiver finds the bytes no longer in the cache.
const MIN_WINDOW: u64 = 2 << 20;

/// h2 0.4 charges what a DATA frame of fewer bytes than this lacks to a budget of the connection until the
/// frame is consumed, and closes the connection (ENHANCE_YOUR_CALM) when that is spent. The budget is half
/// of the connection's window, and neither hyper nor tonic passes on another.
const SMALL_FRAME: u64 = 256;

/// DATA frames of up to 1 MiB; HTTP/2 allows 16 KiB, its default, to 16 MiB - 1. Every frame costs
/// a `writev`, and a buffer at the receiver. On loopback the processor time for each byte fell up
/// to this size, and the latency of large messages was the same from 128 KiB on.
const FRAME: u32 = 1 << 20;

/// The lean stack's frames hold one whole message, which then needs no copy at the receiver, or
/// several smaller ones up to this size.
const LEAN_FRAME: u32 = 1 << 20;

/// Larger messages come in frames of [`LEAN_FRAME`]: a frame is read into one piece of memory, and
/// that of several MiB is slower to come by than the copy.
const MAX_LEAN_FRAME: u32 = 4 << 20;

/// Streams gather small messages up to about this many bytes before they pass them on, in buffers
/// of this size. It fits into one frame and into hyper's send buffer of 1 MiB; and it is large
/// enough that an allocator hands the same few buffers out again, still in the cache, where it
/// would go round all the blocks of a smaller size class.
const STREAM_BATCH: usize = 896 << 10;

/// First buffer of a stream.
const STREAM_BUFFER: usize = 64 << 10;

/// tonic allocates the buffers of a call before it knows the message. Larger ones than this it has
/// to enlarge when the message comes.
const MAX_CALL_BUFFER: u64 = 4 << 20;

/// A silent peer is noticed by TCP: first probe after this long without traffic.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Time between probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Probes without an answer until the connection is given up.
const KEEPALIVE_PROBES: u32 = 3;
/// Time that sent bytes may stay unacknowledged: the same bound as the probes give.
const USER_TIMEOUT: Duration = Duration::from_secs(25);

/// Which set of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// tonic's own defaults.
    Stock,
    /// tonic set up for the planned messages.
    Tuned,
    /// Not tonic: gRPC straight on HTTP/2, set up for the planned messages.
    Lean,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Stock => "stock",
            Profile::Tuned => "tuned",
            Profile::Lean => "lean",
        })
    }
}

/// One thing that is set, for a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What is set, with its unit where it has one.
    pub name: &'static str,
    /// The value in force.
    pub value: String,
    /// What tonic 0.14 over hyper 1 would have used.
    pub tonic_default: &'static str,
}

/// Settings of a client or a server. Both sides of a connection should have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    profile: Profile,
    largest_message: u64,
    in_flight: u32,
    serialized: bool,
}

impl Tuning {
    /// tonic's own defaults; only the limit on received messages admits `largest_message` bytes.
    ///
    /// TCP_NODELAY is on on both sides: that is tonic's default for its own sockets, which has to
    /// be repeated for sockets that are made outside of tonic.
    ///
    /// # Errors
    /// [`Error::OverGrpcLimit`] if gRPC cannot carry such a message.
    pub fn stock(largest_message: u64) -> Result<Tuning> {
        Tuning::new(Profile::Stock, largest_message, 1)
    }

    /// Settings for messages of up to `largest_message` bytes, of which `in_flight` are under way
    /// on one connection at a time.
    ///
    /// The windows hold that many bytes, and no fewer than 2 MiB; so give the number that is really
    /// under way. For one push of large messages 2 is enough: one on the way, one being received.
    ///
    /// # Errors
    /// [`Error::OverGrpcLimit`] if gRPC cannot carry such a message.
    pub fn tuned(largest_message: u64, in_flight: u32) -> Result<Tuning> {
        Tuning::new(Profile::Tuned, largest_message, in_flight.max(1))
    }

    /// As [`tuned`](Tuning::tuned), for the stack of this crate's own in place of tonic.
    ///
    /// # Errors
    /// [`Error::OverGrpcLimit`] if gRPC cannot carry such a message.
    pub fn lean(largest_message: u64, in_flight: u32) -> Result<Tuning> {
        Tuning::new(Profile::Lean, largest_message, in_flight.max(1))
    }

    fn new(profile: Profile, largest_message: u64, in_flight: u32) -> Result<Tuning> {
        if largest_message > MAX_MESSAGE {
            return Err(Error::OverGrpcLimit { size: largest_message });
        }
        Ok(Tuning { profile, largest_message, in_flight, serialized: false })
    }

    /// Whether each message travels as the one field, of bytes, of a protobuf message: what is sent is
    /// encoded, and what is received decoded, which is what a program that uses gRPC as it is meant does.
    ///
    /// # Errors
    /// [`Error::OverGrpcLimit`] if gRPC cannot carry the largest message with protobuf's prefix,
    /// [`Error::NotLean`] of the lean stack.
    pub fn serialized(mut self, serialized: bool) -> Result<Tuning> {
        if serialized && self.profile == Profile::Lean {
            return Err(Error::NotLean { what: "serialized messages" });
        }
        self.serialized = serialized;
        if self.largest_message + self.protobuf_prefix() > MAX_MESSAGE {
            return Err(Error::OverGrpcLimit { size: self.largest_message });
        }
        Ok(self)
    }

    fn protobuf_prefix(&self) -> u64 {
        if self.serialized { PROTOBUF_PREFIX as u64 } else { 0 }
    }

    /// Which stack, and with which settings.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Largest message that passes, in bytes.
    pub fn largest_message(&self) -> u64 {
        self.largest_message
    }

    /// Refuses what the far side would refuse.
    pub(crate) fn admit(&self, size: u64) -> Result<()> {
        if size > self.largest_message {
            return Err(Error::MessageTooLarge { size, limit: self.largest_message });
        }
        Ok(())
    }

    /// All that is set and differs from, or must repeat, tonic's defaults.
    pub fn describe(&self) -> Vec<Setting> {
        let messages = match self.serialized {
            true => "serialized: protobuf, one field of bytes",
            false => "raw bytes",
        };
        let mut settings = vec![
            Setting { name: "messages", value: messages.into(), tonic_default: messages },
            Setting {
                name: "message limit, B",
                value: self.message_limit().to_string(),
                tonic_default: "4194304",
            },
            Setting { name: "TCP_NODELAY", value: "on".into(), tonic_default: "on" },
        ];
        if let Some(http2) = self.http2() {
            settings.extend([
                Setting {
                    name: "HTTP/2 stream window, B",
                    value: http2.window.to_string(),
                    tonic_default: "client 2097152, server 1048576",
                },
                Setting {
                    name: "HTTP/2 connection window, B",
                    value: http2.connection_window.to_string(),
                    tonic_default: "client 5242880, server 1048576",
                },
                Setting {
                    name: "HTTP/2 largest frame, B",
                    value: http2.frame.to_string(),
                    tonic_default: "16384",
                },
            ]);
        }
        if self.profile == Profile::Tuned {
            settings.extend([
                Setting {
                    name: "buffer of a call, sent/received, B",
                    value: format!("{}/{}", self.call_send_buffer(), self.call_receive_buffer()),
                    tonic_default: "8192/8192",
                },
                Setting {
                    name: "batch of a stream, B",
                    value: STREAM_BATCH.to_string(),
                    tonic_default: "32768",
                },
            ]);
        }
        if let Some(keepalive) = self.keepalive() {
            settings.extend([
                Setting {
                    name: "TCP keepalive idle/interval/probes",
                    value: format!(
                        "{} s/{} s/{}",
                        keepalive.idle.as_secs(),
                        keepalive.interval.as_secs(),
                        keepalive.probes
                    ),
                    tonic_default: "off",
                },
                Setting {
                    name: "TCP_USER_TIMEOUT",
                    value: format!("{} s", keepalive.user_timeout.as_secs()),
                    tonic_default: "kernel's",
                },
            ]);
        }
        settings
    }

    /// Limit on received messages, for tonic.
    pub(crate) fn message_limit(&self) -> usize {
        let largest = self.largest_message.max(SERVICE_MESSAGE) + self.protobuf_prefix();
        usize::try_from(largest).unwrap_or(usize::MAX)
    }

    /// HTTP/2 settings, unless hyper's own stay in force.
    ///
    /// The number of concurrent streams is left alone: tonic sets no limit. So are HTTP/2 PINGs:
    /// they take a lock and a clock reading for each DATA frame, and TCP's own keepalive notices a
    /// dead host as well.
    pub(crate) fn http2(&self) -> Option<Http2> {
        (self.profile != Profile::Stock).then(|| {
            let window = self
                .framed()
                .saturating_mul(u64::from(self.in_flight))
                .clamp(MIN_WINDOW, u64::from(MAX_WINDOW));
            // As many frames of one small message each as a stream's window admits.
            let small = window / self.framed() * SMALL_FRAME.saturating_sub(self.framed());
            let connection = (2 * small).clamp(window, u64::from(MAX_WINDOW));
            // Clamped to 31 bits.
            let (window, connection_window) = (window as u32, connection as u32);
            Http2 { window, connection_window, frame: self.frame() }
        })
    }

    /// TCP keepalive, unless the kernel's defaults stay in force.
    pub(crate) fn keepalive(&self) -> Option<Keepalive> {
        (self.profile != Profile::Stock).then_some(Keepalive {
            idle: KEEPALIVE_IDLE,
            interval: KEEPALIVE_INTERVAL,
            probes: KEEPALIVE_PROBES,
            user_timeout: USER_TIMEOUT,
        })
    }

    /// Codec of calls that carry one message each way.
    pub(crate) fn call_codec(&self) -> BytesCodec {
        match self.profile {
            Profile::Stock | Profile::Lean => {
                BytesCodec { serialized: self.serialized, ..BytesCodec::default() }
            }
            Profile::Tuned => BytesCodec {
                encode: BufferSettings::new(self.call_send_buffer(), STREAM_BATCH),
                decode: BufferSettings::new(self.call_receive_buffer(), STREAM_BATCH),
                slab: 0,
                serialized: self.serialized,
            },
        }
    }

    /// Codec of streams.
    pub(crate) fn stream_codec(&self) -> BytesCodec {
        match self.profile {
            Profile::Stock | Profile::Lean => {
                BytesCodec { serialized: self.serialized, ..BytesCodec::default() }
            }
            Profile::Tuned => BytesCodec {
                encode: BufferSettings::new(STREAM_BUFFER, STREAM_BATCH),
                decode: BufferSettings::new(STREAM_BUFFER, STREAM_BATCH),
                slab: STREAM_BATCH,
                serialized: self.serialized,
            },
        }
    }

    fn frame(&self) -> u32 {
        match self.profile {
            Profile::Lean => {
                // At most MAX_LEAN_FRAME.
                let whole = self.framed().clamp(LEAN_FRAME.into(), MAX_LEAN_FRAME.into()) as u32;
                if u64::from(whole) < self.framed() { LEAN_FRAME } else { whole }
            }
            Profile::Stock | Profile::Tuned => FRAME,
        }
    }

    /// Largest message with its prefix, in bytes.
    fn framed(&self) -> u64 {
        self.largest_message + self.protobuf_prefix() + GRPC_PREFIX as u64
    }

    fn call_send_buffer(&self) -> usize {
        // At most MAX_CALL_BUFFER, which any usize holds.
        self.framed().min(MAX_CALL_BUFFER) as usize
    }

    /// tonic puts the first DATA frame into the buffer, and then reserves the length of the whole
    /// message behind it: without room for both it copies what it has to a larger buffer.
    fn call_receive_buffer(&self) -> usize {
        let first_frame = self.framed().min(u64::from(FRAME));
        (self.framed() + first_frame).min(MAX_CALL_BUFFER) as usize
    }
}

/// HTTP/2 settings, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2 {
    /// Flow-control window of a stream.
    pub(crate) window: u32,
    /// That of the connection: what streams hold back is bounded by their own.
    pub(crate) connection_window: u32,
    /// SETTINGS_MAX_FRAME_SIZE: the largest frame this side accepts.
    pub(crate) frame: u32,
}

/// How TCP notices a peer that is silently gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keepalive {
    pub(crate) idle: Duration,
    pub(crate) interval: Duration,
    pub(crate) probes: u32,
    pub(crate) user_timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tuning: &Tuning, name: &str) -> Option<String> {
        tuning.describe().into_iter().find(|s| s.name.starts_with(name)).map(|s| s.value)
    }

    #[test]
    fn stock_changes_nothing_but_the_message_limit() {
        let tuning = Tuning::stock(64 << 20).unwrap();
        let changed: Vec<_> =
            tuning.describe().into_iter().filter(|s| s.value != s.tonic_default).collect();
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert_eq!(changed[0].name, "message limit, B");
        assert_eq!(changed[0].value, (64 << 20).to_string());
        assert!(tuning.http2().is_none() && tuning.keepalive().is_none());
    }

    #[test]
    fn tuned_windows_hold_all_messages_in_flight_and_are_legal() {
        for (message, in_flight) in
            [(0, 0), (64, 1), (64, 1000), (1 << 20, 16), (64 << 20, 4), (64 << 20, 1000)]
        {
            let tuning = Tuning::tuned(message, in_flight).unwrap();
            let http2 = tuning.http2().unwrap();
            let needed = (message + 5) * u64::from(in_flight);
            assert!(u64::from(http2.window) >= needed.min(u64::from(MAX_WINDOW)));
            assert!((1..=MAX_WINDOW).contains(&http2.window));
            // RFC 9113, section 6.5.2.
            assert!((1 << 14..1 << 24).contains(&http2.frame));
            assert_eq!(value(&tuning, "HTTP/2 stream window"), Some(http2.window.to_string()));
            assert!((http2.window..=MAX_WINDOW).contains(&http2.connection_window));
            let connection = value(&tuning, "HTTP/2 connection window");
            assert_eq!(connection, Some(http2.connection_window.to_string()));
        }
    }

    #[test]
    fn the_largest_message_is_what_a_32_bit_length_can_say() {
        assert!(Tuning::stock(MAX_MESSAGE).is_ok());
        assert!(Tuning::tuned(MAX_MESSAGE, u32::MAX).is_ok());
        assert!(Tuning::tuned(MAX_MESSAGE + 1, 1).is_err());
    }

    #[test]
    fn buffers_of_a_call_fit_its_message() {
        let tuning = Tuning::tuned(1000, 1).unwrap();
        assert_eq!(value(&tuning, "buffer of a call"), Some("1005/2010".into()));
        let tuning = Tuning::tuned(1 << 30, 1).unwrap();
        assert_eq!(value(&tuning, "buffer of a call"), Some("4194304/4194304".into()));
    }
}
