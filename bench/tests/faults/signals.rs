//! One of the two processes is killed, stopped, or told to end.

use std::{thread, time::Duration};

use rustix::process::Signal;

use crate::{
    process::{Finished, Server, fabricbench},
    row::{PHASES, Phase, Row, Seen, Who, all, hold},
    scene::{BOUND, Held, Length, Output, Scene, TIMEOUT, is_kept, said_of},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    /// Until the other side has given it up.
    Stopped,
    /// For half a second, which both bear.
    Paused,
    Terminated,
    Interrupted,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "SIGKILL",
            Self::Stopped => "SIGSTOP, given up, SIGCONT",
            Self::Paused => "SIGSTOP, SIGCONT after 0.5 s",
            Self::Terminated => "SIGTERM",
            Self::Interrupted => "SIGINT",
        }
    }

    fn signal(self) -> Signal {
        match self {
            Self::Killed => Signal::KILL,
            Self::Stopped | Self::Paused => Signal::STOP,
            Self::Terminated => Signal::TERM,
            Self::Interrupted => Signal::INT,
        }
    }
}

const PAUSE: Duration = Duration::from_millis(500);

/// Carries a row out on loopback.
fn carry_out(row: Row<Fault>) -> Seen {
    let server = Server::with(&format!("--listen 127.0.0.1 --timeout {}s", TIMEOUT.as_secs()));
    let before = Held::idle(&server, || server.serves_within(BOUND));
    let length = if row.fault == Fault::Paused { Length::Short } else { Length::Endless };
    // A pipe says nothing of a writer that was killed.
    let output = match (row.who, row.fault) {
        (Who::Client, Fault::Killed) => Output::file(),
        _ => Output::of(row.phase),
    };
    let scene = Scene::local(&row, length, output, &server, fabricbench);
    match row.fault {
        Fault::Paused => paused(row, scene, &server, before),
        Fault::Stopped => stopped(row, scene, &server, before),
        _ if row.who == Who::Server => server_ended(row, scene, server),
        _ => client_ended(row, scene, &server, before),
    }
}

fn signal(row: Row<Fault>, scene: &Scene, server: &Server, signal: Signal) {
    match row.who {
        Who::Client => scene.client.signal(signal),
        Who::Server | Who::Network => server.process.signal(signal),
    }
}

/// The server is there for the next client, and holds what it held.
fn serves_and_holds(server: &Server, before: Held) {
    server.serves_within(BOUND);
    before.is_back(&server.process);
}

fn paused(row: Row<Fault>, mut scene: Scene, server: &Server, before: Held) -> Seen {
    signal(row, &scene, server, Signal::STOP);
    scene.goes_on();
    thread::sleep(PAUSE);
    signal(row, &scene, server, Signal::CONT);
    let known = scene.known;
    let (finished, document) = scene.end();
    let finished = finished.quietly(0);
    is_kept(&document.unwrap(), Phase::Writing, "", &[]);
    let said = said_of(server, known, ": done");
    serves_and_holds(server, before);
    Seen { code: finished.code, client: String::new(), server: said }
}

fn stopped(row: Row<Fault>, mut scene: Scene, server: &Server, before: Held) -> Seen {
    signal(row, &scene, server, Signal::STOP);
    let (known, phase) = (scene.known, row.phase);
    if row.who == Who::Server {
        scene.goes_on();
        let peer = scene.address().to_string();
        let (finished, document) = scene.end();
        let how = if phase == Phase::Connecting { "did not greet" } else { "silent for 2s" };
        let client = lost(phase, finished, &[phase.of_client(), how, &peer]);
        is_kept(&document.unwrap(), phase, "failed", &[&peer, how]);
        server.process.signal(Signal::CONT);
        let said = said_of(server, known, "");
        serves_and_holds(server, before);
        return Seen { server: said, ..client };
    }
    scene.release();
    let word = if phase == Phase::Connecting { "within 5s" } else { "silent for 2s" };
    let said = scene.said_by(server, word);
    assert!(said.contains(phase.of_server()), "{said}");
    server.serves_within(BOUND);
    scene.client.signal(Signal::CONT);
    scene.goes_on();
    let peer = scene.address().to_string();
    let (finished, document) = scene.end();
    // What it had asked for was answered meanwhile.
    let (phase, words) = match phase {
        Phase::Finishing => (Phase::Writing, ""),
        Phase::Agreeing => (phase, ""),
        phase => (phase, phase.of_client()),
    };
    let client = lost(phase, finished, &[words, &peer]);
    is_kept(&document.unwrap(), phase, "failed", &[&peer]);
    serves_and_holds(server, before);
    Seen { server: said, ..client }
}

