//! Where the time of a call goes, on real connections: phases that add up, of the same calls on both sides,
//! and the trace of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use serde_json::Value;

use crate::{
    document::{Document, measured, number, without_figures},
    process::run,
};

const TRANSPORTS: [&str; 4] =
    ["tcp@loopback", "grpc@loopback", "grpc-stock@loopback", "grpc-lean@loopback"];

const TONIC: [&str; 9] =
    ["start", "encode", "queue", "write", "wire + peer", "read", "deliver", "decode", "finish"];
const LEAN: [&str; 8] =
    ["start", "encode", "queue", "write", "wire + peer", "read", "deliver + decode", "finish"];
const TCP: [&str; 5] = ["queue", "write", "wire + peer", "read", "finish"];

/// The names of phases, in their order.
fn names(phases: &Value) -> Vec<&str> {
    phases.as_array().unwrap().iter().map(|phase| phase["name"].as_str().unwrap()).collect()
}

/// What must hold of the phases of a cell whatever they are; returns the number of calls.
#[track_caller]
fn add_up(cell: &Value, one_in: u64) -> u64 {
    measured(cell);
    let phases = &cell["phases"];
    assert_eq!((&phases["one_in"], &phases["unit"]), (&one_in.into(), &"ns".into()), "{cell}");
    assert!(phases["contradictory"].is_null(), "{phases}");
    let samples = phases["samples"].as_u64().unwrap();
    let sum = |phases: &Value| -> f64 {
        let times = phases.as_array().unwrap().iter();
        times.map(|phase| number(&phase["mean"]) * number(&phase["samples"])).sum()
    };
    let whole = number(&phases["whole"]["mean"]) * samples as f64;
    let parts = sum(&phases["client"]);
    assert!((parts / whole - 1.0).abs() < 1e-9, "{parts} of {whole} ns: {phases}");
    let shares: f64 =
        phases["client"].as_array().unwrap().iter().map(|one| number(&one["share_percent"])).sum();
    assert!((shares - 100.0).abs() < 1e-6, "{shares} %: {phases}");
    // Each marked call lies within a round trip that was timed.
    let round_trips = if cell["latency"]["kind"] == "round-trip" { 1.0 } else { 2.0 };
    let longest = number(&cell["latency"]["max"]) * round_trips;
    assert!(number(&phases["whole"]["mean"]) <= longest, "{cell}");
    samples
}

/// The server's marks are of the same calls, and its part fits between the client's ends.
#[track_caller]
fn served(cell: &Value) {
    let (phases, server) = (&cell["phases"], &cell["phases"]["server"]);
    let (here, there) = (phases["samples"].as_u64().unwrap(), server["samples"].as_u64().unwrap());
    // The last call of each connection may end here before its server has noted so.
    let connections = cell["tcp"]["client"]["readings"].as_u64().unwrap();
    assert!(there <= here && there + connections >= here, "{there} of {here} calls: {cell}");
    let parts = &server["wire_and_peer"];
    let both = phases["client"].as_array().unwrap();
    let both = both.iter().find(|phase| phase["name"] == "wire + peer").unwrap();
    let sum = number(&parts["wire"]["mean"]) + number(&parts["peer"]["mean"]);
    if there == here && parts["overlapping"].is_null() {
        assert!((sum / number(&both["mean"]) - 1.0).abs() < 1e-9, "{cell}");
    }
}

fn measure(options: &str) -> Document {
    let plan = format!("run --format json --transport {} {options}", TRANSPORTS.join(","));
    Document::read(&run(&plan).quietly(0).stdout)
}

#[test]
fn phases_add_up_over_every_transport_and_are_of_the_same_calls_on_both_sides() {
    let document = measure(
        "--pattern latency,calls,ps -s 64,70000 -n 300 --rounds 2 -t 4 --workers 2 --servers 2 \
         --phases 3",
    );
    document.all_measured(&TRANSPORTS, &["latency", "calls", "ps"], &[64, 70_000]);
    for cell in document.cells() {
        let samples = add_up(cell, 3);
        let each = if cell["pattern"] == "ps" { 2 } else { 1 };
        // One in each block of three, less what is at the ends of warm-up, rounds and threads.
        assert!((each * 85..=each * 110).contains(&samples), "{samples}: {cell}");
        let (client, server): (&[&str], &[&str]) = match cell["transport"].as_str().unwrap() {
            "tcp@loopback" => (&TCP, &["read", "handler", "write"]),
            "grpc-lean@loopback" => (
                &LEAN,
                &[
                    "read",
                    "deliver + decode",
                    "dispatch",
                    "handler",
                    "return",
                    "encode",
                    "queue",
                    "write",
                ],
            ),
            _ => (
                &TONIC,
                &[
                    "read", "deliver", "decode", "dispatch", "handler", "return", "encode",
                    "queue", "write",
                ],
            ),
        };
        assert_eq!(names(&cell["phases"]["client"]), client, "{cell}");
        assert_eq!(names(&cell["phases"]["server"]["phases"]), server, "{cell}");
        served(cell);
    }
}

