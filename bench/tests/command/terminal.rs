//! What is shown on a terminal, seen through a pseudo-terminal, and what goes to a pipe.

use std::{fs::File, io::Read, process::Stdio};

use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::process::{fabricbench, run};

const PLAN: &str =
    "run --transport tcp@loopback,grpc@loopback --pattern latency,bandwidth -s 8,64,512 -n 60";

/// Whether colours are wanted, which tests are not to take from who runs them.
const OTHERS: [&str; 6] = ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "LC_ALL", "LC_CTYPE"];

/// What `arguments` print on a terminal of so many columns, in an environment with `variables`.
fn on_terminal(arguments: &str, columns: u16, variables: &[(&str, &str)]) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = open(&name, flags, Mode::empty()).unwrap();
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).unwrap();
    let mut command = fabricbench(arguments);
    for name in OTHERS {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").env("LANG", "C.UTF-8").envs(variables.iter().copied());
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(theirs);
    let mut child = command.spawn().unwrap();
    // It holds the other end.
    drop(command);
    let mut said = Vec::new();
    // It fails when nobody has the other end any more.
    let _ = File::from(ours).read_to_end(&mut said);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    String::from_utf8(said).unwrap().replace("\r\n", "\n")
}

fn is_coloured(text: &str) -> bool {
    text.contains('\u{1b}')
}

#[test]
fn colours_are_for_terminals_that_show_them() {
    let shown = on_terminal(PLAN, 100, &[]);
    assert!(shown.contains("\u{1b}[1msize\u{1b}[0m"), "{shown:?}");
    assert!(!is_coloured(&on_terminal(PLAN, 100, &[("NO_COLOR", "1")])));
    assert!(!is_coloured(&on_terminal(PLAN, 100, &[("TERM", "dumb")])));
    assert!(!is_coloured(&on_terminal(&format!("{PLAN} --color never"), 100, &[])));
    assert!(!is_coloured(&run(PLAN).quietly(0).stdout));
    assert!(is_coloured(&run(&format!("{PLAN} --color always")).quietly(0).stdout));
    assert!(!is_coloured(&run(&format!("{PLAN} --color always --format csv")).quietly(0).stdout));
}

/// Blocks of columns stand under one another, each with its sizes.
#[test]
fn a_table_is_as_wide_as_the_terminal_at_the_most() {
    let plan = format!("{PLAN} --sweep connections=1,2 --color never --chart never");
    let headers = |columns| -> Vec<String> {
        let shown = on_terminal(&plan, columns, &[]);
        let of_table = shown.lines().filter(|line| line.trim_start().starts_with("size "));
        of_table.map(str::to_owned).collect()
    };
    let (wide, narrow) = (headers(200), headers(48));
    assert!(narrow.len() > wide.len(), "{narrow:?} and {wide:?}");
    assert!(narrow.iter().all(|line| line.chars().count() <= 48), "{narrow:?}");
}

#[test]
fn a_chart_is_under_the_table_on_a_terminal() {
    let title = "latency, median in us, by message size";
    let is_braille = |character: char| ('\u{2800}'..='\u{28ff}').contains(&character);
    let shown = on_terminal(PLAN, 80, &[]);
    assert!(shown.contains(title) && shown.contains(is_braille), "{shown}");
    let ascii = on_terminal(PLAN, 80, &[("LANG", "C")]);
    assert!(ascii.contains(title) && ascii.is_ascii(), "{ascii}");
    for (plan, columns) in [(format!("{PLAN} --chart never"), 80), (PLAN.to_owned(), 30)] {
        assert!(!on_terminal(&plan, columns, &[]).contains(title), "{plan} at {columns}");
    }
    assert!(!run(PLAN).quietly(0).stdout.contains(title), "a pipe");
    assert!(run(&format!("{PLAN} --chart always")).quietly(0).stdout.contains(title));
    run("run --chart always --format csv").failed(2, &["--chart always", "--format table"]);
}

#[test]
fn quiet_leaves_errors_and_verbose_says_what_was_decided() {
    let verbose = run(&format!("{PLAN} -v --rounds 2"));
    assert_eq!(verbose.code, Some(0), "{verbose:?}");
    for words in [
        "client: the measuring thread is bound to",
        "plan: 12 cells in 2 rounds",
        "tcp@loopback: client over lo",
        "round 2: ",
        "so far grpc@loopback bandwidth 512 B: ",
    ] {
        assert!(verbose.stderr.contains(words), "no `{words}` in {}", verbose.stderr);
    }
    let rounds = verbose.stderr.lines().filter(|line| line.starts_with("round "));
    assert_eq!(rounds.count(), 24, "{}", verbose.stderr);
    // It warns that a slice of each takes longer, and then of what it left out.
    let short = "run --transport tcp@loopback --pattern latency -s 8,64 --budget 1ms";
    assert!(run(short).stderr.contains("too short"));
    let quiet = run(&format!("{short} --quiet"));
    let is_told = quiet.stdout.contains("warning: the --budget of 1ms was spent");
    assert!(quiet.stderr.is_empty() && is_told, "{quiet:?}");
    run("run 127.0.0.1:9 --transport tcp@loopback --quiet").failed(1, &["127.0.0.1:9"]);
    run("run --quiet -v").failed(2, &["--quiet", "--verbose"]);
}
