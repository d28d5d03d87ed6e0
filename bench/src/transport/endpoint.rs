//! What the two ends of a data path tell one another to connect.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{
    SliceKey,
    grpc::GrpcSettings,
    verbs::{LONGEST_LIST, MemorySettings, PostMode},
};

/// What a client offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// A queue pair.
    Verbs {
        /// Its parameters.
        endpoint: VerbsEndpoint,
        /// What the server is to use on its side.
        settings: Box<VerbsSettings>,
    },
    /// The queue pairs of all who will call one server.
    VerbsServer {
        /// Which server it is to be, from 0.
        server: u32,
        /// Of each caller its parameters, with the one queue pair that is for this server.
        workers: Vec<VerbsEndpoint>,
        /// What the server is to use on its side.
        settings: Box<VerbsSettings>,
    },
    /// A wish for a listener; gRPC and TCP are told apart by the cell's transport.
    Tcp(TcpEndpoint),
}

impl Offer {
    /// Where on the server the connections of `answer` come in; `None` of what is no TCP.
    #[must_use]
    pub fn listener(&self, answer: &Answer) -> Option<SocketAddr> {
        match (self, answer) {
            (Self::Tcp(wish), Answer::Tcp { port, .. }) => {
                Some(SocketAddr::new(wish.address, *port))
            }
            _ => None,
        }
    }

    /// TCP connections that it is for.
    #[must_use]
    pub fn connections(&self) -> u64 {
        match self {
            Self::Tcp(wish) => wish.connections.into(),
            Self::Verbs { .. } | Self::VerbsServer { .. } => 0,
        }
    }

    /// Queue pairs that it wants on the server.
    #[must_use]
    pub fn queue_pairs(&self) -> u64 {
        match self {
            Self::Verbs { settings, .. } => settings.queue_pairs.into(),
            Self::VerbsServer { workers, .. } => workers.len() as u64,
            Self::Tcp(_) => 0,
        }
    }

    /// Threads of the runtime that it wants on the server.
    #[must_use]
    pub fn runtime_threads(&self) -> u64 {
        match self {
            Self::Tcp(wish) => wish.grpc.server_runtime.threads(),
            Self::Verbs { .. } | Self::VerbsServer { .. } => 0,
        }
    }
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Queue pairs, connected to the client's: of a server of calls one to each who calls, in their order.
    Verbs(VerbsEndpoint),
    /// Queue pairs that wait for the client's by the RDMA connection manager.
    Managed {
        /// Where they are; of connections the numbers only say who may connect.
        endpoint: VerbsEndpoint,
        /// What who asks must show.
        key: SliceKey,
        /// Where the connection manager listens for them.
        address: SocketAddr,
    },
    /// A listener.
    Tcp {
        /// Port it listens on, at the address that was asked for.
        port: u16,
        /// What each connection must show, and has shown.
        key: SliceKey,
        /// Its certificate, PEM, where TLS was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
    },
}

/// Where on the server a TCP or gRPC test is to listen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpEndpoint {
    /// The server's interface.
    pub interface: String,
    /// The server's address on it.
    pub address: IpAddr,
    /// Connections that will come, each over a socket of its own.
    pub connections: u32,
    /// What gRPC is to do on them.
    #[serde(default)]
    pub grpc: GrpcSettings,
    /// Calls of which one is marked; `None`: none is.
    #[serde(default)]
    pub one_in: Option<u32>,
}

/// The most connections of one listener: each takes a file descriptor on both sides.
pub const MOST_CONNECTIONS: u32 = 256;

/// A queue pair as the other side must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePairEnd {
    /// Its number, 24 bits.
    pub number: u32,
    /// First packet sequence number, 24 bits.
    pub packet_sequence: u32,
}

/// A memory region as the other side must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RegionEnd {
    /// Its start as an address in this side's process; 0 for memory on the device.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its remote key.
    pub remote_key: u32,
}

/// Queue pairs and their memory as the other side must know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsEndpoint {
    /// The queue pairs, each to be connected to that of the same place on the other side.
    pub queue_pairs: Vec<QueuePairEnd>,
    /// Local identifier of the port; 0 on Ethernet.
    pub lid: u16,
    /// GID of the port.
    pub gid: [u8; 16],
    /// Active path MTU of the port in bytes.
    pub path_mtu: u32,
    /// What datagrams to it must carry, 31 bits; of UD only.
    #[serde(default)]
    pub qkey: u32,
    /// The host's memory, of which the peer writes what this side polls.
    pub host: RegionEnd,
    /// The memory of the messages.
    pub messages: RegionEnd,
    /// What memory they are in, in words, for a report.
    #[serde(default)]
    pub memory: String,
    /// RDMA reads and atomics this side can serve at once.
    pub responder_resources: u8,
}