/// Calls of tensors have phases over gRPC, and a server that assigns says how long that takes: about what
/// the replies tell of it.
#[test]
fn the_assignment_of_tensors_is_a_phase() {
    let plan = "run --format json --transport grpc@loopback,grpc-lean@loopback \
                --pattern tensor --model resnet-50 -n 3 --rounds 1 -t 2 --servers 2 --assign \
                --phases 2";
    let document = Document::read(&run(plan).quietly(0).stdout);
    for cell in document.cells() {
        measured(cell);
        let phases = &cell["phases"];
        assert!(phases["contradictory"].is_null(), "{phases}");
        // Half of 161 tensors in each of 3 steps, less what is at the ends.
        assert!((225..=245).contains(&phases["samples"].as_u64().unwrap()), "{phases}");
        served(cell);
        let server = phases["server"]["phases"].as_array().unwrap();
        let handler = &server[names(&phases["server"]["phases"])
            .iter()
            .position(|name| matches!(*name, "assign" | "handler"))
            .unwrap()];
        if cell["pattern"] == "tensor-push" {
            assert_eq!(handler["name"], "assign");
            // In replies is the sum over a step's calls, 161 on both servers together.
            let told = number(&cell["tensors"]["assign"]["mean"]) / 161.0;
            let marked = number(&handler["mean"]);
            // Of different calls, some of which may have waited for a processor.
            assert!((0.1..10.0).contains(&(marked / told)), "{marked} of {told} ns: {cell}");
        } else {
            assert_eq!(handler["name"], "handler");
        }
    }
}

#[test]
fn what_is_not_seen_is_joined_and_said() {
    let plan = "run --transport grpc@loopback --pattern latency,calls -s 1000 -n 200 --rounds 1 -t 4 \
                --phases 2 --sweep serialized=no,yes --sweep tls=no,yes --format json";
    let document = Document::read(&run(plan).quietly(0).stdout);
    assert_eq!(document.cells().len(), 8);
    for cell in document.cells() {
        add_up(cell, 2);
        let (client, server) =
            (names(&cell["phases"]["client"]), &cell["phases"]["server"]["phases"]);
        if cell["variant"]["tls"] == "no" {
            assert_eq!(client, TONIC);
            served(cell);
            continue;
        }
        let sealed = "queue + write + wire + peer + read + deliver";
        assert_eq!(client, ["start", "encode", sealed, "decode", "finish"]);
        assert_eq!(names(server), ["decode", "dispatch", "handler", "return", "encode"]);
        assert!(cell["phases"]["notes"][0].as_str().unwrap().contains("TLS"), "{cell}");
        assert!(cell["phases"]["server"]["wire_and_peer"].is_null());
    }
}

#[test]
fn every_connection_of_every_thread_is_marked() {
    let document = measure(
        "--pattern calls -s 64 -n 400 --rounds 1 -t 2 --threads 2 --connections 3 --phases 1",
    );
    for cell in document.cells() {
        // All but what was under way when the warm-up of a thread ended.
        let samples = add_up(cell, 1);
        assert!((380..=400).contains(&samples), "{samples}: {cell}");
        served(cell);
    }
}

#[test]
fn a_sweep_shows_what_marking_costs() {
    let document =
        measure("--pattern latency,bandwidth -s 64 -n 100 --rounds 1 --sweep phases=no,yes,1");
    for cell in document.cells() {
        measured(cell);
        match cell["variant"]["phases"].to_string().as_str() {
            "1" => assert!(add_up(cell, 1) > 90, "{cell}"),
            "\"yes\"" => assert!(add_up(cell, 8) > 8, "{cell}"),
            unmarked => {
                let push = cell["pattern"] == "bandwidth";
                assert_eq!(unmarked, if push { "null" } else { "\"no\"" });
                assert!(cell["phases"].is_null(), "{cell}");
            }
        }
    }
}

