//! Files that hold anything at all.

use proptest::prelude::*;

use super::*;

/// Every file that is read.
fn files(host: &Host) -> Vec<PathBuf> {
    let mut directories = vec![host.root.path().to_owned()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// What kernels write, cut off, out of range, or nothing like it.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "[0-9]{1,30}".prop_map(String::into_bytes),
        "-?[0-9]{1,20}(\\.[0-9]{0,3})? ?(GT/s|Gb/sec|kB|:)?( \\([0-9]*X [A-Z]*\\)?)?"
            .prop_map(String::into_bytes),
        "(inf|nan|1e999|-0|max) ?[0-9-]{0,8}( GT/s| Gb/sec \\(4X HDR\\))?"
            .prop_map(String::into_bytes),
        "([0-9]{0,6}[-,:/ ]){0,8}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_files_hold_is_judged_without_a_panic(
        contents in prop::collection::vec((any::<prop::sample::Index>(), content()), 1..30),
        missing in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let host = Host::healthy();
        let files = files(&host);
        for (file, content) in &contents {
            fs::write(file.get(&files), content).unwrap();
        }
        for file in &missing {
            let _ = fs::remove_file(file.get(&files));
        }
        let found = host.findings();
        let shown = text(&found);
        prop_assert!(!shown.contains(|character: char| character.is_control() && character != '\n'));
        for finding in &found {
            let is_explained = finding.matters.is_some() && finding.mend.is_some();
            prop_assert_eq!(is_explained, finding.severity <= Severity::Advice);
            // Figures that are none must not be shown.
            prop_assert!(!finding.seen.contains("NaN"), "{:?}", finding);
        }
        let document = serde_json::to_string(&found).unwrap();
        let read: Vec<Finding> = serde_json::from_str(&document).unwrap();
        prop_assert_eq!(read, found);
    }
}

/// A directory where a file should be, a link to itself, and a file of many megabytes.
#[test]
fn what_is_no_file_is_absent() {
    let mut host = Host::healthy();
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    host.without(clock);
    fs::create_dir(host.path(clock)).unwrap();
    host.without("proc/self/limits");
    symlink("limits", host.path("proc/self/limits")).unwrap();
    host.file("proc/self/cgroup", &"0::/a\n".repeat(2 << 20));
    let found = host.findings();
    let unknown: Vec<_> = found
        .iter()
        .filter(|finding| finding.severity == Severity::Unknown)
        .map(|finding| finding.check)
        .collect();
    assert_eq!(unknown, [Check::LockedMemory, Check::ClockSource]);
}

/// Of a host that shows nothing nothing is known, neither good nor bad.
#[test]
fn without_proc_and_sys_nothing_is_claimed() {
    let mut host = Host::healthy();
    host.without("proc").without("sys");
    host.evidence.verbs = Err("no RDMA device".to_owned());
    let found = host.findings();
    for check in [
        Check::RdmaCore,
        Check::Device,
        Check::CpuLimit,
        Check::MemoryLimit,
        Check::Machine,
        Check::ClockSource,
    ] {
        let of_check: Vec<_> = found.iter().filter(|finding| finding.check == check).collect();
        let [finding] = of_check.as_slice() else { panic!("{check:?}: {found:#?}") };
        assert_eq!(finding.severity, Severity::Unknown, "{finding:?}");
    }
}
