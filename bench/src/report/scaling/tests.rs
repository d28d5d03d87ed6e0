//! Made documents whose truth is known.

use serde_json::{Value, json};

use super::*;
use crate::stats::made::Random;

/// A cell whose rounds took `times` nanoseconds a message.
fn cell(transport: &str, pattern: &str, size: u64, times: &[f64]) -> Value {
    let time = times.iter().sum::<f64>() / times.len() as f64;
    let round = |(round, time): (usize, &f64)| json!({"round": round, "messages": 1000, "elapsed_ns": (time * 1e3) as u64, "p50": time});
    let rounds: Vec<_> = times.iter().enumerate().map(round).collect();
    let mut cell = json!({
        "transport": transport, "pattern": pattern, "size": size, "status": "measured", "reason": null,
        "throughput": {"bytes_per_s": size as f64 * 1e9 / time, "messages_per_s": 1e9 / time},
        "rounds": rounds
    });
    if pattern == "latency" {
        cell["latency"] = json!({
            "unit": "ns", "kind": "half-round-trip", "samples": 3000, "min": time, "max": time, "mean": time,
            "p50": time, "p50_interval_95": [time * 0.999, time * 1.001]
        });
    }
    cell
}

fn document(cells: Vec<Value>) -> Document {
    let mut transports: Vec<Value> = Vec::new();
    for cell in &cells {
        if !transports.contains(&cell["transport"]) {
            transports.push(cell["transport"].clone());
        }
    }
    serde_json::from_value(json!({
        "schema": "fabricbench/1", "fabricbench": "0", "complete": true, "started_unix_s": 0,
        "command": [], "server": null, "warnings": [], "cells": cells,
        "client": {"hostname": "made", "fabricbench": "0"},
        "plan": {
            "transports": transports, "patterns": ["latency", "bandwidth"], "sizes": [], "stop": "",
            "warm_up": "", "rounds": 3, "seed": 0, "loop_kind": "closed"
        }
    }))
    .unwrap()
}

const SIZES: [u64; 9] = [2, 8, 64, 512, 4096, 32_768, 262_144, 1_048_576, 8_388_608];

/// The time of a message by its size.
type Time = fn(f64) -> f64;

/// Both transports of `times` at all sizes, each round off by 1 %.
fn made(pattern: &str, times: [(&str, Time); 2]) -> Document {
    let mut random = Random(1);
    let mut cells = Vec::new();
    for size in SIZES {
        for (transport, time) in times {
            let rounds = [(); 3].map(|()| time(size as f64) * (0.01 * random.normal()).exp());
            cells.push(cell(transport, pattern, size, &rounds));
        }
    }
    document(cells)
}

fn quick_start(size: f64) -> f64 {
    5_000.0 + size
}

fn quick_bytes(size: f64) -> f64 {
    20_000.0 + size / 4.0
}

fn slow(size: f64) -> f64 {
    3.0 * quick_start(size)
}

#[test]
fn who_passes_whom_is_told_with_the_size_and_both_figures() {
    let document =
        made("latency", [("tcp@loopback", quick_start), ("grpc-lean@loopback", quick_bytes)]);
    let model = model(&document).unwrap();
    let [crossover] = model.crossovers.as_slice() else { panic!("{:?}", model.crossovers) };
    // 5,000 + n = 20,000 + n / 4.
    let [low, high] = crossover.interval_95;
    assert!(crossover.below.to_string() == "tcp@loopback" && crossover.between == [4096, 32_768]);
    assert!((16e3..24e3).contains(&crossover.size) && low < high, "{crossover:?}");
    let words = words(&model);
    assert_eq!(words.len(), 2, "{words:#?}");
    assert!(
        words[0].starts_with("latency: tcp@loopback is ahead from 2 B to 4 KiB: at 2 B ")
            && words[0].contains(" us of grpc-lean@loopback ("),
        "{words:#?}"
    );
    assert!(
        words[1]
            .starts_with("latency: grpc-lean@loopback is ahead from 32 KiB to 8 MiB: at 32 KiB ")
            && words[1].contains("; it passes tcp@loopback near ")
            && words[1].contains(" KiB (95 % interval "),
        "{words:#?}"
    );
}