#[test]
fn what_has_no_calls_is_refused_by_name() {
    let refused = run("run --transport tcp@lo,verbs-send --pattern bandwidth -s 64 -n 5 --phases");
    refused.failed(2, &["--phases", "in the pattern bandwidth", "--sweep phases=yes"]);
    let finished = run(
        "run --transport tcp@lo --pattern latency,bandwidth -s 64 -n 50 --format json --phases",
    );
    assert_eq!(finished.code, Some(3), "{finished:?}");
    let document = Document::read(&finished.stdout);
    add_up(document.cell("tcp@loopback", "latency", 64), 8);
    let push = document.cell("tcp@loopback", "bandwidth", 64);
    without_figures(push, "unsupported", &["no calls whose phases are seen"]);
    run("run --transport tcp@lo --phases node2").failed(2, &["node2", "behind the host"]);
}

#[test]
fn calls_that_are_too_few_to_be_marked_are_told() {
    let plan = "run --transport tcp@lo --pattern latency,calls -s 8 -n 40 --rounds 1";
    let document = Document::read(
        &run(&format!("{plan} --sweep phases=no,1,100000 --format json")).quietly(0).stdout,
    );
    let warnings = document.0["warnings"].to_string();
    assert!(warnings.contains("in 2 of 4 cells no call was marked (--phases 100000"), "{warnings}");
    assert!(!run(&format!("{plan} --phases=1")).quietly(0).stdout.contains("no call was marked"));
}

#[test]
fn tables_show_the_phases() {
    let plan = "run --transport tcp@lo,grpc@lo,grpc-lean@lo --pattern latency -s 64,4K -n 400 --rounds 1 \
                --phases 2";
    for format in ["table", "long"] {
        let text = run(&format!("{plan} --format {format}")).quietly(0).stdout;
        for size in ["64 B", "4 KiB"] {
            assert!(text.contains(&format!("phases of latency {size}: ")), "{text}");
        }
        let rows: Vec<_> = text.lines().filter_map(|line| line.split("  ").next()).collect();
        for row in
            ["whole", "start", "wire + peer", "deliver", "deliver + decode", "server: handler"]
        {
            assert!(rows.contains(&row), "no {row} in {text}");
        }
        assert!(text.contains("  of it wire") && text.contains("  of it peer"), "{text}");
        // In the order of a call, whatever the first column has.
        let place = |name| rows.iter().position(|row| *row == name).unwrap();
        assert!(place("start") < place("queue") && place("queue") < place("write"), "{text}");
    }
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fabricbench-{}-{name}", std::process::id()))
}

/// The rules of the Trace Event Format as far as complete events and metadata go, and that events of one
/// track lie one within the other or apart, without which viewers show nonsense.
#[track_caller]
fn check_trace(trace: &Value) -> Vec<&Value> {
    assert_eq!(trace["displayTimeUnit"], "ns");
    let events = trace["traceEvents"].as_array().unwrap();
    let mut named = BTreeSet::new();
    let mut tracks: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
    let mut complete = Vec::new();
    for event in events {
        let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let name = event["name"].as_str().unwrap();
        assert!(!name.is_empty(), "{event}");
        if event["ph"] == "M" {
            assert!(["process_name", "thread_name"].contains(&name), "{event}");
            assert!(event["args"]["name"].as_str().is_some_and(|name| !name.is_empty()), "{event}");
            assert!(named.insert((name, track)), "twice: {event}");
            continue;
        }
        assert_eq!(event["ph"], "X", "{event}");
        let [begin, time] =
            ["ts", "dur"].map(|field| (number(&event[field]) * 1000.0).round() as i64);
        assert!(begin >= 0 && time >= 0, "{event}");
        for field in ["transport", "pattern", "size", "call"] {
            assert!(!event["args"][field].is_null(), "no {field} in {event}");
        }
        tracks.entry(track).or_default().push((begin, begin + time));
        complete.push(event);
    }
    for (track, mut spans) in tracks {
        assert!(named.contains(&("thread_name", track)), "{track:?}");
        assert!(named.contains(&("process_name", (track.0, 0))), "{track:?}");
        spans.sort_by_key(|&(begin, end)| (begin, std::cmp::Reverse(end)));
        let mut open: Vec<(i64, i64)> = Vec::new();
        for (begin, end) in spans {
            open.retain(|outer| outer.1 > begin || (outer.1 == begin && end == begin));
            assert!(
                open.iter().all(|outer| end <= outer.1),
                "{track:?}: {begin} to {end}: {open:?}"
            );
            open.push((begin, end));
        }
    }
    complete
}

