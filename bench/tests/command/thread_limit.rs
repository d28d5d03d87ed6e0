//! Where the system refuses threads, a run says so and ends.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command, sync::LazyLock};

use tempfile::TempDir;

use crate::process::{Finished, Running};

/// Threads that the user may have.
const LIMIT: &str = "100";

/// The command where another user may start it: to root the limit does not apply.
static COPY: LazyLock<TempDir> = LazyLock::new(|| {
    let place = TempDir::new().unwrap();
    let readable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path(), readable).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_fabricbench"), place.path().join("fabricbench")).unwrap();
    place
});

/// Runs as a user of whom nothing else runs; `None` where this one may not do that.
fn limited(arguments: &str) -> Option<Finished> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may run as another user");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=64242", "--regid=64242", "--clear-groups", "prlimit"]);
    command.arg(format!("--nproc={LIMIT}")).arg(COPY.path().join("fabricbench"));
    command.arg("run").args(arguments.split_whitespace());
    Some(Running::start(&mut command).end())
}

#[test]
fn threads_that_cannot_be_had_are_an_error_and_no_end() {
    for (options, words) in [
        ("--transport tcp@lo --pattern ps --workers 64 -n 64", "cannot start 64 measuring threads"),
        (
            "--transport tcp@lo --pattern ps --workers 4 --servers 64 -n 64",
            "no thread for a connection",
        ),
        (
            "--transport grpc@lo --pattern bandwidth --runtime multi-thread:200 -n 4",
            "cannot start 200 threads for gRPC",
        ),
        (
            "--transport grpc@lo --pattern bandwidth --server-threads 200 -n 4",
            "cannot start 200 threads for gRPC",
        ),
    ] {
        let Some(finished) = limited(&format!("{options} -s 64 --rounds 1 --progress none")) else {
            return;
        };
        let text = format!("{}{}", finished.stdout, finished.stderr);
        assert!(!text.contains("panicked"), "{options}: {text}");
        assert!(text.contains(words) && text.contains("ulimit -u"), "{options}: {text}");
        assert!([Some(3), Some(4)].contains(&finished.code), "{options}: {finished:?}");
    }
}
