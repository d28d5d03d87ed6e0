//! Everything that is set on HTTP/2, on tonic's buffers and on the sockets, in one place.
//!
//! [`Tuning::stock`] is tonic as it comes, which is what most programs run; [`Tuning::tuned`] is
//! tonic set up for the planned messages. A benchmark should show both: tuned alone is a boast,
//! stock alone a straw man.

use std::fmt;
use std::time::Duration;

use tonic::codec::BufferSettings;

use crate::codec::BytesCodec;
use crate::error::{Error, Result};

/// Largest gRPC message in bytes: the length prefix is an unsigned 32-bit number
/// (gRPC over HTTP/2, "Length-Prefixed-Message").
pub const MAX_MESSAGE: u64 = u32::MAX as u64;

/// Largest HTTP/2 flow-control window in bytes (RFC 9113, section 6.9.1).
pub const MAX_WINDOW: u32 = (1 << 31) - 1;

/// Bytes of compression flag and length in front of each gRPC message.
const GRPC_PREFIX: u64 = 5;

/// The service's own messages (summary of a push, request of a fetch) pass whatever is planned.
const SERVICE_MESSAGE: u64 = 64;

/// Below this, a window only makes the sender wait for WINDOW_UPDATE frames.
const MIN_WINDOW: u64 = 4 << 20;

/// Smallest and largest DATA frame asked for. HTTP/2 allows 16 KiB to 16 MiB - 1; every frame
/// costs one `writev`, and beyond 1 MiB larger frames gain nothing.
const MIN_FRAME: u64 = 64 << 10;
const MAX_FRAME: u64 = 1 << 20;

/// tonic allocates its buffers eagerly for each call: large enough for the planned message, up to
/// here.
const MAX_CALL_BUFFER: u64 = 64 << 10;

/// Streams gather small messages into buffers of this size before they become a DATA frame.
const STREAM_BATCH: usize = 64 << 10;

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
    /// Set up for the planned messages.
    Tuned,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Stock => "stock",
            Profile::Tuned => "tuned",
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
    /// # Errors
    /// [`Error::OverGrpcLimit`] if gRPC cannot carry such a message.
    pub fn tuned(largest_message: u64, in_flight: u32) -> Result<Tuning> {
        Tuning::new(Profile::Tuned, largest_message, in_flight.max(1))
    }

    fn new(profile: Profile, largest_message: u64, in_flight: u32) -> Result<Tuning> {
        if largest_message > MAX_MESSAGE {
            return Err(Error::OverGrpcLimit { size: largest_message });
        }
        Ok(Tuning { profile, largest_message, in_flight })
    }

    /// Stock or tuned.
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
        let mut settings = vec![
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
                    value: http2.window.to_string(),
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
                    name: "buffer of a unary call, B",
                    value: self.call_buffer().to_string(),
                    tonic_default: "8192",
                },
                Setting {
                    name: "buffer and batch of a stream, B",
                    value: STREAM_BATCH.to_string(),
                    tonic_default: "8192 and 32768",
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
        usize::try_from(self.largest_message.max(SERVICE_MESSAGE)).unwrap_or(usize::MAX)
    }

    /// HTTP/2 settings, unless hyper's own stay in force.
    ///
    /// The number of concurrent streams is left alone: tonic sets no limit. So are HTTP/2 PINGs:
    /// they take a lock and a clock reading for each DATA frame, and TCP's own keepalive notices a
    /// dead host as well.
    pub(crate) fn http2(&self) -> Option<Http2> {
        (self.profile == Profile::Tuned).then(|| {
            let message = self.largest_message + GRPC_PREFIX;
            let window = message
                .saturating_mul(u64::from(self.in_flight))
                .clamp(MIN_WINDOW, u64::from(MAX_WINDOW));
            let frame = message.next_power_of_two().clamp(MIN_FRAME, MAX_FRAME);
            // Both are clamped to 32 bits.
            Http2 { window: window as u32, frame: frame as u32 }
        })
    }

    /// TCP keepalive, unless the kernel's defaults stay in force.
    pub(crate) fn keepalive(&self) -> Option<Keepalive> {
        (self.profile == Profile::Tuned).then_some(Keepalive {
            idle: KEEPALIVE_IDLE,
            interval: KEEPALIVE_INTERVAL,
            probes: KEEPALIVE_PROBES,
            user_timeout: USER_TIMEOUT,
        })
    }

    /// Codec of calls that carry one message each way.
    pub(crate) fn call_codec(&self) -> BytesCodec {
        BytesCodec {
            buffers: (self.profile == Profile::Tuned)
                .then(|| BufferSettings::new(self.call_buffer(), STREAM_BATCH)),
        }
    }

    /// Codec of streams.
    pub(crate) fn stream_codec(&self) -> BytesCodec {
        BytesCodec {
            buffers: (self.profile == Profile::Tuned)
                .then(|| BufferSettings::new(STREAM_BATCH, STREAM_BATCH)),
        }
    }

    fn call_buffer(&self) -> usize {
        // At most MAX_CALL_BUFFER, which any usize holds.
        (self.largest_message + GRPC_PREFIX).min(MAX_CALL_BUFFER) as usize
    }
}

/// HTTP/2 settings, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2 {
    /// Flow-control window of a stream, and of the connection.
    pub(crate) window: u32,
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
