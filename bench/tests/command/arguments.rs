//! Arguments that make no sense: one line that names the argument and the cure, and exit code 2.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use crate::{
    document::{Document, without_figures},
    process::{Running, fabricbench, run},
};

#[test]
fn are_refused_in_one_line() {
    for (arguments, words) in [
        ("run --transport quic@lo", &["--transport", "quic@lo", "verbs-OP", "grpc@PATH"][..]),
        ("run --transport grpc", &["--transport", "`grpc`", "grpc@PATH"]),
        ("run --transport tcp@lo,tcp@loopback", &["tcp@loopback", "twice"]),
        ("run --transport verbs-write@eth0", &["--transport", "verbs-write@eth0"]),
        ("run --transport verbs-ud-write", &["--transport", "UD has no write", "send-imm"]),
        ("run -c UC --transport verbs-read", &["--transport", "UC has no read"]),
        ("run -c XRC", &["--connection", "XRC"]),
        ("run -q 0", &["--qp", "0"]),
        ("run --budget 60s -D 1s", &["--budget <TIME>", "--duration <TIME>"]),
        ("run -n 100 --budget 60s", &["--budget <TIME>", "--iterations <N>"]),
        ("run -o -", &["`-`", "--format json", "./-"]),
        ("run --json --format csv", &["--json", "--format"]),
        ("run h --parallel 4", &["--parallel of iperf3", "--connections N"]),
        ("run h --rps=4", &["--rps of ghz", "--rate N"]),
        ("run h --rate_limit 4", &["--rate_limit of perftest", "--rate N"]),
        ("iperf3 -c h -P 2", &["fabricbench run h --transport tcp@ethernet --connections 2"]),
        ("osu_latency", &["fabricbench run HOST --transport verbs-send --pattern latency"]),
        ("run --budget soon", &["--budget", "`soon`", "200ms"]),
        ("run --precision 1", &["--precision", "`1`", "1%"]),
        ("run --precision 0%", &["--precision", "`0%`", "0.01%"]),
        ("run --precision 1% --rounds 2", &["--precision", "3 --rounds"]),
        ("run --precision 1% -n 2", &["--precision", "-n", "3"]),
        ("run -l 65", &["--post-list", "65"]),
        ("run -l 64 -t 16", &["--post-list 64", "16 in flight", "--depth"]),
        ("run --reply-size 8", &["--reply-size", "--pattern calls"]),
        ("run --pattern calls --reply-size 0", &["--reply-size", "1 byte"]),
        ("run -l 64 --sweep depth=8,16", &["--post-list 64", "the 8 in flight", "--depth"]),
        ("run --sweep qp", &["--sweep", "AXIS=VALUE", "post-list"]),
        ("run --sweep colour=red", &["--sweep", "`colour`", "depth, threads, connections"]),
        ("run --sweep qp=", &["--sweep", "empty"]),
        ("run --sweep qp=1,0", &["--sweep qp=0", "1..=16384"]),
        ("run --sweep mtu=1K,1500", &["--sweep mtu=1500", "4096"]),
        ("run --sweep completions=poll,never", &["completions=never", "hybrid"]),
        ("run --sweep srq=1", &["--sweep srq=1", "on nor off"]),
        ("run -e --sweep completions=poll", &["--sweep completions=poll", "--events"]),
        ("run -q 2 --sweep qp=1,4", &["--sweep qp", "one value as well"]),
        ("run --sweep qp=1 --sweep qp=4", &["--sweep qp", "twice"]),
        ("run --transport tcp@lo -q 4", &["--qp (-q)", "tcp@loopback is none"]),
        (
            "run --transport grpc@lo,tcp@lo -e --numa any -s 8",
            &["--events (-e), --numa: for verbs only", "grpc@loopback, tcp@loopback is none"],
        ),
        ("run --transport tcp@lo --tune", &["--tune: for verbs only"]),
        ("run --transport tcp@lo -c UD", &["--connection (-c): for verbs only"]),
        (
            "run --transport verbs-send,tcp@lo --pattern calls,ps -r 64 -Q 4 --tune",
            &["--tune, --rx-depth (-r), --cq-mod (-Q)", "in the patterns calls and ps"],
        ),
        ("run --tune --sweep cq-mod=1,4", &["--sweep cq-mod", "--tune"]),
        ("run --sweep depth=1:2K:+1", &["2048 combinations", "1024"]),
        (
            "run --transport tcp@lo --serialized",
            &["--serialized", "tcp@loopback", "grpc-stock@PATH", "--sweep serialized=yes"],
        ),
        ("run --transport verbs-write --tls", &["--tls", "verbs-write", "--sweep tls=yes"]),
        ("run --transport tcp@lo --server-threads 2", &["--server-threads", "tcp@loopback"]),
        ("run --runtime threads:2", &["--runtime", "threads:2", "multi-thread:N"]),
        ("run --tls --sweep tls=no", &["--sweep tls", "one value as well"]),
        ("diagnose --line-rate fast", &["--line-rate", "`fast`", "10G"]),
        ("diagnose --path a/b", &["--path", "`a/b`", "ethernet"]),
        ("diagnose --connections 0", &["--connections", "0"]),
        ("run --transport tcp@lo --assign", &["--assign", "tcp@loopback", "grpc-stock@PATH"]),
        ("run --connections 0", &["--connections", "0", "256"]),
        (
            "run --transport tcp@lo --pattern latency --connections 2",
            &["--connections", "tcp@loopback in the pattern latency", "--sweep connections=N"],
        ),
        ("run --transport tcp@lo --sweep qp=1,4", &["--sweep qp", "no difference"]),
        (
            "run --transport verbs-read --pattern bandwidth",
            &["verbs-read is not measured in the pattern bandwidth", "latency, fetch, rate"],
        ),
        (
            "run --transport verbs-write,verbs-send --pattern fetch",
            &["verbs-write is", "; verbs-send is"],
        ),
        (
            "run --transport tcp@lo --pattern latency --rate 100",
            &["--rate: the pattern latency", "--pattern calls"],
        ),
        ("run --transport grpc@lo --pattern ps --rate 100", &["--rate: the pattern ps"]),
        ("run --transport verbs-write --pattern rate --rate 100", &["--rate: the pattern rate"]),
        ("run --transport verbs-read --pattern calls --rate 100", &["verbs-read", "calls"]),
        (
            "run --transport tcp@lo --pattern latency --sweep rate=1,2",
            &["--sweep rate", "no difference"],
        ),
        ("run --transport tcp@lo --pattern calls --sweep arrivals=constant,poisson", &["--rate N"]),
        ("run --transport tcp@lo --pattern calls --rate 0", &["--rate", "from 1 to 100000000"]),
        ("run --transport tcp@lo --pattern calls --arrivals poisson", &["--arrivals", "--rate N"]),
        ("run --pattern calls --rate 1 --arrivals bursts", &["--arrivals", "constant, poisson"]),
        ("run --pattern pingpong", &["--pattern", "pingpong", "latency", "bandwidth"]),
        ("run -s 0", &["--sizes", "size 0", "1 byte"]),
        ("run -s 4Q", &["--sizes", "4Q"]),
        ("run -s 8:4", &["--sizes", "8:4", "below its start"]),
        ("run -s 1:8:x1", &["--sizes", "x1", "does not advance"]),
        ("run -s 1:8:+0", &["--sizes", "+0", "does not advance"]),
        ("run -s 1:1G:+1", &["--sizes", "1:1G:+1", "4096", "larger step"]),
        ("run -s 8,,9", &["--sizes", "8,,9", "empty part"]),
        ("run -s -5", &["--sizes", "`-5`", "bytes"]),
        ("run -n -5", &["--iterations", "`-5`"]),
        ("run --rounds -5", &["unexpected argument '-5'"]),
        ("run -s 99999999999G", &["--sizes", "64 bits"]),
        ("run -s 8 -a", &["--all", "--sizes"]),
        ("run -n 0", &["--iterations", "0 messages"]),
        ("run -n 1K", &["--iterations", "1K"]),
        ("run -n 5 -D 1s", &["--iterations", "--duration"]),
        ("run -D 0", &["--duration", "0"]),
        ("run -D 1h", &["--duration", "1h"]),
        ("run --rounds 0", &["--rounds", "0", "1"]),
        ("run -t 0", &["--depth", "`0`", "65536"]),
        ("run -t 65537", &["--depth", "65537"]),
        ("run --timeout -1", &["--timeout", "`-1` is no time"]),
        ("run --timeout 1s", &["--timeout", "1s", "2 s"]),
        ("serve --timeout 1s", &["--timeout", "1s", "2 s"]),
        ("run --port 65536", &["--port", "65536"]),
        ("run --cpus all", &["--cpus", "all", "none"]),
        ("run --cpus 0:", &["--cpus"]),
        ("run -m 1500", &["--mtu", "1500", "4096"]),
        ("run -r 1", &["--rx-depth", "1", "2"]),
        ("run -S 16", &["--sl", "16"]),
        ("run -u 32", &["--qp-timeout", "32"]),
        ("run --report_gbits", &["--report_gbits", "--format perftest"]),
        ("run --format yaml", &["--format", "yaml", "json"]),
        ("run --frmat json", &["--frmat", "--format"]),
        ("run one two", &["two"]),
        ("run host:http", &["http", "port number"]),
        ("run [::1", &["[::1", "bracket"]),
        ("run [::1]x", &["[::1]x", "[ADDRESS]:PORT"]),
        ("run --port", &["--port"]),
        ("serve --listen nowhere", &["--listen", "nowhere"]),
        ("serve extra", &["extra"]),
        ("probe extra", &["extra"]),
        ("models resnet", &["`resnet`", "resnet-50", "llama-7b-layer"]),
        ("mesure", &["mesure"]),
    ] {
        let finished = run(arguments);
        assert_eq!(finished.stdout, "", "{arguments}");
        finished.failed(2, words);
    }
}

