//! `fabricbench probe`.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use fabricbench_ipoib::{
    Advice, Interface, Interrupt, Ipoib, Kind, Offloads, Queue, Setup, Switch, TcpBuffers, Window,
};
use fabricbench_verbs::{Context, LockedMemory};

use serde::Serialize;

use super::{Exit, Failure, print};
use crate::{
    doctor::{self, Check, Evidence, Finding, Severity},
    report::plain,
    session::Host,
};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 whatever was found, 1 the host cannot be read, 2 wrong usage, 5 something \
                        was found that --fail-on names."
)]
pub(super) struct ProbeArguments {
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "json")]
    format: Format,
    /// The same as --format json
    #[arg(long)]
    json: bool,
    /// Problems and advice only, without what this host has
    #[arg(long)]
    brief: bool,
    /// End with 5 if there is a problem, or with `advice` also if there is advice
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// Leave out findings of a check, such as port-state (printed in brackets), or with @SUBJECT those of
    /// one thing: port-state@"mlx5_1 port 1"; may be given more than once
    #[arg(long, value_name = "CHECK[@SUBJECT]", value_parser = parse_ignored)]
    ignore: Vec<Ignored>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal: findings, then what this host has
    Text,
    /// One document with all of it
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// What cannot be measured, or says nothing of the hardware
    Problem,
    /// Also what makes figures lower or less steady than need be
    Advice,
}

/// Findings that are known and accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ignored {
    check: Check,
    subject: Option<String>,
}

impl Ignored {
    fn covers(&self, finding: &Finding) -> bool {
        self.check == finding.check
            && self.subject.as_ref().is_none_or(|subject| *subject == finding.subject)
    }
}

fn parse_ignored(text: &str) -> Result<Ignored, String> {
    let (check, subject) = match text.split_once('@') {
        Some((check, subject)) => (check, Some(subject.to_owned())),
        None => (text, None),
    };
    let check = Check::named(check).ok_or_else(|| {
        format!("there is no check `{check}`; `fabricbench probe` prints their names in brackets")
    })?;
    Ok(Ignored { check, subject })
}

/// A host, and what could be better on it.
#[derive(Serialize)]
struct Probed<'a> {
    #[serde(flatten)]
    host: &'a Host,
    advice: Vec<Advice>,
    findings: &'a [Finding],
}

pub(super) fn probe(arguments: &ProbeArguments) -> Result<Exit, Failure> {
    let is_json = arguments.json || arguments.format == Format::Json;
    if is_json && arguments.brief {
        return Err(Failure::Usage(
            "--brief is for the text; the document has `findings` by themselves: leave one of the two out"
                .to_owned(),
        ));
    }
    let host = Host::here().map_err(Failure::Error)?;
    let mut findings = doctor::examine(&Evidence::here(&host));
    findings.retain(|finding| !arguments.ignore.iter().any(|ignored| ignored.covers(finding)));
    if is_json {
        let advice = host.interfaces.iter().flat_map(|interface| host.advice(interface)).collect();
        let probed = Probed { host: &host, advice, findings: &findings };
        let text = serde_json::to_string_pretty(&probed).map_err(Failure::error)?;
        print(&format!("{text}\n"))?;
    } else if arguments.brief {
        print(&doctor::brief(&findings))?;
    } else {
        let mut text = doctor::text(&findings);
        text.push('\n');
        let mut below = String::new();
        machine(&mut below, &host);
        interfaces(&mut below, &host);
        devices(&mut below);
        possible(&mut below, &host);
        // Names of interfaces, devices and drivers are whatever somebody called them.
        below.lines().for_each(|line| text.extend([&plain(line), "\n"]));
        print(&text)?;
    }
    let worst = match arguments.fail_on {
        None => return Ok(Exit::Complete),
        Some(FailOn::Problem) => Severity::Problem,
        Some(FailOn::Advice) => Severity::Advice,
    };
    let fails = findings.iter().any(|finding| finding.severity <= worst);
    Ok(if fails { Exit::Tripped } else { Exit::Complete })
}

