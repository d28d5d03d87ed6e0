//! One row a cell with every figure: for reading one transport closely.

use comfy_table::{CellAlignment, Table, presets};

use super::{
    Bound, CellRecord, CpuUse, Document, Latency, Look, Per, Side, Status, TcpRecord, Throughput,
    model,
    notes::long_notes,
    number::figure,
    phases::phases,
    scaling::{costs, share},
};

/// The rows as text.
#[must_use]
pub fn long(document: &Document) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "transport",
        "pattern",
        "size",
        "messages",
        "min us",
        "p50 us",
        "+- %",
        "p99 us",
        "p99.9 us",
        "max us",
        "mean us",
        "MB/s",
        "+- %",
        "bound %",
        "messages/s",
        "CPU us",
        "ns/B",
        "sys %",
        "csw",
        "peer CPU us",
        "ns/B",
        "sys %",
        "csw",
        "conns",
        "retrans",
        "TCP rtt us",
        "status",
    ]);
    for cell in &document.cells {
        table.add_row(row(document, cell));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let table = table.trim_fmt();
    format!(
        "{table}\nlatencies are half round trips, of reads, atomics and calls whole ones, of rate=N from when a call was to begin, of tensors the steps; MB = 10^6 bytes; +-: half of the 95 % interval, of the median the wider of the one over samples and the one over rounds; bound: the rate by that \
         of the link (L), or by what one thread copies in this host's memory in blocks of that size (M: over 100 where several \
         processors copy at once); CPU: processor time of \
         each process a message, of tensors a step, and a byte; sys: the part of it in the kernel, of 250 ms or more; csw: context switches of its threads to wait, a message; conns: TCP connections that the client's kernel counts; retrans: segments that TCP sent again, on both sides; TCP rtt: the client's \
         smoothed round trip time at the end of a slice\n\n{}{}{}",
        phases(document, Look::PLAIN.line),
        model(document).map_or_else(String::new, |model| costs(&model)),
        long_notes(document)
    )
}

/// Processor time of one side a message in microseconds and a byte in nanoseconds, the share of the kernel in it,
/// and switches a message to wait.
fn processor(cell: &CellRecord, side: Side) -> [String; 4] {
    let all = cell.cost(side);
    let usage = all.and_then(|(_, usage)| usage);
    let each = |per| cell.shared_out(all?.0, per);
    let switches = usage.and_then(|usage| cell.shared_out(usage.voluntary_switches, Per::Message));
    [
        figure(each(Per::Message).map(|ns| ns / 1e3)),
        figure(each(Per::Byte)),
        figure(usage.and_then(CpuUse::system_share).map(|share| share * 100.0)),
        figure(switches),
    ]
}

/// How much of what bounds its rate was reached, and by a letter what that is.
fn bound(document: &Document, cell: &CellRecord) -> String {
    let Some((bound, share)) = share(document, cell) else { return "-".to_owned() };
    let letter = match bound {
        Bound::Line => "L",
        Bound::MemoryCopy => "M",
    };
    format!("{} {letter}", figure(Some(share.share * 100.0)))
}

fn row(document: &Document, cell: &CellRecord) -> Vec<String> {
    let latency = cell.latency.as_ref();
    let us = |value: Option<f64>| figure(value.map(|nanoseconds| nanoseconds / 1000.0));
    let percent = |share: Option<f64>| figure(share.map(|share| share * 100.0));
    let throughput = cell.throughput.as_ref();
    let tcp = cell.tcp.as_ref();
    let rtt = tcp.and_then(|tcp| tcp.client.as_ref()?.rtt_us);
    let status = match cell.status {
        Status::Measured => match cell.unborne() {
            Some(unborne) => format!("measured, rate {unborne}"),
            None => "measured".to_owned(),
        },
        Status::Unsupported => "unsupported".to_owned(),
        Status::Failed => "failed".to_owned(),
        Status::Skipped => "skipped".to_owned(),
    };
    let [cpu, cpu_byte, system, switches] = processor(cell, Side::Client);
    let [peer_cpu, peer_cpu_byte, peer_system, peer_switches] = processor(cell, Side::Server);
    vec![
        cell.label(),
        cell.pattern.to_string(),
        cell.size_label(),
        cell.settings.as_ref().map_or_else(|| "-".to_owned(), |set| set.messages.to_string()),
        us(latency.map(|latency| latency.min)),
        us(latency.and_then(|latency| latency.p50)),
        percent(latency.and_then(Latency::half_width)),
        us(latency.and_then(|latency| latency.p99)),
        us(latency.and_then(|latency| latency.p999)),
        us(latency.map(|latency| latency.max)),
        us(latency.map(|latency| latency.mean)),
        figure(throughput.map(|rate| rate.bytes_per_s / 1e6)),
        percent(throughput.and_then(Throughput::half_width)),
        bound(document, cell),
        figure(throughput.map(|rate| rate.messages_per_s)),
        cpu,
        cpu_byte,
        system,
        switches,
        peer_cpu,
        peer_cpu_byte,
        peer_system,
        peer_switches,
        tcp.and_then(|tcp| tcp.client.as_ref())
            .map_or_else(|| "-".to_owned(), |client| client.connections.to_string()),
        tcp.and_then(TcpRecord::retransmits)
            .map_or_else(|| "-".to_owned(), |count| count.to_string()),
        figure(rtt.map(|rtt| rtt.mean)),
        status.to_owned(),
    ]
}