/// Who pauses answers another question, and is no slower for it.
#[test]
fn pauses_are_of_the_question_and_no_contender() {
    let pausing = |pause: Option<&str>, times: &[f64]| {
        let mut cell = cell("tcp@loopback", "latency", 64, times);
        if let Some(pause) = pause {
            cell["variant"] = json!({"think": pause});
        }
        cell
    };
    let times = [5e3, 5.1e3, 5.05e3];
    let cells = vec![pausing(None, &times), pausing(Some("50us"), &[9e3, 9.1e3, 9.05e3])];
    let document = document(cells);
    let contests = series::contests(&document);
    assert_eq!(contests.len(), 2, "{contests:?}");
    assert!(contests.iter().all(|contest| contest.series.len() == 1), "{contests:?}");
}

#[test]
fn a_rate_is_told_in_its_own_unit_and_one_who_is_always_ahead_in_one_line() {
    let document = made("bandwidth", [("tcp@loopback", quick_start), ("grpc@loopback", slow)]);
    let words = words(&model(&document).unwrap());
    assert_eq!(words.len(), 1, "{words:#?}");
    let start = "bandwidth: tcp@loopback is ahead at every size: at 2 B 0.";
    assert!(words[0].starts_with(start), "{words:#?}");
    // 8 MiB in 5 us and a nanosecond a byte.
    let (_, at_end) = words[0].split_once("at 8 MiB ").unwrap();
    let figures: Vec<f64> =
        at_end.split([' ', '(']).filter_map(|word| word.replace(',', "").parse().ok()).collect();
    assert!((figures[0] / 1000.0 - 1.0).abs() < 0.03, "{at_end}");
    assert!((figures[0] / figures[1] / figures[2] - 1.0).abs() < 0.01, "{at_end}");
    assert!((figures[2] / 3.0 - 1.0).abs() < 0.05, "{at_end}");
}

#[test]
fn without_a_difference_none_is_told() {
    let document = made("latency", [("tcp@loopback", quick_start), ("grpc@loopback", quick_start)]);
    let model = model(&document).unwrap();
    assert_eq!(model.crossovers, []);
    assert_eq!(
        words(&model),
        ["latency: no difference shown at any size between tcp@loopback and grpc@loopback"]
    );
}

#[test]
fn nobody_is_ahead_by_samples_of_one_round() {
    let one = cell("tcp@loopback", "latency", 64, &[5_000.0]);
    let other = cell("grpc@loopback", "latency", 64, &[50_000.0]);
    assert_eq!(model(&document(vec![one, other])), None);
}

/// Rounds of fewer than 20 samples, of which none has a median: their means say how they differ.
#[test]
fn rounds_without_medians_are_compared_by_their_means() {
    let of = |transport: &str, time: f64| {
        let mut cell = cell(transport, "latency", 64, &[time, time * 1.01, time * 0.99]);
        for round in cell["rounds"].as_array_mut().unwrap() {
            round["p50"] = Value::Null;
            // Of whole round trips.
            round["elapsed_ns"] = json!(round["elapsed_ns"].as_u64().unwrap() * 2);
        }
        cell
    };
    let cells = vec![of("tcp@loopback", 5e3), of("grpc@loopback", 50e3)];
    let words = words(&model(&document(cells)).unwrap());
    assert_eq!(
        words,
        [
            "latency: tcp@loopback is ahead at 64 B: 5.00 against 50.0 us of grpc@loopback (10.0 times)"
        ]
    );
    let names = ["tcp@loopback", "grpc@loopback", "grpc-lean@loopback"];
    let alike = names.map(|transport| of(transport, 5e3)).to_vec();
    assert_eq!(
        super::words(&model(&document(alike)).unwrap()),
        [format!(
            "latency: it cannot be told which of {}, {} and {} is ahead at 64 B: fewer than 20 messages a round; \
             give a longer -D or more -n",
            names[0], names[1], names[2]
        )]
    );
}

/// Of two that do not differ and one that is slower, all three are named; and so is one without a median.
#[test]
fn nobody_who_was_measured_is_left_out_of_the_words() {
    let rounds = [5_000.0, 5_010.0, 4_990.0];
    let slower = rounds.map(|time| 3.0 * time);
    let with = |third: Value| {
        let cells = vec![
            cell("tcp@loopback", "latency", 64, &rounds),
            cell("grpc-lean@loopback", "latency", 64, &rounds),
            third,
        ];
        words(&model(&document(cells)).unwrap())
    };
    assert_eq!(
        with(cell("grpc@loopback", "latency", 64, &slower)),
        [
            "latency: no difference shown at 64 B between tcp@loopback and grpc-lean@loopback; grpc@loopback is behind"
        ]
    );
    let mut few = cell("grpc@loopback", "latency", 64, &slower);
    few["latency"]["p50"] = Value::Null;
    few["latency"]["p50_interval_95"] = Value::Null;
    let words = with(few);
    assert!(
        words[0].starts_with(
            "latency: it cannot be told which of tcp@loopback, grpc-lean@loopback and grpc@loopback"
        ),
        "{words:?}"
    );
}

