//! Messages made of several buffers: what the rows say of them, and that all of them arrive.

use serde_json::Value;

use crate::{
    document::{Document, measured, proven_by_interface, without_figures},
    process::run,
};

const TRANSPORTS: &str = "tcp@loopback,grpc@loopback,grpc-stock@loopback,grpc-lean@loopback";

fn buffered(options: &str) -> Document {
    let finished = run(&format!("run --format json --transport {TRANSPORTS} {options}"));
    Document::read(&finished.quietly(0).stdout)
}

fn lengths(cell: &Value) -> Vec<u64> {
    let lengths = cell["buffers"]["lengths"].as_array().unwrap();
    lengths.iter().map(|length| length.as_u64().unwrap()).collect()
}

#[test]
fn every_scheme_arrives_whole_in_every_pattern() {
    let document = buffered(
        "--pattern latency,bandwidth,fetch,calls,rate --buffers 10:uniform --buffers 10:random \
         --buffers 10:skew --buffers 3x64K+10 -n 9 --rounds 1 --seed 5 --timeout 1m",
    );
    assert_eq!(document.cells().len(), 4 * 5 * 4);
    let (small, medium, large) = (10, 10 << 10, 1 << 20);
    for cell in document.cells() {
        measured(cell);
        proven_by_interface(cell);
        assert!(cell["payload"]["verified_messages"].as_u64().unwrap() >= 1, "{cell}");
        assert_eq!(cell["payload"]["corrupt_messages"], 0, "{cell}");
        let lengths = lengths(cell);
        assert_eq!(lengths.iter().sum::<u64>(), cell["size"].as_u64().unwrap());
        let count = |size| lengths.iter().filter(|&&length| length == size).count();
        let counts = (count(small), count(medium), count(large));
        match cell["buffers"]["shape"].as_str().unwrap() {
            "10:uniform" => assert_eq!(counts, (4, 3, 3)),
            "10:skew" => assert_eq!(counts, (1, 3, 6)),
            "10:random" => assert_eq!(counts.0 + counts.1 + counts.2, 10),
            "3x64K+10" => assert_eq!(lengths, [64 << 10, 64 << 10, 64 << 10, 10]),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn an_even_split_stands_beside_other_shapes_at_every_size() {
    let document = buffered("--pattern bandwidth --buffers 1 --buffers 100 -s 100,1000 -n 50");
    assert_eq!(document.cells().len(), 4 * 2 * 2);
    for cell in document.cells() {
        measured(cell);
        let (size, lengths) = (cell["size"].as_u64().unwrap(), lengths(cell));
        match cell["buffers"]["shape"].as_str().unwrap() {
            "1" => assert_eq!(lengths, [size]),
            _ => assert_eq!(lengths, [size / 100; 100]),
        }
    }
    assert!(buffered("--pattern rate -s 8 -n 9").cells()[0]["buffers"].is_null());
}

#[test]
fn the_random_scheme_follows_the_seed() {
    let drawn = |seed: u64| {
        let document = buffered(&format!(
            "--pattern rate --buffers 12:random:s=1,m=2,l=3 -n 3 --rounds 1 --seed {seed}"
        ));
        lengths(&document.cells()[0])
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn every_format_says_which_buffers() {
    let plan =
        "run --transport tcp@loopback --pattern rate --buffers 2x3+4 --buffers 5 -s 10 -n 20";
    for (format, words) in [
        ("table", &["10 B in 2x3+4", "10 B in 5"][..]),
        ("long", &["10 B in 2x3+4"]),
        ("csv", &[",buffers,", ",2x3+4,", ",5,"]),
    ] {
        let shown = run(&format!("{plan} --format {format}")).quietly(0).stdout;
        assert!(words.iter().all(|word| shown.contains(word)), "{shown}");
    }
}

#[test]
fn what_has_one_buffer_is_unsupported_by_name() {
    let finished = run(
        "run --transport verbs-read,tcp@lo --pattern latency,bidirectional,fetch --buffers 2 -s 1,64 \
         -n 5 --format json",
    );
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let document = Document::read(&finished.stdout);
    let refused = |transport, pattern, size, words: &[&str]| {
        without_figures(document.cell(transport, pattern, size), "unsupported", words);
    };
    refused(
        "verbs-read",
        "latency",
        64,
        &["verbs-read has its message in one buffer", "--buffers"],
    );
    refused("tcp@loopback", "bidirectional", 64, &["tcp@loopback has its message in one buffer"]);
    refused("tcp@loopback", "fetch", 1, &["1 B are too few for 2 buffers"]);
    measured(document.cell("tcp@loopback", "fetch", 64));
}

#[test]
fn a_size_is_not_given_twice_and_a_shape_is_read_or_refused() {
    for (options, words) in [
        ("--buffers 10:skew -s 64", &["makes up a size of its own"][..]),
        ("--buffers 10:skew -a", &["makes up a size of its own"]),
        ("--buffers 10:normal", &["10:normal", "uniform, random, skew"]),
        ("--buffers 2000", &["from 1 to 1024"]),
        ("--buffers 2 -s 1 --transport tcp@lo", &["1 B are too few"]),
    ] {
        let refused = run(&format!("run {options}"));
        assert_eq!(refused.code, Some(2), "{options}: {refused:?}");
        assert!(words.iter().all(|word| refused.stderr.contains(word)), "{refused:?}");
    }
}
