//! The names of transports, `KIND[-OPERATION][@PATH]`.

use std::{fmt, str::FromStr};

use fabricbench_ipoib::PathName;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A verbs operation that can carry a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VerbsOperation {
    /// RDMA write into memory that the receiver polls.
    Write,
    /// Send into a posted receive.
    Send,
}

/// How the gRPC stack is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrpcTuning {
    /// Windows, frames and buffers fitted to the planned messages.
    Tuned,
    /// The library's defaults, with only the message-size limits raised.
    Stock,
}

/// How a message travels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TransportName {
    /// Reliable-connection queue pairs on an RDMA device.
    Verbs(VerbsOperation),
    /// gRPC over TCP through the interface that the path names.
    Grpc(GrpcTuning, PathName),
    /// Plain TCP through the interface that the path names: the floor under gRPC.
    Tcp(PathName),
}

/// A transport name that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "unknown transport `{0}`; known are verbs-write, verbs-send, grpc@PATH, grpc-stock@PATH, tcp@PATH, where PATH is ipoib, ethernet, loopback or an interface"
)]
pub struct UnknownTransport(String);

impl FromStr for TransportName {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownTransport(text.to_owned());
        let (kind, path) = match text.split_once('@') {
            Some((kind, path)) => (kind, Some(parse_path(path).ok_or_else(unknown)?)),
            None => (text, None),
        };
        match (kind, path) {
            ("verbs-write", None) => Ok(Self::Verbs(VerbsOperation::Write)),
            ("verbs-send", None) => Ok(Self::Verbs(VerbsOperation::Send)),
            ("grpc", Some(path)) => Ok(Self::Grpc(GrpcTuning::Tuned, path)),
            ("grpc-stock", Some(path)) => Ok(Self::Grpc(GrpcTuning::Stock, path)),
            ("tcp", Some(path)) => Ok(Self::Tcp(path)),
            _ => Err(unknown()),
        }
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
            Self::Verbs(VerbsOperation::Write) => f.pad("verbs-write"),
            Self::Verbs(VerbsOperation::Send) => f.pad("verbs-send"),
            Self::Grpc(GrpcTuning::Tuned, path) => f.pad(&format!("grpc@{}", path_text(path))),
            Self::Grpc(GrpcTuning::Stock, path) => {
                f.pad(&format!("grpc-stock@{}", path_text(path)))
            }
            Self::Tcp(path) => f.pad(&format!("tcp@{}", path_text(path))),
        }
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
            "verbs-send",
            "grpc@ipoib",
            "grpc@ethernet",
            "grpc-stock@eth-a",
            "tcp@loopback",
            "tcp@ib0.8001",
        ] {
            assert_eq!(name.parse::<TransportName>().unwrap().to_string(), name);
        }
        assert_eq!("grpc@lo".parse::<TransportName>().unwrap().to_string(), "grpc@loopback");
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        for name in [
            "",
            "verbs",
            "verbs-write@eth0",
            "grpc",
            "grpc@",
            "tcp@a/b",
            "quic@eth0",
            "tcp@a b",
            "tcp@averyveryverylongname",
        ] {
            let error = name.parse::<TransportName>().unwrap_err().to_string();
            assert!(error.contains("verbs-write") && error.contains(name), "{error}");
        }
    }
}
