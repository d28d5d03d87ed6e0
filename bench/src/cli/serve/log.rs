//! What a server tells: lines for people, or objects for programs.

use std::{net::SocketAddr, time::Duration};

use clap::ValueEnum;
use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Failure, print};
use crate::{
    cli::{say, write_line},
    control::Notice,
    report::plain,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Log(pub(super) LogFormat);

/// A line of the log for programs; the time as RFC 3339 writes it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    event: Event<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event<'a> {
    Listening { version: &'static str, address: SocketAddr, status: Option<SocketAddr> },
    Testing { client: &'a str },
    Waiting { client: &'a str, before: usize },
    Ended { client: &'a str, outcome: &'static str, reason: Option<String> },
    Refused { reason: String },
    Closing { grace_s: f64 },
}

impl Log {
    /// Where the server listens, on standard output for people and scripts.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn listens(
        self,
        address: SocketAddr,
        status: Option<SocketAddr>,
    ) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        match self.0 {
            LogFormat::Json => self.write(Event::Listening { version, address, status }),
            LogFormat::Text => {
                print(&format!("fabricbench {version} listening on {address}\n"))?;
                if let Some(status) = status {
                    print(&format!("status on http://{status}/metrics\n"))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn closes(self, grace: Duration) {
        match self.0 {
            LogFormat::Json => self.write(Event::Closing { grace_s: grace.as_secs_f64() }),
            LogFormat::Text => say(format_args!(
                "stopping: no more clients; the test that runs may end within {grace:?}"
            )),
        }
    }

    pub(super) fn tell(self, notice: &Notice<'_>) {
        match self.0 {
            LogFormat::Json => self.write(match *notice {
                Notice::Began(client) => Event::Testing { client },
                Notice::Queued(client, before) => Event::Waiting { client, before },
                Notice::Ended { peer, how, began } => Event::Ended {
                    client: peer,
                    outcome: match (began, how) {
                        (true, None) => "done",
                        (true, Some(_)) => "broken",
                        (false, _) => "left",
                    },
                    reason: how.map(|how| plain(how).into_owned()),
                },
                Notice::Refused(why) => Event::Refused { reason: plain(why).into_owned() },
            }),
            LogFormat::Text => match *notice {
                Notice::Began(peer) => say(format_args!("{peer}: testing")),
                Notice::Queued(peer, position) => {
                    say(format_args!("{peer}: waits behind {position}"));
                }
                Notice::Ended { peer, how, .. } => {
                    say(format_args!("{peer}: {}", how.unwrap_or("done")));
                }
                Notice::Refused(why) => say(format_args!("refused: {why}")),
            },
        }
    }

    fn write(self, event: Event<'_>) {
        // Years of more than four digits are all that it does not write.
        let time = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
        if let Ok(line) = serde_json::to_string(&Line { time, event }) {
            write_line(&line);
        }
    }
}
