//! `fabricbench diagnose`: which cells are measured, what their records mean as steps from the link to a
//! transfer of tensors, and the [`verdict()`] on them.

mod text;
mod verdict;

use fabricbench_ipoib::PathName;
use serde::{Deserialize, Serialize};

pub use text::text;
pub use verdict::{Cause, Figure, Figures, Finding, Load, verdict};

use crate::{
    plan::{
        Axis, Cell, GrpcTuning, Pattern, Plan, Stop, Sweep, TransportName, Value, Variant,
        display_bytes,
    },
    report::{CellRecord, Document, Status},
};

/// The value of [`Diagnosis::schema`].
pub const SCHEMA: &str = "fabricbench-diagnosis/1";

/// tonic's flow-control window on a server, for a stream and for a connection, in bytes.
const STOCK_WINDOW: f64 = (1u32 << 20) as f64;

/// A diagnosis, with the document that it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// What shares are shares of, in bytes a second; `null` if TCP was not measured either.
    pub line_bytes_per_s: Option<f64>,
    /// Where that comes from.
    pub line_from: LineFrom,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// What limits, what costs most first.
    pub verdict: Vec<Finding>,
    /// All that was measured.
    pub document: Document,
}

/// Who says what the line carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineFrom {
    /// The user.
    Option,
    /// The kernels, of the slower of both interfaces.
    Kernel,
    /// Nobody: it is what the fastest TCP step carried.
    FastestTcp,
}

/// One step as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it is.
    pub name: String,
    /// Transport with its variant, as in the document.
    pub cell: String,
    /// Message size in bytes.
    pub size: u64,
    /// What became of it.
    pub status: Status,
    /// Why there are no figures; `null` when there are.
    pub reason: Option<String>,
    /// Connections that the client's kernel counted.
    pub connections: Option<u64>,
    /// Payload bytes a second, confirmed by the receiver.
    pub bytes_per_s: Option<f64>,
    /// Of [`Diagnosis::line_bytes_per_s`], from 0 to 1.
    pub share_of_line: Option<f64>,
    /// Bytes that the client's interface sent a second, headers, warm-up and other traffic included.
    pub interface_bytes_per_s: Option<f64>,
    /// Segments that TCP sent again, on both sides.
    pub retransmits: Option<u64>,
    /// TCP's round trip time at the end, on the client, in microseconds.
    pub rtt_us: Option<f64>,
    /// The client's processors.
    pub client: Option<Load>,
    /// The server's processors.
    pub server: Option<Load>,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The path.
    pub path: PathName,
    /// Message size of all but the tensors, in bytes.
    pub size: u64,
    /// Size of a tensor in bytes.
    pub tensor: u64,
    /// Numbers of connections, 1 among them.
    pub connections: Vec<u32>,
    /// Time of a step.
    pub stop: Stop,
    /// Rounds.
    pub rounds: u32,
    /// Seed of their order.
    pub seed: u64,
}

impl Order {
    /// The cells of all steps.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let tcp = TransportName::Tcp(self.path.clone());
        let grpc = |tuning| TransportName::Grpc(tuning, self.path.clone());
        let (tuned, stock) = (grpc(GrpcTuning::Tuned), grpc(GrpcTuning::Stock));
        let cell = |transport: &TransportName, size, variant| Cell {
            variant,
            ..Cell::new(transport.clone(), Pattern::Bandwidth, size)
        };
        let mut cells = Vec::new();
        for transport in [&tcp, &tuned] {
            for &connections in &self.connections {
                let variant =
                    Variant::default().with(Axis::Connections, Value::Number(connections.into()));
                cells.push(cell(transport, self.size, variant));
            }
        }
        let yes = || Value::Word("yes".to_owned());
        let serialized = Variant::default().with(Axis::Serialized, yes());
        cells.push(cell(&stock, self.size, Variant::default()));
        cells.push(cell(&tuned, self.size, serialized.clone()));
        cells.push(cell(&tuned, self.tensor, serialized.with(Axis::Assign, yes())));
        Plan {
            cells,
            transports: vec![tcp, tuned, stock],
            sweep: Sweep::default(),
            stop: self.stop,
            rounds: self.rounds,
            seed: self.seed,
            precision: None,
            budget: None,
            search: None,
        }
    }
}

/// What a cell is a step of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp(u32),
    Grpc(u32),
    Stock,
    Serialized,
    Tensor,
}

impl Kind {
    fn of(cell: &CellRecord) -> Self {
        let connections = match cell.variant.get(Axis::Connections) {
            Some(Value::Number(connections)) => u32::try_from(*connections).unwrap_or(u32::MAX),
            _ => 1,
        };
        match &cell.transport {
            TransportName::Grpc(GrpcTuning::Stock, _) => Self::Stock,
            TransportName::Grpc(..) if cell.variant.get(Axis::Assign).is_some() => Self::Tensor,
            TransportName::Grpc(..) if cell.variant.get(Axis::Serialized).is_some() => {
                Self::Serialized
            }
            TransportName::Grpc(..) => Self::Grpc(connections),
            _ => Self::Tcp(connections),
        }
    }

    fn name(self, size: u64) -> String {
        let over = |what: &str, connections| match connections {
            1 => format!("{what}, 1 connection"),
            several => format!("{what}, {several} connections"),
        };
        match self {
            Self::Tcp(connections) => over("TCP", connections),
            Self::Grpc(connections) => over("gRPC raw", connections),
            Self::Stock => "gRPC raw, library's defaults".to_owned(),
            Self::Serialized => "gRPC serialized".to_owned(),
            Self::Tensor => format!("tensors of {}, assigned", display_bytes(size)),
        }
    }
}

