//! What a device or a user may not do: told with what would work.

use std::process::Command;

use crate::{
    document::{measured, without_figures},
    pair::{Resources, device, document, run, server, server_by},
    process::{Running, Server},
};

#[test]
fn a_message_over_the_devices_limit_is_unsupported_with_the_limit() {
    let Some(_device) = device() else { return };
    let server = server();
    let document =
        run(&server, "--transport verbs-write,verbs-send -s 64,8388609,1G -n 1 --rounds 1", 3);
    for cell in document.cells() {
        if cell["size"] == 64 {
            measured(cell);
        } else {
            without_figures(cell, "unsupported", &["max_msg_sz", "8388608 B", "rxe0", "--split"]);
        }
    }
}

/// Soft-RoCE takes up to 512 B inline.
#[test]
fn inline_that_was_asked_for_and_is_not_had_is_unsupported() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-send --pattern latency -s 64,4K -n 9 --rounds 1";
    let document = run(&server, &format!("{options} -I 4096"), 3);
    measured(document.cell("verbs-send", "latency", 64));
    let refused = document.cell("verbs-send", "latency", 4096);
    without_figures(refused, "unsupported", &["rxe0", "inline", "4096 B", "-I"]);
    // What is longer than asked for was never to be inline.
    run(&server, &format!("{options} -I 64"), 0);
}

#[test]
fn more_in_flight_than_a_completion_queue_holds_is_told_with_the_options() {
    let Some(_device) = device() else { return };
    let server = server();
    for options in ["-q 1000 -n 2000", "-t 65536 -n 2000"] {
        let options = format!("--transport verbs-write --pattern bandwidth -s 64 {options}");
        for cell in run(&server, &options, 4).cells() {
            without_figures(cell, "unsupported", &["completion queue", "32767", "-q", "-t"]);
        }
    }
}

#[test]
fn a_gid_index_that_is_empty_is_told_with_those_that_are_not() {
    let Some(_device) = device() else { return };
    let server = server();
    for (options, words) in [
        ("-x 7", &["GID index 7", "rxe0 port 1", "10.77.1.1", "1:"][..]),
        ("-x 1 --peer-gid-index 9", &["on the server", "GID index 9", "10.77.1.1"]),
    ] {
        let options =
            format!("--transport verbs-write,verbs-send --pattern latency -s 64 -n 1 {options}");
        for cell in run(&server, &options, 4).cells() {
            without_figures(cell, "failed", words);
        }
    }
    run(&server, "--transport verbs-write --pattern latency -s 64 -n 1 -x 1", 0);
}

#[test]
fn a_device_or_port_that_is_not_there_is_told_with_those_that_are() {
    let Some(_device) = device() else { return };
    let server = server();
    for (options, words) in [
        ("-d mlx5_7", &["mlx5_7", "rxe0"][..]),
        ("--peer-device mlx5_7", &["on the server", "mlx5_7", "rxe0"]),
        ("-d rxe0 -i 2", &["rxe0", "port 2"]),
    ] {
        let options =
            format!("--transport verbs-write,verbs-send --pattern latency -s 64 -n 1 {options}");
        for cell in run(&server, &options, 4).cells() {
            without_figures(cell, "failed", words);
        }
    }
    run(
        &server,
        "--transport verbs-write --pattern latency -s 64 -n 1 -d rxe0 -i 1 --peer-device rxe0",
        0,
    );
}

/// An ordinary user with 64 KiB of locked memory.
const POOR: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536";

/// Runs a client as such a user.
fn poor_client(server: &Server, options: &str) -> Running {
    let mut words = POOR.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(env!("CARGO_BIN_EXE_fabricbench"));
    command.args(["run", &server.address.to_string(), "--format", "json"]);
    Running::start(command.args(options.split_whitespace()))
}

#[test]
fn too_little_locked_memory_is_named_with_the_cure() {
    let Some(_device) = device() else { return };
    let before = Resources::now();
    let options = "--transport verbs-write,verbs-send,tcp@v0 -s 1M -n 1 --rounds 1";
    let words = &["RLIMIT_MEMLOCK", "65536 bytes", "ulimit -l", "rxe0"];
    let server = server();
    let finished = poor_client(&server, options).end();
    for cell in document(finished, 3).cells() {
        match cell["transport"].as_str() {
            Some("tcp@v0") => measured(cell),
            _ => without_figures(cell, "failed", words),
        }
    }
    drop(server);
    let poor: Vec<_> = POOR.split(' ').collect();
    let server = server_by(&poor, "");
    for cell in run(&server, options, 3).cells() {
        match cell["transport"].as_str() {
            Some("tcp@v0") => measured(cell),
            _ => without_figures(cell, "failed", &[&["on the server"], &words[..]].concat()),
        }
    }
    drop(server);
    before.are_back();
}
