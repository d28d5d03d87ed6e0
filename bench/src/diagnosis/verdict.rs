//! Where the bandwidth goes, from the figures of the steps alone.
//!
//! The steps are a chain: the link, TCP over several sockets, TCP over one, gRPC, serialized gRPC, and a
//! transfer of tensors. What is lost between two neighbours has the cause that tells them apart, unless
//! a processor was full: then it is that, whatever came on top of it.

use serde::{Deserialize, Serialize};

/// Less than this share of the step before is a loss worth a word.
const LOSS: f64 = 0.9;

/// One stream that carries less than this share of several is limited by itself.
const ONE_OF_SEVERAL: f64 = 0.8;

/// More than this share of a processor, used or waited for, and the step could not have been faster.
const FULL: f64 = 0.9;

/// More than this share of a processor waited for, and others run on it.
const SHARED: f64 = 0.2;

/// More than this share of the time waited for a processor is as bad as a full one, however little was
/// used: both sides may wait in turns.
const STARVED: f64 = 0.5;

/// A window that lets through less than this many times what TCP carries is in the way: neither rates
/// nor round trip times are known better.
const WINDOW_MARGIN: f64 = 1.5;

/// A window carries this part of itself in a round trip at the least: it is given back in halves, and it
/// takes a few round trips until all of it is used. What carries less has another cause.
const LEAST_OF_WINDOW: f64 = 0.25;

/// Share of the time in which the receiver's TCP window held the sender back that is much.
const TCP_WINDOW: f64 = 0.3;

/// What limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The link is full.
    Link,
    /// The path carries less than its link, over however many sockets.
    Path,
    /// One socket carries less than several.
    Socket,
    /// A processor is full, or shared with others.
    Processor,
    /// gRPC's flow control waits for the round trip.
    Http2Window,
    /// What gRPC costs over TCP.
    Grpc,
    /// What protobuf costs.
    Serialization,
    /// What large messages and their copies cost.
    Copies,
}

impl Cause {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Link => "the link",
            Self::Path => "the path",
            Self::Socket => "one socket's limit",
            Self::Processor => "the processor",
            Self::Http2Window => "the HTTP/2 window",
            Self::Grpc => "gRPC's cost",
            Self::Serialization => "serialization",
            Self::Copies => "copies",
        }
    }
}

/// A finding, with the figures that it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What limits.
    pub cause: Cause,
    /// In words.
    pub text: String,
    /// What is left of what there was before, from 0 to 1; `null` where it is not known.
    pub left: Option<f64>,
}

/// How much of a processor one side had.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Processors used in the mean.
    pub running: f64,
    /// Threads that were ready to run and had none, in the mean; `None` where the kernel does not tell.
    pub waiting: Option<f64>,
}

impl Load {
    fn wanted(self) -> f64 {
        self.running + self.waiting.unwrap_or(0.0)
    }

    fn is_starved(self) -> bool {
        self.waiting.is_some_and(|waiting| waiting >= STARVED)
    }
}

/// What one step measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figure {
    /// Payload bytes a second.
    pub bytes_per_s: f64,
    /// The slowest and the fastest round, in the same unit.
    pub rounds: (f64, f64),
    /// The client, whose connections are all of one thread.
    pub client: Option<Load>,
    /// The server.
    pub server: Option<Load>,
    /// The share of segments that TCP sent again.
    pub retransmitted: Option<f64>,
    /// Whether that is so much that loss decides.
    pub lossy: bool,
    /// The share of the time in which the receiver's TCP window held the sender back.
    pub tcp_window_limited: Option<f64>,
    /// Round trip time of its packets in microseconds.
    pub rtt_us: Option<f64>,
    /// HTTP/2's flow-control window in bytes.
    pub http2_window: Option<f64>,
}

impl Figure {
    /// Whether a side waited for a processor more than it may.
    fn is_starved(&self) -> bool {
        [self.client, self.server].into_iter().flatten().any(Load::is_starved)
    }
}

/// The figures of all steps. Absent is what was not measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// What the link carries, in bytes a second, where anybody says so.
    pub line: Option<f64>,
    /// TCP, by the number of its connections.
    pub tcp: Vec<(u32, Figure)>,
    /// gRPC with raw messages and fitted windows, by the number of its connections.
    pub grpc: Vec<(u32, Figure)>,
    /// gRPC with the library's defaults, on one connection.
    pub stock: Option<Figure>,
    /// gRPC with serialized messages, on one connection.
    pub serialized: Option<Figure>,
    /// Large serialized messages that are copied to their place.
    pub tensor: Option<Figure>,
}

impl Figures {
    /// The fastest TCP step: connections and figure.
    #[must_use]
    pub fn best_tcp(&self) -> Option<(u32, Figure)> {
        best(&self.tcp)
    }
}

fn best(steps: &[(u32, Figure)]) -> Option<(u32, Figure)> {
    steps.iter().copied().max_by(|one, other| one.1.bytes_per_s.total_cmp(&other.1.bytes_per_s))
}

