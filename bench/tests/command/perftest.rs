//! What people and scripts that come from perftest type and read.

use crate::process::{Running, Server, fabricbench, run};

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

/// Every letter and name that is not ours is answered with what to type instead.
#[test]
fn its_options_are_answered_with_ours() {
    for (arguments, words) in [
        ("run -H", &["-H of perftest", "--format json"][..]),
        ("run -FU", &["-U of perftest", "--format json"]),
        ("run -w 5", &["-w of perftest", "compare OLD NEW --fail-on"]),
        ("run -y 5", &["-y of perftest", "compare OLD NEW --fail-on"]),
        ("run -C", &["-C of perftest", "nanoseconds"]),
        ("run -o 4", &["--output", "--depth", "./4"]),
        ("run --output=latency", &["--output", "--format", "./latency"]),
        ("run -z", &["-z of perftest", "TCP"]),
        ("run -A CMP_AND_SWAP", &["-A of perftest", "verbs-fetch-add", "verbs-compare-swap"]),
        ("run -L 64", &["-L of perftest", "hop limit"]),
        ("run -W x", &["-W of perftest", ".cells[].counters"]),
        ("run -X", &["-X of perftest", "leave it out"]),
        ("run -O", &["-O of perftest", "-d and -i"]),
        ("run -f 2", &["-f of perftest", "--warm-up"]),
        ("run -g", &["-g of perftest", "multicast"]),
        ("run -M 255:1", &["-M of perftest", "multicast"]),
        ("run --ipv6", &["--ipv6 of perftest", "--gid-index"]),
        ("run --use_old_post_send", &["--use_old_post_send of perftest", "--post plain"]),
        ("run --use_hugepages", &["--use_hugepages of perftest", "--pages 2M"]),
        ("run --bind_source_ip 10.0.0.1", &["--bind_source_ip of perftest", "tcp@INTERFACE"]),
        ("run --pin_cores=3", &["--pin_cores of perftest", "--cpus"]),
        ("run --out_json", &["--out_json of perftest", "-o FILE"]),
        ("run --out_json_file=x", &["--out_json_file of perftest", "-o FILE"]),
        ("run --run_infinitely", &["--run_infinitely of perftest", "-D"]),
        ("run --write_with_imm", &["--write_with_imm of perftest", "verbs-write-imm"]),
        ("serve -d mlx5_0", &["`serve` has no -d", "given once", "client"]),
        ("serve -i 1", &["`serve` has no -i", "given once", "client"]),
        ("serve -x 3", &["`serve` has no -x", "given once", "client"]),
        ("serve -R", &["`serve` has no -R", "given once"]),
        ("serve --use_srq", &["`serve` has no --use-srq", "given once"]),
        ("serve -F", &["`serve` has no -F", "given once"]),
        ("serve --size 8", &["`serve` has no --size", "given once"]),
        ("serve -H", &["-H of perftest", "--format json"]),
        ("raw_ethernet_bw -E 1", &["raw_ethernet_bw", "tcp@INTERFACE"]),
        ("ib_write_fast", &["unrecognized subcommand"]),
    ] {
        let finished = run(arguments);
        assert_eq!(finished.stdout, "", "{arguments}");
        finished.failed(2, words);
    }
    for letter in ["B", "E", "G", "J", "K", "P", "Y", "j", "k", "Z"] {
        let option = format!("-{letter}");
        run(&format!("run {option} 1")).failed(2, &[&option, "raw Ethernet", "tcp@INTERFACE"]);
    }
}

#[test]
fn its_programs_are_answered_with_a_command_of_ours() {
    for (typed, ours) in [
        ("ib_write_lat", "--transport verbs-write --pattern latency -s 2 --format perftest HOST"),
        (
            "ib_write_bw -d mlx5_0 -a node2",
            "--transport verbs-write --pattern bandwidth --format perftest -d mlx5_0 -a node2",
        ),
        (
            "ib_send_lat -F -s 64 node2",
            "--transport verbs-send --pattern latency --format perftest -F -s 64 node2",
        ),
        ("ib_send_bw -b node2", "--transport verbs-send -s 64K --format perftest -b node2"),
        ("ib_read_lat", "--transport verbs-read --pattern latency -s 2 --format perftest HOST"),
        ("ib_read_bw", "--transport verbs-read --pattern fetch -s 64K --format perftest HOST"),
        (
            "ib_atomic_lat",
            "--transport verbs-fetch-add --pattern latency -s 8 --format perftest HOST",
        ),
        ("ib_atomic_bw", "--transport verbs-fetch-add --pattern rate -s 8 --format perftest HOST"),
    ] {
        let finished = run(typed).failed(2, &["fabricbench serve", ours]);
        assert!(finished.stderr.ends_with(&format!("{ours}\n")), "{}", finished.stderr);
        // What is proposed is a plan, and one that can be made: without HOST it is for this host,
        // which has no RDMA device, or has one.
        let mut command = fabricbench("run --iters 1");
        let plan = ours.replace(" HOST", "").replace(" node2", "").replace(" -d mlx5_0", "");
        command.args(plan.split(' '));
        let finished = Running::start(&mut command).end();
        assert!(matches!(finished.code, Some(0 | 3 | 4)), "{plan}: {finished:?}");
    }
    let mut long = fabricbench("ib_write_bw");
    Running::start(long.arg("x".repeat(10_000)).arg("a\nb")).end().failed(2, &["... HOST"]);
}

/// What asks for nothing that is not so anyway, or has another name here, is no error.
#[test]
fn its_habits_are_taken() {
    let server = Server::start();
    let typed = "-F -N --perform_warm_up --cpu_util --size 8 --iters 40 --tx-depth 4";
    let of_verbs = "--post_list 1 --inline_size 8 --ib-dev none0";
    // There is no such device, and what is of verbs is understood all the same.
    for (options, code) in [
        (format!("--transport tcp@loopback {typed}"), 0),
        (format!("--transport tcp@loopback,verbs-write {typed} {of_verbs}"), 3),
    ] {
        let finished = server.run(&format!("{options} --format json --pattern latency"));
        let document = crate::document::Document::read(&finished.quietly(code).stdout);
        let cell = document.cell("tcp@loopback", "latency", 8);
        crate::document::measured(cell);
        assert_eq!(cell["settings"]["messages"], 40);
    }
    for version in ["-V", "run -V", "-h", "run -h"] {
        run(version).quietly(0);
    }
}

/// With or without a device: the command line is understood, and every cell has its answer.
#[test]
fn every_command_of_the_readme_is_understood() {
    let server = Server::start();
    for options in crate::readme::commands() {
        let finished = server.run(&format!("{options} --timeout 5s"));
        assert!(matches!(finished.code, Some(0 | 3 | 4)), "{options}: {finished:?}");
        assert_eq!(finished.stderr, "", "{options}");
    }
}
