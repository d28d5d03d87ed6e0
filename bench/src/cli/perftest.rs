//! What people type who come from perftest: its names and letters, as far as they mean something
//! here, and for the rest what to type instead.

use std::ffi::{OsStr, OsString};

use clap::{
    Args, CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{Cli, elsewhere, find_option};

/// Options of perftest's that ask for what is so anyway: taken in silence, so that a habit is no
/// error.
#[derive(Debug, Args)]
pub(super) struct Habits {
    /// No frequency of a processor is used: the clock is calibrated against the kernel's.
    #[arg(short = 'F', long = "CPU-freq", hide = true)]
    cpu_freq: bool,
    /// No peak of single messages is computed.
    #[arg(short = 'N', long = "noPeak", hide = true)]
    no_peak: bool,
    /// Every slice is warmed up.
    #[arg(long = "perform-warm-up", hide = true)]
    perform_warm_up: bool,
    /// Processor time is always recorded; with `--format perftest` it becomes a column.
    #[arg(long = "cpu-util", hide = true)]
    pub(super) cpu_util: bool,
}

/// Options of perftest's without a counterpart of the same name, in its spelling with hyphens, and
/// what to do. What `run` has is never looked up here.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["-H", "--report-histogram", "-U", "--report-unsorted"],
        "single samples are not kept; --format json has the percentiles, the deviation and every round",
    ),
    (
        &["-w", "--limit-bw", "-y", "--limit-msgrate"],
        "no limit fails a run; a gate does: fabricbench compare OLD NEW --fail-on 'bandwidth < 0.9'",
    ),
    (&["-C", "--report-cycles"], "times are in nanoseconds in --format json"),
    (
        &["-z", "--comm-rdma-cm"],
        "the two sides always talk over TCP; leave it out (-R is for the queue pairs)",
    ),
    (
        &["-A", "--atomic-type"],
        "name the transport: --transport verbs-fetch-add or verbs-compare-swap",
    ),
    (
        &[
            "-B",
            "--source-mac",
            "-E",
            "--dest-mac",
            "-G",
            "--use-rss",
            "-J",
            "--dest-ip",
            "-j",
            "--source-ip",
            "-K",
            "--dest-port",
            "-k",
            "--source-port",
            "-Y",
            "--ethertype",
            "-P",
            "--client",
            "-Z",
            "--server",
            "--mac-fwd",
            "--tcp",
            "--raw-ipv6",
            "--raw-mcast",
            "--raw-qos",
            "--vlan-en",
            "--vlan-pcp",
            "--flows",
            "--flows-burst",
            "--promiscuous",
            "--sniffer",
            "--reply-every",
        ],
        "raw Ethernet is not measured; --transport tcp@INTERFACE goes over an interface",
    ),
    (&["-L", "--hop-limit"], "the hop limit cannot be chosen; leave it out"),
    (
        &["-W", "--report-counters"],
        "counters are always recorded: `.cells[].counters` of --format json",
    ),
    (
        &["-O", "--dualport", "--report-per-port"],
        "one port a run: start a run a port, each with -d and -i",
    ),
    (
        &["-f", "--margin"],
        "-D is all measured, and each slice warmed up before; --warm-up sets for how many messages",
    ),
    (
        &["-g", "--mcg", "-M", "--MGID", "--connectionless"],
        "multicast is not measured; --transport verbs-ud-send sends datagrams to one receiver",
    ),
    (&["--use-old-post-send"], "choose the interface: --post plain"),
    (&["--use-hugepages"], "write --pages 2M (or 1G), with --pages-fallback if normal ones do"),
    (
        &["--ipv6"],
        "name the GID: --gid ADDRESS, or --gid-index, from the list of `fabricbench probe`",
    ),
    (&["--ipv6-addr"], "give the address as HOST; IPv6 needs no option"),
    (
        &["--bind-source-ip"],
        "sockets are bound to the interface of the transport (tcp@INTERFACE), verbs to -d, -i and -x",
    ),
    (&["--pin-cores"], "bind both sides with --cpus CPU:CPU"),
    (&["--out-json", "--out-json-file"], "write the document with -o FILE, or --format json"),
    (
        &["--run-infinitely"],
        "a run has an end: -D takes up to a day, and a loop of the shell repeats it",
    ),
    (&["--tclass"], "the traffic class is -T"),
    (&["--pkey-index"], "the partition key cannot be chosen; leave it out"),
    (&["--write-with-imm"], "name the transport: --transport verbs-write-imm"),
    (&["--report-both"], "-b reports the sum of both directions only"),
    (&["--reversed"], "start the server on the other host, or measure both ways with -b"),
    (
        &[
            "--rate-limit",
            "--rate-units",
            "--rate-limit-type",
            "--burst-size",
            "--typical-pkt-size",
        ],
        "pushes go as fast as they can; calls may begin on a schedule: --pattern calls --rate N",
    ),
    (&["--latency-gap"], "pauses between messages of a latency are --think TIME"),
    (
        &[
            "--use-cuda",
            "--use-cuda-bus-id",
            "--use-cuda-dmabuf",
            "--use-rocm",
            "--use-neuron",
            "--use-neuron-dmabuf",
            "--use-hl",
            "--use-mlu",
            "--mmap",
            "--mmap-offset",
            "--use-null-mr",
        ],
        "messages lie in the host's memory; leave it out",
    ),
    (&["--payload-file-path"], "the payload is made from --seed, and checked on arrival"),
    (&["--force-link", "--dlid"], "the link is recognised; name the port with -d and -i"),
    (
        &[
            "-X",
            "--recv-post-list",
            "--mr-per-qp",
            "--no-lock",
            "--no-ddp",
            "--use-ooo",
            "--flow-label",
            "--disable-pcie-relaxed",
            "--dont-xchg-versions",
            "--wait-destroy",
            "--congest-type",
            "--unsolicited-write",
        ],
        "nothing here corresponds to it; leave it out",
    ),
];

