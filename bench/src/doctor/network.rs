//! Network interfaces and the kernel's settings for them.
//!
//! `net.core.rmem_max` and `wmem_max` are not looked at: they bound what programs ask for, and this
//! one leaves buffers to the kernel, whose bounds are `tcp_rmem` and `tcp_wmem`.

use std::net::IpAddr;

use fabricbench_ipoib::{Address, Backing, Interface, Kind, Window, shell::word};

use super::{
    device::Device,
    evidence::Evidence,
    finding::{Check, Finding},
};

const SETTINGS: &str = "/proc/sys/net/ipv4/conf";
/// A round trip that one connection should fill its link over, in microseconds: some ten of an idle
/// path inside one cluster, since under load packets wait. This project's own choice.
const ROUND_TRIP: u64 = 100;

pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let mut found: Vec<_> =
        evidence.advice.iter().map(|advice| of_interface(evidence, advice)).collect();
    found.extend(ipoib(evidence, devices));
    found.extend(evidence.interfaces.iter().filter_map(|interface| window(evidence, interface)));
    found.extend(shared_subnets(evidence));
    found
}

/// What the crate of interfaces found.
fn of_interface(evidence: &Evidence, advice: &fabricbench_ipoib::Advice) -> Finding {
    let interface = evidence.interface(&advice.interface);
    let is_ipoib = interface.is_some_and(|interface| matches!(interface.kind, Kind::Ipoib(_)));
    let check = if is_ipoib { Check::Ipoib } else { Check::Ethernet };
    let source = format!("/sys/class/net/{}, netlink", advice.interface);
    Finding::advice(check, &advice.interface, &advice.found, source)
        .because(&advice.matters, &advice.mend)
}

/// Whether there is IPoIB where there could be.
fn ipoib(evidence: &Evidence, devices: &[Device]) -> Option<Finding> {
    let port = devices
        .iter()
        .flat_map(|device| &device.ports)
        .find(|port| port.is_active() && port.infiniband == Some(true))?;
    let of_kind: Vec<_> = evidence
        .interfaces
        .iter()
        .filter(|interface| matches!(interface.kind, Kind::Ipoib(_)) && !interface.is_emulated())
        .collect();
    let subject = port.subject();
    let usable = of_kind.iter().find(|one| one.is_up() && !one.addresses.is_empty());
    let missing = "grpc@ipoib and tcp@ipoib cannot be measured";
    const MODULE: &str = "/sys/module/ib_ipoib";
    Some(match (usable, of_kind.first()) {
        (Some(_), _) => {
            let names: Vec<_> = of_kind.iter().map(|one| one.name.as_str()).collect();
            let seen = format!("IPoIB by {}", names.join(", "));
            Finding::fine(Check::Ipoib, "host", seen, "netlink")
        }
        (None, Some(one)) => Finding::advice(
            Check::Ipoib,
            &one.name,
            format!(
                "{}, {}",
                one.state,
                if one.addresses.is_empty() { "no address" } else { "addressed" }
            ),
            "netlink",
        )
        .because(
            missing,
            format!("ip link set {0} up && ip address add ADDRESS/PREFIX dev {0}", word(&one.name)),
        ),
        (None, None) if evidence.tree.has(MODULE) => {
            let seen = "ib_ipoib is loaded, and there is no IPoIB interface here";
            Finding::advice(Check::Ipoib, subject, seen, MODULE).because(
                missing,
                "in a container: share the host's network, or move the interface in",
            )
        }
        (None, None) => Finding::advice(Check::Ipoib, subject, "ib_ipoib is not loaded", MODULE)
            .because(missing, "modprobe ib_ipoib"),
    })
}

