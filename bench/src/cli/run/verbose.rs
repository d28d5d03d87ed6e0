//! `--verbose`: what was decided, and what each round found, on standard error.

use std::collections::BTreeSet;

use crate::{
    cli::progress::{Shown, round_summary},
    report::{CellRecord, Document, Environment},
    session::Initiating,
};

/// Says it, each way once.
#[derive(Debug, Default)]
pub(super) struct Verbose {
    ways: BTreeSet<String>,
}

impl Verbose {
    /// What is settled before anything is measured.
    pub(super) fn decided<C>(
        &self,
        shown: &Shown,
        document: &Document,
        initiating: &Initiating<C>,
    ) {
        let server = document.server.as_ref();
        let sides = [("client", Some(&document.client)), ("server", server)];
        for (side, host) in sides {
            host.into_iter().for_each(|host| shown.note(&format!("{side}: {}", words(host))));
        }
        let affinity = &initiating.affinity;
        for (side, processor) in [("client", affinity.client), ("server", affinity.server)] {
            let bound = match processor {
                Some(processor) => format!("processor {processor}"),
                None => "no processor".to_owned(),
            };
            shown.note(&format!("{side}: the measuring thread is bound to {bound}"));
        }
        if let Err(why) = &initiating.port {
            shown.note(&format!("verbs: {why}"));
        }
        let plan = &document.plan;
        shown.note(&format!(
            "plan: {} cells in {} rounds, {}; warm-up: {}; seed {}",
            document.cells.len(),
            plan.rounds,
            plan.stop,
            plan.warm_up,
            plan.seed
        ));
        for warning in &document.warnings {
            shown.note(&format!("warning: {warning}"));
        }
    }

    /// What a round of a cell found, and which way it went where that was not said yet.
    pub(super) fn round(&mut self, shown: &Shown, round: u32, cell: &CellRecord) {
        for (side, path) in [("client", &cell.path), ("server", &cell.peer_path)] {
            let Some(path) = path else { continue };
            let place = path.device.as_ref().or(path.interface.as_ref());
            let place = place.map_or("?", String::as_str);
            let chosen = path.chosen.as_deref().unwrap_or("as named");
            let way = format!("{}: {side} over {place}: {chosen}", cell.transport);
            if !self.ways.contains(&way) {
                shown.note(&way);
                self.ways.insert(way);
            }
        }
        shown.note(&round_summary(round, cell));
    }
}

fn words(host: &Environment) -> String {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".to_owned());
    format!(
        "{}, fabricbench {}, kernel {}, {}, governor {}",
        host.hostname,
        host.fabricbench,
        known(&host.kernel),
        known(&host.cpu),
        known(&host.governor)
    )
}
