//! What has to be the same in both files, and what a reader only has to know of: one table.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::report::{CellRecord, Document, Environment, Path, PathKind};

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The figures are of different things: no comparison, unless it is asked for in spite of that.
    Refused,
    /// It may be why figures differ, or that which is to be compared.
    Warning,
}

use Severity::{Refused, Warning};

type OfRun = (Severity, &'static str, fn(&Document) -> Option<String>);
type OfHost = (Severity, &'static str, fn(&Environment) -> Option<String>);
type OfCell = (Severity, &'static str, fn(&CellRecord) -> Option<String>);

/// What is told of a run.
const OF_RUN: [OfRun; 4] = [
    (Warning, "stop rule", |run| Some(run.plan.stop.clone())),
    (Warning, "warm-up rule", |run| Some(run.plan.warm_up.clone())),
    (Warning, "rounds", |run| Some(run.plan.rounds.to_string())),
    (Warning, "command", |run| Some(command(&run.command))),
];

/// What is told of each of the two hosts.
const OF_HOST: [OfHost; 11] = [
    (Refused, "host name", |host| Some(host.hostname.clone())),
    (Refused, "processor", |host| host.cpu.clone()),
    (Refused, "processors", |host| host.cpus.map(|count| count.to_string())),
    (Refused, "virtualization", |host| {
        Some(host.virtualization.clone().unwrap_or_else(|| "none".to_owned()))
    }),
    (Refused, "memory allocator", |host| host.allocator.clone()),
    (Refused, "build of fabricbench", |host| host.build.clone()),
    (Warning, "version of fabricbench", |host| Some(host.fabricbench.clone())),
    (Warning, "kernel", |host| host.kernel.clone()),
    (Warning, "frequency governor", |host| host.governor.clone()),
    (Warning, "congestion control", |host| host.congestion_control.clone()),
    (Warning, "clock source", |host| host.clock_source.clone()),
];

/// What is told of a cell, but for its paths and its settings by name.
const OF_CELL: [OfCell; 6] = [
    (Refused, "kind of latency", |cell| {
        cell.latency.as_ref().map(|latency| latency.kind.to_string())
    }),
    (Refused, "load", |cell| {
        Some(cell.load.as_ref().map_or_else(
            || "closed loop".to_owned(),
            |load| format!("{} calls a second, {}", load.offered_per_s, load.arrivals),
        ))
    }),
    (Refused, "depth", |cell| {
        let settings = cell.settings.as_ref()?;
        Some(
            settings.depth.map_or_else(|| "that of a stream".to_owned(), |depth| depth.to_string()),
        )
    }),
    (Refused, "settings of the cell", |cell| {
        Some(if cell.variant.is_empty() { "[]".to_owned() } else { cell.variant.to_string() })
    }),
    (Warning, "whether the load was borne", |cell| {
        let load = cell.load.as_ref()?;
        Some(if load.sustained { "yes" } else { "no" }.to_owned())
    }),
    (Warning, "whether counters prove the path", |cell| {
        let holds = cell.counters.as_ref()?.proof.as_ref()?.holds;
        Some(if holds == Some(true) { "yes" } else { "no" }.to_owned())
    }),
];

type OfPath = (Severity, &'static str, fn(&Path) -> Option<String>);

/// What is told of the path on each side.
const OF_PATH: [OfPath; 7] = [
    (Refused, "kind of path", |path| Some(kind(path.kind))),
    (Refused, "RDMA device", |path| path.device.clone()),
    (Refused, "port", |path| path.port.map(|port| port.to_string())),
    (Refused, "interface", |path| path.interface.clone()),
    (Refused, "emulated", |path| Some(if path.emulated { "yes" } else { "no" }.to_owned())),
    (Warning, "driver", |path| path.backing.clone()),
    (Warning, "MTU", |path| path.mtu.map(|mtu| mtu.to_string())),
];

fn kind(kind: PathKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|name| Some(name.as_str()?.to_owned()))
        .unwrap_or_default()
}

/// A difference between two files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Difference {
    /// What it means.
    pub severity: Severity,
    /// What differs.
    pub what: String,
    /// There in the old file.
    pub base: String,
    /// And in the new one.
    pub new: String,
}

impl Difference {
    /// `None` if there is none, or a side does not tell.
    fn between(
        severity: Severity,
        what: impl FnOnce() -> String,
        (base, new): (Option<String>, Option<String>),
    ) -> Option<Self> {
        let (base, new) = (base?, new?);
        (base != new).then(|| Self { severity, what: what(), base, new })
    }
}

/// What differs between the runs themselves and their hosts.
pub(super) fn of_runs(base: &Document, new: &Document) -> Vec<Difference> {
    let runs = OF_RUN.iter().filter_map(|(severity, what, tell)| {
        Difference::between(*severity, || (*what).to_owned(), (tell(base), tell(new)))
    });
    let sides = [
        ("client", Some(&base.client), Some(&new.client)),
        ("server", base.server.as_ref(), new.server.as_ref()),
    ];
    let hosts = sides.into_iter().flat_map(|(side, base, new)| {
        OF_HOST.iter().filter_map(move |(severity, what, tell)| {
            let told = (base.and_then(tell), new.and_then(tell));
            Difference::between(*severity, || format!("{what} of the {side}"), told)
        })
    });
    runs.chain(hosts).collect()
}

/// What differs between two cells that are measured.
pub(super) fn of_cells(base: &CellRecord, new: &CellRecord) -> Vec<Difference> {
    let cells = OF_CELL.iter().filter_map(|(severity, what, tell)| {
        Difference::between(*severity, || (*what).to_owned(), (tell(base), tell(new)))
    });
    let sides = [
        ("client", base.path.as_ref(), new.path.as_ref()),
        ("server", base.peer_path.as_ref(), new.peer_path.as_ref()),
    ];
    let paths = sides.into_iter().flat_map(|(side, base, new)| {
        OF_PATH.iter().filter_map(move |(severity, what, tell)| {
            let told = (base.and_then(tell), new.and_then(tell));
            Difference::between(*severity, || format!("{what} on the {side}"), told)
        })
    });
    let settings =
        [base, new].map(|cell| cell.settings.as_ref().map(|settings| &settings.transport));
    let named = match settings {
        [Some(base), Some(new)] => {
            let names: BTreeSet<_> = base.keys().chain(new.keys()).collect();
            let told = |of: &std::collections::BTreeMap<String, String>, name: &str| {
                Some(of.get(name).cloned().unwrap_or_else(|| "-".to_owned()))
            };
            let differ = |name: &String| {
                let told = (told(base, name), told(new, name));
                Difference::between(Warning, || format!("setting `{name}`"), told)
            };
            names.into_iter().filter_map(differ).collect()
        }
        _ => Vec::new(),
    };
    cells.chain(paths).chain(named).collect()
}

/// A command line without what makes no difference to a figure: the program's place, where the result
/// goes, the seed.
fn command(words: &[String]) -> String {
    let taking = ["-o", "--output", "--seed", "--progress", "--format"];
    let mut kept: Vec<&str> = Vec::new();
    let mut words = words.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if !taking.contains(&name) {
            kept.push(word);
        } else if name == word {
            let _ = words.next();
        }
    }
    kept.join(" ")
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} against {}", self.what, self.base, self.new)
    }
}

#[cfg(test)]
pub(super) mod tests;