/// How completions are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompletionMode {
    /// Polled without end: the fastest, at the cost of a processor.
    #[default]
    Poll,
    /// Slept for until an event.
    Events,
    /// Polled for a while, then slept for.
    Hybrid {
        /// Fruitless polls before a sleep.
        spins: u32,
    },
}

impl std::fmt::Display for CompletionMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Poll => f.write_str("poll"),
            Self::Events => f.write_str("events"),
            Self::Hybrid { spins } => write!(f, "hybrid, {spins} polls before a sleep"),
        }
    }
}

/// Whether a message travels in pieces that is longer than a device takes at once (`--split`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pieces {
    /// It does not: it is refused.
    #[default]
    Whole,
    /// In the longest that the device takes.
    Largest,
    /// In pieces of so many bytes, at least 1, and also what the device would take at once.
    Of(u32),
}

/// Options of a verbs test, given once, on the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsSettings {
    /// Device; `None`: the preferred one, else the first with an active port.
    pub device: Option<String>,
    /// Device to take if it is there: the one the other side uses.
    pub prefer: Option<String>,
    /// Port; `None`: the first active one.
    pub port: Option<u8>,
    /// GID index; `None`: by rule.
    pub gid_index: Option<u32>,
    /// How completions are waited for, on both sides.
    pub completions: CompletionMode,
    /// Whether all queue pairs take their receives from one queue.
    pub shared_receives: bool,
    /// Address whose GID to take; `None`: by index or rule.
    #[serde(default)]
    pub gid_address: Option<IpAddr>,
    /// Whether the RDMA connection manager connects (`-R`), instead of numbers exchanged over the
    /// control connection.
    #[serde(default)]
    pub manager: bool,
    /// Which interface posts requests and reads completions.
    #[serde(default)]
    pub post: PostMode,
    /// Whether completions are to carry the device's time.
    #[serde(default)]
    pub timestamps: bool,
    /// Which memory.
    #[serde(default)]
    pub memory: MemorySettings,
    /// Whether messages travel in pieces.
    #[serde(default)]
    pub pieces: Pieces,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Messages posted by one call.
    pub post_list: u32,
    /// Receives kept posted on each queue pair, at the most.
    pub receive_depth: u32,
    /// Sends between two signalled ones.
    pub completion_moderation: u32,
    /// Largest message sent inline, in bytes; `None`: as far as the queue pair allows, up to 220.
    pub inline: Option<u32>,
    /// Path MTU in bytes; `None`: the smaller of both ports' active MTUs.
    pub path_mtu: Option<u32>,
    /// Service level.
    pub service_level: u8,
    /// Traffic class of the global route header.
    pub traffic_class: u8,
    /// Local ACK timeout exponent: 4.096 us x 2^timeout.
    pub timeout: u8,
    /// Retransmissions before a request fails, at most 7.
    pub retry: u8,
}

/// The most queue pairs of one test: a slip of the finger is not to take a device's last ones.
pub const MOST_QUEUE_PAIRS: u32 = 16_384;

impl VerbsSettings {
    /// Checks what the kernel or a driver would take for something else: they mask or shift by
    /// these fields.
    ///
    /// # Errors
    /// The field and its bounds, in words.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u32, most: u32| {
            if value <= most { Ok(()) } else { Err(format!("{name} {value} is over {most}")) }
        };
        within("the timeout exponent", self.timeout.into(), 31)?;
        within("the retry count", self.retry.into(), 7)?;
        within("the service level", self.service_level.into(), 15)?;
        within("the number of queue pairs", self.queue_pairs, MOST_QUEUE_PAIRS)?;
        within("the post list", self.post_list, LONGEST_LIST as u32)?;
        if self.pieces == Pieces::Of(0) {
            return Err("pieces of 0 B carry nothing".to_owned());
        }
        within("the receive depth", self.receive_depth, 1 << 16)
    }
}

impl Default for VerbsSettings {
    /// perftest's defaults where it has them.
    fn default() -> Self {
        Self {
            device: None,
            prefer: None,
            port: None,
            gid_index: None,
            completions: CompletionMode::Poll,
            shared_receives: false,
            gid_address: None,
            memory: MemorySettings::default(),
            post: PostMode::Auto,
            timestamps: false,
            manager: false,
            pieces: Pieces::Whole,
            queue_pairs: 1,
            post_list: 1,
            receive_depth: 512,
            completion_moderation: 32,
            inline: None,
            path_mtu: None,
            service_level: 0,
            traffic_class: 0,
            timeout: 14,
            retry: 7,
        }
    }
}
