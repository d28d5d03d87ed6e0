//! Where results go, and what happens when they cannot go there: told before anything is measured
//! where that can be known, in one line, and with nothing half-written left behind.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    document::Document,
    process::{Finished, Running, fabricbench, run},
};

const QUICK: &str = "run --transport tcp@loopback -s 8,16 -n 2";

fn write_to(path: &Path) -> Finished {
    Running::start(fabricbench(QUICK).arg("--output").arg(path)).end()
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn the_file_holds_the_document_that_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    fs::write(&path, "what was there before").unwrap();
    let mut command = fabricbench(QUICK);
    let finished =
        Running::start(command.args(["--format", "json", "-o"]).arg(&path)).end().quietly(0);
    let kept = Document::read(&fs::read_to_string(&path).unwrap());
    assert_eq!(kept.0, Document::read(&finished.stdout).0);
    kept.all_measured(&["tcp@loopback"], &["latency", "bandwidth"], &[8, 16]);
    assert_eq!(names(folder.path()), ["result.json"]);
}

#[test]
fn a_link_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, "").unwrap();
    symlink(&target, &link).unwrap();
    for mode in [0o600, 0o664] {
        fs::set_permissions(&target, Permissions::from_mode(mode)).unwrap();
        write_to(&link).quietly(0);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        Document::read(&fs::read_to_string(&target).unwrap());
        // Who might read it may do so still, and nobody else.
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, mode);
    }
    // Also one that leads nowhere yet.
    fs::remove_file(&target).unwrap();
    symlink("link", folder.path().join("second")).unwrap();
    write_to(&folder.path().join("second")).quietly(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    Document::read(&fs::read_to_string(&target).unwrap());
}

/// The table would be lost, or stand in the middle of the document.
#[test]
fn the_document_does_not_go_where_the_table_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    for place in [Path::new("/dev/stdout"), &path] {
        let mut command = fabricbench(QUICK);
        command.arg("-o").arg(place).stdout(File::create(&path).unwrap());
        let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("is the standard output") && told.contains("--format json"),
            "{told}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}

#[test]
fn a_place_that_cannot_be_is_refused_before_measuring() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    for (place, word) in [
        (folder.path().join("absent/result.json"), "No such file"),
        (folder.path().join("absent/"), "irectory"),
        (folder.path().to_owned(), "is a directory"),
        (file.join("result.json"), "Not a directory"),
        (folder.path().join("n".repeat(300)), "too long"),
    ] {
        let finished = write_to(&place);
        assert_eq!(finished.stdout, "", "measured for {}", place.display());
        finished.failed(1, &[&place.display().to_string(), word, "--output"]);
    }
    assert_eq!(names(folder.path()), ["file"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
    let path = folder.path().join("result.json");
    if File::create(&path).is_ok() {
        // Root may write everywhere but where nobody may.
        let sys = Path::new("/sys/kernel/fabricbench-result.json");
        write_to(sys).failed(1, &["/sys/kernel/fabricbench-result.json", "--output"]);
    } else {
        write_to(&path).failed(1, &["result.json", "Permission denied", "--output"]);
    }
}

#[test]
fn a_full_device_fails_with_the_document_printed() {
    let mut command = fabricbench(QUICK);
    let finished =
        Running::start(command.args(["--format", "json", "--output", "/dev/full"])).end();
    let finished = finished.failed(1, &["/dev/full", "No space left", "--output"]);
    assert_eq!(Document::read(&finished.stdout).count("measured"), 4);
}

#[test]
fn a_pipe_gets_the_document_once() {
    let finished = run(&format!("{QUICK} --format csv --output /dev/stderr"));
    assert_eq!(finished.code, Some(0));
    Document::read(&finished.stderr);
}

/// A pipe that is opened before its reader is there gets its document; one that nobody ever reads
/// ends the wait.
#[test]
fn a_pipe_waits_for_its_reader_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = fabricbench(QUICK);
    let client = Running::start(command.arg("--output").arg(&pipe));
    std::thread::sleep(Duration::from_millis(300));
    Document::read(&fs::read_to_string(&pipe).unwrap());
    client.end().quietly(0);
    let finished = write_to(&pipe);
    assert!(finished.took < Duration::from_secs(20), "{:?}", finished.took);
    finished.failed(1, &["pipe", "nobody reads", "--output"]);
}

/// Into a pipe goes a trace as a result does.
#[test]
fn a_trace_waits_for_its_reader_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let begin = || {
        let mut command = fabricbench("run --transport tcp@lo --pattern latency -s 8 -n 20");
        Running::start(command.args(["--phases=1", "--trace"]).arg(&pipe))
    };
    let client = begin();
    let trace = fs::read_to_string(&pipe).unwrap();
    assert!(trace.starts_with('{') && trace.ends_with("}\n"), "{trace}");
    client.end().quietly(0);
    begin().end_within(Duration::from_secs(20)).failed(1, &["pipe", "nobody reads", "--trace"]);
    let client = begin();
    std::thread::sleep(Duration::from_millis(500));
    client.signal(Signal::TERM);
    client.end_within(Duration::from_secs(4)).failed(130, &["interrupted"]);
}

