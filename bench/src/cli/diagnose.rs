//! `fabricbench diagnose`: where the bandwidth of one path goes.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, Parser as _, ValueEnum,
    builder::{PathBufValueParser, TypedValueParser as _},
};
use fabricbench_ipoib::PathName;

use super::{
    Cli, Command, DEFAULT_PORT, Exit, Failure,
    access::AccessOptions,
    complain,
    options::{parse_duration, parse_output, parse_reply, parse_timeout},
    print,
    progress::{ProgressMode, Shown},
    run::{connect, document, initiating, variants, warnings},
    serve::stop_on_signals,
};
use crate::{
    diagnosis::{LineFrom, Order, diagnose as conclude, text},
    engine::WarmUp,
    plan::{Stop, TransportName},
    report::{Content, ResultFile, Status},
    run::{Rules, RunError},
    session::{Host, ip_path},
    transport::{StopReason, TransportError},
};

#[derive(Debug, Args)]
pub(super) struct DiagnoseArguments {
    /// The server: a name or an address, with or without :PORT [default: a server process on this
    /// host, and its loopback]
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// The path: ipoib, ethernet, loopback or an interface [default: ipoib where both sides have it,
    /// else ethernet; loopback where both are on one host]
    #[arg(long, value_name = "PATH", value_parser = parse_path)]
    path: Option<PathName>,
    /// What the link carries, where the kernel states it not or wrongly: 10G, 800M, in bits a second
    #[arg(long, value_name = "BITS", value_parser = parse_rate)]
    line_rate: Option<f64>,
    /// Numbers of connections to try
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: Vec<u32>,
    /// Message size of all steps but the last
    #[arg(short = 's', long, value_name = "BYTES", default_value = "1M", value_parser = parse_reply)]
    size: u64,
    /// Size of a tensor
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = parse_reply)]
    tensor: u64,
    /// Timed duration of each step, over all rounds
    #[arg(short = 'D', long, value_name = "TIME", default_value = "1.5s",
          value_parser = parse_duration)]
    duration: Duration,
    /// Interleaved rounds in which each step is measured
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write the result here as JSON, every second: the document that `run` writes
    #[arg(short = 'o', long, value_name = "FILE",
          value_parser = PathBufValueParser::new().try_map(parse_output))]
    output: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    progress: ProgressMode,
    /// Port of the server's control connection
    #[arg(short = 'p', long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Time without an answer after which the server is given up
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Processor of the client's measuring thread, and of the server's after a colon, or `none`
    /// [default: one each if both sides share a kernel, else none]
    #[arg(long, value_name = "CPU[:CPU]")]
    cpus: Option<String>,
    #[command(flatten)]
    access: AccessOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The steps as a table, and the verdict in words
    Text,
    /// Both as one document, with all that was measured
    Json,
}

/// Measures the steps and says what limits.
///
/// # Errors
/// The arguments make no sense, or nothing could be measured.
pub(super) fn diagnose(arguments: &DiagnoseArguments) -> Result<Exit, Failure> {
    let words = arguments.of_run();
    let run = match Cli::try_parse_from(&words) {
        Ok(Cli { command: Command::Run(run), .. }) => *run,
        Ok(_) => return Err(Failure::Usage("no arguments of a run".to_owned())),
        Err(refused) => return Err(Failure::Usage(super::one_line(&refused.to_string()))),
    };
    let stop = stop_on_signals()?;
    let here = Host::here().map_err(Failure::Error)?;
    let mut shown = Shown::new(arguments.progress);
    let output = arguments.output.as_deref();
    let file = output.map(|path| ResultFile::create(path, Content::Result, &stop)).transpose();
    let file = match file {
        Ok(file) => file,
        Err(_) if stop.reason() == Some(StopReason::Interrupted) => return Ok(interrupted()),
        Err(error) => return Err(Failure::error(error)),
    };
    let (mut client, _server) = match connect(&run, &here, &stop, &shown) {
        Ok(connected) => connected,
        Err(_) if stop.reason() == Some(StopReason::Interrupted) => return Ok(interrupted()),
        Err(failure) => return Err(failure),
    };
    let (path, line) = arguments.path(&here, &client.there, client.address)?;
    let plan = arguments.order(path).plan();
    let variants = variants(&run, &words, &plan)?;
    let mut document = document(&run, &plan, &here);
    document.server = Some(client.there.environment.clone());
    // Nobody polls.
    document.warnings = warnings(&here, &client.there, 0);
    let warnings = &mut document.warnings;
    let initiating = initiating(&run, variants, &here, &client, stop, warnings)?;
    let rules = Rules { warm_up: WarmUp::default(), patience: arguments.timeout, tune: false };
    let file = file.as_ref();
    let outcome =
        crate::run::run(&plan, rules, &initiating, &mut client, &mut document, file, &mut shown);
    client.end();
    shown.end();
    let measured = document.cells.iter().filter(|cell| cell.status == Status::Measured).count();
    let exit = match (&outcome, measured) {
        (Err(RunError::Interrupted), _) => Exit::Interrupted,
        (Err(RunError::Output(_)), _) => Exit::Error,
        (_, 0) => Exit::Nothing,
        (Ok(()), all) if all == document.cells.len() => Exit::Complete,
        _ => Exit::Partial,
    };
    let diagnosis = conclude(document, line);
    match arguments.format {
        Format::Text => print(&text(&diagnosis))?,
        Format::Json => {
            let json = serde_json::to_string_pretty(&diagnosis).map_err(Failure::error)?;
            print(&format!("{json}\n"))?;
        }
    }
    if let Err(ended) = outcome {
        complain(ended);
    }
    Ok(exit)
}

