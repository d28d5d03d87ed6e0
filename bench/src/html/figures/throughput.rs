//! Rates against size.

use super::by_size::{Quantity, Value, by_size};
use crate::{
    html::{
        figure::{Figure, Limit},
        series::{Looks, Subject},
    },
    plan::Pattern,
    report::{CellRecord, Throughput, number::figure},
};

/// The figures of a subject's rates; `line_rate` is what the link carries, in bytes a second.
pub(super) fn throughput(
    subject: &Subject<'_>,
    looks: &mut Looks<'_>,
    line_rate: Option<f64>,
) -> Vec<Figure> {
    let (title, of, axis, unit) = words(subject);
    let in_bytes = unit == "MB/s";
    let has_interval = |throughput: &Throughput| throughput.interval_95.is_some();
    let over_rounds = subject
        .cells
        .iter()
        .any(|measured| measured.cell.throughput.as_ref().is_some_and(has_interval));
    let value = |cell: &CellRecord| {
        let throughput = cell.throughput.as_ref()?;
        let rate = if in_bytes { throughput.bytes_per_s / 1e6 } else { throughput.messages_per_s };
        let interval = match over_rounds {
            true => throughput.interval_95.map(|ends| ends.map(|end| end / throughput.bytes_per_s)),
            false => range_of_rounds(cell),
        };
        let interval = interval.map(|shares| shares.map(|share| share * rate));
        let mut text = figure(Some(rate));
        if let Some([low, high]) = interval {
            text.push_str(&format!(" [{}, {}]", figure(Some(low)), figure(Some(high))));
        }
        if let Some(loss) = cell.loss.filter(|loss| loss.lost > 0 && loss.sent > 0) {
            let share = loss.lost as f64 * 100.0 / loss.sent as f64;
            text.push_str(&format!("; {} % lost", figure(Some(share))));
        }
        Some(Value { value: rate, interval, thin: None, text })
    };
    let quantity = Quantity {
        id: format!("throughput-{}", subject.slug()),
        title: if subject.is_of_sizes() {
            format!("{title} against message size")
        } else {
            title.to_owned()
        },
        caption: format!(
            "{of}. Totals by total time over the rounds; intervals: {}.",
            match over_rounds {
                true => "95 % confidence, over the rounds",
                false => "from the slowest to the fastest round",
            }
        ),
        axis: axis.to_owned(),
        unit: unit.to_owned(),
        limits: if in_bytes { limits(subject, line_rate) } else { Vec::new() },
        of: &value,
    };
    by_size(subject, looks, &quantity)
}

fn words(subject: &Subject<'_>) -> (&'static str, String, &'static str, &'static str) {
    let roles = subject.roles.unwrap_or_default();
    let (workers, servers) = (roles.workers, roles.servers);
    match subject.pattern {
        Pattern::Bandwidth => (
            "Bandwidth",
            "Payload one way, confirmed by the receiver".to_owned(),
            "bandwidth, MB/s (10⁶ B/s of payload)",
            "MB/s",
        ),
        Pattern::Bidirectional => (
            "Bandwidth, both directions",
            "Payload in both directions at once, their sum, confirmed by the receivers".to_owned(),
            "bandwidth, MB/s (10⁶ B/s of payload)",
            "MB/s",
        ),
        Pattern::Fetch => (
            "Fetch",
            "The server's data, taken by the client: what has arrived".to_owned(),
            "bandwidth, MB/s (10⁶ B/s of payload)",
            "MB/s",
        ),
        Pattern::TensorPush | Pattern::TensorFetch => (
            if subject.pattern == Pattern::TensorPush {
                "Tensors pushed"
            } else {
                "Tensors fetched"
            },
            format!(
                "Bytes of tensors a second, {workers} worker(s) and {servers} parameter server(s)"
            ),
            "rate, MB/s (10⁶ B/s of tensors)",
            "MB/s",
        ),
        Pattern::Latency => (
            "Round trips",
            "Round trips a second, one message in flight".to_owned(),
            "round trips a second",
            "/s",
        ),
        Pattern::Rate => ("Rate", "Operations a second".to_owned(), "operations a second", "/s"),
        Pattern::Calls => {
            ("Calls", "Calls a second, closed loop".to_owned(), "calls a second", "/s")
        }
        Pattern::Ps => (
            "Calls to parameter servers",
            format!(
                "Calls a second of all of {workers} worker(s), each to all of {servers} parameter server(s)"
            ),
            "calls a second",
            "/s",
        ),
    }
}

/// What links carry: as it was given, else as each cell has it, each rate once with the transports that it is of.
fn limits(subject: &Subject<'_>, given: Option<f64>) -> Vec<Limit> {
    let limit = |rate: f64, of: &str| Limit {
        y: rate / 1e6,
        name: format!(
            "link{of}: {} MB/s ({} Gb/s)",
            figure(Some(rate / 1e6)),
            figure(Some(rate * 8e-9))
        ),
    };
    if let Some(rate) = given {
        return vec![limit(rate, "")];
    }
    let mut rates: Vec<(f64, Vec<String>)> = Vec::new();
    for cell in subject.cells.iter().map(|measured| measured.cell) {
        let (Some(rate), name) = (cell.line_bytes_per_s, cell.transport.to_string()) else {
            continue;
        };
        // Both ways at once, a link carries as much each way.
        let rate = if cell.pattern == Pattern::Bidirectional { 2.0 * rate } else { rate };
        match rates.iter_mut().find(|(known, _)| *known == rate) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => rates.push((rate, vec![name])),
        }
    }
    let of = |names: &[String]| match names {
        [] => String::new(),
        names => format!(" of {}", names.join(", ")),
    };
    rates.iter().map(|(rate, names)| limit(*rate, &of(names))).collect()
}

/// The slowest and the fastest round, each as a share of the rate of all.
fn range_of_rounds(cell: &CellRecord) -> Option<[f64; 2]> {
    let rounds = || cell.rounds.iter().filter(|round| round.elapsed_ns > 0);
    let (messages, elapsed) = rounds().fold((0.0, 0.0), |(messages, elapsed), round| {
        (messages + round.messages as f64, elapsed + round.elapsed_ns as f64)
    });
    if rounds().count() < 2 || messages <= 0.0 {
        return None;
    }
    let rates = rounds().map(|round| round.messages as f64 / round.elapsed_ns as f64);
    let (low, high) =
        rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    Some([low, high].map(|rate| rate * elapsed / messages))
}
