//! A process may open so many files, and each connection is one.

use std::process::Command;

use crate::{
    document::{Document, measured, without_figures},
    process::{Finished, Running, Server, run},
};

const CELLS: &str = "--transport tcp@lo,grpc@lo,grpc-lean@lo --pattern bandwidth -s 64 -n 1000 \
                     --rounds 1 --format json";

/// `run` with at most `hard` open files, of which `soft` are in force.
fn limited(soft: u32, hard: u32, arguments: &str) -> Finished {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={soft}:{hard}")).arg(env!("CARGO_BIN_EXE_fabricbench"));
    command.args(["run"]).args(arguments.split_whitespace());
    Running::start(&mut command).end()
}

#[test]
fn the_limit_in_force_is_raised_to_the_one_above() {
    let finished = limited(40, 1000, &format!("{CELLS} --connections 100")).quietly(0);
    Document::read(&finished.stdout).cells().iter().for_each(measured);
}

#[test]
fn connections_beyond_the_limit_are_refused_with_the_way_to_more() {
    let finished = limited(60, 60, &format!("{CELLS} --connections 100")).quietly(4);
    for cell in Document::read(&finished.stdout).cells() {
        without_figures(cell, "unsupported", &["100 connections", "of the 60", "ulimit -n"]);
    }
    let finished = limited(60, 60, &format!("{CELLS} --connections 10")).quietly(0);
    Document::read(&finished.stdout).cells().iter().for_each(measured);
}

#[test]
fn a_server_at_its_limit_says_so_and_serves_on() {
    let mut command = Command::new("prlimit");
    command.arg("--nofile=60:60").arg(env!("CARGO_BIN_EXE_fabricbench"));
    command.args(["serve", "--listen", "127.0.0.1", "--port", "0"]);
    let server = Server::by(&mut command);
    let against = |connections: u32| {
        let address = server.address;
        run(&format!("run {address} {CELLS} --connections {connections}"))
    };
    for cell in Document::read(&against(100).quietly(4).stdout).cells() {
        without_figures(cell, "unsupported", &["server", "100 connections", "ulimit -n"]);
    }
    Document::read(&against(10).quietly(0).stdout).cells().iter().for_each(measured);
    // A server of gRPC has two of each connection.
    for cell in Document::read(&against(28).quietly(3).stdout).cells() {
        match cell["transport"].as_str() {
            Some("tcp@loopback") => measured(cell),
            _ => without_figures(cell, "unsupported", &["28 connections take 61 file"]),
        }
    }
}

#[test]
fn each_worker_of_parameter_servers_counts() {
    let cells = "--transport grpc@lo --pattern ps -s 64 -n 100 --rounds 1 --format json";
    let finished = limited(60, 60, &format!("{cells} --workers 12")).quietly(4);
    let document = Document::read(&finished.stdout);
    let words = &["12 connections take 72 file", "ulimit -n"];
    document.cells().iter().for_each(|cell| without_figures(cell, "unsupported", words));
}
