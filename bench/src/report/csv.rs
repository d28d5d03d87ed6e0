//! Comma-separated values, one row a cell, for spreadsheets and plotting programs.

use super::{Document, Per, Side, plain};
use crate::plan::Axis;

const HEADER: [&str; 53] = [
    "transport",
    "pattern",
    "size_bytes",
    "status",
    "samples",
    "min_ns",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "mean_ns",
    "bytes_per_s",
    "messages_per_s",
    "path",
    "device",
    "interface",
    "emulated",
    "reason",
    "tcp_connections",
    "tcp_retransmits",
    "peer_tcp_retransmits",
    "tcp_rtt_us",
    "reply_bytes",
    "buffers",
    "client_cpu_ns",
    "server_cpu_ns",
    "client_peak_memory_bytes",
    "server_peak_memory_bytes",
    "model",
    "tensors_per_s",
    "assign_p50_ns",
    "assign_mean_ns",
    "p50_low_ns",
    "p50_high_ns",
    "p50_rounds_low_ns",
    "p50_rounds_high_ns",
    "bytes_per_s_low",
    "bytes_per_s_high",
    "sustained",
    "client_user_ns",
    "client_system_ns",
    "client_voluntary_switches",
    "client_involuntary_switches",
    "server_user_ns",
    "server_system_ns",
    "server_voluntary_switches",
    "server_involuntary_switches",
    "client_cpu_ns_per_message",
    "client_cpu_ns_per_byte",
    "server_cpu_ns_per_message",
    "server_cpu_ns_per_byte",
    "client_waits",
    "server_waits",
];

/// The rows with a header line, behind the others a column for each setting that a cell has of its own. Latencies
/// are half round trips in nanoseconds, of reads, atomics, calls and steps of tensors whole ones, of a rate from when
/// a call was to begin; low and high are the ends of 95 % intervals; what is absent is empty.
///
/// # Errors
/// None that can occur in memory; they are the writer's.
pub fn csv(document: &Document) -> Result<String, csv::Error> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    let has = |axis: &Axis| document.cells.iter().any(|cell| cell.variant.get(*axis).is_some());
    let axes: Vec<_> = Axis::all().filter(has).collect();
    let names = HEADER.into_iter().chain(axes.iter().map(|axis| axis.name()));
    rows.write_record(names)?;
    for cell in &document.cells {
        let latency = cell.latency.as_ref();
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let path = cell.path.as_ref();
        let tcp = cell.tcp.as_ref();
        let (client, server) =
            (tcp.and_then(|tcp| tcp.client.as_ref()), tcp.and_then(|tcp| tcp.server.as_ref()));
        let tensors = cell.tensors.as_ref();
        let assign = tensors.and_then(|tensors| tensors.assign.as_ref());
        let samples = latency.and_then(|latency| latency.p50_interval_95);
        let rounds = latency.and_then(|latency| latency.p50_rounds_interval_95);
        let rate = cell.throughput.as_ref().and_then(|rate| rate.interval_95);
        let low = |ends: Option<[f64; 2]>| number(ends.map(|[low, _]| low));
        let high = |ends: Option<[f64; 2]>| number(ends.map(|[_, high]| high));
        let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let usage =
            [Side::Client, Side::Server].map(|side| cell.cost(side).and_then(|(_, usage)| usage));
        let share =
            |side, per| number(cell.cost(side).and_then(|(all, _)| cell.shared_out(all, per)));
        let waits = cell.settings.as_ref().and_then(|settings| settings.waits);
        let fields = [
            cell.transport.to_string(),
            cell.pattern.to_string(),
            cell.size.to_string(),
            word(&cell.status),
            latency.map_or_else(String::new, |latency| latency.samples.to_string()),
            number(latency.map(|latency| latency.min)),
            number(latency.and_then(|latency| latency.p50)),
            number(latency.and_then(|latency| latency.p99)),
            number(latency.and_then(|latency| latency.p999)),
            number(latency.map(|latency| latency.max)),
            number(latency.map(|latency| latency.mean)),
            number(cell.throughput.as_ref().map(|rate| rate.bytes_per_s)),
            number(cell.throughput.as_ref().map(|rate| rate.messages_per_s)),
            path.map_or_else(String::new, |path| word(&path.kind)),
            path.and_then(|path| path.device.clone()).unwrap_or_default(),
            path.and_then(|path| path.interface.clone()).unwrap_or_default(),
            path.map_or_else(String::new, |path| path.emulated.to_string()),
            cell.reason.clone().unwrap_or_default(),
            count(client.map(|client| client.connections)),
            count(client.map(|client| client.retransmits)),
            count(server.map(|server| server.retransmits)),
            number(client.and_then(|client| client.rtt_us).map(|rtt| rtt.mean)),
            cell.reply.map_or_else(String::new, |reply| reply.to_string()),
            cell.buffers.as_ref().map_or_else(String::new, |buffers| buffers.shape.clone()),
            count(cell.cpu.map(|cpu| cpu.client_ns)),
            count(cell.cpu.map(|cpu| cpu.server_ns)),
            count(cell.memory.and_then(|memory| memory.client_peak_bytes)),
            count(cell.memory.and_then(|memory| memory.server_peak_bytes)),
            tensors.map_or_else(String::new, |tensors| tensors.model.clone()),
            number(tensors.and_then(|tensors| tensors.tensors_per_s)),
            number(assign.and_then(|assign| assign.p50)),
            number(assign.map(|assign| assign.mean)),
            low(samples),
            high(samples),
            low(rounds),
            high(rounds),
            low(rate),
            high(rate),
            cell.load.as_ref().map_or_else(String::new, |load| load.sustained.to_string()),
            count(usage[0].map(|usage| usage.user_ns)),
            count(usage[0].map(|usage| usage.system_ns)),
            count(usage[0].map(|usage| usage.voluntary_switches)),
            count(usage[0].map(|usage| usage.involuntary_switches)),
            count(usage[1].map(|usage| usage.user_ns)),
            count(usage[1].map(|usage| usage.system_ns)),
            count(usage[1].map(|usage| usage.voluntary_switches)),
            count(usage[1].map(|usage| usage.involuntary_switches)),
            share(Side::Client, Per::Message),
            share(Side::Client, Per::Byte),
            share(Side::Server, Per::Message),
            share(Side::Server, Per::Byte),
            waits.map_or_else(String::new, |waits| word(&waits.client)),
            waits.map_or_else(String::new, |waits| word(&waits.server)),
        ];
        let values = axes.iter().map(|&axis| {
            cell.variant.get(axis).map_or_else(String::new, |value| value.to_string())
        });
        // A reason may hold anything, and the file may be shown on a terminal.
        rows.write_record(
            fields.into_iter().chain(values).map(|field| plain(&field).into_owned()),
        )?;
    }
    let bytes = rows.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An enum's name as the JSON document writes it.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::tests::{cell, document};

    #[test]
    fn a_row_is_a_line_that_a_terminal_can_show() {
        let mut told = cell("tcp@lo", 64);
        told.reason = Some("two\nlines and a \u{1b}[2J".to_owned());
        let text = csv(&document(&["tcp@lo"], vec![told])).unwrap();
        assert!(text.lines().count() == 2 && !text.contains('\u{1b}'), "{text:?}");
        assert!(text.contains(r"two\nlines and a \u{1b}[2J"), "{text}");
    }
}
