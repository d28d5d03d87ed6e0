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
        transports: plan.transports.clone(),
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

/// What of the two hosts, and of `threads` on each, a reader must know. `polls`: they wait without
/// giving up their processor.
pub(super) fn warnings(here: &Host, there: &Host, threads: u32, polls: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let emulated =
        [("client", here), ("server", there)].map(|(side, host)| (side, is_emulated(host)));
    let who = match emulated {
        [(_, false), (_, false)] => None,
        [(_, true), (_, true)] => Some("client and server are both emulated machines".to_owned()),
        [(side, true), _] | [_, (side, true)] => Some(format!("the {side} is an emulated machine")),
    };
    if let Some(who) = who {
        warnings.push(format!(
            "{who} (QEMU TCG): times there say nothing of any real machine; only ratios within \
             this run mean something"
        ));
    }
    let (wanted, had) = if here.shares_kernel_with(there) {
        (threads.saturating_mul(2), here.environment.cpus)
    } else {
        (threads, here.environment.cpus.into_iter().chain(there.environment.cpus).min())
    };
    if let Some(had) = had
        && polls
        && wanted > had
    {
        warnings.push(format!(
            "{wanted} verbs threads poll on {had} processors: they wait for one another's turn, which \
             the figures show and not the fabric; use fewer --threads, or -e"
        ));
    }
    warnings
}

fn is_emulated(host: &Host) -> bool {
    is_emulated_machine(&host.environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Environment;

    fn host(boot: &str, cpus: u32, virtualization: Option<&str>) -> Host {
        Host {
            environment: Environment {
                cpus: Some(cpus),
                virtualization: virtualization.map(str::to_owned),
                ..Environment::default()
            },
            interfaces: Vec::new(),
            boot: Some(boot.to_owned()),
            network_namespace: None,
            rdma: Err(String::new()),
        }
    }

    #[test]
    fn emulated_machines_are_told_in_one_line() {
        let (real, emulated) = (host("a", 8, None), host("b", 8, Some("qemu-tcg")));
        assert_eq!(warnings(&real, &real, 1, true), Vec::<String>::new());
        let one = warnings(&real, &emulated, 1, true);
        assert!(one.len() == 1 && one[0].starts_with("the server is an emulated"), "{one:?}");
        let both = warnings(&emulated, &emulated, 1, true);
        assert!(both.len() == 1 && both[0].starts_with("client and server are"), "{both:?}");
    }

    #[test]
    fn more_polling_threads_than_processors_are_told() {
        let (here, there) = (host("a", 4, None), host("b", 2, None));
        assert!(warnings(&here, &here, 2, true).is_empty());
        let shared = warnings(&here, &here, 3, true);
        assert!(shared[0].starts_with("6 verbs threads poll on 4 processors"), "{shared:?}");
        assert!(warnings(&here, &there, 2, true).is_empty());
        assert!(warnings(&here, &there, 3, true)[0].starts_with("3 verbs threads poll on 2"));
        assert!(warnings(&here, &there, 3, false).is_empty(), "who sleeps gives up its turn");
    }
}
