//! `fabricbench run`.

mod arguments;
mod connect;
mod document;
#[cfg(fuzzing)]
pub(in crate::cli) mod fuzzing;
mod ignored;
mod lines;
mod plan;
mod shown;
mod sweep;
mod tensors;
mod trace;
mod verbose;
mod warning;

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

pub(super) use self::{
    arguments::{RunArguments, UsualTransports},
    connect::{connect, initiating},
    document::document,
    sweep::variants,
    warning::warnings,
};

use self::{
    arguments::Format,
    document::{estimated, plan_record},
    ignored::refuse_ignored,
    lines::Lines,
    plan::{plan, refuse_impossible, seed},
    sweep::sweep,
    trace::{TraceFile, Watched},
    warning::{cut_moderation, most_polling},
};
use super::{
    Exit, Failure, complain, print,
    serve::stop_on_signals,
    terminal::{When, look},
};
use crate::{
    observe::memory_copy,
    plan::Plan,
    report::{
        Content, Document, PerftestColumns, ResultFile, Status, csv, latency_chart, long, markdown,
        openmetrics, perftest, table,
    },
    run::{Rules, RunError},
    session::{Host, Variants},
    transport::{StopReason, StopSignal},
};

/// Carries out what `arguments` say and prints the result; `words` is the command line that they were
/// read from.
///
/// # Errors
/// The arguments make no sense, or the run did not begin.
pub(super) fn run(arguments: &RunArguments, words: &[OsString]) -> Result<Exit, Failure> {
    if arguments.shown.chart == When::Always && arguments.format() != Format::Table {
        return Err(Failure::Usage(
            "--chart always belongs to --format table; leave one of the two out".to_owned(),
        ));
    }
    if arguments.report_gbits && arguments.format() != Format::Perftest {
        return Err(Failure::Usage(
            "--report_gbits belongs to --format perftest; the other formats are in MB/s (10^6 bytes)"
                .to_owned(),
        ));
    }
    let (document, outcome) = carry_out(arguments, words)?;
    // Whatever happened, standard output gets one whole document of what there is.
    if outcome.has_begun() || arguments.format() == Format::Json {
        render(arguments, &document)?;
    }
    outcome.exit(&document)
}

/// How a run ended.
pub(super) struct Outcome {
    ended: Result<(), Ended>,
    // Whether the trace is written.
    traced: Result<(), Failure>,
}

enum Ended {
    NotBegun(Failure),
    Run(RunError),
}

/// What `arguments` say, without printing the result: the document of what there is, whatever became
/// of the run.
///
/// # Errors
/// The arguments make no sense.
pub(super) fn carry_out(
    arguments: &RunArguments,
    words: &[OsString],
) -> Result<(Document, Outcome), Failure> {
    let sweep = sweep(arguments, words)?;
    let plan = plan(arguments, &sweep, arguments.host.is_none(), seed(arguments))?;
    refuse_ignored(words, &plan)?;
    let variants = variants(arguments, words, &plan)?;
    refuse_impossible(&plan, &variants)?;
    trace::check(arguments, &plan, &variants)?;
    let stop = stop_on_signals()?;
    let here = Host::here().map_err(Failure::Error)?;
    let mut document = document(arguments, &plan, &here);
    let mut shown = arguments.shown.progress();
    let mut trace = None;

    let mut lines = (arguments.format() == Format::Jsonl).then(Lines::default);
    let watched = Watched {
        shown: &mut shown,
        trace: &mut trace,
        lines: lines.as_mut(),
        verbose: arguments.shown.verbose(),
        unprinted: None,
    };
    let ended = measure((arguments, words), (plan, variants), here, &stop, &mut document, watched);
    shown.end();
    // Also an interruption may come before the server is reached.
    let has_begun = document.server.is_some() && !matches!(ended, Err(Ended::NotBegun(_)));
    if let Some(mut lines) = lines.filter(|_| has_begun) {
        lines.end(&document)?;
    }
    let traced = trace.map_or(Ok(()), |trace| trace.finish(&document));
    Ok((document, Outcome { ended, traced }))
}

impl Outcome {
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.ended, Err(Ended::NotBegun(_)))
    }

    /// The exit code, once the document is printed; complains of what ended the run early.
    ///
    /// # Errors
    /// The run did not begin, or its result could not be written.
    pub(super) fn exit(self, document: &Document) -> Result<Exit, Failure> {
        if self.has_begun() {
            self.traced?;
        }
        match self.ended {
            Ok(()) => Ok(verdict(document)),
            // It was told when it was seen, and stands among the warnings.
            Err(Ended::Run(RunError::BudgetSpent(_))) => Ok(verdict(document)),
            Err(Ended::Run(RunError::Interrupted)) => {
                complain(RunError::Interrupted);
                Ok(Exit::Interrupted)
            }
            Err(Ended::Run(lost @ RunError::PeerLost(_))) => {
                complain(lost);
                Ok(match verdict(document) {
                    Exit::Nothing => Exit::Nothing,
                    _ => Exit::Partial,
                })
            }
            Err(Ended::Run(error @ RunError::Output(_))) => Err(Failure::error(error)),
            Err(Ended::NotBegun(failure)) => Err(failure),
        }
    }
}