/// A connection carries a window a round trip (RFC 7323, 1.1).
fn window(evidence: &Evidence, interface: &Interface) -> Option<Finding> {
    let Backing::Physical { .. } = interface.backing else { return None };
    if !interface.is_up() {
        return None;
    }
    let speed = f64::from(interface.speed_mbps?) * 1e6;
    let window = Window::between(&evidence.tcp_buffers, &evidence.tcp_buffers)?;
    let lasts = window.lasts(speed / 8.0);
    let setting = if window.of_sender { "tcp_wmem" } else { "tcp_rmem" };
    let source = format!("/proc/sys/net/ipv4/{setting}");
    let seen = format!(
        "{} B under way on a TCP connection fill {:.0} Gb/s up to a round trip of {} us",
        window.bytes,
        speed / 1e9,
        lasts.as_micros()
    );
    if lasts.as_micros() >= u128::from(ROUND_TRIP) {
        return Some(Finding::fine(Check::TcpWindow, &interface.name, seen, source));
    }
    // The receiver's window is a share of its buffer, so twice of what is wanted.
    let wanted = (speed / 8.0 * ROUND_TRIP as f64 / 1e6 * 2.0).ceil() as u64;
    let wanted = wanted.next_power_of_two();
    Some(Finding::advice(Check::TcpWindow, &interface.name, seen, source).because(
        "one connection may not fill the link when packets wait on the way",
        format!(
            "for one in tcp_rmem tcp_wmem; do sysctl -w net.ipv4.$one=\"$(cut -f -2 \
             /proc/sys/net/ipv4/$one) {wanted}\"; done, or more --connections"
        ),
    ))
}

/// Documentation/networking/ip-sysctl.rst, "arp_ignore", "arp_announce" and "rp_filter": of each the
/// larger of `all` and the interface is in force. rdma-core's Documentation/librdmacm.md asks for
/// arp_ignore where there are several interfaces, since else an address may be mapped to the wrong
/// device.
fn shared_subnets(evidence: &Evidence) -> Vec<Finding> {
    let usable: Vec<_> = evidence
        .interfaces
        .iter()
        .filter(|one| one.is_up() && matches!(one.kind, Kind::Ethernet | Kind::Ipoib(_)))
        .collect();
    let mut found = Vec::new();
    for (position, first) in usable.iter().enumerate() {
        let sharing = usable.iter().skip(position + 1).find(|second| share(first, second));
        if let Some(second) = sharing {
            found.push(shared(evidence, first, second));
        }
    }
    found
}

/// Its name in a key of sysctl(8), where dots part the key and a slash stands for a dot of the name.
fn key(interface: &Interface) -> String {
    interface.name.replace('.', "/")
}

fn share(first: &Interface, second: &Interface) -> bool {
    let of = |interface: &Interface| -> Vec<Address> {
        let addresses = interface.addresses.iter().copied();
        addresses
            .filter(|address| matches!(address.ip, IpAddr::V4(_)) && address.prefix < 32)
            .collect()
    };
    let second = of(second);
    of(first).iter().any(|mine| second.iter().any(|other| mine.shares_subnet(other)))
}

fn shared(evidence: &Evidence, first: &Interface, second: &Interface) -> Finding {
    let value = |name: &str| {
        let of = |scope: &str| {
            evidence.tree.value::<u32>(&format!("{SETTINGS}/{scope}/{name}")).unwrap_or_default()
        };
        [&first.name, &second.name].map(|interface| of(interface).max(of("all")))
    };
    let (ignore, announce, filter) =
        (value("arp_ignore"), value("arp_announce"), value("rp_filter"));
    let mut wrong = Vec::new();
    if ignore.contains(&0) {
        wrong.push(("arp_ignore", 1));
    }
    if announce.iter().any(|&announce| announce < 2) {
        wrong.push(("arp_announce", 2));
    }
    // 1, strict, drops what came in by another interface than the one that leads back.
    if filter.contains(&1) {
        wrong.push(("rp_filter", 2));
    }
    let subject = format!("{}, {}", first.name, second.name);
    let source = format!("{SETTINGS}/{{all,{},{}}}", first.name, second.name);
    let seen = "two interfaces on one subnet";
    if wrong.is_empty() {
        return Finding::fine(Check::SharedSubnet, subject, seen, source);
    }
    let names: Vec<_> = wrong.iter().map(|(name, _)| *name).collect();
    let mend: Vec<_> = wrong
        .iter()
        .map(|(name, value)| {
            let of = |interface: &Interface| {
                format!("{}={value}", word(&format!("net.ipv4.conf.{}.{name}", key(interface))))
            };
            format!("{} {}", of(first), of(second))
        })
        .collect();
    Finding::advice(
        Check::SharedSubnet,
        subject,
        format!("{seen}, and {} as for one interface", names.join(", ")),
        source,
    )
    .because(
        "one answers for the other's address: traffic may pass through the wrong one, or rdma_cm (-R) \
         end at the wrong device",
        format!("sysctl -w {}, or a subnet each", mend.join(" ")),
    )
}