fn one(steps: &[(u32, Figure)]) -> Option<Figure> {
    steps.iter().find(|(connections, _)| *connections == 1).map(|(_, figure)| *figure)
}

/// What limits, what costs most first; one finding at least if TCP was measured at all.
#[must_use]
pub fn verdict(figures: &Figures) -> Vec<Finding> {
    let Some((streams, fastest)) = figures.best_tcp() else { return Vec::new() };
    let mut findings = Vec::new();
    let single = one(&figures.tcp).unwrap_or(fastest);
    let is_limited =
        single.bytes_per_s / fastest.bytes_per_s < ONE_OF_SEVERAL && is_less(&single, &fastest);
    // Of several connections the server's threads are several, and one full processor says nothing.
    let full = full(&fastest, streams == 1).or_else(|| full(&single, true).filter(|_| !is_limited));
    let of_line = figures.line.map(|line| fastest.bytes_per_s / line);
    let link_is_full = of_line.is_some_and(|share| share >= LOSS);
    match (&full, of_line) {
        _ if link_is_full => {}
        (Some(full), share) => findings.push(Finding {
            cause: Cause::Processor,
            text: format!(
                "TCP itself, {} over {}, is bound by a processor: {full}",
                rate(fastest.bytes_per_s),
                sockets(streams)
            ),
            left: share,
        }),
        (None, Some(share)) => findings.push(Finding {
            cause: Cause::Path,
            text: format!(
                "TCP over {} carries {}, {} of the link's {}, and no processor is full: something on the \
                 way carries less, or others use it; {}",
                sockets(streams),
                rate(fastest.bytes_per_s),
                percent(share),
                rate(figures.line.unwrap_or(0.0)),
                loss_words(&fastest)
            ),
            left: Some(share),
        }),
        (None, None) => {}
    }
    if is_limited {
        findings.push(socket(figures, &single, streams, &fastest));
    }
    // Of several sockets nothing is known that gRPC over one could be compared with.
    if let Some(single) = one(&figures.tcp) {
        findings.extend(of_grpc(figures, &single));
    }
    // What a full processor would carry else is not known, and it explains what comes after it.
    let order = |finding: &Finding| match finding.cause {
        Cause::Processor => -1.0,
        _ => finding.left.unwrap_or(0.0),
    };
    findings.sort_by(|one, other| order(one).total_cmp(&order(other)));
    if findings.is_empty() {
        findings.push(nothing_lost(figures, streams, &fastest));
    }
    findings
}

/// Why one socket carries less than several.
fn socket(figures: &Figures, single: &Figure, streams: u32, fastest: &Figure) -> Finding {
    let left = single.bytes_per_s / fastest.bytes_per_s;
    if let Some(full) = full(single, true) {
        return Finding {
            cause: Cause::Processor,
            text: format!(
                "one TCP socket carries {} of the {} of {streams}, bound by a processor: {full}",
                rate(single.bytes_per_s),
                rate(fastest.bytes_per_s)
            ),
            left: Some(left),
        };
    }
    let why = match single.tcp_window_limited {
        _ if single.lossy => format!("{}: a policer, or loss", loss_words(single)),
        Some(share) if share > TCP_WINDOW => format!(
            "the receiver's TCP window held it back for {} of the time: raise net.ipv4.tcp_rmem",
            percent(share)
        ),
        _ => format!(
            "{}: a limit for each flow, such as a shaper, one of several links, or one queue",
            loss_words(single)
        ),
    };
    let grpc = match (one(&figures.grpc), best(&figures.grpc)) {
        (Some(one), Some((connections, best))) if connections > 1 => format!(
            "; gRPC: {} over one connection, {} over {connections}. Channels to one target share a \
             socket unless they are forced apart",
            rate(one.bytes_per_s),
            rate(best.bytes_per_s)
        ),
        _ => String::new(),
    };
    Finding {
        cause: Cause::Socket,
        text: format!(
            "one TCP socket carries {}, {} of the {} that {streams} carry, and no processor is full; \
             {why}{grpc}",
            rate(single.bytes_per_s),
            percent(left),
            rate(fastest.bytes_per_s)
        ),
        left: Some(left),
    }
}

/// What is lost from one TCP socket to a transfer of tensors.
fn of_grpc(figures: &Figures, tcp: &Figure) -> Vec<Finding> {
    let mut findings = Vec::new();
    let raw = one(&figures.grpc);
    if let Some(raw) = raw.filter(|raw| is_less(raw, tcp)) {
        findings.push(window(&raw, tcp, "gRPC").unwrap_or_else(|| {
            step(Cause::Grpc, "gRPC with raw messages", &raw, "one TCP socket", tcp)
        }));
    }
    if let Some(stock) = figures.stock.filter(|stock| is_less(stock, tcp)) {
        findings.extend(window(&stock, tcp, "gRPC with the library's defaults"));
    }
    let Some(raw) = raw else { return findings };
    let serialized = figures.serialized;
    if let Some(serialized) = serialized.filter(|serialized| is_less(serialized, &raw)) {
        let cause = Cause::Serialization;
        findings.push(step(cause, "serialized gRPC", &serialized, "gRPC with raw messages", &raw));
    }
    let before = serialized.unwrap_or(raw);
    if let Some(tensor) = figures.tensor.filter(|tensor| is_less(tensor, &before)) {
        let name = "a transfer of tensors (large messages, each copied to its place)";
        findings.push(step(Cause::Copies, name, &tensor, "smaller serialized messages", &before));
    }
    findings
}