/// What a table marks as the best is what the words say is ahead, and nothing else.
#[test]
fn marks_follow_the_words() {
    let mut random = Random(7);
    let (mut marked, mut unmarked) = (0, 0);
    for _ in 0..50 {
        let mut cells = Vec::new();
        for (transport, time) in
            [("tcp@loopback", 5e3), ("grpc-lean@loopback", 5.2e3), ("grpc@loopback", 6e3)]
        {
            for size in SIZES {
                let off = |_| time * (0.02 * random.normal()).exp();
                cells.push(cell(transport, "latency", size, &(0..5).map(off).collect::<Vec<_>>()));
            }
        }
        let document = document(cells);
        let leaders = leaders(&document.cells.iter().collect::<Vec<_>>());
        for lead in model(&document).unwrap().leads {
            let within = leaders.iter().filter(|cell| (lead.from..=lead.to).contains(&cell.size));
            let within: Vec<_> = within.map(|cell| &cell.transport).collect();
            assert_eq!(within.len() as u64, lead.shown, "{lead:?}");
            match lead.ahead.as_slice() {
                [one] => assert!(within.iter().all(|name| **name == one.transport), "{lead:?}"),
                _ => assert_eq!(lead.shown, 0, "{lead:?}"),
            }
            marked += lead.shown;
            unmarked += lead.sizes - lead.shown;
        }
    }
    assert!(marked > 20 && unmarked > 20, "{marked} and {unmarked}");
    let failed = |cell: &mut Value| cell["failed_checks"] = json!(["Little's law"]);
    let mut cells = vec![
        cell("tcp@loopback", "latency", 64, &[1e3, 1.01e3]),
        cell("grpc@loopback", "latency", 64, &[9e3, 9.01e3]),
    ];
    let count =
        |cells: &[Value]| leaders(&document(cells.to_vec()).cells.iter().collect::<Vec<_>>()).len();
    assert_eq!(count(&cells), 1);
    cells.iter_mut().take(1).for_each(failed);
    assert_eq!(count(&cells), 0, "who fails a check is not ahead, and who is alone neither");
}

/// Halves beside halves, and not whole round trips; a figure that fails a check is not believed.
#[test]
fn only_what_can_be_compared_is() {
    let rounds = [5_000.0, 5_010.0, 4_990.0];
    let half = || cell("tcp@loopback", "latency", 64, &rounds);
    let mut whole = cell("grpc@loopback", "latency", 64, &rounds.map(|time| 4.0 * time));
    assert!(model(&document(vec![half(), whole.clone()])).is_some());
    whole["failed_checks"] = json!(["Little's law"]);
    assert_eq!(model(&document(vec![half(), whole.clone()])), None);
    whole["failed_checks"] = json!([]);
    whole["latency"]["kind"] = json!("round-trip");
    assert_eq!(model(&document(vec![half(), whole])), None);
}

#[test]
fn a_fit_gives_back_what_was_planted() {
    let document = made("latency", [("tcp@loopback", quick_start), ("grpc@loopback", quick_bytes)]);
    let model = model(&document).unwrap();
    let [one, other] = model.fits.as_slice() else { panic!("{:?}", model.fits) };
    for (fit, start_up, per_byte) in [(one, 5_000.0, 1.0), (other, 20_000.0, 0.25)] {
        let [piece] = fit.pieces.as_slice() else { panic!("{fit:?}") };
        assert!((piece.start_up_ns / start_up - 1.0).abs() < 0.02, "{piece:?}");
        assert!((piece.per_byte_ns / per_byte - 1.0).abs() < 0.02, "{piece:?}");
        let half = piece.half_rate_bytes.unwrap();
        assert!((half / (start_up / per_byte) - 1.0).abs() < 0.05, "{half}");
        assert!(fit.residual_rms < 0.02 && fit.residual_largest.abs() < 0.05, "{fit:?}");
    }
    let table = costs(&model);
    assert!(table.contains("2 B..8 MiB") && table.lines().count() == 5, "{table}");
}

