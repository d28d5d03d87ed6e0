//! Completions and manual pages.

use std::{fs, process::Command};

use crate::process::{fabricbench, run};

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&format!("completions {shell}")).quietly(0).stdout;
        for word in ["fabricbench", "diagnose", "compare", "warm-up-time", "tf-grpc"] {
            assert!(script.contains(word), "no {word} in {shell}'s");
        }
    }
    // bash itself reads it.
    let script = run("completions bash").quietly(0).stdout;
    let read = Command::new("bash").args(["-n", "-c", &script]).status().unwrap();
    assert!(read.success());
    run("completions powerful").failed(2, &["powerful", "bash"]);
}

#[test]
fn there_is_a_manual_page_of_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let written = fabricbench("man").arg(folder.path()).status().unwrap();
    assert!(written.success());
    for (page, word) in [
        ("fabricbench.1", "diagnose"),
        ("fabricbench-run.1", "\\-\\-transport"),
        ("fabricbench-suite-tf-grpc.1", "\\-\\-scheme"),
        ("fabricbench-compare.1", "\\-\\-fail\\-on"),
    ] {
        let text = fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains(word), "{page}: {text}");
    }
    assert!(run("man").quietly(0).stdout.contains(".SH NAME"));
    run("man /nowhere/at/all").failed(1, &["/nowhere/at/all", "a folder that exists"]);
}