fn step(cause: Cause, name: &str, figure: &Figure, before: &str, than: &Figure) -> Finding {
    let left = figure.bytes_per_s / than.bytes_per_s;
    // What waits for others says nothing of what it costs itself.
    let cause = if figure.is_starved() { Cause::Processor } else { cause };
    let processor = match full(figure, true) {
        Some(full) => format!("; {full}"),
        None => "; no processor is full".to_owned(),
    };
    Finding {
        cause,
        text: format!(
            "{name} carries {}, {} of the {} of {before}{processor}",
            rate(figure.bytes_per_s),
            percent(left),
            rate(than.bytes_per_s)
        ),
        left: Some(left),
    }
}

/// A finding if HTTP/2's window lets through no more in a round trip than was measured.
fn window(figure: &Figure, than: &Figure, name: &str) -> Option<Finding> {
    let (window, rtt) = (figure.http2_window?, figure.rtt_us.filter(|rtt| *rtt > 0.0)?);
    let most = window / (rtt / 1e6);
    let bound =
        most < than.bytes_per_s * WINDOW_MARGIN && figure.bytes_per_s > most * LEAST_OF_WINDOW;
    (bound && full(figure, true).is_none()).then(|| Finding {
        cause: Cause::Http2Window,
        text: format!(
            "{name} carries {}, {} of the {} of one TCP socket: its window of {:.0} KiB lets through \
             no more than {} in a round trip of {:.1} ms; raise the receiver's windows to {:.0} KiB at least, better twice that",
            rate(figure.bytes_per_s),
            percent(figure.bytes_per_s / than.bytes_per_s),
            rate(than.bytes_per_s),
            window / 1024.0,
            rate(most),
            rtt / 1e3,
            than.bytes_per_s * rtt / 1e6 / 1024.0
        ),
        left: Some(figure.bytes_per_s / than.bytes_per_s),
    })
}

fn nothing_lost(figures: &Figures, streams: u32, fastest: &Figure) -> Finding {
    let rests_on = match figures.line {
        Some(line) => format!("{} of its {}", percent(fastest.bytes_per_s / line), rate(line)),
        None => "its own rate, since the kernel states none".to_owned(),
    };
    let last = [figures.tensor, figures.serialized, one(&figures.grpc)];
    let kept = last.into_iter().flatten().next().map_or_else(String::new, |last| {
        format!(
            ", and the last step keeps {} of it",
            percent(last.bytes_per_s / fastest.bytes_per_s)
        )
    });
    Finding {
        cause: Cause::Link,
        text: format!(
            "no step loses more than {} for certain: TCP over {} carries {}, {rests_on}{kept}",
            percent(1.0 - LOSS),
            sockets(streams),
            rate(fastest.bytes_per_s)
        ),
        left: None,
    }
}

/// Less by more than the rounds of both differ.
fn is_less(figure: &Figure, than: &Figure) -> bool {
    figure.bytes_per_s < than.bytes_per_s * LOSS && figure.rounds.1 < than.rounds.0
}

/// Which processor is full, in words; the server's is looked at where it has one thread.
fn full(figure: &Figure, server: bool) -> Option<String> {
    let sides = [("client", figure.client), ("server", figure.server.filter(|_| server))];
    let loads = sides.into_iter().filter_map(|(side, load)| Some((side, load?)));
    let full = loads.filter(|(_, load)| load.is_starved() || load.wanted() >= FULL);
    let (side, load) = full.max_by(|one, other| one.1.wanted().total_cmp(&other.1.wanted()))?;
    Some(match load.waiting {
        Some(waiting) if waiting >= SHARED => format!(
            "the {side} used {} of one and waited for it in {} of the time, summed over its threads: others run \
             there, or its share is limited",
            percent(load.running),
            percent(waiting)
        ),
        _ => format!("the {side} used {} of one", percent(load.running)),
    })
}

fn loss_words(figure: &Figure) -> String {
    match figure.retransmitted {
        Some(share) if share > 0.0 => {
            format!("TCP sent {:.2} % of its segments again", share * 100.0)
        }
        Some(_) => "TCP sent no segment again".to_owned(),
        None => "whether TCP sent segments again is not known".to_owned(),
    }
}

fn sockets(count: u32) -> String {
    match count {
        1 => "one socket".to_owned(),
        several => format!("{several} sockets"),
    }
}

fn rate(bytes_per_s: f64) -> String {
    format!("{:.1} MB/s", bytes_per_s / 1e6)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