#[test]
fn a_trace_holds_calls_of_every_cell_with_their_phases() {
    let (trace, document) = (file("trace.json"), file("document.json"));
    let plan = format!(
        "run --transport {} --pattern latency,calls -s 64,4K -n 300 --rounds 2 -t 4 \
         --sweep phases=no,1 --trace {} -o {}",
        TRANSPORTS.join(","),
        trace.display(),
        document.display()
    );
    run(&plan).quietly(0);
    let text = fs::read_to_string(&trace).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let events = check_trace(&value);
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    let mut times: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for event in events {
        let args = &event["args"];
        let cell = format!("{} {} {}", args["transport"], args["pattern"], args["size"]);
        let name = event["name"].as_str().unwrap();
        let side = event["pid"].as_u64().unwrap();
        let call = format!("{side} {cell} {} {}", args["round"], args["call"]);
        let entry = times.entry(call).or_default();
        if name.contains("loopback") {
            *calls.entry(format!("{side} {cell}")).or_default() += 1;
            entry.0 += number(&event["dur"]);
            assert_eq!(args["placed"].is_string(), side == 2, "{event}");
        } else {
            entry.1 += number(&event["dur"]);
        }
    }
    // Client and server of 4 transports, 2 patterns and 2 sizes; up to 64 calls of each of two rounds.
    assert_eq!(calls.len(), 32, "{calls:?}");
    assert!(calls.values().all(|count| (60..=128).contains(count)), "{calls:?}");
    for (call, (whole, parts)) in times {
        assert!((whole - parts).abs() < 1e-6 * whole.max(1.0), "{call}: {whole} of {parts} us");
    }
    for path in [trace, document] {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_trace_that_cannot_be_is_refused_before_anything_is_measured() {
    let plan = "run --transport tcp@lo --pattern latency -s 8 -n 20";
    run(&format!("{plan} --trace x.json")).failed(2, &["--trace", "--phases"]);
    let refused = run(&format!("{plan} --phases --trace /nowhere/x.json"));
    refused.failed(1, &["/nowhere/x.json", "another place with --trace"]);
    for output in ["x.json", "./x.json", "../bench/x.json"] {
        run(&format!("{plan} --phases --trace x.json -o {output}")).failed(2, &["each its own"]);
    }
}

#[test]
fn a_run_that_does_not_begin_leaves_the_trace_of_an_earlier_one() {
    let (earlier, new) = (file("earlier.json"), file("new.json"));
    fs::write(&earlier, "a trace that is longer than the next, which is empty of calls").unwrap();
    for trace in [&earlier, &new] {
        let plan =
            "run 127.0.0.1 --port 1 --transport tcp@lo --pattern latency -s 8 -n 20 --phases";
        run(&format!("{plan} --trace {}", trace.display())).failed(1, &["127.0.0.1:1"]);
    }
    assert!(fs::read_to_string(&earlier).unwrap().starts_with("a trace that is longer"));
    assert!(!new.exists());
    // And so does one that measures nothing, or marks no call of what it measures.
    for (options, code) in [("tcp@nowhere0 --phases=1", 4), ("tcp@lo --phases=1000000", 0)] {
        for trace in [&earlier, &new] {
            let trace = trace.display();
            let plan = format!("run --transport {options} --pattern latency -s 8 -n 20");
            run(&format!("{plan} --trace {trace}")).failed(code, &["--trace", "no call"]);
        }
        assert!(fs::read_to_string(&earlier).unwrap().starts_with("a trace that is longer"));
        assert!(!new.exists());
    }
    // One that begins replaces all of it.
    fs::write(&earlier, " ".repeat(1 << 20) + "an end").unwrap();
    let plan = "run --transport tcp@lo --pattern latency -s 8 -n 20 --rounds 1 --phases 1";
    run(&format!("{plan} --trace {}", earlier.display())).quietly(0);
    check_trace(&serde_json::from_str(&fs::read_to_string(&earlier).unwrap()).unwrap());
    fs::remove_file(earlier).unwrap();
}
