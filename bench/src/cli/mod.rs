//! The `fabricbench` command: arguments in, plan out. A file a subcommand.

mod access;
mod compare;
mod diagnose;
mod elsewhere;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod generate;
mod grpc;
mod local_server;
mod memory;
mod models;
mod options;
mod perftest;
mod probe;
mod progress;
mod report;
mod run;
mod schema;
mod serve;
mod suite;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use terminal::When;

use crate::{
    report::{WARNING, plain},
    session::raise_descriptor_limit,
};

/// The control connection's port when nobody says otherwise.
pub const DEFAULT_PORT: u16 = 18570;

/// Compares RDMA verbs, gRPC over IPoIB and gRPC over Ethernet with one harness.
#[derive(Debug, Parser)]
#[command(
    name = "fabricbench",
    version,
    propagate_version = true,
    after_help = "Two hosts: `fabricbench serve` on one, `fabricbench run HOST` on the other.\n\
                  One host: `fabricbench run`. What is here: `fabricbench probe`."
)]
pub struct Cli {
    /// Colours; by themselves on a terminal, and never with NO_COLOR or TERM=dumb in the environment
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    color: When,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Wait for clients and serve one test after the other
    Serve(serve::ServeArguments),
    /// Measure against a server, or against a server process on this host
    Run(Box<run::RunArguments>),
    /// Say where the bandwidth of a path goes: link, sockets, gRPC, serialization, copies, processors
    Diagnose(diagnose::DiagnoseArguments),
    /// Carry out a published benchmark suite, and show its tables beside the published ones
    #[command(subcommand)]
    Suite(suite::SuiteName),
    /// Show results as a page with figures: one file that needs nothing beside it
    Report(report::ReportArguments),
    /// Compare results of runs: which figures changed, by how much, and whether that is beyond a limit
    Compare(compare::CompareArguments),
    /// Say what stands in the way of good figures here, what this host has, and what it can measure
    Probe(probe::ProbeArguments),
    /// Print the JSON Schema of the result document
    Schema,
    /// Print the completions of a shell
    Completions(generate::CompletionsArguments),
    /// Print the manual page, or write those of all commands
    Man(generate::ManArguments),
    /// List the models whose tensors come with the program
    Models(models::ModelsArguments),
}

/// How a command ended, as its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was asked for is measured: 0.
    Complete,
    /// Something went wrong before or beside the measurement: 1.
    Error,
    /// The arguments make no sense: 2, as clap's own.
    Usage,
    /// Some cells are unsupported, failed or skipped: 3.
    Partial,
    /// No cell is measured: 4.
    Nothing,
    /// A gate of a comparison tripped, or one of findings: 5.
    Tripped,
    /// Something could not be compared, or not be held to its gate: 6.
    NotComparable,
    /// Ended by SIGINT: 130.
    Interrupted,
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Partial => 3,
            Self::Nothing => 4,
            Self::Tripped => 5,
            Self::NotComparable => 6,
            Self::Interrupted => 130,
        }
    }
}

/// Parses the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    raise_descriptor_limit();
    let arguments = perftest::respell(std::env::args_os());
    let command = match Cli::try_parse_from(&arguments) {
        Ok(cli) => {
            cli.color.decide_colours();
            cli.command
        }
        Err(refused) => return answer(&refused, &arguments),
    };
    let exit = match command {
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Run(run) => run::run(&run, &arguments),
        Command::Diagnose(arguments) => diagnose::diagnose(&arguments),
        Command::Suite(name) => suite::suite(&name),
        Command::Report(arguments) => report::report(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Probe(arguments) => probe::probe(&arguments),
        Command::Schema => schema::schema(),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::man(&arguments),
        Command::Models(arguments) => models::models(&arguments),
    };
    let exit = exit.unwrap_or_else(|failure| {
        complain(&failure);
        failure.exit()
    });
    ExitCode::from(exit.code())
}

/// Help and version are printed as they are, and so is what the program is, to who gave no
/// arguments at all; arguments that make no sense are a line as every other failure.
fn answer(refused: &clap::Error, arguments: &[std::ffi::OsString]) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if refused.use_stderr() && refused.kind() != DisplayHelpOnMissingArgumentOrSubcommand {
        complain(
            perftest::instead(refused, arguments).unwrap_or_else(|| one_line(&refused.to_string())),
        );
    } else if refused.print().is_err() && !refused.use_stderr() {
        return ExitCode::from(Exit::Error.code());
    }
    ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(Exit::Usage.code()))
}

/// What clap says in paragraphs, without the summary of the usage that follows.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    // The values that clap means by this tip are those of an option, and -- ends all options.
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("tip: to pass '-");
    let lines = text.lines().map(str::trim).filter(is_said);
    let said = lines.take_while(|line| !line.starts_with("Usage:") && !line.contains("'--help'"));
    format!("{}; --help shows what there is", said.collect::<Vec<_>>().join("; "))
}

/// The option of a subcommand that is typed `-x` or `--name`.
fn find_option<'a>(
    command: &'a clap::Command,
    subcommand: &str,
    option: &str,
) -> Option<&'a clap::Arg> {
    command.find_subcommand(subcommand)?.get_arguments().find(|argument| {
        match option.strip_prefix("--") {
            Some(long) => argument
                .get_long_and_visible_aliases()
                .into_iter()
                .flatten()
                .chain(argument.get_all_aliases().into_iter().flatten())
                .any(|name| name == long),
            None => argument.get_short().is_some_and(|short| {
                option.strip_prefix('-').is_some_and(|name| name == short.to_string())
            }),
        }
    })
}

/// One line on standard error: what failed, on what, what to do.
fn complain(failure: impl std::fmt::Display) {
    let failure = failure.to_string();
    let name = terminal::error_look().paint(WARNING, "fabricbench:");
    write_line(&format!("{name} {}", plain(&failure)));
}

/// A line on standard error. That nobody reads it any longer (`2>&1 | head`) is no failure.
fn say(line: impl std::fmt::Display) {
    write_line(&plain(&line.to_string()));
}

fn write_line(line: &str) {
    use std::io::Write as _;
    // In one write, so that lines of several threads and processes do not mix.
    let line = format!("{line}\n");
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments make no sense.
    #[error("{0}")]
    Usage(String),
    /// Anything else.
    #[error("{0}")]
    Error(String),
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Error(_) => Exit::Error,
        }
    }

    fn error(error: impl std::fmt::Display) -> Self {
        Self::Error(error.to_string())
    }
}

/// Prints to standard output; a reader that has gone away (`| head`) ends the program quietly.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written
            .map_err(|error| Failure::Error(format!("cannot write to standard output: {error}"))),
    }
}