/// What a client says that has lost its server.
#[track_caller]
fn lost(phase: Phase, finished: Finished, words: &[&str]) -> Seen {
    let finished = match phase {
        Phase::Connecting => finished.failed(1, words),
        Phase::Writing => finished.quietly(0),
        _ => finished.failed(3, &[&["lost the server"], words].concat()),
    };
    let client = finished.stderr.trim_end().to_owned();
    Seen { code: finished.code, client, server: String::new() }
}

fn server_ended(row: Row<Fault>, mut scene: Scene, server: Server) -> Seen {
    server.process.signal(row.fault.signal());
    let (known, peer) = (scene.known.to_string(), scene.address().to_string());
    let ended = server.process.end_within(BOUND);
    assert_eq!(ended.code, if row.fault == Fault::Killed { None } else { Some(0) }, "{ended:?}");
    scene.goes_on();
    let (finished, document) = scene.end();
    let client = lost(row.phase, finished, &[row.phase.of_client(), "closed the ", &peer]);
    is_kept(&document.unwrap(), row.phase, "failed", &[&peer, "closed the control connection"]);
    let of_end = |line: &&str| line.contains(&known) && !line.ends_with(": testing");
    let said = ended.stderr.lines().rfind(of_end);
    Seen { server: said.unwrap_or_default().to_owned(), ..client }
}

fn client_ended(row: Row<Fault>, mut scene: Scene, server: &Server, before: Held) -> Seen {
    let (known, phase) = (scene.known, row.phase);
    if (phase, row.fault) == (Phase::Writing, Fault::Killed) {
        scene.release();
    }
    scene.client.signal(row.fault.signal());
    // Its result is read as it comes; else it ends by itself, whatever is held.
    if phase != Phase::Writing {
        scene.ends();
    }
    scene.goes_on();
    let (finished, document) = scene.end();
    let (word, code) = match (phase, row.fault) {
        (Phase::Connecting, _) => ("", (row.fault != Fault::Killed).then_some(130)),
        (_, Fault::Killed) => ("closed the control connection", None),
        (Phase::Writing, _) => (": done", Some(0)),
        _ => (": done", Some(130)),
    };
    let client = match code {
        None => {
            assert_eq!(finished.code, None, "{finished:?}");
            // Of every second that had passed.
            document.iter().for_each(|kept| assert!(kept.count("failed") == 0));
            String::new()
        }
        Some(0) => finished.quietly(0).stderr,
        Some(code) => finished.failed(code, &["interrupted"]).stderr,
    };
    if code.is_some() {
        is_kept(&document.unwrap(), phase, "skipped", &["interrupted"]);
    }
    let said = said_of(server, known, word);
    if code.is_none() {
        assert!(said.contains(phase.of_server()), "{said}");
    }
    serves_and_holds(server, before);
    Seen { code, client: client.trim_end().to_owned(), server: said }
}

fn rows(faults: &[Fault], transports: &[&'static str]) -> Vec<Row<Fault>> {
    let mut rows = Vec::new();
    for &fault in faults {
        for who in [Who::Client, Who::Server] {
            for phase in PHASES {
                for &transport in transports {
                    rows.push(Row { who, fault, phase, transport });
                }
            }
        }
    }
    rows
}

/// Of a part, all phases are those of TCP and SIGKILL: what is said and when is the control connection's,
/// but for the loop.
fn hold_on_loopback(faults: &[Fault]) {
    let mut rows = rows(faults, &["tcp@loopback", "grpc@loopback"]);
    rows.retain(|row| {
        let (killed, tcp) = (row.fault == Fault::Killed, row.transport == "tcp@loopback");
        all() || if row.phase == Phase::Measuring { killed || tcp } else { killed && tcp }
    });
    hold(rows, Fault::name, carry_out);
}

#[test]
fn a_process_that_is_killed() {
    hold_on_loopback(&[Fault::Killed]);
}

#[test]
fn a_process_that_is_stopped() {
    hold_on_loopback(&[Fault::Stopped]);
}

#[test]
fn a_process_that_is_paused() {
    hold_on_loopback(&[Fault::Paused]);
}

#[test]
fn a_process_that_is_told_to_end() {
    hold_on_loopback(&[Fault::Terminated, Fault::Interrupted]);
}
