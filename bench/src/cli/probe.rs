//! `fabricbench probe`.

use std::fmt::Write as _;

use clap::Args;
use fabricbench_ipoib::{Interface, Kind, advice};
use fabricbench_verbs::{Context, LockedMemory};

use super::{Exit, Failure, print};
use crate::session::Host;

#[derive(Debug, Args)]
pub(super) struct ProbeArguments {
    /// The same as a JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn probe(arguments: &ProbeArguments) -> Result<Exit, Failure> {
    let host = Host::here().map_err(Failure::Error)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&host).map_err(Failure::error)?;
        print(&format!("{text}\n"))?;
        return Ok(Exit::Complete);
    }
    let mut text = String::new();
    machine(&mut text, &host);
    interfaces(&mut text, &host);
    devices(&mut text);
    possible(&mut text, &host);
    print(&text)?;
    Ok(Exit::Complete)
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
        if let Some(advice) = advice(interface) {
            let _ = writeln!(text, "    advice: {advice}");
        }
    }
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