fn interrupted() -> Exit {
    complain(RunError::Interrupted);
    Exit::Interrupted
}

impl DiagnoseArguments {
    /// The command line of a run with the same server: options mean there what they mean here.
    fn of_run(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["fabricbench", "run"].map(OsString::from).to_vec();
        words.extend(self.host.as_ref().map(OsString::from));
        let seconds = self.timeout.as_secs_f64();
        words.extend(
            [format!("--port={}", self.port), format!("--timeout={seconds}s")].map(OsString::from),
        );
        words.extend(self.access.words());
        words.extend(self.cpus.as_ref().map(|cpus| format!("--cpus={cpus}").into()));
        words
    }

    fn order(&self, path: PathName) -> Order {
        let mut connections = self.connections.clone();
        // What one carries is what all else is compared with.
        connections.push(1);
        connections.sort_unstable();
        connections.dedup();
        Order {
            path,
            size: self.size,
            tensor: self.tensor,
            connections,
            stop: Stop::After(self.duration),
            rounds: self.rounds,
            seed: 1,
        }
    }

    /// The path, and what its link carries in bytes a second.
    fn path(
        &self,
        here: &Host,
        there: &Host,
        control: std::net::IpAddr,
    ) -> Result<(PathName, Option<(f64, LineFrom)>), Failure> {
        let candidates = match &self.path {
            Some(path) => vec![path.clone()],
            None if here.shares_network_with(there) => vec![PathName::Loopback],
            None => vec![PathName::Ipoib, PathName::Ethernet],
        };
        let mut refused = Vec::new();
        for path in candidates {
            match ip_path(here, there, &path, Some(control)) {
                Ok(choice) => {
                    let speed = |host: &Host, name: &str| {
                        let found = host.interfaces.iter().find(|interface| interface.name == name);
                        found.and_then(|interface| interface.speed_mbps)
                    };
                    let slower = speed(here, &choice.local_interface)
                        .zip(speed(there, &choice.remote_interface))
                        .map(|(here, there)| here.min(there));
                    let stated =
                        slower.map(|megabits| (f64::from(megabits) * 1e6 / 8.0, LineFrom::Kernel));
                    let given = self.line_rate.map(|bits| (bits / 8.0, LineFrom::Option));
                    return Ok((path, given.or(stated)));
                }
                Err(TransportError::Unsupported(reason) | TransportError::Failed(reason)) => {
                    refused.push(reason)
                }
                Err(stopped) => refused.push(stopped.to_string()),
            }
        }
        Err(Failure::Error(format!("no path to diagnose: {}", refused.join("; "))))
    }
}

/// A path by the name that transports have behind the `@`.
fn parse_path(text: &str) -> Result<PathName, String> {
    match format!("tcp@{text}").parse() {
        Ok(TransportName::Tcp(path)) => Ok(path),
        _ => Err(format!("`{text}` is no path; write ipoib, ethernet, loopback or an interface")),
    }
}

/// Bits a second: `800M`, `10G`, `1.5G`, in powers of ten as links are named.
pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    let refused = || format!("`{text}` is no rate; write 800M, 10G or 100G, in bits a second");
    let (number, scale) = match text.strip_suffix(['M', 'G', 'k', 'K']) {
        None => (text, 1.0),
        Some(number) if text.ends_with('G') => (number, 1e9),
        Some(number) if text.ends_with('M') => (number, 1e6),
        Some(number) => (number, 1e3),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number * scale >= 1e3 => Ok(number * scale),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_paths() {
        assert_eq!(parse_rate("10G"), Ok(1e10));
        assert_eq!(parse_rate("800M"), Ok(8e8));
        assert_eq!(parse_rate("1.5G"), Ok(1.5e9));
        for text in ["", "G", "-1G", "10Gb", "nan", "inf", "1"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert_eq!(parse_path("lo"), Ok(PathName::Loopback));
        assert!(parse_path("a b").is_err());
    }
}
