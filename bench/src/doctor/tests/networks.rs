//! Faults of network interfaces.

use super::*;
use Severity::Advice;

const SETTINGS: &str = "proc/sys/net/ipv4/conf";

fn on_one_subnet(host: &mut Host) {
    host.evidence.interfaces[1].addresses[0].ip = "10.1.0.2".parse().unwrap();
}

#[test]
fn two_interfaces_on_one_subnet_need_their_own_answers() {
    let words =
        ["two interfaces on one subnet", "net.ipv4.conf.ib0.arp_ignore=1", "arp_announce=2"];
    let subject = (Advice, Check::SharedSubnet, "ib0, eth1");
    found(on_one_subnet, subject, &words);
    let set = |all: &'static str, filter: &'static str| {
        move |host: &mut Host| {
            on_one_subnet(host);
            host.file(&format!("{SETTINGS}/all/arp_ignore"), all)
                .file(&format!("{SETTINGS}/all/arp_announce"), "2")
                .file(&format!("{SETTINGS}/eth1/rp_filter"), filter);
        }
    };
    assert_eq!(after(set("1", "0")), []);
    assert_eq!(after(set("2", "2")), []);
    found(set("1", "1"), subject, &["and rp_filter as for one", "net.ipv4.conf.eth1.rp_filter=2"]);
    found(set("0", "0"), subject, &["and arp_ignore as for one"]);
    let one_down = after(|host| {
        on_one_subnet(host);
        host.evidence.interfaces[1].state = State::Down;
    });
    assert_eq!(one_down, []);
}

/// A dot of a name is a slash in a key of sysctl, where it would part two names, and a name of the host is one word.
#[test]
fn names_with_dots_and_signs_of_the_shell_are_written_as_commands_take_them() {
    let named = |name: &'static str| {
        move |host: &mut Host| {
            on_one_subnet(host);
            host.evidence.interfaces[1].name = name.to_owned();
        }
    };
    let mend = |name| after(named(name)).iter().find_map(|found| found.mend.clone()).unwrap();
    assert!(mend("e0.100").contains("net.ipv4.conf.e0/100.arp_ignore=1 "), "{}", mend("e0.100"));
    let quoted = mend("e0;id");
    assert!(quoted.contains("'net.ipv4.conf.e0;id.arp_ignore'=1 "), "{quoted}");
}

#[test]
fn windows_too_small_for_the_link_are_told() {
    let found = after(|host| {
        host.evidence.tcp_buffers.receive = Some(2 << 20);
        host.evidence.interfaces[1].speed_mbps = None;
    });
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((finding.check, finding.subject.as_str()), (Check::TcpWindow, "ib0"));
    let shown = text(&found);
    // 1 MiB at 100 Gb/s; what 100 us take is 1.25 MB, and twice of it in a power of two.
    for word in ["1048576 B under way", "fill 100 Gb/s up to a round trip of 83 us", " 4194304\""] {
        assert!(shown.contains(word), "no `{word}` in:\n{shown}");
    }
}

#[test]
fn a_fabric_without_ipoib_is_told() {
    let without = |host: &mut Host| drop(host.evidence.interfaces.remove(0));
    let port = (Advice, Check::Ipoib, "mlx5_0 port 1");
    found(without, port, &["no IPoIB interface here"]);
    found(
        |host| {
            without(host);
            host.without("sys/module/ib_ipoib");
        },
        port,
        &["ib_ipoib is not loaded", "modprobe ib_ipoib"],
    );
    found(
        |host| host.evidence.interfaces[0].addresses.clear(),
        (Advice, Check::Ipoib, "ib0"),
        &["up, no address", "ip address add ADDRESS/PREFIX dev ib0"],
    );
}

#[test]
fn packets_smaller_than_the_fabrics_are_told() {
    found(
        |host| {
            let devices = host.evidence.verbs.as_mut().unwrap();
            let port = &mut devices[0].ports.as_mut().unwrap()[0];
            (port.active_mtu, port.max_mtu) = (Some(2048), Some(2048));
            let ib0 = &mut host.evidence.interfaces[0];
            ib0.mtu = 1500;
            let Kind::Ipoib(ipoib) = &mut ib0.kind else { unreachable!() };
            (ipoib.mode, ipoib.connected_possible) = (Some(Mode::Datagram), Some(false));
        },
        (Advice, Check::Mtu, "ib0"),
        &["MTU 1500 in datagram mode", "ip link set ib0 mtu 2044"],
    );
}

/// What the crate of interfaces finds is found here.
#[test]
fn advice_on_interfaces_is_a_finding() {
    found(
        |host| {
            host.evidence.advice.push(fabricbench_ipoib::Advice {
                interface: "ib0".to_owned(),
                cause: fabricbench_ipoib::Cause::DatagramMode,
                found: "datagram mode".to_owned(),
                matters: "connected mode is possible".to_owned(),
                mend: "echo connected > mode".to_owned(),
            });
        },
        (Advice, Check::Ipoib, "ib0"),
        &["ib0: datagram mode [ipoib]", "mend     echo connected > mode"],
    );
}
