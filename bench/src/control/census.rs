//! What a server has done and does, counted for those who watch it.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

use super::Notice;
use crate::report::openmetrics::head;

/// Counts since the server's beginning.
#[derive(Debug)]
pub struct Census {
    started_unix_s: u64,
    /// Clients that have been let in, and are not gone.
    pub(super) clients: AtomicU64,
    begun: AtomicU64,
    done: AtomicU64,
    broken: AtomicU64,
    refused: AtomicU64,
    /// Slices that were measured to their end.
    pub(super) slices: AtomicU64,
}

impl Default for Census {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started_unix_s: since.as_secs(),
            clients: AtomicU64::default(),
            begun: AtomicU64::default(),
            done: AtomicU64::default(),
            broken: AtomicU64::default(),
            refused: AtomicU64::default(),
            slices: AtomicU64::default(),
        }
    }
}

impl Census {
    /// Counts what an operator is told of.
    pub(super) fn count(&self, notice: &Notice<'_>) {
        let counter = match notice {
            Notice::Began(_) => &self.begun,
            Notice::Ended { began: true, how: None, .. } => &self.done,
            Notice::Ended { began: true, how: Some(_), .. } => &self.broken,
            Notice::Refused(_) => &self.refused,
            Notice::Queued(..) | Notice::Ended { began: false, .. } => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// All of it as text of "OpenMetrics 1.0".
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let [begun, done, broken] =
            [&self.begun, &self.done, &self.broken].map(|of| of.load(Relaxed));
        // Read one after the other, they may be of different moments.
        let testing = begun.saturating_sub(done + broken);
        let waiting = self.clients.load(Relaxed).saturating_sub(testing);
        let mut text = String::new();
        let mut family =
            |name: &str, kind: &str, unit: &str, help: &str, samples: &[(&str, u64)]| {
                let name = format!("server_{name}");
                head(&mut text, &name, kind, unit, help);
                let suffix = match kind {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                for (labels, value) in samples {
                    let _ = writeln!(text, "fabricbench_{name}{suffix}{labels} {value}");
                }
            };
        let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
        family("build", "info", "", "The program", &[(&version, 1)]);
        let started = self.started_unix_s;
        family(
            "start_time_seconds",
            "gauge",
            "seconds",
            "When it began, since 1970",
            &[("", started)],
        );
        let clients = [("{state=\"testing\"}", testing), ("{state=\"waiting\"}", waiting)];
        family("clients", "gauge", "", "Clients that have been let in", &clients);
        let tests = [("{outcome=\"done\"}", done), ("{outcome=\"broken\"}", broken)];
        let help = "Tests that ended: by their client's word, or broken off";
        family("tests", "counter", "", help, &tests);
        let slices = self.slices.load(Relaxed);
        family("slices", "counter", "", "Slices of cells that came to their end", &[("", slices)]);
        let refused = self.refused.load(Relaxed);
        family("refused_connections", "counter", "", "Connections turned away", &[("", refused)]);
        text.push_str("# EOF\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_counted() {
        let census = Census::default();
        census.clients.store(3, Relaxed);
        for notice in [
            Notice::Began("a"),
            Notice::Ended { peer: "a", how: None, began: true },
            Notice::Began("b"),
            Notice::Ended { peer: "b", how: Some("it is gone"), began: true },
            Notice::Queued("d", 1),
            Notice::Ended { peer: "d", how: Some("it is gone"), began: false },
            Notice::Began("c"),
            Notice::Refused("no"),
        ] {
            census.count(&notice);
        }
        let text = census.openmetrics();
        for line in [
            "# TYPE fabricbench_server_tests counter\n",
            "fabricbench_server_tests_total{outcome=\"done\"} 1\n",
            "fabricbench_server_tests_total{outcome=\"broken\"} 1\n",
            "fabricbench_server_clients{state=\"testing\"} 1\n",
            "fabricbench_server_clients{state=\"waiting\"} 2\n",
            "fabricbench_server_refused_connections_total 1\n",
            "# UNIT fabricbench_server_start_time_seconds seconds\n",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
        assert!(text.contains("fabricbench_server_build_info{version=\""), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
