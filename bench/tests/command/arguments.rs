//! Arguments that make no sense: one line that names the argument and the cure, and exit code 2.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use crate::{
    document::{Document, without_figures},
    process::{Running, fabricbench, run},
};

#[test]
fn no_arguments_show_what_there_is() {
    let finished = run("");
    assert_eq!(finished.code, Some(2));
    for command in ["serve", "run", "probe"] {
        assert!(finished.stderr.contains(command), "{}", finished.stderr);
    }
}

/// File names need not be UTF-8; what is recorded of the command line is then as near as may be.
#[test]
fn a_file_name_that_is_no_text_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsString::from_vec(b"r\xffsult".to_vec()));
    let mut command = fabricbench("run --transport tcp@loopback -s 8 -n 1 --output");
    Running::start(command.arg(&path)).end().quietly(0);
    Document::read(&std::fs::read_to_string(path).unwrap());
}

#[test]
fn messages_too_large_for_a_transport_are_told_from_failures() {
    let options = "run --format json --transport grpc@loopback,grpc-stock@loopback -n 1";
    let finished = run(&format!("{options} -s 5G,4294967296")).quietly(4);
    let document = Document::read(&finished.stdout);
    assert_eq!(document.cells().len(), 8);
    for cell in document.cells() {
        without_figures(cell, "unsupported", &["4294967295 B"]);
    }
    let finished = run("run --format json --transport tcp@loopback -s 18446744073709551615 -n 1");
    for cell in Document::read(&finished.quietly(4).stdout).cells() {
        without_figures(cell, "unsupported", &["18446744073709551615 B"]);
    }
}
