//! What client and server say to one another after the greeting.
//!
//! A run is: Begin, Welcome (or Queued until it is our turn); then for every slice Prepare,
//! Prepared, Start, Started, the data path, with TCP Connections and its answer while they are open,
//! Finish, Finished; then End. A cell that cannot be done is Refused and the conversation goes on.

use serde::{Deserialize, Serialize};

use crate::{
    plan::Cell,
    report::{Path, Status, TcpSide, plain_throughout},
    session::{Host, Observation},
    transport::{Answer, Offer},
};

/// A document on the connection: something to say, or a sign of life.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message<T> {
    /// Nothing to say, still here: sent every second, so that a stopped or vanished peer shows.
    Alive,
    /// Something to say.
    Say(T),
}

/// What the client says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Here I am.
    Begin(Box<Host>),
    /// Make ready for a slice of this cell.
    Prepare {
        /// What will be measured.
        cell: Box<Cell>,
        /// Messages in flight at the most.
        depth: u32,
        /// Seed of the payload pattern.
        seed: u64,
        /// Processor the server is to use.
        cpu: Option<u32>,
        /// How the client can be reached on the data path, and what it wants of the server's: for
        /// each of its threads.
        offers: Vec<Offer>,
    },
    /// The data path is connected: read the counters and serve.
    Start,
    /// The data path has been used and is still connected: tell of its TCP connections.
    Connections,
    /// The data path has been used: stop serving and report.
    Finish {
        /// Messages sent, warm-up included; bounds what the counters must have seen. `None` if
        /// the slice failed.
        messages: Option<u64>,
    },
    /// That was all.
    End,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It is your turn.
    Welcome(Box<Host>),
    /// Others are before you.
    Queued {
        /// How many.
        before: u64,
    },
    /// Ready for the slice.
    Prepared {
        /// How the server can be reached on the data path, for each offer.
        answers: Vec<Answer>,
        /// Which way that is.
        path: Box<Path>,
    },
    /// The cell cannot be done.
    Refused(Refusal),
    /// Serving.
    Started,
    /// What the server's kernel knows of the slice's TCP connections, or why it does not tell.
    Connections(Result<Box<TcpSide>, String>),
    /// No longer serving.
    Finished(Box<Observation>),
}

impl Reply {
    /// With the control characters of all that may be shown escaped: what a peer says is not what a
    /// terminal obeys. How the data path is reached stays as it is.
    ///
    /// # Errors
    /// A text that had such characters had to be another one.
    pub(super) fn plain(self) -> serde_json::Result<Self> {
        match self {
            Self::Prepared { answers, path } => {
                Ok(Self::Prepared { answers, path: plain_throughout(&path)? })
            }
            other => plain_throughout(&other),
        }
    }
}

/// Why a cell cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// [`Status::Unsupported`] or [`Status::Failed`].
    pub status: Status,
    /// In words.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::PathKind, transport::SliceKey};

    #[test]
    fn what_a_server_says_is_no_command_to_a_terminal() {
        let path = |device: &str| {
            Box::new(Path {
                kind: PathKind::Roce,
                device: Some(device.to_owned()),
                port: Some(1),
                interface: None,
                emulated: false,
                backing: None,
                address: None,
                mtu: None,
                chosen: Some(format!("{device} is up")),
            })
        };
        let certificate = Some("-----BEGIN\n".to_owned());
        let answers =
            vec![Answer::Tcp { port: 1, key: SliceKey::generate().unwrap(), certificate }];
        let prepared = |device| Reply::Prepared { answers: answers.clone(), path: path(device) };
        assert_eq!(prepared("\u{1b}[2Jrxe0\n").plain().unwrap(), prepared("\\u{1b}[2Jrxe0\\n"));
        let reply = |text: &str| Reply::Connections(Err(text.to_owned()));
        assert_eq!(reply("\u{9b}2J").plain().unwrap(), reply("\\u{9b}2J"));
    }
}
