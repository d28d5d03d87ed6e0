//! The names of transports, `KIND[-OPERATION][@PATH]`.

use std::{borrow::Cow, fmt, str::FromStr};

use fabricbench_ipoib::PathName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    Pattern,
    verbs::{Service, VerbsName},
};

/// Which gRPC stack, and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrpcTuning {
    /// tonic, with windows, frames and buffers fitted to the planned messages.
    Tuned,
    /// tonic with its defaults, only the message-size limits raised.
    Stock,
    /// No tonic: gRPC straight on HTTP/2, fitted to the planned messages.
    Lean,
}

/// How a message travels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TransportName {
    /// Queue pairs on an RDMA device.
    Verbs(VerbsName),
    /// gRPC over TCP through the interface that the path names.
    Grpc(GrpcTuning, PathName),
    /// Plain TCP through the interface that the path names: the floor under gRPC.
    Tcp(PathName),
}

/// A transport name that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownTransport {
    /// Nothing has that name.
    #[error(
        "unknown transport `{0}`; known are verbs-OP, verbs-uc-OP, verbs-ud-OP (OP is write, \
         write-imm, send, send-imm, read, fetch-add or compare-swap), grpc@PATH, grpc-stock@PATH, \
         grpc-lean@PATH, tcp@PATH, where PATH is ipoib, ethernet, loopback or an interface"
    )]
    Name(String),
    /// The service does not have the operation.
    #[error("transport `{name}` does not exist: {reason}")]
    Impossible {
        /// What was asked for.
        name: String,
        /// Why there is no such thing.
        reason: String,
    },
}

impl FromStr for TransportName {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text, Service::Rc)
    }
}

impl TransportName {
    /// Reads a name; verbs that name no service get `service`.
    ///
    /// # Errors
    /// [`UnknownTransport`].
    pub fn parse(text: &str, service: Service) -> Result<Self, UnknownTransport> {
        let unknown = || UnknownTransport::Name(text.to_owned());
        let (kind, path) = match text.split_once('@') {
            Some((kind, path)) => (kind, Some(parse_path(path).ok_or_else(unknown)?)),
            None => (text, None),
        };
        if let (Some(verbs), None) = (kind.strip_prefix("verbs-"), &path) {
            return VerbsName::parse(verbs, service).map(Self::Verbs).map_err(
                |reason| match reason {
                    Some(reason) => UnknownTransport::Impossible { name: text.to_owned(), reason },
                    None => unknown(),
                },
            );
        }
        match (kind, path) {
            ("grpc", Some(path)) => Ok(Self::Grpc(GrpcTuning::Tuned, path)),
            ("grpc-stock", Some(path)) => Ok(Self::Grpc(GrpcTuning::Stock, path)),
            ("grpc-lean", Some(path)) => Ok(Self::Grpc(GrpcTuning::Lean, path)),
            ("tcp", Some(path)) => Ok(Self::Tcp(path)),
            _ => Err(unknown()),
        }
    }
}

impl TransportName {
    /// The patterns it can be measured in.
    #[must_use]
    pub fn patterns(&self) -> &'static [Pattern] {
        match self {
            Self::Verbs(verbs) => verbs.operation.patterns(verbs.service),
            Self::Grpc(..) | Self::Tcp(_) => &[
                Pattern::Latency,
                Pattern::Bandwidth,
                Pattern::Bidirectional,
                Pattern::Fetch,
                Pattern::Rate,
                Pattern::Calls,
                Pattern::Ps,
                Pattern::TensorPush,
                Pattern::TensorFetch,
            ],
        }
    }

    /// Latency, and the first that it has of bandwidth, fetch and rate.
    pub(super) fn usual_patterns(&self) -> impl Iterator<Item = Pattern> + use<> {
        let has = self.patterns();
        let load = [Pattern::Bandwidth, Pattern::Fetch, Pattern::Rate]
            .into_iter()
            .find(|pattern| has.contains(pattern));
        std::iter::once(Pattern::Latency).chain(load)
    }

    /// Whether the depth decides what is under way: not of a stream, whose flow control does, unless
    /// its windows are fitted to the depth.
    pub(super) fn is_fitted_to_depth(&self) -> bool {
        match self {
            Self::Verbs(_) => true,
            Self::Grpc(tuning, _) => *tuning != GrpcTuning::Stock,
            Self::Tcp(_) => false,
        }
    }

    /// Whether every message has the same size, that of an atomic.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        matches!(self, Self::Verbs(verbs) if verbs.operation.is_atomic())
    }
}

fn parse_path(text: &str) -> Option<PathName> {
    // IFNAMSIZ is 16 with the closing NUL, and the kernel refuses '/' and white space in names.
    let plausible = !text.is_empty()
        && text.len() < 16
        && !text.contains(|c: char| c == '/' || c == '@' || c.is_whitespace() || c.is_control());
    match text {
        "ipoib" => Some(PathName::Ipoib),
        "ethernet" => Some(PathName::Ethernet),
        "loopback" | "lo" => Some(PathName::Loopback),
        name if plausible => Some(PathName::Named(name.to_owned())),
        _ => None,
    }
}

fn path_text(path: &PathName) -> &str {
    match path {
        PathName::Ipoib => "ipoib",
        PathName::Ethernet => "ethernet",
        PathName::Loopback => "loopback",
        PathName::Named(name) => name,
    }
}

impl fmt::Display for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verbs(verbs) => f.pad(&verbs.to_string()),
            Self::Grpc(GrpcTuning::Tuned, path) => f.pad(&format!("grpc@{}", path_text(path))),
            Self::Grpc(GrpcTuning::Stock, path) => {
                f.pad(&format!("grpc-stock@{}", path_text(path)))
            }
            Self::Grpc(GrpcTuning::Lean, path) => f.pad(&format!("grpc-lean@{}", path_text(path))),
            Self::Tcp(path) => f.pad(&format!("tcp@{}", path_text(path))),
        }
    }
}

impl JsonSchema for TransportName {
    fn schema_name() -> Cow<'static, str> {
        "TransportName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A transport as its option takes it: verbs-write, grpc@ipoib, tcp@eth0",
            "pattern": "^(verbs-[a-z-]+|(grpc|grpc-stock|grpc-lean|tcp)@.+)$",
        })
    }
}

impl Serialize for TransportName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransportName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_they_are_shown() {
        for name in [
            "verbs-write",
            "verbs-send-imm",
            "verbs-uc-write",
            "verbs-ud-send",
            "verbs-compare-swap",
            "grpc@ipoib",
            "grpc@ethernet",
            "grpc-stock@eth-a",
            "grpc-lean@ipoib",
            "tcp@loopback",
            "tcp@ib0.8001",
        ] {
            assert_eq!(name.parse::<TransportName>().unwrap().to_string(), name);
        }
        for (short, long) in [("verbs-atomic", "verbs-fetch-add"), ("verbs-rc-send", "verbs-send")]
        {
            assert_eq!(short.parse::<TransportName>().unwrap().to_string(), long);
        }
        assert_eq!("grpc@lo".parse::<TransportName>().unwrap().to_string(), "grpc@loopback");
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        for name in [
            "",
            "verbs",
            "verbs-write@eth0",
            "verbs-xrc-send",
            "grpc",
            "grpc@",
            "tcp@a/b",
            "quic@eth0",
            "tcp@a b",
            "tcp@averyveryverylongname",
        ] {
            let error = name.parse::<TransportName>().unwrap_err().to_string();
            assert!(error.contains("verbs-OP") && error.contains(name), "{error}");
        }
    }
}
