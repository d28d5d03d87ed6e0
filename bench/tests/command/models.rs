//! The tensors of models that come with the program.

use std::{fs, path::Path, process::Command};

use crate::process::run;

/// The script and the files are kept together: neither is changed without the other.
#[test]
fn the_files_are_what_the_script_writes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = tempfile::tempdir().unwrap();
    let script = root.join("../ci/model-tensors");
    let ended = Command::new(&script).arg(made.path()).output().unwrap_or_else(|error| {
        panic!("{}: {error}; it needs python3 (ci/packages peers)", script.display())
    });
    assert!(ended.status.success(), "{ended:?}");
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let kept = root.join("models");
    assert_eq!(names(made.path()), names(&kept));
    for name in names(&kept) {
        let [made, kept] = [made.path(), &kept].map(|place| fs::read(place.join(&name)).unwrap());
        assert!(made == kept, "{} is not what ci/model-tensors writes", name.display());
    }
}

#[test]
fn are_listed_with_what_they_hold_and_where_they_are_published() {
    let list = run("models").quietly(0).stdout;
    for row in [
        &["alexnet", "16", "61100840", "float32", "244403360", "144 MiB"][..],
        &["resnet-50", "161", "25557032", "float32", "102228128", "9 MiB"],
        &["llama-7b", "291", "6738415616", "float16", "13476831232", "250 MiB"],
    ] {
        let found = list.lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words == row.join(" ").split(' ').collect::<Vec<_>>()
        });
        assert!(found, "no {row:?} in:\n{list}");
    }
    assert!(list.contains("resnet-50: ResNet-50. He, Zhang, Ren and Sun"), "{list}");
}

#[test]
fn are_printed_as_the_files_they_are() {
    let printed = run("models gpt-2").quietly(0).stdout;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/gpt-2.json");
    assert_eq!(printed, fs::read_to_string(file).unwrap());
}