fn machine(text: &mut String, host: &Host) {
    let environment = &host.environment;
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let _ = writeln!(text, "host {}", environment.hostname);
    let _ = writeln!(text, "  kernel      {}", known(&environment.kernel));
    let cpus = environment.cpus.map_or_else(String::new, |cpus| format!(", {cpus} usable"));
    let _ = writeln!(text, "  processor   {}{cpus}", known(&environment.cpu));
    if let Some(virtualization) = &environment.virtualization {
        let _ = writeln!(text, "  runs in     {virtualization}");
    }
    let locked = LockedMemory::now();
    let limit = match locked.limit {
        Some(limit) => format!(
            "{limit} B: a region cannot be larger; raise it with `ulimit -l` or in \
             /etc/security/limits.conf"
        ),
        None => "unlimited for this process".to_owned(),
    };
    let _ = writeln!(text, "  memlock     {limit}");
}

fn interfaces(text: &mut String, host: &Host) {
    let _ = writeln!(text, "\nnetwork interfaces");
    for interface in &host.interfaces {
        let addresses: Vec<_> =
            interface.addresses.iter().map(|address| address.to_string()).collect();
        let speed = interface.speed_mbps.map_or_else(String::new, |mbps| format!(", {mbps} Mb/s"));
        let _ = writeln!(
            text,
            "  {interface}, MTU {}{speed}{}{}",
            interface.mtu,
            if addresses.is_empty() { ", no address" } else { ", " },
            addresses.join(" ")
        );
        if let Kind::Ipoib(ipoib) = &interface.kind {
            partition(text, ipoib, host.setup(interface));
        }
        if let Some(setup) = host.setup(interface) {
            settings(text, setup);
        }
        if let Some(speed) = interface.speed_mbps {
            reach(text, &host.tcp_buffers, speed);
        }
    }
}

/// What is particular to IPoIB, as far as it is known.
fn partition(text: &mut String, ipoib: &Ipoib, setup: Option<&Setup>) {
    let key = ipoib.pkey.map(|key| format!("pkey 0x{key:04x}"));
    let parent = setup.and_then(|setup| setup.parent.as_ref());
    let child = parent.map(|parent| format!("child of {parent}"));
    let umcast = ipoib.umcast.map(|on| format!("umcast {}", if on { "on" } else { "off" }));
    let port =
        ipoib.parent.as_ref().map(|parent| format!("{} port {}", parent.device, parent.port));
    let known: Vec<_> = [key, child, umcast, port].into_iter().flatten().collect();
    if !known.is_empty() {
        let _ = writeln!(text, "    {}", known.join(", "));
    }
}

fn settings(text: &mut String, setup: &Setup) {
    if !setup.receive_queues.is_empty() {
        let length = setup
            .transmit_queue_length
            .map_or_else(String::new, |length| format!(" (txqueuelen {length})"));
        let _ = writeln!(
            text,
            "    queues      {} receive{}, {} transmit{length}",
            setup.receive_queues.len(),
            steering(&setup.receive_queues),
            setup.transmit_queues.len()
        );
    }
    if let Some(offloads) = &setup.offloads {
        let _ = writeln!(text, "    offloads    {}", switches(offloads));
    }
    let mut busy = setup.interrupts.iter().filter(|interrupt| interrupt.count > 0).peekable();
    if busy.peek().is_some() {
        let node = setup
            .numa_node
            .map_or_else(String::new, |node| format!("; NUMA node {node}: {}", setup.near));
        let on: Vec<_> = busy.map(interrupt).collect();
        let _ = writeln!(text, "    interrupts  {}{node}", on.join(", "));
    }
}

/// Whether software spreads what arrives, and over which processors.
fn steering(queues: &[Queue]) -> String {
    let mut over = queues.iter().filter_map(|queue| queue.processors.as_ref());
    match over.find(|processors| !processors.is_empty()) {
        Some(processors) => format!(" (RPS over {processors})"),
        None => " (RPS off)".to_owned(),
    }
}

