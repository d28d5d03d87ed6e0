//! Hosts without RDMA: the program starts all the same, and says what is missing.
#![allow(missing_docs)]

use std::process::Command;

use fabricbench_verbs::{Error, devices, open};

/// Set in the process that runs without the library.
const WITHOUT_LIBRARY: &str = "FABRICBENCH_TEST_WITHOUT_LIBRARY";

#[test]
fn without_the_library_the_program_runs_and_names_the_package() {
    if std::env::var_os(WITHOUT_LIBRARY).is_some() {
        let error = devices().unwrap_err();
        assert!(matches!(error, Error::LibraryAbsent) && error.is_absence(), "{error}");
        assert!(matches!(open(Some("rxe0"), Some(1)), Err(Error::LibraryAbsent)));
        let text = error.to_string();
        assert!(text.contains("libibverbs1") && text.lines().count() == 1, "{text}");
        return;
    }
    // The loader finds this file first and cannot use it, wherever the real one is.
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("libibverbs.so.1"), "").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "without_the_library_the_program_runs_and_names_the_package"])
        .env(WITHOUT_LIBRARY, "1")
        .env("LD_LIBRARY_PATH", directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_host_has_devices_or_says_why_not() {
    match devices() {
        Ok(devices) => assert!(!devices.is_empty()),
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
