//! Which processors measuring threads are bound to, and why to none.

use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::{
    document::Document,
    process::{Finished, Running, run},
};

const QUICK: &str = "run --transport tcp@lo --pattern latency -s 8 -n 20 --rounds 1";

fn usable() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

#[test]
fn the_notes_name_them() {
    let usable = usable();
    let [first, .., last] = usable[..] else {
        eprintln!("skipped: there is one processor only");
        return;
    };
    for format in ["table", "long"] {
        let plan = format!("{QUICK} --format {format} --cpus");
        let text = run(&format!("{plan} {first}:{last}")).quietly(0).stdout;
        let words = format!("processors: client bound to {first}, server bound to {last}\n");
        assert!(text.contains(&words), "no {words} in {text}");
        let text = run(&format!("{plan} none")).quietly(0).stdout;
        assert!(text.contains("processors: client not bound, server not bound\n"), "{text}");
        assert!(!text.contains("bound to no processors"), "that was asked for: {text}");
    }
}

/// That a run by `command` was bound to none, and says why.
#[track_caller]
fn unbound(command: &mut Command, expected: i32, why: &str) {
    let Finished { code, stdout, stderr, .. } = Running::start(command).end();
    assert_eq!(code, Some(expected), "{stdout} {stderr}");
    let document = Document::read(&stdout);
    let warnings = document.0["warnings"].to_string();
    assert!(warnings.contains("bound to no processors: ") && warnings.contains(why), "{warnings}");
    let settings = &document.cells()[0]["settings"]["transport"];
    assert!(settings["client processor"].is_null(), "{settings}");
}

#[test]
fn one_processor_for_both_sides_is_told() {
    let mut command = Command::new("taskset");
    command.args(["-c", &usable()[0].to_string(), env!("CARGO_BIN_EXE_fabricbench")]);
    let plan = format!("{QUICK} --format json --timeout 1m");
    unbound(command.args(plan.split(' ')), 0, "one processor between them");
}

/// As root: where the kernel's names for itself are not to be seen.
#[test]
fn a_kernel_that_is_not_known_is_told() {
    let script = "mount -t tmpfs tmpfs /proc/sys/kernel/random && exec \"$0\" \"$@\"";
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).args(words);
        command
    };
    if Running::start(&mut unshare(&["true"])).end().code != Some(0) {
        eprintln!("skipped: this user may not mount a file system");
        return;
    }
    let plan = format!("{QUICK} --format json");
    let words = [&[env!("CARGO_BIN_EXE_fabricbench")][..], &plan.split(' ').collect::<Vec<_>>()];
    // And so it is not known either whether loopback leads to the server.
    unbound(&mut unshare(&words.concat()), 4, "boot_id");
}
