//! What people type who come from iperf3, ghz or the OSU benchmarks: the same here, as far as it is.

use super::perftest::quoted;

/// A program, and the run that is nearest to it.
struct Program {
    names: &'static [&'static str],
    /// What a run of it is here, without options.
    run: &'static str,
    /// Its options with what they are here: with `=` behind the name, they have a value; ours may be none.
    options: &'static [(&'static str, &'static str)],
    /// Options of ours that stand for its defaults, with those of its options that replace them.
    defaults: &'static [(&'static str, &'static [&'static str])],
}

const IPERF3: &[(&str, &str)] = &[
    ("-c=", "HOST"),
    ("--client=", "HOST"),
    ("-P=", "--connections"),
    ("--parallel=", "--connections"),
    ("-t=", "-D"),
    ("--time=", "-D"),
    ("-l=", "-s"),
    ("--length=", "-s"),
    ("-n=", ""),
    ("-w=", ""),
    ("--window=", ""),
    ("-O=", ""),
    ("--omit=", ""),
    ("-b=", ""),
    ("--bitrate=", ""),
    ("-i=", ""),
    ("--interval=", ""),
    ("-p=", "-p"),
    ("--port=", "-p"),
    ("-R", "--pattern fetch"),
    ("--reverse", "--pattern fetch"),
    ("--bidir", "--pattern bidirectional"),
    ("-J", "--format json"),
    ("--json", "--format json"),
];

const GHZ: &[(&str, &str)] = &[
    ("-c=", "-t"),
    ("--concurrency=", "-t"),
    ("--connections=", "--connections"),
    ("-r=", "--rate"),
    ("--rps=", "--rate"),
    ("-n=", "-n"),
    ("--total=", "-n"),
    ("-z=", "-D"),
    ("--duration=", "-D"),
    ("--proto=", ""),
    ("--call=", ""),
    ("-d=", ""),
    ("--data=", ""),
];

const OSU: &[(&str, &str)] =
    &[("-m=", "-s"), ("-i=", "-n"), ("-x=", "--warm-up"), ("-W=", "-t"), ("--window-size=", "-t")];

/// The sizes of the OSU benchmarks.
const OSU_SIZES: (&str, &[&str]) = ("-s 1:4M:x2", &["-m"]);

const PROGRAMS: &[Program] = &[
    Program {
        names: &["iperf3", "iperf"],
        run: "--transport tcp@ethernet",
        options: IPERF3,
        defaults: &[
            ("--pattern bandwidth", &["-R", "--reverse", "--bidir"]),
            ("-s 128K", &["-l", "--length"]),
            ("-D 10", &["-t", "--time"]),
        ],
    },
    Program {
        names: &["ghz"],
        run: "--transport grpc@ethernet --pattern calls -s 64",
        options: GHZ,
        defaults: &[
            ("-t 50", &["-c", "--concurrency", "-r", "--rps"]),
            ("-n 200", &["-n", "--total", "-z", "--duration"]),
        ],
    },
    Program {
        names: &["osu_latency"],
        run: "--transport verbs-send --pattern latency",
        options: OSU,
        defaults: &[OSU_SIZES],
    },
    Program {
        names: &["osu_bw"],
        run: "--transport verbs-send --pattern bandwidth",
        options: OSU,
        defaults: &[OSU_SIZES, ("-t 64", &["-W", "--window-size"])],
    },
    Program {
        names: &["osu_bibw"],
        run: "--transport verbs-send --pattern bidirectional",
        options: OSU,
        defaults: &[OSU_SIZES, ("-t 64", &["-W", "--window-size"])],
    },
    Program {
        names: &["osu_mbw_mr"],
        run: "--transport verbs-send --pattern rate",
        options: OSU,
        defaults: &[OSU_SIZES, ("-t 64", &["-W", "--window-size"])],
    },
];

/// Long options that `run` has not: whose, and what to type.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    ("iperf3", &["--parallel"], "sockets of one thread are --connections N, threads --threads N"),
    ("iperf3", &["--reverse"], "the server's data is taken by --pattern fetch"),
    ("iperf3", &["--bidir"], "both directions at once are --pattern bidirectional, or -b"),
    ("iperf3", &["--time"], "the time of each cell is -D"),
    ("iperf3", &["--length", "--len"], "the size of a message is -s"),
    ("iperf3", &["--omit"], "every slice is warmed up, and that is not counted: --warm-up-time"),
    (
        "iperf3",
        &["--udp"],
        "datagrams over UDP are not measured; --transport verbs-ud-send sends them over RDMA",
    ),
    (
        "iperf3",
        &["--bitrate"],
        "pushes go as fast as they can; calls have a schedule: --pattern calls --rate N",
    ),
    (
        "iperf3",
        &["--window", "--set-mss"],
        "the kernel sets it; `cells[].tcp` of --format json has what it was",
    ),
    ("iperf3", &["--interval"], "--progress lines says every few seconds how it stands"),
    ("ghz", &["--rps"], "calls begin on a schedule with --pattern calls --rate N"),
    ("ghz", &["--concurrency"], "calls in flight on each connection are -t N with --pattern calls"),
    ("ghz", &["--total"], "the number of messages is -n"),
    (
        "ghz",
        &["--proto", "--protoset", "--call", "--data", "--data-file", "--metadata"],
        "the service is fabricbench's own; -s and --reply-size say how large its messages are",
    ),
    (
        "ghz",
        &["--cacert", "--cert", "--key", "--skipTLS"],
        "--tls encrypts, with a certificate that the server makes",
    ),
    ("the OSU benchmarks", &["--message-size"], "sizes are -s MIN:MAX:x2"),
    ("the OSU benchmarks", &["--window-size"], "messages in flight are -t N"),
    (
        "the OSU benchmarks",
        &["--validation"],
        "what arrives is compared with what was sent in every run",
    ),
];