#[test]
fn a_long_slice_says_that_it_is_under_way() {
    let plan = "run --transport tcp@lo --pattern latency -s 8 -D 6s --rounds 1 --progress lines";
    let finished = run(plan);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let line = finished.stderr.lines().find(|line| line.contains("; under way for "));
    let line = line.unwrap_or_else(|| panic!("{}", finished.stderr));
    assert!(line.starts_with("slice 1 of 1: tcp@loopback latency 8 B"), "{line}");
}

/// Whoever opens a pipe and reads nothing holds nobody up who is interrupted.
#[test]
fn an_interrupt_ends_the_wait_for_who_does_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // More than a pipe holds: a document of many cells, and a trace of many calls.
    for options in ["-s 1:1024:+8 -n 2 --rounds 1 -o", "-s 8 -n 200 --phases=1 --trace"] {
        let mut command =
            fabricbench(&format!("run --transport tcp@lo --pattern latency {options}"));
        let mut client = Running::start(command.arg(&pipe));
        let reader = File::open(&pipe).unwrap();
        // Until it fills the pipe.
        let full = || rustix::io::ioctl_fionread(&reader).unwrap() >= 60_000;
        while client.is_running() && !full() {
            std::thread::sleep(Duration::from_millis(20));
        }
        client.signal(Signal::TERM);
        let finished = client.end_within(Duration::from_secs(10));
        finished.failed(1, &["pipe", "read nothing of it"]);
    }
}

/// As root, on a file system of its own that has no room: nothing half-written stays.
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let script = "mount -t tmpfs -o size=16k tmpfs \"$1\" && cd \"$1\" && \
                  echo old >result.json && head -c 8192 /dev/zero >filler && \
                  \"$0\" run --transport tcp@loopback -s 8,16,32,64 -n 2 --format json \
                  --output result.json; code=$?; ls -A >&2; cat result.json >&2; exit $code";
    let folder = tempfile::tempdir().unwrap();
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_fabricbench")]);
        Running::start(command.arg(folder.path())).end()
    };
    if unshare("mount -t tmpfs tmpfs \"$1\"").code != Some(0) {
        eprintln!("skipped: this user may not mount a file system");
        return;
    }
    let finished = unshare(script);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let (ours, left) = finished.stderr.split_once('\n').unwrap();
    assert!(ours.starts_with("fabricbench: cannot write the result to"), "{ours}");
    assert!(ours.contains("No space left"), "{ours}");
    let left = left.strip_prefix("filler\nresult.json\n").expect(left);
    // The old content, or a document that still had room.
    if left != "old\n" {
        Document::read(left);
    }
    Document::read(&finished.stdout);
}

/// Whatever goes wrong once the arguments are understood, a script gets its document.
#[test]
fn json_is_printed_on_every_path() {
    for (arguments, code) in [
        ("run --format json --transport tcp@loopback -s 8 -n 1", 0),
        ("run --format json --transport tcp@loopback,tcp@nowhere0 -s 8 -n 1", 3),
        ("run --format json --transport tcp@nowhere0,grpc@nowhere0 -s 8 -n 1", 4),
        ("run --format json --transport tcp@loopback -s 8 -n 1 --output /absent/result", 1),
        ("run --format json --transport tcp@loopback -s 8 -n 1 --output /dev/full", 1),
        ("run --format json --transport tcp@loopback -s 8 -n 1 --cpus 1023", 2),
        ("run --format json 127.0.0.1:1", 1),
    ] {
        let finished = run(arguments);
        assert_eq!(finished.code, Some(code), "{arguments}: {finished:?}");
        let document = Document::read(&finished.stdout);
        assert_eq!(document.0["complete"], [0, 3, 4].contains(&code) || arguments.contains("full"));
        let words: Vec<String> = serde_json::from_value(document.0["command"].clone()).unwrap();
        assert_eq!(words[1..].join(" "), arguments);
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    for format in ["table", "json", "csv", "long", "perftest"] {
        let mut command = fabricbench(&format!("{QUICK} --format {format}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert_eq!(output.status.code(), Some(0), "{format}");
    }
}

#[test]
fn a_full_standard_output_is_a_failure() {
    for arguments in [QUICK, "probe", "probe --json"] {
        let mut command = fabricbench(arguments);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.starts_with("fabricbench: cannot write to standard output"), "{error}");
    }
}

#[test]
fn a_standard_error_that_is_gone_changes_nothing_else() {
    for (arguments, code) in [("run 127.0.0.1:1", 1), ("run -s 0", 2), (QUICK, 0)] {
        let mut command = fabricbench(&format!("{arguments} --progress lines"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments}");
    }
}

#[test]
fn progress_is_shown_only_where_it_was_asked_for() {
    run(QUICK).quietly(0);
    run(&format!("{QUICK} --progress none")).quietly(0);
    let finished =
        run("run --transport tcp@loopback,tcp@nowhere0 -s 8,16,32 -n 2 --progress lines");
    assert_eq!(finished.code, Some(3));
    let lines: Vec<_> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 2 * 2 * 3, "{lines:#?}");
    for cell in [
        "tcp@loopback latency 8 B: ",
        "tcp@loopback bandwidth 32 B: ",
        "tcp@nowhere0 latency 16 B: ",
    ] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(cell)).count(), 1, "{lines:#?}");
    }
}