#[test]
fn no_arguments_show_what_there_is() {
    let finished = run("");
    assert_eq!(finished.code, Some(2));
    for command in ["serve", "run", "probe"] {
        assert!(finished.stderr.contains(command), "{}", finished.stderr);
    }
}

/// A name from a script may hold anything; what a terminal would obey is shown instead.
#[test]
fn control_characters_are_shown_and_not_obeyed() {
    for (arguments, code, words) in [
        (&["run", "--transport", "tcp@a\nb\u{1b}[31m"][..], 2, r"tcp@a\nb\u{1b}[31m"),
        (&["run", "[::1\nx"], 2, r"[::1\nx"),
        (&["run", "--transport", "tcp@lo", "-o", "/no/such\r\nplace"], 1, r"/no/such\r\nplace"),
        (&["run", "a\u{9b}b.invalid", "--timeout", "2s"], 1, r"a\u{9b}b.invalid"),
    ] {
        Running::start(fabricbench("").args(arguments)).end().failed(code, &[words]);
    }
    let device = ["run", "--transport", "verbs-write", "-s", "8", "--device", "mlx\n\u{1b}[31m"];
    let finished = Running::start(fabricbench("").args(device)).end().quietly(4);
    assert!(!finished.stdout.contains('\u{1b}'), "{finished:?}");
}