/// What to type in place of an option of another tool; `None` if it is none that is known.
pub(super) fn option(name: &str) -> Option<String> {
    let (tool, _, words) = OPTIONS.iter().find(|(_, names, _)| names.contains(&name))?;
    Some(format!("{name} of {tool} is not here: {words}"))
}

/// What to type in place of another tool's command, `given` behind its name.
pub(super) fn program(name: &str, given: &[String]) -> Option<String> {
    let program = PROGRAMS.iter().find(|program| program.names.contains(&name))?;
    if name.starts_with("iperf")
        && given.iter().any(|given| ["-s", "--server"].contains(&given.as_str()))
    {
        return Some(format!("{name} -s is `fabricbench serve`, for all clients that follow"));
    }
    let Translated { host, ours, left } = program.translated(given);
    let left = match left.as_slice() {
        [] => String::new(),
        left => format!(" (without {}, of which there is nothing here)", left.join(" ")),
    };
    Some(format!(
        "{name} is `fabricbench serve` on the server, and on the client: fabricbench run {host} {ours}{left}"
    ))
}

struct Translated {
    host: String,
    ours: String,
    /// What has no counterpart.
    left: Vec<String>,
}

impl Program {
    fn translated(&self, given: &[String]) -> Translated {
        let (mut host, mut left) = ("HOST".to_owned(), Vec::new());
        let (mut ours, mut seen) = (vec![self.run.to_owned()], Vec::new());
        let mut given = given.iter();
        while let Some(word) = given.next() {
            let (name, glued) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let is_of = |(option, _): &&(&str, &str)| option.trim_end_matches('=') == name;
            let Some((option, here)) = self.options.iter().find(is_of) else {
                match name.starts_with('-') {
                    true => left.push(quoted(word)),
                    // ghz's host has the port of its server.
                    false => host = quoted(word.split(':').next().unwrap_or(word)),
                }
                continue;
            };
            seen.push(name);
            let value = match option.ends_with('=') {
                true => glued.or_else(|| given.next().cloned()),
                false => None,
            };
            let value = value.map(|value| quoted(&value)).unwrap_or_default();
            match *here {
                "HOST" => host = value,
                "" => left.push(format!("{name} {value}")),
                "-s" if name == "-m" => ours.push(format!("-s {value}:x2")),
                here => ours.push(format!("{here} {value}").trim_end().to_owned()),
            }
        }
        for (default, replaced) in self.defaults {
            if !replaced.iter().any(|name| seen.contains(name)) {
                ours.push((*default).to_owned());
            }
        }
        Translated { host, ours: ours.join(" "), left }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::{Cli, find_option};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_answered_is_what_run_takes() {
        for (typed, ours) in [
            (
                "iperf3 -c node2 -P 4 -R -t 5 -J",
                "run node2 --transport tcp@ethernet --connections 4 --pattern fetch -D 5 --format json -s 128K",
            ),
            (
                "ghz --insecure -c 8 --rps=500 -z 2s node2:50051",
                "run node2 --transport grpc@ethernet --pattern calls -s 64 -t 8 --rate 500 -D 2s",
            ),
            (
                "osu_latency -m 1:64K -i 100",
                "run HOST --transport verbs-send --pattern latency -s 1:64K:x2 -n 100",
            ),
            ("osu_bw", "run HOST --transport verbs-send --pattern bandwidth -s 1:4M:x2 -t 64"),
        ] {
            let typed = words(typed);
            let answered = program(&typed[0], &typed[1..]).unwrap();
            let (_, command) = answered.split_once("on the client: fabricbench ").unwrap();
            let command = command.split(" (without").next().unwrap();
            assert_eq!(command, ours, "{answered}");
            Cli::try_parse_from(words(&format!("fabricbench {command}"))).unwrap();
        }
        assert!(program("ghz", &words("--insecure h")).unwrap().contains("(without --insecure,"));
        assert!(program("iperf3", &words("-s -D")).unwrap().contains("fabricbench serve"));
        assert_eq!(program("netperf", &[]), None);
        let plain = Cli::try_parse_from(["fabricbench", "run", "h", "-D", "10"]);
        assert!(plain.is_ok(), "a time without a unit is in seconds");
    }

    #[test]
    fn no_hint_hides_an_option_that_is_there() {
        let command = Cli::command();
        for (_, names, words) in OPTIONS {
            for name in *names {
                assert!(
                    find_option(&command, "run", name).is_none(),
                    "{name} is there: take its hint out"
                );
                assert!(name.len() + words.len() < 160, "{name}");
                assert!(option(name).unwrap().contains(name));
            }
        }
        assert_eq!(option("--nothing"), None);
    }
}
