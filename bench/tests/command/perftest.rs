//! What people and scripts that come from perftest type and read.

use crate::process::run;

/// The rows of a table, as a script reads them: by columns.
fn rows(stdout: &str) -> Vec<Vec<f64>> {
    let is_row = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
    let numbers = |line: &str| line.split_whitespace().map(|text| text.parse().unwrap()).collect();
    stdout.lines().filter(is_row).map(numbers).collect()
}

#[test]
fn its_columns_are_printed_a_block_a_transport_and_pattern() {
    let finished =
        run("run --transport tcp@loopback,grpc@loopback -s 8,64K -n 1000 --format perftest");
    let stdout = finished.quietly(0).stdout;
    let titles: Vec<_> =
        stdout.lines().filter(|line| line.ends_with(" Test")).map(str::trim).collect();
    assert_eq!(
        titles,
        [
            "tcp@loopback Latency Test",
            "grpc@loopback Latency Test",
            "tcp@loopback BW Test",
            "grpc@loopback BW Test"
        ]
    );
    let rows = rows(&stdout);
    let sizes: Vec<_> = rows.iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(sizes, [(8.0, 1000.0), (65536.0, 1000.0)].repeat(4));
    for row in &rows[..4] {
        let [_, _, min, max, typical, mean, deviation, p99, p999] = row[..] else {
            panic!("{row:?}");
        };
        assert!(0.0 < min && min <= typical && typical <= p99 && p99 <= max, "{row:?}");
        assert!(min <= mean && mean <= max && deviation <= max - min, "{row:?}");
        assert!(p999.is_nan(), "1000 samples have no 99.9th percentile: {row:?}");
    }
    for row in &rows[4..] {
        let [size, _, peak, average, rate] = row[..] else { panic!("{row:?}") };
        let bytes = rate * 1e6 * size;
        assert!(0.0 < average && average <= peak, "{row:?}");
        let within = 0.0051 * 1_048_576.0 + 1e-6 * 1e6 * size;
        assert!((average * 1_048_576.0 - bytes).abs() <= within, "{row:?}");
    }
    assert!(stdout.ends_with("-\n"), "as there, a line of dashes is the last:\n{stdout}");
}

#[test]
fn a_duration_has_the_columns_of_one_and_rates_may_be_in_gigabits() {
    let options = "--transport tcp@loopback -s 64K -D 0.1s --format perftest --report_gbits";
    let stdout = run(&format!("run {options}")).quietly(0).stdout;
    assert!(stdout.contains("tps average") && stdout.contains("BW average[Gb/sec]"), "{stdout}");
    let [latency, bandwidth] = &rows(&stdout)[..] else { panic!("{stdout}") };
    let [_, _, mean, rate] = latency[..] else { panic!("{latency:?}") };
    // A round trip is two halves, and the loop between two of them takes some time as well.
    assert!(2.0 * mean * rate <= 1.02e6 && 2.0 * mean * rate > 0.5e6, "{latency:?}");
    let [size, _, _, average, rate] = bandwidth[..] else { panic!("{bandwidth:?}") };
    assert!((average - rate * 1e6 * size * 8.0 / 1e9).abs() < 0.01, "{bandwidth:?}");
}

#[test]
fn a_run_without_figures_prints_comments_only() {
    let finished = run("run --transport tcp@no0 -s 8 -n 1 --format perftest").quietly(4);
    assert!(finished.stdout.contains("tcp@no0 latency 8 B: unsupported: "), "{}", finished.stdout);
    assert!(finished.stdout.lines().all(|line| line.starts_with("# ")), "{}", finished.stdout);
}