/// An empty variable in a script must not become a host, a file or a transport of no name.
#[test]
fn empty_ones_are_refused() {
    for (arguments, words) in [
        (&["run", ""][..], &["HOST", "empty"][..]),
        (&["run", ":18570"], &["HOST", "empty"]),
        (&["run", "--output="], &["--output"]),
        (&["run", "--transport="], &["--transport"]),
        (&["run", "--sizes="], &["--sizes", "empty"]),
        (&["run", "--pattern="], &["--pattern"]),
        (&["run", "--device="], &["--device"]),
    ] {
        Running::start(fabricbench("").args(arguments)).end().failed(2, words);
    }
}

/// File names need not be UTF-8; what is recorded of the command line is then as near as may be.
#[test]
fn a_file_name_that_is_no_text_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsString::from_vec(b"r\xffsult".to_vec()));
    let mut command = fabricbench("run --transport tcp@loopback -s 8 -n 1 --output");
    Running::start(command.arg(&path)).end().quietly(0);
    Document::read(&std::fs::read_to_string(path).unwrap());
}

#[test]
fn a_processor_that_is_not_there_is_named_with_those_that_are() {
    let options = "run --transport tcp@loopback -s 8 -n 1";
    for cpu in ["1023", "4294967295"] {
        run(&format!("{options} --cpus {cpu}")).failed(2, &["processor", cpu, "usable are", "0"]);
    }
    let finished = run(&format!("{options} --format json --cpus 0:1023")).quietly(4);
    let document = Document::read(&finished.stdout);
    for cell in document.cells() {
        without_figures(cell, "unsupported", &["on the server", "processor 1023", "usable are"]);
    }
}

