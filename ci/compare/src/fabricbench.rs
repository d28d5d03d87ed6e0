//! fabricbench: one server for all rounds, and a short run for each figure.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use fabricbench::report::{CellRecord, Document, Status};

use crate::child::Running;

/// Time for the server to say where it listens.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server to run against.
#[derive(Debug)]
pub struct Fabricbench {
    program: String,
    host: String,
    port: u16,
    // Ends with this value.
    server: Option<Running>,
}

/// The `fabricbench` built beside this program.
///
/// # Errors
/// There is none.
pub fn beside_us() -> Result<PathBuf> {
    let us = std::env::current_exe().context("where is this program?")?;
    let program = us.with_file_name("fabricbench");
    ensure!(
        program.is_file(),
        "no {}; run cargo build --release -p fabricbench, or give --fabricbench",
        program.display()
    );
    Ok(program)
}

impl Fabricbench {
    /// Starts a server on loopback.
    ///
    /// # Errors
    /// It did not come up.
    pub fn on_loopback(program: &Path) -> Result<Self> {
        Self::start(program, None, "127.0.0.1")
    }

    /// Starts a server at the address `host`, in the network namespace `netns` if one is given.
    ///
    /// # Errors
    /// It did not come up.
    pub fn start(program: &Path, netns: Option<&str>, host: &str) -> Result<Self> {
        let program = program.display().to_string();
        // In a namespace of ours, where nobody else is.
        let arguments = ["serve", "--listen", host, "--port", "0", "--insecure"];
        let mut server = Running::start_within(netns, &program, None, arguments)?;
        let line = server.first_line(PATIENCE)?;
        let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok());
        let port = port.with_context(|| format!("{program} does not say its port: {line}"))?;
        Ok(Self { program, host: host.to_owned(), port, server: Some(server) })
    }

    /// Uses a server that somebody else started.
    pub fn at(program: &Path, host: &str, port: u16) -> Self {
        let program = program.display().to_string();
        Self { program, host: host.to_owned(), port, server: None }
    }

    /// Runs with `arguments`, which plan a single cell, and returns what was found.
    ///
    /// # Errors
    /// It took longer than `limit`, or the cell has no figures: its reason.
    pub fn measure(&self, arguments: &[String], limit: Duration) -> Result<CellRecord> {
        let mut all: Vec<String> = vec!["run".to_owned(), self.host.clone()];
        all.extend(["--port".to_owned(), self.port.to_string()]);
        if self.server.is_some() {
            all.push("--insecure".to_owned());
        }
        all.extend(["--rounds", "1", "--format", "json", "--progress", "none"].map(str::to_owned));
        all.extend_from_slice(arguments);
        Running::start(&self.program, None, all)?.wait_and_read(limit, only_cell)
    }
}

/// The one cell of a result document, if it was measured.
fn only_cell(text: &str) -> Result<CellRecord> {
    let document: Document = serde_json::from_str(text).context("no result document")?;
    let count = document.cells.len();
    let Ok([cell]) = <[CellRecord; 1]>::try_from(document.cells) else {
        bail!("{count} cells where one was asked for");
    };
    if cell.status != Status::Measured {
        bail!("{}", cell.reason.as_deref().unwrap_or("not measured, without a reason"));
    }
    Ok(cell)
}

/// Half a round trip in microseconds, the median.
///
/// # Errors
/// There is none.
pub fn latency_us(cell: &CellRecord) -> Result<f64> {
    let median = cell.latency.as_ref().and_then(|latency| latency.p50);
    Ok(median.context("no median latency")? / 1e3)
}

/// Payload bytes per second.
///
/// # Errors
/// There is none.
pub fn bytes_per_s(cell: &CellRecord) -> Result<f64> {
    Ok(cell.throughput.as_ref().context("no throughput")?.bytes_per_s)
}

/// Messages per second.
///
/// # Errors
/// There is none.
pub fn messages_per_s(cell: &CellRecord) -> Result<f64> {
    Ok(cell.throughput.as_ref().context("no throughput")?.messages_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    // What `fabricbench run` printed on rxe0, without the parts that are not read here.
    const DOCUMENT: &str = r#"{
  "schema": "fabricbench/1", "fabricbench": "0.1.0", "complete": true,
  "started_unix_s": 1795982036, "command": ["fabricbench", "run"],
  "plan": { "transports": ["verbs-write"], "patterns": ["latency"], "sizes": [2],
    "stop": "500 messages a cell", "warm_up": "each slice: 100 messages", "rounds": 1,
    "seed": 1795982036037160400, "loop_kind": "closed" },
  "client": { "hostname": "fabricguest", "fabricbench": "0.1.0", "kernel": "6.1.0-57-amd64",
    "cpu": "QEMU TCG CPU version 2.5+", "cpus": 2, "governor": null,
    "virtualization": "qemu-tcg", "congestion_control": "cubic", "clock_source": "tsc" },
  "server": null, "warnings": [],
  "cells": [ { "transport": "verbs-write", "pattern": "latency", "size": 2,
    "status": "measured", "reason": null, "path": null, "peer_path": null,
    "latency": { "unit": "ns", "kind": "half-round-trip", "samples": 500, "min": 11772.5,
      "p50": 12343.5, "p99": null, "p999": null, "max": 10498698.0, "mean": 209939.221,
      "p50_interval_95": [12287.5, 12439.5] },
    "throughput": { "bytes_per_s": 4763.25, "messages_per_s": 2381.625 } } ] }"#;

    #[test]
    fn a_recorded_document() {
        let cell = only_cell(DOCUMENT).unwrap();
        assert_eq!(latency_us(&cell).unwrap(), 12.3435);
        assert_eq!(bytes_per_s(&cell).unwrap(), 4763.25);
    }

    #[test]
    fn a_cell_without_figures_gives_its_reason() {
        let failed = DOCUMENT.replace(
            r#""status": "measured", "reason": null"#,
            r#""status": "failed", "reason": "cut""#,
        );
        assert_eq!(only_cell(&failed).unwrap_err().to_string(), "cut");
        let rare = DOCUMENT.replace(r#""p50": 12343.5"#, r#""p50": null"#);
        assert!(latency_us(&only_cell(&rare).unwrap()).is_err());
        assert!(only_cell("").is_err());
        let none = format!("{}\"cells\": [] }}", &DOCUMENT[..DOCUMENT.find("\"cells\"").unwrap()]);
        assert_eq!(only_cell(&none).unwrap_err().to_string(), "0 cells where one was asked for");
    }
}
