//! The result document before anything is measured.

use std::time::{SystemTime, UNIX_EPOCH};

use super::RunArguments;
use crate::{
    plan::{Axis, LEAST_MESSAGES, Plan, Precision, Stop},
    report::{Document, EstimateRecord, PlanRecord, SCHEMA},
    run::{estimate, unmeasured},
    session::Host,
    stats::LEAST_ROUNDS,
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
    let stop = match (plan.budget, plan.stop) {
        (Some(budget), _) => {
            format!("{budget:?} for all cells, and at least {LEAST_MESSAGES} messages a cell")
        }
        (None, Stop::Messages(messages)) => format!("{messages} messages a cell"),
        (None, Stop::After(time)) => {
            format!("{time:?} a cell, and at least {LEAST_MESSAGES} messages")
        }
    };
    let stop = match plan.precision {
        None => stop,
        Some(precision) => format!(
            "a figure known to {precision} (half of its 95 % interval, over samples and over {} rounds or more), \
             else {stop}",
            plan.rounds.max(LEAST_ROUNDS as u32)
        ),
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
        precision: plan.precision.map(Precision::share),
        budget_s: plan.budget.map(|budget| budget.as_secs_f64()),
        estimate: estimate(plan),
        loop_kind: match plan.search.is_some()
            || plan.cells.iter().any(|cell| cell.variant.get(Axis::Rate).is_some())
        {
            true => "open".to_owned(),
            false => "closed".to_owned(),
        },
    }
}

/// How long the run will take, in words.
pub(super) fn estimated(estimate: &EstimateRecord, plan: &Plan) -> String {
    let EstimateRecord { cells, rounds, slice_s, overhead_s, total_s } = estimate;
    let most = match plan.precision {
        Some(_) if plan.budget.is_none() => " at most",
        None if plan.search.is_some() => " at most",
        _ => "",
    };
    format!(
        "{cells} cells x {rounds} rounds x ({slice_s:.3} s + about {overhead_s:.3} s of set-up and warm-up): \
         about {total_s:.0} s{most}"
    )
}

pub(in crate::cli) fn document(arguments: &RunArguments, plan: &Plan, here: &Host) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        fabricbench: env!("CARGO_PKG_VERSION").to_owned(),
        complete: false,
        started_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        measured_s: None,
        // A file name need not be text.
        command: std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        plan: plan_record(arguments, plan),
        client: here.environment.clone(),
        server: None,
        warnings: Vec::new(),
        drift: None,
        advice: Vec::new(),
        model: None,
        knees: Vec::new(),
        // For who finds the document of a process that was killed.
        cells: unmeasured(plan, "the run ended before it began"),
    }
}
