//! `fabricbench diagnose` on one host.

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::{
    process::Signal,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use serde_json::Value;

use crate::{
    document::Document,
    process::{Running, fabricbench, run},
};

const QUICK: &str = "-s 256K --tensor 1M -D 0.4s --rounds 2 --connections 1,2";

#[test]
fn a_host_by_itself_is_diagnosed_over_loopback() {
    let finished = run(&format!("diagnose {QUICK} --format json")).quietly(0);
    let diagnosis: Value = serde_json::from_str(&finished.stdout).unwrap();
    let steps = diagnosis["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 7);
    for step in steps {
        assert_eq!(step["status"], "measured", "{step}");
        let share = step["share_of_line"].as_f64().unwrap();
        assert!(share > 0.0 && share.is_finite(), "{step}");
    }
    assert!(!diagnosis["verdict"].as_array().unwrap().is_empty());
    assert_eq!(diagnosis["document"]["schema"], "fabricbench/1");
    let text = run(&format!("diagnose {QUICK}")).quietly(0).stdout;
    for words in
        ["path: lo 127.0.0.1", "gRPC serialized", "tensors of 1 MiB", "\nverdict: ", "of TCP"]
    {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
}

#[test]
fn a_verdict_on_a_part_of_the_steps_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    // A message of gRPC has up to 4 GiB.
    let plan = "diagnose -s 64K --tensor 5G -D 50ms --rounds 1 --connections 1 --line-rate 10G -o";
    let finished = Running::start(fabricbench(plan).arg(&path)).end().quietly(3);
    assert!(finished.stdout.contains("\nverdict: from 4 of 5 steps: "), "{}", finished.stdout);
    assert!(finished.stdout.contains("of line"), "{}", finished.stdout);
    assert_eq!(Document::read(&std::fs::read_to_string(&path).unwrap()).count("measured"), 4);

    let plan =
        "diagnose -s 64K --tensor 1M -D 1s --rounds 1 --connections 1,2,4 --progress lines -o";
    let client = Running::start(fabricbench(plan).arg(&path));
    client.says(|text| (text.contains("tcp@loopback[") && text.ends_with('\n')).then_some(()));
    client.signal(Signal::INT);
    let finished = client.end();
    assert_eq!(finished.code, Some(130), "{finished:?}");
    let words = "of 9 steps of a run that was cut short: ";
    assert!(finished.stdout.contains(words), "{}", finished.stdout);
    assert_eq!(Document::read(&std::fs::read_to_string(&path).unwrap()).0["complete"], false);
}

/// Others run where the server does.
#[test]
fn a_processor_that_is_shared_is_named() {
    let usable = sched_getaffinity(None).unwrap();
    let processors: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| usable.is_set(cpu)).collect();
    let [client, .., server] = processors[..] else {
        eprintln!("skipped: there is one processor only");
        return;
    };
    let over = AtomicBool::new(false);
    let finished = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut one = CpuSet::new();
                one.set(server);
                sched_setaffinity(None, &one).unwrap();
                while !over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let options = format!("--cpus {client}:{server} --timeout 1m --format json");
        let finished = run(&format!("diagnose {QUICK} {options}"));
        over.store(true, Ordering::Relaxed);
        finished
    });
    let diagnosis: Value = serde_json::from_str(&finished.quietly(0).stdout).unwrap();
    let first = &diagnosis["verdict"][0];
    assert_eq!(first["cause"], "processor", "{diagnosis:#}");
    assert!(first["text"].as_str().unwrap().contains("others run there"), "{first}");
}
