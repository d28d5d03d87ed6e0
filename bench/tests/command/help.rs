//! What the command says of itself.

use serde_json::Value;

use crate::process::run;

#[test]
fn help_says_what_matters_and_fits_the_terminal() {
    for (arguments, words) in [
        ("--help", &["serve", "run", "probe", "Two hosts"][..]),
        (
            "run --help",
            &[
                "--transport",
                "verbs-write",
                "grpc@ipoib",
                "grpc-stock@PATH",
                "grpc-lean@PATH",
                "--pattern",
                "--sizes",
                "2:8M:x2",
                "--iterations",
                "--duration",
                "--output",
                "--format",
                "json",
                "--port",
                "18570",
                "--timeout",
                "--cpus",
                "--gid-index",
                "--rounds",
                "HOST",
                "--inline-size",
                "--mtu",
            ],
        ),
        ("serve --help", &["--port", "18570", "--listen", "--timeout", "0 takes any free one"]),
        ("diagnose --help", &["--path", "--line-rate", "--connections", "--tensor", "HOST"]),
        ("probe --help", &["--json", "--format", "--brief", "--fail-on", "--ignore", "Exit codes"]),
        ("compare --help", &["BASE", "NEW", "--fail-on", "--anyway", "markdown", "Exit codes"]),
    ] {
        let help = run(arguments).quietly(0).stdout;
        for word in words {
            assert!(help.contains(word), "{arguments} says nothing of {word}:\n{help}");
        }
        let longest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 100, "{arguments} is {longest} columns wide:\n{help}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("fabricbench ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run("--version").quietly(0).stdout, version);
}

#[test]
fn probe_shows_what_is_here_and_what_it_makes_possible() {
    let text = run("probe").quietly(0).stdout;
    for part in [
        "host ",
        "kernel",
        "memlock",
        "lo ",
        "MTU 65536",
        "RDMA devices",
        "verbs-write",
        "grpc@ipoib",
        "grpc@ethernet",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let document: Value = serde_json::from_str(&run("probe --json").quietly(0).stdout).unwrap();
    assert_eq!(document["environment"]["fabricbench"], env!("CARGO_PKG_VERSION"));
    let interfaces = document["interfaces"].as_array().unwrap();
    assert!(interfaces.iter().any(|interface| interface["name"] == "lo"));
}
