//! `--precision` and `--budget`, as users type them.

use serde_json::Value;

use crate::{document::Document, process::run};

const LOOPBACK: &str = "run --transport tcp@loopback,grpc@loopback --pattern latency,bandwidth";

#[test]
fn a_budget_is_shared_out_and_kept() {
    // 12 cells, of which each has a millisecond or so to do at the least.
    let command =
        format!("{LOOPBACK} -s 64,4K,16K --budget 4s --seed 1 --progress lines --format json");
    let finished = run(&command);
    let document = Document::read(&finished.stdout).0;
    // A machine that is busy with other tests may take so long to set up that the end is cut off.
    let is_cut = document["complete"] == false;
    assert_eq!(document["warnings"].to_string().contains("4s was spent"), is_cut, "{document}");
    assert!(finished.code == Some(0) || is_cut, "{}", finished.stderr);
    let plan = &document["plan"];
    assert_eq!(plan["budget_s"], 4.0);
    let estimate = &plan["estimate"];
    assert_eq!((&estimate["cells"], &estimate["rounds"]), (&Value::from(12), &Value::from(3)));
    let total = estimate["total_s"].as_f64().unwrap();
    assert!((3.9..=4.1).contains(&total), "{estimate}");
    let said = finished.stderr.lines().next().unwrap();
    assert!(said.starts_with("12 cells x 3 rounds x (") && said.ends_with("about 4 s"), "{said}");
    // Or hold back the last slice.
    let spent = document["measured_s"].as_f64().unwrap() / 4.0;
    assert!((0.9..1.5).contains(&spent), "{spent}");
    let has_all = |cell: &&Value| cell["rounds"].as_array().is_some_and(|all| all.len() == 3);
    let cells = document["cells"].as_array().unwrap();
    assert!(is_cut || cells.iter().filter(has_all).count() == 12, "{document}");
    for cell in cells.iter().filter(has_all) {
        assert_eq!(cell["status"], "measured");
        let interval = &cell["throughput"]["interval_95"];
        assert!(interval[0].as_f64() < interval[1].as_f64(), "{interval}");
        assert_eq!(cell["stopped"], Value::Null, "no precision was asked for");
    }
}

#[test]
fn a_budget_that_is_too_short_is_kept_all_the_same() {
    let finished = run(&format!("{LOOPBACK} -s 64 --budget 10ms --seed 1 --format json"));
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    let document = Document::read(&finished.stdout).0;
    let said = finished.stderr.lines().collect::<Vec<_>>();
    assert!(
        matches!(said[..], [line] if line.contains("--budget of 10ms is too short")),
        "{said:?}"
    );
    assert_eq!(document["complete"], false);
    let skipped = document["cells"].as_array().unwrap().iter();
    let skipped: Vec<_> = skipped.filter(|cell| cell["status"] == "skipped").collect();
    assert!((1..4).contains(&skipped.len()), "the first slice is measured: {skipped:?}");
    for cell in &skipped {
        assert_eq!(cell["reason"], "the --budget of 10ms was spent");
    }
    let warnings = document["warnings"].to_string();
    let counts = format!("of 4 cells {} were skipped", skipped.len());
    assert!(warnings.contains(&counts), "{warnings}");
    run("run --transport tcp@loopback --pattern calls -s 8 --rate 1 --budget 5s")
        .failed(2, &["--budget of 5s cannot be kept", "21.0 s"]);
}

#[test]
fn a_precision_ends_cells_and_the_table_says_how_many() {
    // As wide as can be, so that some are known; and so narrow that few are.
    for (precision, by) in [("50%", "precision"), ("0.01%", "time")] {
        let command = format!("{LOOPBACK} -s 64 -D 0.3s --precision {precision} --seed 1");
        let document =
            Document::read(&run(&format!("{command} --format json")).quietly(0).stdout).0;
        let cells = document["cells"].as_array().unwrap();
        let stopped: Vec<_> = cells.iter().map(|cell| &cell["stopped"]).collect();
        assert!(stopped.iter().any(|stopped| stopped["by"] == by), "{stopped:?}");
        let share = document["plan"]["precision"].as_f64().unwrap();
        for stopped in stopped {
            let half = stopped["half_width"].as_f64();
            assert_eq!(
                stopped["by"] == "precision",
                half.is_some_and(|half| half <= share),
                "{stopped}"
            );
        }
        let table = run(&command).quietly(0).stdout;
        let is_said = |line: &&str| line.starts_with("precision: ") && line.contains(" of 4 cells");
        assert_eq!(table.lines().filter(is_said).count(), 1, "{table}");
    }
}

#[test]
fn intervals_over_rounds_stand_in_every_face() {
    // By number, so that each round has a median however busy the machine is.
    let command = "run --transport tcp@loopback --pattern latency -s 64 -n 300 --seed 1";
    let csv = run(&format!("{command} --format csv")).quietly(0).stdout;
    let (header, row) = csv.split_once('\n').unwrap();
    let at = |name: &str| {
        let column = header.split(',').position(|column| column == name).unwrap();
        row.trim_end().split(',').nth(column).unwrap().parse::<f64>().unwrap()
    };
    for (low, figure, high) in [
        ("p50_low_ns", "p50_ns", "p50_high_ns"),
        ("bytes_per_s_low", "bytes_per_s", "bytes_per_s_high"),
    ] {
        assert!(at(low) <= at(figure) * 1.5 && at(figure) <= at(high) * 1.5, "{csv}");
        assert!(at(low) <= at(high), "{csv}");
    }
    assert!(at("p50_rounds_low_ns") < at("p50_rounds_high_ns"), "{csv}");
    let long = run(&format!("{command} --format long")).quietly(0).stdout;
    assert_eq!(long.lines().next().unwrap().matches("+- %").count(), 2, "{long}");
}
