//! The result document before anything is measured.

use std::time::{SystemTime, UNIX_EPOCH};

use super::RunArguments;
use crate::{
    plan::{Axis, LEAST_MESSAGES, Plan, Stop},
    report::{Document, PlanRecord, SCHEMA},
    run::unmeasured,
    session::Host,
};

pub(super) fn plan_record(arguments: &RunArguments, plan: &Plan) -> PlanRecord {
    let mut patterns = Vec::new();
    let mut sizes = Vec::new();
    for cell in &plan.cells {
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
        sweep: plan.sweep.clone(),
        transports: plan.transports.clone(),
        patterns,
        sizes,
        stop,
        warm_up: match arguments.warm_up {
            u64::MAX => format!("each slice: {:?}, at least 1 message", arguments.warm_up_time),
            messages => format!(
                "each slice: {messages} messages or {:?}, whichever comes first, at least 1",
                arguments.warm_up_time
            ),
        },
        rounds: plan.rounds,
        seed: plan.seed,
        loop_kind: match plan.cells.iter().any(|cell| cell.variant.get(Axis::Rate).is_some()) {
            true => "open".to_owned(),
            false => "closed".to_owned(),
        },
    }
}

pub(in crate::cli) fn document(arguments: &RunArguments, plan: &Plan, here: &Host) -> Document {
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
        advice: Vec::new(),
        // For who finds the document of a process that was killed.
        cells: unmeasured(plan, "the run ended before it began"),
    }
}