fn measure(
    (arguments, words): (&RunArguments, &[OsString]),
    (plan, variants): (Plan, Variants),
    here: Host,
    stop: &StopSignal,
    document: &mut Document,
    mut watched: Watched<'_>,
) -> Result<(), Ended> {
    let not_begun = |document: &mut Document, file: Option<&ResultFile>, failure: Failure| {
        let reason = format!("the run did not begin: {failure}");
        document.cells.iter_mut().for_each(|cell| cell.reason = Some(reason.clone()));
        // What an earlier run found is worth more than that this one found nothing; and the failure says
        // more than that it could not be written down as well.
        let _ = file.filter(|file| !file.replaces()).map(|file| file.finish(document));
        match stop.reason() {
            Some(StopReason::Interrupted) => Ended::Run(RunError::Interrupted),
            _ => Ended::NotBegun(failure),
        }
    };
    let output = arguments.output.as_deref();
    if let Some(place) = output.filter(|place| is_standard_output(place)) {
        let failure = Failure::Error(format!(
            "-o {}: that is the standard output, where the table goes: give --format json in place of -o, or \
             another file",
            place.display()
        ));
        return Err(not_begun(document, None, failure));
    }
    let file = match output.map(|path| ResultFile::create(path, Content::Result, stop)).transpose()
    {
        Ok(file) => file,
        Err(error) => return Err(not_begun(document, None, Failure::error(error))),
    };
    let file = file.as_ref();
    *watched.trace = match TraceFile::create(arguments, stop) {
        Ok(trace) => trace,
        Err(failure) => return Err(not_begun(document, file, failure)),
    };
    let (mut client, _server) = match connect(arguments, &here, stop, watched.shown) {
        Ok(connected) => connected,
        Err(failure) => return Err(not_begun(document, file, failure)),
    };
    document.server = Some(client.there.environment.clone());
    let of_bytes = plan.cells.iter().filter(|cell| cell.pattern.is_of_bytes());
    if let Some(largest) = of_bytes.map(|cell| cell.size).max()
        && here.shares_kernel_with(&client.there)
    {
        document.client.memory_copy = memory_copy(largest);
    }
    let (plan, variants) =
        if arguments.transport.is_empty() && here.shares_network_with(&client.there) {
            // Whatever name the server was given: traffic between the two never leaves this host.
            let plan = self::plan::plan(arguments, &plan.sweep, true, plan.seed);
            let plan = plan.map_err(Ended::NotBegun)?;
            let variants = self::sweep::variants(arguments, words, &plan);
            document.plan = plan_record(arguments, &plan);
            (plan, variants.map_err(Ended::NotBegun)?)
        } else {
            (plan, variants)
        };
    document.warnings = warnings(&here, &client.there, most_polling(&plan, &variants));
    document.warnings.extend(cut_moderation(arguments, &plan, &variants));
    let warnings = &mut document.warnings;
    let begun = initiating(arguments, variants, &here, &client, stop.clone(), warnings);
    let initiating = match begun {
        Ok(initiating) => initiating,
        Err(failure) => return Err(not_begun(document, file, failure)),
    };
    if let Some(verbose) = &watched.verbose {
        verbose.decided(watched.shown, document, &initiating);
    }
    // From here on the file is of this run, so that the document of an earlier one is never taken for its.
    if let Some(Err(error)) = file.map(|file| file.write(document)) {
        return Err(not_begun(document, None, Failure::error(error)));
    }
    let rules =
        Rules { warm_up: arguments.warm_up(), patience: arguments.timeout, tune: arguments.tune };
    if let Some(estimate) = &document.plan.estimate {
        watched.shown.announce(&estimated(estimate, &plan));
    }
    if let Some(Err(failure)) = watched.lines.as_ref().map(|lines| lines.begin(document)) {
        return Err(not_begun(document, file, failure));
    }
    let outcome =
        crate::run::run(&plan, rules, &initiating, &mut client, document, file, &mut watched);
    client.end();
    match watched.unprinted {
        Some(failure) => Err(Ended::NotBegun(failure)),
        None => outcome.map_err(Ended::Run),
    }
}

fn render(arguments: &RunArguments, document: &Document) -> Result<(), Failure> {
    match arguments.format() {
        Format::Perftest => {
            let columns = PerftestColumns {
                gigabits: arguments.report_gbits,
                by_duration: arguments.duration.is_some(),
                cpu_util: arguments.habits.cpu_util,
            };
            print(&perftest(document, columns))
        }
        Format::Table => {
            let look = look();
            let mut text = table(document, look);
            if let Some(chart) =
                latency_chart(document, look).filter(|_| arguments.shown.chart.holds())
            {
                text = format!("{text}\n{chart}");
            }
            print(&text)
        }
        // Printed as it came.
        Format::Jsonl => Ok(()),
        Format::Markdown => print(&markdown(document)),
        Format::Openmetrics => print(&openmetrics(document)),
        Format::Long => print(&long(document)),
        Format::Csv => print(&csv(document).map_err(Failure::error)?),
        Format::Json => {
            let text = serde_json::to_string_pretty(document).map_err(Failure::error)?;
            print(&format!("{text}\n"))
        }
    }
}

fn verdict(document: &Document) -> Exit {
    let measured = document.cells.iter().filter(|cell| cell.status == Status::Measured).count();
    match measured {
        0 => Exit::Nothing,
        all if all == document.cells.len() => Exit::Complete,
        _ => Exit::Partial,
    }
}
/// Whether it is the file or the pipe that standard output goes to; a device takes both, one after the other.
fn is_standard_output(place: &Path) -> bool {
    let Ok(place) = fs::metadata(place) else { return false };
    let is_shared = |out: rustix::fs::Stat| out.st_dev == place.dev() && out.st_ino == place.ino();
    (place.is_file() || place.file_type().is_fifo())
        && rustix::fs::fstat(std::io::stdout()).is_ok_and(is_shared)
}
