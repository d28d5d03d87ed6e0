//! The published schema of the result document, and results that it must fit.

use std::fs;

use fabricbench::report::Document;
use serde_json::Value;

use crate::process::run;

fn published() -> Value {
    serde_json::from_str(&run("schema").quietly(0).stdout).unwrap()
}

#[track_caller]
fn fits(result: &Value) {
    let schema = jsonschema::validator_for(&published()).unwrap();
    let errors: Vec<_> = schema
        .iter_errors(result)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_published_file_is_the_schema_of_this_version() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/result.schema.json");
    let schema = run("schema").quietly(0).stdout;
    assert_eq!(
        fs::read_to_string(kept).unwrap(),
        schema,
        "run `fabricbench schema > docs/result.schema.json`"
    );
}

#[test]
fn results_of_every_kind_fit_it() {
    for plan in [
        "--pattern latency,bandwidth,bidirectional,fetch,rate -s 8,4K -n 50 --transport \
         tcp@loopback,grpc@loopback,grpc-lean@loopback,verbs-write",
        "--pattern calls,ps -s 64 -n 50 --transport tcp@loopback,grpc@loopback --phases 4 --rounds 3",
        "--pattern calls -s 64 -n 30 --transport tcp@loopback --sweep rate=500,1000 --sweep \
         arrivals=constant,poisson",
        "--pattern latency -s 64 -D 300ms --rounds 3 --transport tcp@loopback --precision 50% --sweep \
         threads=1,2",
        "--pattern latency --buffers 3x1K+10 -n 30 --transport grpc@loopback",
    ] {
        let finished = run(&format!("run --format json {plan}"));
        fits(&serde_json::from_str(&finished.stdout).unwrap());
    }
}

/// What an earlier version wrote is read, and said to fit.
#[test]
fn a_recorded_result_of_an_earlier_version_is_read() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");
    let mut read = 0;
    for entry in fs::read_dir(recorded).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        fits(&serde_json::from_str(&text).unwrap());
        let document: Document = serde_json::from_str(&text).unwrap();
        assert!(document.cells.iter().any(|cell| cell.latency.is_some()));
        read += 1;
    }
    assert!(read > 0);
}

#[test]
fn what_is_no_result_does_not_fit() {
    let schema = jsonschema::validator_for(&published()).unwrap();
    let mut result: Value =
        serde_json::from_str(&run("run --format json --transport tcp@lo -s 8 -n 5").stdout)
            .unwrap();
    assert!(schema.is_valid(&result));
    for (place, wrong) in [
        ("/cells/0/pattern", Value::from("pull")),
        ("/cells/0/transport", Value::from("pigeon")),
        ("/cells/0/size", Value::from(-1)),
        ("/plan/rounds", Value::from("three")),
    ] {
        let right = std::mem::replace(result.pointer_mut(place).unwrap(), wrong);
        assert!(!schema.is_valid(&result), "{place}");
        *result.pointer_mut(place).unwrap() = right;
    }
}
