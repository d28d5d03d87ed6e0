//! The examples, as their readers would run them.

use std::path::PathBuf;
use std::process::Command;

use crate::pair::shared;

/// Runs an example that cargo built beside this test, and gives what it says.
fn output_of(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let output = Command::new(&program).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn two_queue_pairs_write_to_each_other() {
    let Some(_guard) = shared() else { return };
    let text = output_of("verbs_loopback");
    assert!(text.contains("10000 round trips of 8-byte writes"), "{text}");
}

#[test]
fn datagrams_of_several_senders_are_counted() {
    let Some(_guard) = shared() else { return };
    let text = output_of("verbs_datagrams");
    // One host, and receives that are always posted: all must arrive.
    assert_eq!(text.matches("1000 sent, 0 lost").count(), 3, "{text}");
}

#[test]
fn two_threads_wake_each_other() {
    let Some(_guard) = shared() else { return };
    let text = output_of("verbs_events");
    assert!(text.contains("500 round trips"), "{text}");
    assert!(!text.contains(" 0 sleeps"), "{text}");
}
