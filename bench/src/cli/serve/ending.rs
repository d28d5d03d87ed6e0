//! What ends a server, and other commands: signals, time, and the end of standard input.

use std::{io::Read, thread, time::Duration};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{Exit, Failure, log::Log};
use crate::{
    control::Ending,
    transport::{StopReason, StopSignal},
};

/// SIGINT and SIGTERM end every wait.
pub(in crate::cli) fn stop_on_signals() -> Result<StopSignal, Failure> {
    let stop = StopSignal::new();
    let given = stop.clone();
    on_each_signal(None, move |_| given.give(StopReason::Interrupted))?;
    Ok(stop)
}

/// SIGTERM closes a server, which has `grace` from then on; SIGINT, or SIGTERM without grace, ends it.
///
/// A server that another program started leaves SIGINT to that one, which ends it: a terminal sends it to
/// both, and a server that was the first to end would look like one that was lost.
pub(super) fn on_signals(
    grace: Option<Duration>,
    started_by_another: bool,
    log: Log,
) -> Result<Ending, Failure> {
    let ending = Ending::default();
    let given = ending.clone();
    let ignored = started_by_another.then_some(SIGINT);
    on_each_signal(ignored, move |signal| {
        given.closing.give(StopReason::Interrupted);
        let Some(grace) = grace.filter(|_| signal == SIGTERM) else {
            return given.now.give(StopReason::Interrupted);
        };
        log.closes(grace);
        let now = given.now.clone();
        // Without a thread to wait on, the time is over.
        let over = move || {
            thread::sleep(grace);
            now.give(StopReason::Interrupted);
        };
        if thread::Builder::new().name("grace".to_owned()).spawn(over).is_err() {
            given.now.give(StopReason::Interrupted);
        }
    })?;
    Ok(ending)
}

/// Calls `first` for the first signal; the second one means it. One that is `ignored` does nothing.
fn on_each_signal(
    ignored: Option<i32>,
    first: impl Fn(i32) + Send + 'static,
) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::Error(format!("cannot handle signals: {error}")))?;
    in_background("signals", move || {
        let heeded = signals.forever().filter(|&signal| Some(signal) != ignored);
        for (count, signal) in heeded.enumerate() {
            match count {
                0 => first(signal),
                _ => std::process::exit(i32::from(Exit::Interrupted.code())),
            }
        }
    })
}

/// Calls `then` when a server is told to close.
pub(super) fn when_closing(
    closing: &StopSignal,
    then: impl FnOnce() + Send + 'static,
) -> Result<(), Failure> {
    let closing = closing.clone();
    in_background("closing", move || {
        closing.wait();
        then();
    })
}

/// Gives `now` when standard input ends.
pub(super) fn with_stdin(now: &StopSignal) -> Result<(), Failure> {
    let now = now.clone();
    in_background("stdin", move || {
        let mut sink = [0; 64];
        while std::io::stdin().read(&mut sink).is_ok_and(|read| read > 0) {}
        now.give(StopReason::Finished);
    })
}

fn in_background(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| Failure::Error(format!("no thread to wait for the end on: {error}")))
}
