//! The rows of the table: what they are called, how all of them are carried out, and what is written down
//! of each.

use std::{
    fs::OpenOptions,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use serde_json::{Value, json};

use crate::between::At;

/// Whom something happens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Client,
    Server,
    /// What is between them.
    Network,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Network => "network",
        }
    }
}

/// How far the run has come by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Connecting,
    /// Of the second slice, as all that follow.
    Agreeing,
    WarmUp,
    Measuring,
    Finishing,
    Writing,
}

pub const PHASES: [Phase; 6] = [
    Phase::Connecting,
    Phase::Agreeing,
    Phase::WarmUp,
    Phase::Measuring,
    Phase::Finishing,
    Phase::Writing,
];

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Agreeing => "agreeing the plan",
            Self::WarmUp => "warm-up",
            Self::Measuring => "measuring",
            Self::Finishing => "finishing",
            Self::Writing => "writing the result",
        }
    }

    /// Where the control connection is held, so that neither side gets further.
    pub fn held(self) -> At {
        match self {
            Self::Connecting => At::Greeting,
            Self::Agreeing => At::Request("prepare", 2),
            Self::WarmUp | Self::Measuring => At::Reply("started", 2),
            Self::Finishing => At::Request("finish", 2),
            Self::Writing => At::Reply("finished", 2),
        }
    }

    /// What a client says of it that has lost its server.
    pub fn of_client(self) -> &'static str {
        match self {
            Self::Connecting => "",
            Self::Agreeing => "while agreeing the plan",
            Self::WarmUp => "in warm-up",
            Self::Measuring => "while measuring",
            Self::Finishing => "while finishing",
            Self::Writing => "",
        }
    }

    /// What a server says of it that has lost its client, which it has answered by then; it is not told
    /// when the warm-up ends.
    pub fn of_server(self) -> &'static str {
        match self {
            Self::Connecting => "refused: ",
            Self::Agreeing => "while connecting the data path",
            Self::WarmUp | Self::Measuring => "while measuring",
            Self::Finishing | Self::Writing => "while waiting for the next slice",
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row<F> {
    pub who: Who,
    pub fault: F,
    pub phase: Phase,
    /// As `--transport` has it.
    pub transport: &'static str,
}

/// What became of it.
#[derive(Debug)]
pub struct Seen {
    /// Of the client; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What the client said last.
    pub client: String,
    /// What the server said last of the client.
    pub server: String,
}

/// Whether all rows are asked for.
pub fn all() -> bool {
    std::env::var_os("FABRICBENCH_FAULTS").is_some()
}

/// Rows that are carried out at once: most of their time they wait.
const AT_ONCE: usize = 4;

/// Carries all rows out, several at once, and fails with the names of those that failed.
#[track_caller]
pub fn hold<F: Copy + Send + Sync>(
    rows: impl IntoIterator<Item = Row<F>>,
    name: impl Fn(F) -> &'static str + Sync,
    carry_out: impl Fn(Row<F>) -> Seen + Sync,
) {
    let rows = Mutex::new(rows.into_iter().collect::<Vec<_>>().into_iter());
    let failed = Mutex::new(Vec::new());
    let next = || rows.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(row) = next() {
                    let named = json!({
                        "who": row.who.name(),
                        "fault": name(row.fault),
                        "phase": row.phase.name(),
                        "transport": row.transport,
                    });
                    match catch_unwind(AssertUnwindSafe(|| carry_out(row))) {
                        Ok(seen) => write_down(named, &seen),
                        Err(panic) => {
                            let why = panic.downcast_ref::<String>().cloned().or_else(|| {
                                panic.downcast_ref::<&str>().map(|&why| why.to_owned())
                            });
                            failed
                                .lock()
                                .unwrap()
                                .push(format!("{named}: {}", why.unwrap_or_default()));
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} rows failed:\n{}", failed.len(), failed.join("\n"));
}

fn write_down(mut row: Value, seen: &Seen) {
    let Some(folder) = std::env::var_os("FABRICBENCH_FAULTS") else { return };
    row["code"] = json!(seen.code);
    row["client"] = json!(canonical(&seen.client));
    row["server"] = json!(canonical(&seen.server));
    let path = Path::new(&folder).join("rows.jsonl");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{row}\n").as_bytes()).unwrap();
}

/// Without ports and numbers of slices, which differ from time to time; and with the phase in front, which
/// stands behind where the data path noticed before the control connection did.
fn canonical(line: &str) -> String {
    let line = line.strip_prefix("fabricbench: ").unwrap_or(line);
    let line = in_order(line).unwrap_or_else(|| line.to_owned());
    let words = line.split(' ').map(|word| {
        let bare = word.trim_end_matches([':', ';', ',']);
        match bare.parse::<std::net::SocketAddr>() {
            Ok(_) => word.replace(bare, "PEER"),
            Err(_) => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn in_order(line: &str) -> Option<String> {
    let (start, rest) = line.split_once("while giving a slice up: ")?;
    let (how, earlier) = rest.split_once(" (before that, ")?;
    let (phase, rest) = earlier.split_once(": ")?;
    let (_, end) = rest.rsplit_once(')')?;
    let is_one = phase.starts_with("while ") || phase.starts_with("in ");
    is_one.then(|| format!("{start}{phase}: {how}{end}"))
}
