//! The file system of the result has no room left.
//!
//! Needs root, for a file system of its own, and skips without.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
    process::Command,
};

use crate::{
    document::{Document, measured},
    process::{Running, Server, fabricbench},
    row::{PHASES, Phase, Row, Seen, Who, all, hold},
    scene::{BOUND, Held, Length, Output, Scene, TIMEOUT, said_of},
};

/// Room for a few documents.
const SIZE: &str = "256k";

/// A small file system that the processes in a mount namespace see, which ends with this.
struct Disk {
    holder: Running,
    folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: mounting needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let script =
            format!("mount -t tmpfs -o size={SIZE} none \"$1\" && echo ready && exec sleep 600");
        let mut holder = Command::new("unshare");
        holder.args(["--mount", "sh", "-c", &script, "sh"]).arg(folder.path());
        let holder = Running::start(&mut holder);
        holder.prints(|text| text.contains("ready").then_some(()));
        Some(Self { holder, folder })
    }

    /// How others reach a file of it.
    fn seen_at(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.folder.path().strip_prefix("/").unwrap()).join(name)
    }

    fn output(&self) -> Output {
        Output::File {
            path: self.folder.path().join("result.json"),
            seen_at: self.seen_at("result.json"),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn fill(&self) {
        let mut filler: File =
            OpenOptions::new().create(true).append(true).open(self.seen_at("filler")).unwrap();
        let full = loop {
            if let Err(error) = filler.write_all(&[b' '; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }

    /// A command that sees it.
    fn seen_by(&self, options: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        let inner = fabricbench(options);
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }
}

fn carry_out(row: Row<()>) -> Seen {
    let disk = Disk::new().unwrap();
    let server = Server::with(&format!("--listen 127.0.0.1 --timeout {}s", TIMEOUT.as_secs()));
    let before = Held::idle(&server, || server.serves_within(BOUND));
    let mut scene =
        Scene::local(&row, Length::Short, disk.output(), &server, |options| disk.seen_by(options));
    disk.fill();
    scene.goes_on();
    let known = scene.known;
    let (finished, document) = scene.end();
    let finished = finished.failed(1, &["cannot write the result to", "No space left on device"]);
    let printed = Document::read(&finished.stdout);
    if row.phase == Phase::Connecting {
        assert!(document.is_none(), "{document:?}");
    } else {
        // What was there before is whole, and what was measured is printed.
        assert_eq!(document.unwrap().0["complete"], false);
        measured(&printed.cells()[0]);
    }
    let word = if row.phase == Phase::Connecting { "closed the control" } else { ": done" };
    let said = said_of(&server, known, word);
    server.serves_within(BOUND);
    before.is_back(&server.process);
    let client =
        finished.stderr.trim_end().replace(&disk.folder.path().display().to_string(), "DISK");
    Seen { code: finished.code, client, server: said }
}

#[test]
fn a_file_system_that_is_full() {
    if Disk::new().is_none() {
        return;
    }
    let of_a_part = [Phase::Connecting, Phase::Measuring, Phase::Writing];
    let phases = PHASES.into_iter().filter(|phase| all() || of_a_part.contains(phase));
    let rows =
        phases.map(|phase| Row { who: Who::Client, fault: (), phase, transport: "tcp@loopback" });
    hold(rows, |()| "the disk of its result is full", carry_out);
}