/// Draws the conclusions from a document of [`Order::plan`]. `line` is what the link carries, in bytes a
/// second, where that is known.
#[must_use]
pub fn diagnose(document: Document, line: Option<(f64, LineFrom)>) -> Diagnosis {
    let mut figures = Figures { line: line.map(|(line, _)| line), ..Figures::default() };
    for cell in &document.cells {
        let (kind, Some(figure)) = (Kind::of(cell), figure(cell)) else { continue };
        match kind {
            Kind::Tcp(connections) => figures.tcp.push((connections, figure)),
            Kind::Grpc(connections) => figures.grpc.push((connections, figure)),
            Kind::Stock => figures.stock = Some(figure),
            Kind::Serialized => figures.serialized = Some(figure),
            Kind::Tensor => figures.tensor = Some(figure),
        }
    }
    let fastest = figures.best_tcp().map(|(_, figure)| figure.bytes_per_s);
    let line_bytes_per_s = figures.line.or(fastest);
    let steps = document.cells.iter().map(|cell| step(cell, line_bytes_per_s)).collect();
    Diagnosis {
        schema: SCHEMA.to_owned(),
        line_bytes_per_s,
        line_from: line.map_or(LineFrom::FastestTcp, |(_, from)| from),
        steps,
        verdict: verdict(&figures),
        document,
    }
}

/// Processors used and waited for, of counts in nanoseconds.
fn load(cell: &CellRecord, running: u64, waiting: Option<u64>) -> Option<Load> {
    let share = |nanoseconds: u64| Some(cell.a_second(nanoseconds)? / 1e9);
    Some(Load { running: share(running)?, waiting: waiting.and_then(share) })
}

fn figure(cell: &CellRecord) -> Option<Figure> {
    let bytes_per_s = cell.throughput.as_ref()?.bytes_per_s;
    let rounds = cell.rounds.iter().filter(|round| round.elapsed_ns > 0);
    let rates = rounds
        .map(|round| round.messages as f64 * cell.size as f64 * 1e9 / round.elapsed_ns as f64);
    let rounds = rates
        .fold((bytes_per_s, bytes_per_s), |(least, most), rate| (rate.min(least), rate.max(most)));
    let tcp = cell.tcp.as_ref().and_then(|tcp| tcp.client.as_ref());
    let settings = cell.settings.as_ref().map(|settings| &settings.transport);
    let told = settings.and_then(|settings| settings.get("HTTP/2 stream window, B")?.parse().ok());
    let http2_window = match (&cell.transport, told) {
        (TransportName::Grpc(GrpcTuning::Stock, _), None) => Some(STOCK_WINDOW),
        (_, told) => told,
    };
    Some(Figure {
        bytes_per_s,
        rounds,
        client: cell.cpu.and_then(|cpu| load(cell, cpu.client_ns, cpu.client_waiting_ns)),
        server: cell.cpu.and_then(|cpu| load(cell, cpu.server_ns, cpu.server_waiting_ns)),
        retransmitted: tcp.and_then(|client| client.retransmitted()),
        lossy: tcp.is_some_and(|client| client.is_lossy()),
        tcp_window_limited: tcp
            .and_then(|client| client.share_of_busy(client.receive_window_limited_us)),
        rtt_us: tcp.and_then(|client| Some(client.rtt_us?.mean)),
        http2_window,
    })
}

fn step(cell: &CellRecord, line: Option<f64>) -> Step {
    let figure = figure(cell);
    let bytes_per_s = figure.map(|figure| figure.bytes_per_s);
    let sent = cell.counters.as_ref().and_then(|counters| counters.interface_tx_bytes);
    Step {
        name: Kind::of(cell).name(cell.size),
        cell: cell.label(),
        size: cell.size,
        status: cell.status,
        reason: cell.reason.clone(),
        connections: cell.tcp.as_ref().and_then(|tcp| Some(tcp.client.as_ref()?.connections)),
        bytes_per_s,
        share_of_line: bytes_per_s.zip(line).map(|(rate, line)| rate / line),
        interface_bytes_per_s: sent.and_then(|sent| cell.a_second(sent)),
        retransmits: cell.tcp.as_ref().and_then(|tcp| tcp.retransmits()),
        rtt_us: figure.and_then(|figure| figure.rtt_us),
        client: figure.and_then(|figure| figure.client),
        server: figure.and_then(|figure| figure.server),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_planned_once_and_has_a_name_of_its_own() {
        let order = Order {
            path: PathName::Ipoib,
            size: 1 << 20,
            tensor: 16 << 20,
            connections: vec![1, 8],
            stop: Stop::default(),
            rounds: 3,
            seed: 1,
        };
        let cells = crate::run::unmeasured(&order.plan(), "not yet");
        let names: Vec<_> = cells.iter().map(|cell| Kind::of(cell).name(cell.size)).collect();
        assert_eq!(
            names,
            [
                "TCP, 1 connection",
                "TCP, 8 connections",
                "gRPC raw, 1 connection",
                "gRPC raw, 8 connections",
                "gRPC raw, library's defaults",
                "gRPC serialized",
                "tensors of 16 MiB, assigned",
            ]
        );
        assert!(order.plan().cells.iter().all(|cell| cell.impossible().is_none()));
    }
}