/// Long options with underscores where ours have hyphens, as ours.
pub(super) fn respell(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let command = Cli::command();
    let respelled = |argument: OsString| {
        let text = argument.to_str()?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let ours = name.replace('_', "-");
        if ours == name || has_option(&command, "run", name) || !has_option(&command, "run", &ours)
        {
            return None;
        }
        Some(OsString::from(value.map_or_else(|| ours.clone(), |value| format!("{ours}={value}"))))
    };
    arguments.map(|argument| respelled(argument.clone()).unwrap_or(argument)).collect()
}

/// What to type in place of what was refused, in a line; `None` if it is none of perftest's or of another tool's.
pub(super) fn instead(refused: &clap::Error, arguments: &[OsString]) -> Option<String> {
    match refused.kind() {
        ErrorKind::InvalidSubcommand => match refused.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) => program(name, arguments),
            _ => None,
        },
        ErrorKind::UnknownArgument => match refused.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) => {
                self::option(option, arguments.get(1).map(OsString::as_os_str))
            }
            _ => None,
        },
        _ => None,
    }
}

fn option(refused: &str, subcommand: Option<&OsStr>) -> Option<String> {
    let name = refused.split_once('=').map_or(refused, |(name, _)| name);
    if subcommand == Some(OsStr::new("serve")) && has_option(&Cli::command(), "run", name) {
        return Some(format!(
            "`serve` has no {name}: options are given once, to `fabricbench run` on the client, and \
             the server follows"
        ));
    }
    let spelled = if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
    match INSTEAD.iter().find(|(names, _)| names.contains(&spelled.as_str())) {
        Some((_, words)) => Some(format!("{name} of perftest is not here: {words}")),
        None => elsewhere::option(&spelled),
    }
}

/// perftest's programs: the operation, and whether it is a latency.
fn program(name: &str, arguments: &[OsString]) -> Option<String> {
    if name.starts_with("raw_ethernet_") {
        return Some(format!(
            "{name}: raw Ethernet is not measured; `fabricbench run HOST --transport tcp@INTERFACE` \
             goes over an interface"
        ));
    }
    let given = arguments.iter().skip(2);
    let given: Vec<String> = given.map(|given| given.to_string_lossy().into_owned()).collect();
    if let Some(words) = elsewhere::program(name, &given) {
        return Some(words);
    }
    let (operation, test) = name.strip_prefix("ib_")?.split_once('_')?;
    let latency = match test {
        "lat" => true,
        "bw" => false,
        _ => return None,
    };
    let (transport, pattern, size) = match (operation, latency) {
        ("write", true) => ("verbs-write", "latency", "2"),
        ("write", false) => ("verbs-write", "bandwidth", "64K"),
        ("send", true) => ("verbs-send", "latency", "2"),
        ("send", false) => ("verbs-send", "bandwidth", "64K"),
        ("read", true) => ("verbs-read", "latency", "2"),
        ("read", false) => ("verbs-read", "fetch", "64K"),
        ("atomic", true) => ("verbs-fetch-add", "latency", "8"),
        ("atomic", false) => ("verbs-fetch-add", "rate", "8"),
        _ => return None,
    };
    let given: Vec<_> = given.iter().map(|argument| quoted(argument)).collect();
    let has = |names: &[&str]| given.iter().any(|given| names.contains(&given.as_str()));
    let mut ours = format!("fabricbench run --transport {transport}");
    // -b is a pattern of its own.
    if !has(&["-b", "--bidirectional"]) {
        ours += &format!(" --pattern {pattern}");
    }
    let sized = |given: &String| given.starts_with("-s") || given.starts_with("--size");
    if !has(&["-a", "--all"]) && !given.iter().any(sized) {
        ours += &format!(" -s {size}");
    }
    ours += " --format perftest";
    let mut typed = given.join(" ");
    if typed.is_empty() {
        "HOST".clone_into(&mut typed);
    } else if typed.chars().count() > LONGEST_REPEATED {
        "... HOST".clone_into(&mut typed);
    }
    Some(format!(
        "{name} is `fabricbench serve` on the server, without options, and on the client: {ours} \
         {typed}"
    ))
}

/// Arguments longer than this are not repeated.
const LONGEST_REPEATED: usize = 300;

/// An argument as a shell takes it.
pub(super) fn quoted(argument: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+,=[]".contains(letter);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    // A line of ours is a line, whatever was typed.
    let shown: String =
        argument.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    format!("'{}'", shown.replace('\'', r"'\''"))
}

/// Whether a subcommand has the option `-x` or `--name`.
fn has_option(command: &clap::Command, subcommand: &str, option: &str) -> bool {
    find_option(command, subcommand, option).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hint_hides_an_option_that_is_there() {
        let command = Cli::command();
        for (names, words) in INSTEAD {
            for name in *names {
                assert!(!has_option(&command, "run", name), "{name} is there: take its hint out");
                // As long as a line may be.
                assert!(name.len() + words.len() < 200, "{name}");
            }
        }
    }

    #[test]
    fn underscores_are_hyphens_where_ours_has_them() {
        let typed = ["f", "run", "--post_list", "2", "--inline_size=8", "--report_gbits", "a_b"];
        let ours = respell(typed.iter().map(OsString::from));
        assert_eq!(
            ours,
            ["f", "run", "--post-list", "2", "--inline-size=8", "--report_gbits", "a_b"]
        );
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        assert_eq!(quoted("-s"), "-s");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's\n"), r"'it'\''s?'");
        assert_eq!(quoted(""), "''");
    }
}
