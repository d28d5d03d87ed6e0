//! What stands in a cell of the table.

use crate::{
    plan::Pattern,
    report::{CellRecord, LatencyKind, Status, number::figure},
};

/// Its figures, or a word for why there are none.
pub(super) fn shown(cell: &CellRecord) -> String {
    match cell.status {
        Status::Measured => {}
        Status::Unsupported => return "unsupported".to_owned(),
        Status::Failed => return "failed".to_owned(),
        Status::Skipped => return "-".to_owned(),
    }
    let microseconds = |nanoseconds: Option<f64>| nanoseconds.map(|value| value / 1000.0);
    match (cell.pattern, &cell.latency, &cell.throughput) {
        (Pattern::Latency, Some(latency), _) => {
            let kind = match latency.kind {
                LatencyKind::HalfRoundTrip => "",
                LatencyKind::RoundTrip => "RT ",
            };
            let (p50, p99) = (microseconds(latency.p50), microseconds(latency.p99));
            format!("{kind}{} ({})", figure(p50), figure(p99))
        }
        (Pattern::Calls | Pattern::Ps, Some(latency), Some(throughput)) => {
            let unit = if cell.pattern == Pattern::Calls { 1e3 } else { 1.0 };
            let calls = figure(Some(throughput.messages_per_s / unit));
            let (p50, p99) = (microseconds(latency.p50), microseconds(latency.p99));
            let behind = cell.load.as_ref().is_some_and(|load| !load.sustained);
            let mark = if behind { "!" } else { "" };
            format!("{calls}{mark} / {} ({})", figure(p50), figure(p99))
        }
        (Pattern::TensorPush | Pattern::TensorFetch, Some(latency), Some(throughput)) => {
            let milliseconds =
                |nanoseconds: Option<f64>| figure(nanoseconds.map(|value| value / 1e6));
            let (p50, p99) = (milliseconds(latency.p50), milliseconds(latency.p99));
            let assign = cell.tensors.as_ref().and_then(|tensors| tensors.assign.as_ref());
            let assign = match assign {
                Some(assign) => format!(", {}", milliseconds(assign.p50.or(Some(assign.mean)))),
                None => String::new(),
            };
            format!("{} / {p50} ({p99}){assign}", figure(Some(throughput.bytes_per_s / 1e6)))
        }
        (Pattern::Rate, _, Some(throughput)) => figure(Some(throughput.messages_per_s / 1e3)),
        (Pattern::Bandwidth | Pattern::Bidirectional | Pattern::Fetch, _, Some(throughput)) => {
            let lost = match cell.loss {
                Some(loss) if loss.lost > 0 => {
                    format!(" (-{}%)", figure(Some(loss.lost as f64 * 100.0 / loss.sent as f64)))
                }
                _ => String::new(),
            };
            format!("{}{lost}", figure(Some(throughput.bytes_per_s / 1e6)))
        }
        _ => "-".to_owned(),
    }
}