fn switches(offloads: &Offloads) -> String {
    let Offloads {
        segmentation,
        generic_segmentation,
        generic_receive,
        transmit_checksum,
        receive_checksum,
    } = offloads;
    let all = [
        ("tso", segmentation),
        ("gso", generic_segmentation),
        ("gro", generic_receive),
        ("tx-checksum", transmit_checksum),
        ("rx-checksum", receive_checksum),
    ];
    let one = |(name, switch): &(&str, &Switch)| {
        let state = match switch {
            Switch::On => "on",
            Switch::Off => "off",
            Switch::Absent => "none",
        };
        format!("{name} {state}")
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn interrupt(interrupt: &Interrupt) -> String {
    let on = interrupt.processors().map_or_else(|| "?".to_owned(), ToString::to_string);
    format!("{} {} on {on}", interrupt.number, interrupt.name)
}

/// Up to which round trip one TCP connection fills the link: rate by round trip is what has to be
/// under way.
fn reach(text: &mut String, buffers: &TcpBuffers, speed_mbps: u32) {
    let Some(window) = Window::between(buffers, buffers) else { return };
    let lasts = window.lasts(f64::from(speed_mbps) * 1e6 / 8.0);
    let _ = writeln!(
        text,
        "    TCP         {} B under way at the most ({}): one connection fills the link up to a \
         round trip of {:.0} us",
        window.bytes,
        if window.of_sender { "tcp_wmem" } else { "tcp_rmem" },
        lasts.as_secs_f64() * 1e6
    );
}

fn devices(text: &mut String) {
    let _ = writeln!(text, "\nRDMA devices");
    let devices = match fabricbench_verbs::devices() {
        Ok(devices) => devices,
        Err(error) => {
            let _ = writeln!(text, "  none: {error}");
            return;
        }
    };
    for device in devices {
        match device.open() {
            Ok(context) => ports(text, &context),
            Err(error) => {
                let _ = writeln!(text, "  {}: {error}", device.name());
            }
        }
    }
}

fn ports(text: &mut String, context: &Context) {
    for number in 1..=context.limits().ports {
        let port = match context.port(number) {
            Ok(port) => port,
            Err(error) => {
                let _ = writeln!(text, "  {} port {number}: {error}", context.name());
                continue;
            }
        };
        let rate = port.gigabits.map_or_else(String::new, |rate| format!(", {rate} Gb/s"));
        let mtu = port.active_mtu.map_or_else(String::new, |mtu| format!(", MTU {}", mtu.bytes()));
        let netdev = port.netdev.as_ref().map_or_else(String::new, |name| format!(", on {name}"));
        let _ = writeln!(
            text,
            "  {} port {number}: {}{}, {}{rate}{mtu}{netdev}, messages up to {} B",
            context.name(),
            port.kind.as_str(),
            if port.emulated { " (emulated)" } else { "" },
            port.state,
            port.max_message
        );
        gids(text, context, number);
    }
}

fn gids(text: &mut String, context: &Context, port: u8) {
    let chosen = context.choose_gid(port, None).ok();
    for entry in context.gid_table(port).unwrap_or_default() {
        if entry.gid.is_zero() {
            continue;
        }
        let mark = match &chosen {
            Some(choice) if choice.entry.index == entry.index => {
                format!("  <- used ({})", choice.reason)
            }
            _ => String::new(),
        };
        let _ = writeln!(text, "    GID {} {} {}{mark}", entry.index, entry.gid, entry.gid_type);
    }
}

/// Which transports a run against another host could use, as far as this side can tell.
fn possible(text: &mut String, host: &Host) {
    let _ = writeln!(text, "\ntransports against another host, as far as this side decides");
    let verbs = match &host.rdma {
        Ok(devices) if devices.iter().any(|device| !device.active_ports.is_empty()) => {
            "yes".to_owned()
        }
        Ok(_) => "no: no port is active".to_owned(),
        Err(reason) => format!("no: {reason}"),
    };
    let _ = writeln!(text, "  verbs-write, verbs-send         {verbs}");
    type Test = fn(&Interface) -> bool;
    let tests: [(&str, Test, &str); 2] = [
        (
            "grpc@ipoib, tcp@ipoib          ",
            |interface| matches!(interface.kind, Kind::Ipoib(_)),
            "no interface of InfiniBand's type (ARPHRD 32) is up with an address",
        ),
        (
            "grpc@ethernet, tcp@ethernet    ",
            |interface| interface.kind == Kind::Ethernet,
            "no Ethernet interface is up with an address",
        ),
    ];
    for (name, is_kind, otherwise) in tests {
        let usable: Vec<_> = host
            .interfaces
            .iter()
            .filter(|interface| {
                is_kind(interface) && interface.is_up() && !interface.addresses.is_empty()
            })
            .map(|interface| {
                let emulated = if interface.is_emulated() { " (emulated)" } else { "" };
                format!("{}{emulated}", interface.name)
            })
            .collect();
        let verdict = if usable.is_empty() {
            format!("no: {otherwise}")
        } else {
            format!("yes, by {}", usable.join(", "))
        };
        let _ = writeln!(text, "  {name} {verdict}");
    }
}