#[test]
fn messages_too_large_for_a_transport_are_told_from_failures() {
    let options =
        "run --format json -n 1 --transport grpc@loopback,grpc-stock@loopback,grpc-lean@loopback";
    let finished = run(&format!("{options} -s 5G,4294967296")).quietly(4);
    let document = Document::read(&finished.stdout);
    assert_eq!(document.cells().len(), 12);
    for cell in document.cells() {
        without_figures(cell, "unsupported", &["4294967295 B"]);
    }
    let finished = run("run --format json --transport tcp@loopback -s 18446744073709551615 -n 1");
    for cell in Document::read(&finished.quietly(4).stdout).cells() {
        without_figures(cell, "unsupported", &["18446744073709551615 B"]);
    }
}

/// More memory than this process may have is one cell less, not the end of the process.
#[test]
fn messages_too_large_for_memory_are_left_out_alone() {
    let mut limited = std::process::Command::new("prlimit");
    limited.arg("--as=2000000000").arg(env!("CARGO_BIN_EXE_fabricbench"));
    limited.args(["run", "--format", "json", "-n", "1", "--transport"]);
    limited.args(["tcp@loopback,grpc@loopback", "-s", "8,4000000000"]);
    let finished = Running::start(&mut limited).end().quietly(3);
    let document = Document::read(&finished.stdout);
    assert_eq!(document.count("measured"), 4);
    for cell in document.cells().iter().filter(|cell| cell["size"] != 8) {
        without_figures(cell, "unsupported", &["4000000000 B", "memory"]);
    }
}

/// Who asks for UD alone has named no write.
#[test]
fn a_service_picks_among_transports_that_nobody_named() {
    for (arguments, transports) in [
        ("-c UD", "verbs-ud-send,grpc@ipoib,grpc@ethernet"),
        ("-c UC", "verbs-uc-write,verbs-uc-send,grpc@ipoib,grpc@ethernet"),
        ("-c UD --transport verbs", "verbs-ud-send,verbs-ud-send-imm"),
        // The atomics are of 8 B, and stand behind what is named before them all the same.
        (
            "-c RC --transport verbs -s 64",
            "verbs-write,verbs-write-imm,verbs-send,verbs-send-imm,verbs-read,verbs-fetch-add,\
             verbs-compare-swap",
        ),
    ] {
        // Nobody listens: the plan is there all the same.
        let finished = run(&format!("run 127.0.0.1:1 --format json {arguments}"));
        let planned = Document::read(&finished.stdout).0["plan"]["transports"].clone();
        let planned: Vec<String> = serde_json::from_value(planned).unwrap();
        assert_eq!(planned.join(","), transports, "{arguments}");
    }
}
