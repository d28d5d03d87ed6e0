//! However a run is cut off, what was measured before is kept in a document that is whole.

use std::{fs, path::Path, thread, time::Duration};

use rustix::process::Signal;

use crate::{
    document::{Document, measured, without_figures},
    process::{Finished, Running, fabricbench},
};

/// Cuts a run off by `signal` after its second cell, and returns how it ended.
fn cut_off(signal: Signal, output: Option<&Path>) -> Finished {
    // Of this seed the smallest size comes first.
    let mut command = fabricbench(
        "run --transport tcp@loopback,grpc@loopback --pattern latency -s 8,16,32 -D 1s \
         --rounds 1 --seed 1 --progress lines --format json",
    );
    if let Some(path) = output {
        command.arg("--output").arg(path);
    }
    let client = Running::start(&mut command);
    // Behind the line that says how long it will take.
    let cells = |text: &str| text.lines().filter(|line| line.contains("@loopback latency")).count();
    client.says(|text| (cells(text) >= 2 && text.ends_with('\n')).then_some(()));
    thread::sleep(Duration::from_millis(300));
    client.signal(signal);
    client.end_within(Duration::from_secs(5))
}

/// Two cells are measured, and the others say why not.
fn two_measured(document: &Document) {
    assert_eq!(document.0["complete"], false);
    assert_eq!(document.cells().len(), 6);
    document.cells()[..2].iter().for_each(measured);
    for cell in &document.cells()[2..] {
        without_figures(cell, "skipped", &[]);
    }
    let interrupted = document.cells()[2..4].iter().find(|cell| cell["reason"] == "interrupted");
    assert!(interrupted.is_some(), "{:?}", document.cells());
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        let finished = cut_off(signal, Some(&path));
        assert_eq!(finished.code, Some(130), "{finished:?}");
        let last = finished.stderr.lines().last().unwrap();
        assert_eq!(last, "fabricbench: interrupted; what was measured before is kept");
        let printed = Document::read(&finished.stdout);
        two_measured(&printed);
        let kept = Document::read(&fs::read_to_string(&path).unwrap());
        assert_eq!(kept.0, printed.0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing beside the result");
    }
}

#[test]
fn a_kill_leaves_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let finished = cut_off(Signal::KILL, Some(&path));
    assert_eq!((finished.code, finished.stdout.as_str()), (None, ""));
    let kept = Document::read(&fs::read_to_string(&path).unwrap());
    assert_eq!(kept.0["complete"], false);
    assert_eq!((kept.count("measured"), kept.count("skipped")), (2, 4));
}

/// At any moment whatever, and with slices as short as they can be.
#[test]
fn the_file_is_whole_at_every_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    for turn in 0..12 {
        let mut command = fabricbench("run --transport tcp@loopback -s 1:4096 -n 3 --output");
        let client = Running::start(command.arg(&path));
        thread::sleep(Duration::from_millis(250 + 17 * turn));
        client.signal(Signal::KILL);
        client.end();
        if let Ok(text) = fs::read_to_string(&path) {
            Document::read(&text);
        }
    }
    Document::read(&fs::read_to_string(&path).expect("one of the runs came so far"));
}

#[test]
fn an_interrupt_before_anything_was_measured() {
    let options = "run --transport tcp@loopback -s 8 -D 60s --format json";
    for after in [30, 120, 400] {
        let client = Running::start(&mut fabricbench(options));
        thread::sleep(Duration::from_millis(after));
        client.signal(Signal::INT);
        let finished = client.end_within(Duration::from_secs(5));
        // Before the handler is there, the signal ends the process as it ends any other.
        if finished.code.is_some() {
            let finished = finished.failed(130, &["interrupted"]);
            assert_eq!(Document::read(&finished.stdout).count("measured"), 0);
        }
    }
}
