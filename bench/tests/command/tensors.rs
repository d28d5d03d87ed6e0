//! The tensors of models, pushed and fetched: each moves, where it belongs, and is looked at.

use std::fs;

use serde_json::{Value, json};

use crate::{
    document::{Document, measured, number, proven_by_interface, without_figures},
    process::run,
};

const TRANSPORTS: [&str; 4] =
    ["tcp@loopback", "grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback"];

/// Bytes of the tensors of [`Own`].
const LENGTHS: [u64; 6] = [60, 4, 120_000, 280_004, 4_000, 120_000];
const SIZE: u64 = 524_068;

/// A model's file of one's own.
struct Own(tempfile::NamedTempFile);

impl Own {
    fn new() -> Self {
        let shapes = [json!([3, 5]), json!([]), json!([300, 100]), json!([70_001]), json!([1000])];
        let tensor =
            |(index, shape): (usize, &Value)| json!({ "name": index.to_string(), "shape": shape });
        let tensors: Vec<_> = shapes.iter().chain(&shapes[2..3]).enumerate().map(tensor).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = json!({ "model": "own", "element_bytes": 4, "tensors": tensors });
        fs::write(file.path(), text.to_string()).unwrap();
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// Measures it over every transport there is.
    fn run(&self, options: &str) -> Document {
        let (model, transports) = (self.path(), TRANSPORTS.join(","));
        let line = format!("run --format json --transport {transports} --model {model} {options}");
        Document::read(&run(&line).quietly(0).stdout)
    }
}

fn steps(cell: &Value) -> u64 {
    let count = |name: &str| cell["settings"][name].as_u64().unwrap();
    count("messages") + count("warm_up_messages")
}

#[test]
fn every_worker_moves_every_tensor_to_and_from_its_server() {
    let own = Own::new();
    let document = own.run("--pattern tensor -n 60 --servers 2 --workers 3 -t 2");
    document.all_measured(&TRANSPORTS, &["tensor-push", "tensor-fetch"], &[SIZE]);
    for cell in document.cells() {
        proven_by_interface(cell);
        assert_eq!(cell["tensors"]["model"], "own");
        assert_eq!(cell["tensors"]["lengths"], json!(LENGTHS));
        // The largest, 280,004 B, is alone against all others.
        let servers = json!([
            { "tensors": [3], "bytes": 280_004, "calls": 1 },
            { "tensors": [0, 1, 2, 4, 5], "bytes": 244_064, "calls": 5 },
        ]);
        assert_eq!(cell["tensors"]["servers"], servers, "{cell}");
        assert_eq!(cell["tensors"]["coalesce"], "no");
        assert!(cell["tensors"]["assign"].is_null(), "{cell}");
        assert_eq!(
            (&cell["settings"]["depth"], &cell["settings"]["messages"]),
            (&2.into(), &60.into())
        );
        // In each round each worker's, or of a fetch each worker, looks at every tensor.
        assert_eq!(cell["payload"]["verified_messages"], 3 * 3 * LENGTHS.len(), "{cell}");
        for side in ["client", "server"] {
            assert_eq!(cell["tcp"][side]["connections"], 6, "{cell}");
        }
        let way =
            if cell["pattern"] == "tensor-push" { "payload_tx_bytes" } else { "payload_rx_bytes" };
        assert_eq!(cell["counters"]["proof"][way], steps(cell) * SIZE, "{cell}");
    }
}

#[test]
fn tensors_are_coalesced_and_assigned_as_swept() {
    let own = Own::new();
    let document = own.run(
        "--pattern tensor -n 20 --rounds 1 --sweep coalesce=no,all,118K --sweep assign=no,yes",
    );
    assert_eq!(document.cells().len(), TRANSPORTS.len() * 2 * 3 * 2);
    for cell in document.cells() {
        measured(cell);
        let (coalesce, assigned) =
            (&cell["variant"]["coalesce"], cell["variant"]["assign"] == "yes");
        let calls = match coalesce.as_str() {
            Some("no") => 6,
            Some("all") => 1,
            // 60 + 4 + 120,000 B, 280,004 B, and 4,000 + 120,000 B are over the 120,832 B.
            _ => 4,
        };
        assert_eq!(cell["tensors"]["servers"][0]["calls"], calls, "{cell}");
        let assign = &cell["tensors"]["assign"];
        assert_eq!(assign.is_object(), assigned, "{cell}");
        // Those that arrive first, and what is in their places at the end.
        let looks = if assigned { 2 } else { 1 };
        assert_eq!(cell["payload"]["verified_messages"], looks * LENGTHS.len(), "{cell}");
        if assigned {
            let side = if cell["pattern"] == "tensor-push" { "server" } else { "client" };
            assert_eq!(assign["side"], side);
            assert_eq!(assign["samples"], steps(cell), "{cell}");
            let part = number(&assign["mean"]) / number(&cell["latency"]["max"]);
            assert!(part > 0.0 && part < 1.0, "a part of the step: {cell}");
        }
    }
}

#[test]
fn serialized_and_encrypted_over_grpc() {
    let own = Own::new();
    let line = "run --format json --transport grpc@lo,grpc-stock@lo --pattern tensor -n 9 --rounds 1 --coalesce 200K";
    let options = format!("{line} --model {} --assign --serialized --tls --servers 2", own.path());
    let document = Document::read(&run(&options).quietly(0).stdout);
    for cell in document.cells() {
        measured(cell);
        assert_eq!(
            cell["variant"],
            json!({ "serialized": "yes", "tls": "yes", "assign": "yes", "coalesce": "204800" })
        );
        assert_eq!(cell["payload"]["verified_messages"], 2 * LENGTHS.len(), "{cell}");
    }
}

#[test]
fn a_real_model_beside_ones_own() {
    let own = Own::new();
    let line = "run --format json --transport tcp@lo,grpc@lo --pattern tensor -n 1 --rounds 1 --timeout 1m";
    let options = format!("{line} --model resnet-50,{} --coalesce 25M --servers 2", own.path());
    let document = Document::read(&run(&options).quietly(0).stdout);
    document.all_measured(
        &["tcp@loopback", "grpc@loopback"],
        &["tensor-push", "tensor-fetch"],
        &[102_228_128, SIZE],
    );
    let cell = document.cell("grpc@loopback", "tensor-fetch", 102_228_128);
    assert_eq!(cell["tensors"]["lengths"].as_array().unwrap().len(), 161);
    assert_eq!(cell["payload"]["verified_messages"], 161);
    for server in cell["tensors"]["servers"].as_array().unwrap() {
        // 51 MB in buckets of 26 MB.
        assert!((2..=4).contains(&server["calls"].as_u64().unwrap()), "{server}");
    }
}

#[test]
fn every_face_names_the_model() {
    let own = Own::new();
    let line = format!("run --transport tcp@lo,grpc@lo --model {} -n 40 --assign", own.path());
    let table = run(&format!("{line} --pattern tensor")).quietly(0).stdout;
    let titles = [
        "tensor-push: MB/s (10^6 bytes of tensors a second) of 1 worker(s) to 1 parameter server(s)",
        "tensor-fetch: MB/s (10^6 bytes of tensors a second) of 1 worker(s) from 1 parameter server(s)",
        ", assignment (sum over servers)\n",
        "524068 B of own",
    ];
    assert!(titles.iter().all(|title| table.contains(title)), "{table}");
    for (format, word) in [("long", "524068 B of own"), ("csv", ",own,"), ("perftest", "524068")] {
        let shown =
            run(&format!("{line} --pattern tensor-push --format {format}")).quietly(0).stdout;
        assert!(shown.contains(word), "{shown}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (own, wrong) = (Own::new(), tempfile::NamedTempFile::new().unwrap());
    let (own, wrong) = (own.path(), wrong.path().to_str().unwrap());
    for (options, word) in [
        ("--pattern tensor".to_owned(), "give --model with one or more of alexnet, vgg-16"),
        ("--model resnet-50".to_owned(), "give --pattern tensor"),
        ("--coalesce".to_owned(), "give --pattern tensor"),
        ("--pattern tensor --model resnet".to_owned(), "`resnet` is neither a file nor a model"),
        (format!("--pattern tensor --model {wrong}"), "not a model"),
        (format!("--pattern tensor --model {own},{own}"), "model own is named twice"),
        (format!("--pattern tensor --model {own} -s 8"), "--sizes"),
        (format!("--pattern tensor --model {own} --buffers 2"), "--coalesce"),
        (format!("--pattern tensor --model {own} --reply-size 2"), "--pattern calls or ps"),
        (format!("--pattern tensor --model {own} --coalesce 4Q"), "25M"),
        (format!("--pattern tensor --model {own} --sweep coalesce=no,4Q"), "25M"),
        (format!("--pattern tensor --model {own} --servers 7"), "--servers 6"),
        (format!("--pattern tensor --model {own} --workers 3 --threads 2"), "give --workers"),
        (
            format!("--pattern tensor --model {own} --transport tcp@lo --connections 2"),
            "give --workers",
        ),
        (
            format!("--pattern tensor --model {own} --transport verbs-send"),
            "not measured in the pattern tensor-push",
        ),
        (
            "--pattern tensor-push --model llama-7b --coalesce --transport grpc@lo".to_owned(),
            "4294967295 B is the longest message of gRPC",
        ),
    ] {
        run(&format!("run {options}")).failed(2, &[word]);
    }
}

#[test]
fn a_model_beyond_the_memory_is_unsupported_with_what_it_takes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let tensors: Vec<_> =
        (0..256).map(|name| json!({ "name": name.to_string(), "shape": [1u64 << 32] })).collect();
    let text = json!({ "model": "huge", "element_bytes": 1, "tensors": tensors });
    fs::write(file.path(), text.to_string()).unwrap();
    let line = "run --format json --transport tcp@lo,verbs-write --pattern tensor-push --model";
    let finished = run(&format!("{line} {}", file.path().display()));
    assert_eq!(finished.code, Some(4), "{finished:?}");
    let document = Document::read(&finished.stdout);
    let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let no_memory = format!("no memory on {here} for a step of model huge (");
    let words = [no_memory.as_str(), "are available", "1099511627776 B for tensors"];
    without_figures(document.cell("tcp@loopback", "tensor-push", 1 << 40), "unsupported", &words);
    let words = ["verbs-write is not measured in the pattern tensor-push"];
    without_figures(document.cell("verbs-write", "tensor-push", 1 << 40), "unsupported", &words);
}