/// 95 % of 500 seeded trials each: start-up and a byte's time are fitted to rounds that differ by 3 %.
#[test]
fn intervals_of_a_fit_hold_what_was_planted() {
    let mut random = Random(3);
    for rounds in [3, 5, 10] {
        let (mut start_up, mut per_byte) = (0, 0);
        let trials = 500;
        for _ in 0..trials {
            let cells = SIZES.map(|size| {
                let off = |_| quick_start(size as f64) * (0.03 * random.normal()).exp();
                cell("tcp@loopback", "latency", size, &(0..rounds).map(off).collect::<Vec<_>>())
            });
            let model = model(&document(cells.to_vec())).unwrap();
            let [piece] = model.fits[0].pieces.as_slice() else { continue };
            let holds = |interval: Option<[f64; 2]>, value: f64| {
                interval.is_some_and(|[low, high]| (low..=high).contains(&value))
            };
            start_up += usize::from(holds(piece.start_up_interval_95, 5_000.0));
            per_byte += usize::from(holds(piece.per_byte_interval_95, 1.0));
        }
        println!("{rounds} rounds: {start_up} and {per_byte} of {trials}");
        assert!(start_up * 100 >= trials * 92, "{rounds} rounds: {start_up}");
        assert!(per_byte * 100 >= trials * 92, "{rounds} rounds: {per_byte}");
    }
}

#[test]
fn methodology_9_rates_stand_beside_what_bounds_them() {
    let mut document = made("bandwidth", [("tcp@loopback", quick_start), ("grpc@loopback", slow)]);
    assert_eq!(model(&document).unwrap().efficiencies, []);
    document.client.memory_copy = Some(crate::report::MemoryCopy {
        method: String::new(),
        blocks: [(65_536, 800_000_000), (1 << 20, 4_000_000_000)]
            .map(|(block_bytes, bytes_per_s)| crate::report::CopyRate { block_bytes, bytes_per_s })
            .to_vec(),
    });
    let model = model(&document).unwrap();
    let of = &model.efficiencies[0];
    assert_eq!((of.bound, of.sizes.len()), (Bound::MemoryCopy, SIZES.len()));
    let bounds: Vec<_> = of.sizes.iter().map(|share| share.bound_bytes_per_s).collect();
    assert!(bounds[..6].iter().all(|bound| *bound == 8e8), "{bounds:?}");
    assert!(
        bounds[6..].iter().all(|bound| *bound == 4e9),
        "larger ones are held to the largest block"
    );
    let words = words(&model);
    let line = words.last().unwrap();
    assert!(line.starts_with(
        "bandwidth by what one thread copies in this host's memory: tcp@loopback up to "
    ));
    // 32 KiB in 37.8 us are 868 MB/s of 800.
    assert!(line.contains(" of 800 MB/s at 32 KiB, more than one thread copies)"), "{line}");
    for cell in &mut document.cells {
        cell.line_bytes_per_s = Some(2e9);
    }
    let model = super::model(&document).unwrap();
    assert!(model.efficiencies.iter().all(|of| of.bound == Bound::Line));
    let line = super::words(&model).pop().unwrap();
    assert!(
        line.contains("by the link's rate: tcp@loopback up to ") && !line.contains("thread"),
        "{line}"
    );
}

#[test]
fn many_ranges_are_cut_short_unless_they_are_asked_for() {
    let mut cells = Vec::new();
    for (index, rate) in (1..=12_u64).enumerate() {
        for (transport, time) in [("tcp@loopback", 5_000.0), ("grpc@loopback", 9_000.0)] {
            let mut cell = cell(transport, "calls", 64, &[time, time * 1.01, time * 0.99]);
            cell["reply"] = json!(index + 2);
            cell["variant"] = json!({"depth": rate});
            cells.push(cell);
        }
    }
    let model = model(&document(cells)).unwrap();
    assert_eq!(words(&model).len(), 12);
    let few = few_words(&model);
    assert_eq!(few.len(), 8);
    assert_eq!(few[7], "who is ahead elsewhere: 5 more lines in --format long");
    assert!(
        few[0].starts_with("calls for 2 B: tcp@loopback[depth=1] is ahead at 64 B: 200,"),
        "{few:#?}"
    );
}
