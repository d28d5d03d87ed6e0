//! What a reader must know before believing a figure, as far as it is known before measuring.

use super::RunArguments;
use crate::{
    observe::is_emulated_machine,
    plan::{Axis, Cell, Plan, Roles, TransportName},
    session::{Host, Variants},
    transport::{CompletionMode, verbs::largest_moderation},
};

/// What of the two hosts, and of `threads` of verbs that poll on each, a reader must know.
pub(in crate::cli) fn warnings(here: &Host, there: &Host, threads: u32) -> Vec<String> {
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
    warnings.extend(debug_builds(here, there));
    warnings.extend(governors(here, there));
    let (wanted, had) = if here.shares_kernel_with(there) {
        (threads.saturating_mul(2), here.environment.cpus)
    } else {
        (threads, here.environment.cpus.into_iter().chain(there.environment.cpus).min())
    };
    if let Some(had) = had
        && wanted > had
    {
        warnings.push(format!(
            "{wanted} verbs threads poll on {had} processors: they wait for one another's turn, which \
             the figures show and not the fabric; use fewer --threads or --workers, or -e"
        ));
    }
    warnings
}

/// A build for tests, in which the program's own work takes several times as long.
fn debug_builds(here: &Host, there: &Host) -> Option<String> {
    let is_debug = |host: &Host| host.environment.build.as_deref() == Some("debug");
    let who = match (is_debug(here), is_debug(there)) {
        (false, false) => return None,
        (true, true) => "this is a debug build",
        (true, false) => "the client is a debug build",
        (false, true) => "the server is a debug build",
    };
    Some(format!(
        "{who}: what fabricbench itself does takes several times as long, and stands in the figures; build it with \
         `cargo build --release`"
    ))
}

/// Frequency governors that change speed by load: in one line.
fn governors(here: &Host, there: &Host) -> Option<String> {
    let sides = match here.shares_kernel_with(there) {
        true => vec![("both sides", here)],
        false => vec![("the client", here), ("the server", there)],
    };
    let changing = |(side, host): (&str, &Host)| {
        let governor = host.environment.governor.clone()?;
        (governor != "performance").then(|| format!("{governor} on {side}"))
    };
    let changing: Vec<_> = sides.into_iter().filter_map(changing).collect();
    (!changing.is_empty()).then(|| {
        format!(
            "the frequency governor is {}: processors change speed by load, and so do figures; set it by \
             `cpupower frequency-set -g performance`",
            changing.join(", ")
        )
    })
}

/// The most threads that wait for verbs on one side without giving up their processor.
pub(super) fn most_polling(plan: &Plan, variants: &Variants) -> u32 {
    let verbs = plan.cells.iter().filter(|cell| matches!(cell.transport, TransportName::Verbs(_)));
    let settings = verbs.map(|cell| (variants.of(&cell.variant), cell.roles));
    let polling =
        settings.filter(|(settings, _)| settings.verbs.completions == CompletionMode::Poll);
    let threads = polling.map(|(settings, roles)| match roles {
        Some(Roles { servers, workers }) => servers.max(workers),
        None => settings.threads,
    });
    threads.max().unwrap_or(0)
}

/// Completion moderation that was asked for and is not had: a quarter of the depth is the most.
pub(super) fn cut_moderation(
    arguments: &RunArguments,
    plan: &Plan,
    variants: &Variants,
) -> Option<String> {
    let asked = |cell: &&Cell| {
        Axis::CqMod.touches(&cell.transport, cell.pattern)
            && (arguments.verbs.asked_moderation().is_some()
                || cell.variant.get(Axis::CqMod).is_some())
    };
    let cells: Vec<_> = plan.cells.iter().filter(asked).collect();
    let cut = |cell: &&&Cell| {
        let settings = variants.of(&cell.variant);
        settings.verbs.completion_moderation > largest_moderation(settings.depth(cell))
    };
    let count = cells.iter().filter(cut).count();
    // A search replaces what was asked for.
    (count > 0 && !arguments.tune).then(|| {
        format!(
            "-Q (--cq-mod) is cut to a quarter of the depth in {count} of {} cells: what was in \
             force is in `settings.transport`; give a larger -t",
            cells.len()
        )
    })
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
            setups: Vec::new(),
            tcp_buffers: Default::default(),
            boot: Some(boot.to_owned()),
            network_namespace: None,
            rdma: Err(String::new()),
        }
    }

    #[test]
    fn emulated_machines_are_told_in_one_line() {
        let (real, emulated) = (host("a", 8, None), host("b", 8, Some("qemu-tcg")));
        assert_eq!(warnings(&real, &real, 1), Vec::<String>::new());
        let one = warnings(&real, &emulated, 1);
        assert!(one.len() == 1 && one[0].starts_with("the server is an emulated"), "{one:?}");
        let both = warnings(&emulated, &emulated, 1);
        assert!(both.len() == 1 && both[0].starts_with("client and server are"), "{both:?}");
    }

    #[test]
    fn debug_builds_are_told() {
        let built = |build: &str| {
            let mut host = host("a", 8, None);
            host.environment.build = Some(build.to_owned());
            host
        };
        let (debug, release) = (built("debug"), built("release"));
        assert!(warnings(&release, &release, 1).is_empty());
        for (here, there, start) in [
            (&debug, &debug, "this is a debug build: "),
            (&debug, &release, "the client is"),
            (&release, &debug, "the server is"),
        ] {
            assert!(warnings(here, there, 1)[0].starts_with(start));
        }
    }

    #[test]
    fn a_governor_that_changes_speed_is_told_once() {
        let governed = |boot: &str, governor: &str| {
            let mut host = host(boot, 8, None);
            host.environment.governor = Some(governor.to_owned());
            host
        };
        let (steady, saving) = (governed("a", "performance"), governed("b", "powersave"));
        assert!(warnings(&steady, &steady, 1).is_empty());
        let told = |here, there| warnings(here, there, 1).join("\n");
        assert!(
            told(&steady, &saving)
                .starts_with("the frequency governor is powersave on the server:")
        );
        assert!(told(&saving, &saving).contains("powersave on both sides: "), "one host");
        let other = governed("c", "schedutil");
        assert!(
            told(&saving, &other).contains("powersave on the client, schedutil on the server: ")
        );
    }

    #[test]
    fn more_polling_threads_than_processors_are_told() {
        let (here, there) = (host("a", 4, None), host("b", 2, None));
        assert!(warnings(&here, &here, 2).is_empty());
        let shared = warnings(&here, &here, 3);
        assert!(shared[0].starts_with("6 verbs threads poll on 4 processors"), "{shared:?}");
        assert!(warnings(&here, &there, 2).is_empty());
        assert!(warnings(&here, &there, 3)[0].starts_with("3 verbs threads poll on 2"));
        assert!(warnings(&here, &there, 0).is_empty(), "who sleeps gives up its turn");
    }
}
