//! Comma-separated values, one row a cell, for spreadsheets and plotting programs.

use std::fmt::Write as _;

use super::Document;

/// The rows with a header line. Latencies are half round trips in nanoseconds; what is absent is
/// empty.
#[must_use]
pub fn csv(document: &Document) -> String {
    let mut text = String::from(
        "transport,pattern,size_bytes,status,samples,min_ns,p50_ns,p99_ns,p999_ns,max_ns,mean_ns,\
         bytes_per_s,messages_per_s,path,device,interface,emulated,reason\n",
    );
    for cell in &document.cells {
        let latency = cell.latency.as_ref();
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let path = cell.path.as_ref();
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
        ];
        let _ = writeln!(text, "{}", fields.map(|field| quoted(&field)).join(","));
    }
    text
}

/// An enum's name as the JSON document writes it.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// RFC 4180: quoted where a comma, quote or line break would be misread.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
