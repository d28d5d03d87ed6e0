//! `fabricbench-compare`: is fabricbench as fast as the tools its readers trust?
//!
//! Short runs of both sides alternate on one machine, and what counts is the ratio within a round:
//! a machine that drifts, or an emulated one, has no say in that. Started by `ci/compare-perftest`,
//! `ci/compare-iperf3` and `ci/compare-grpc`.

mod against_grpc;
mod against_iperf3;
mod against_perftest;
mod child;
mod cpp_peer;
mod fabricbench;
mod iperf3;
mod machine;
mod markdown;
mod perftest;
mod port;
mod ratio;
mod rounds;
mod sockperf;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures fabricbench and another tool in alternating rounds and prints a Markdown table.
///
/// Exit status: 0; 1 with --check if a bar is missed; 2 if a tool failed to run.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    against: Against,
}

#[derive(Debug, Subcommand)]
enum Against {
    /// verbs-write and verbs-send, against perftest on the same RDMA device
    Perftest(against_perftest::Options),
    /// gRPC and plain TCP, against one iperf3 stream
    Iperf3(against_iperf3::Options),
    /// gRPC by tonic and lean, against gRPC in C++, iperf3 and sockperf
    Grpc(against_grpc::Options),
}

/// How a comparison ended that could be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// No bar was missed, or none was asked to be checked.
    Passed,
    /// A bar was missed.
    Missed,
    /// A tool failed in some of the rounds.
    Incomplete,
}

impl Outcome {
    /// A tool that failed says more than a bar that was missed without it.
    fn of(has_failures: bool, has_missed: bool) -> Self {
        match (has_failures, has_missed) {
            (true, _) => Self::Incomplete,
            (false, true) => Self::Missed,
            (false, false) => Self::Passed,
        }
    }
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().against {
        Against::Perftest(options) => against_perftest::run(&options),
        Against::Iperf3(options) => against_iperf3::run(&options),
        Against::Grpc(options) => against_grpc::run(&options),
    };
    match outcome {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(1),
        Ok(Outcome::Incomplete) => ExitCode::from(2),
        Err(error) => {
            eprintln!("compare: {error:#}");
            ExitCode::from(2)
        }
    }
}
