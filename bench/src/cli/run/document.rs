//! The result document before anything is measured.

use std::time::{SystemTime, UNIX_EPOCH};

use super::RunArguments;
use crate::{
    engine::WarmUp,
    observe::is_emulated_machine,
    plan::{LEAST_MESSAGES, Plan, Stop},
    report::{Document, PlanRecord, SCHEMA},
    run::unmeasured,
    session::Host,
};

pub(super) fn plan_record(arguments: &RunArguments, plan: &Plan) -> PlanRecord {
    let mut transports = Vec::new();
    let mut patterns = Vec::new();
    let mut sizes = Vec::new();
    for cell in &plan.cells {
        if !transports.contains(&cell.transport) {
            transports.push(cell.transport.clone());
        }
        if !patterns.contains(&cell.pattern) {
            patterns.push(cell.pattern);
        }
        if !sizes.contains(&cell.size) {
            sizes.push(cell.size);
        }
    }
    sizes.sort_unstable();
    let stop = match plan.stop {
        Stop::Messages(messages) => format!("{messages} messages a cell"),
        Stop::After(time) => {
            format!("{time:?} a cell, and at least {LEAST_MESSAGES} messages")
        }
    };
    PlanRecord {
        transports,
        patterns,
        sizes,
        stop,
        warm_up: format!(
            "each slice: {} messages or {:?}, whichever comes first, at least 1",
            arguments.warm_up,
            WarmUp::default().time
        ),
        rounds: plan.rounds,
        seed: plan.seed,
        loop_kind: "closed".to_owned(),
    }
}

pub(super) fn document(arguments: &RunArguments, plan: &Plan, here: &Host) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        fabricbench: env!("CARGO_PKG_VERSION").to_owned(),
        complete: false,
        started_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        // A file name need not be text.
        command: std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        plan: plan_record(arguments, plan),
        client: here.environment.clone(),
        server: None,
        warnings: Vec::new(),
        // For who finds the document of a process that was killed.
        cells: unmeasured(plan, "the run ended before it began"),
    }
}

pub(super) fn warnings(here: &Host, there: &Host) -> Vec<String> {
    let mut warnings = Vec::new();
    for (side, host) in [("client", here), ("server", there)] {
        if is_emulated_machine(&host.environment) {
            warnings.push(format!(
                "the {side} is an emulated machine (QEMU TCG): its times say nothing of any real \
                 one; only ratios within this run mean something"
            ));
        }
    }
    warnings
}
