//! Choices between made-up interfaces.

use proptest::prelude::*;

use super::*;
use crate::interface::{Ipoib, State};

fn address(text: &str) -> Address {
    let (ip, prefix) = text.split_once('/').unwrap();
    let ip: IpAddr = ip.parse().unwrap();
    let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let scope = match () {
        () if ip.is_loopback() => Scope::Host,
        () if link_local => Scope::Link,
        () => Scope::Global,
    };
    Address { ip, prefix: prefix.parse().unwrap(), scope }
}

/// An interface of a device, up, of the kind that its name suggests; its index is the number
/// in its name.
fn interface(name: &str, addresses: &[&str]) -> Interface {
    let number = name.trim_start_matches(char::is_alphabetic).parse().unwrap_or(0u32);
    Interface {
        name: name.to_owned(),
        index: number + 1,
        kind: match name {
            "lo" => Kind::Loopback,
            name if name.starts_with("ib") => Kind::Ipoib(Ipoib::default()),
            _ => Kind::Ethernet,
        },
        backing: Backing::Physical { driver: None },
        state: State::Up,
        mtu: 1500,
        speed_mbps: None,
        addresses: addresses.iter().map(|text| address(text)).collect(),
    }
}

fn fast(speed: u32, interface: Interface) -> Interface {
    Interface { speed_mbps: Some(speed), ..interface }
}

fn bridge(interface: Interface) -> Interface {
    Interface { backing: Backing::Virtual { kind: "bridge".to_owned() }, ..interface }
}

fn emulated(interface: Interface) -> Interface {
    Interface { backing: Backing::Emulated { kind: "tun".to_owned() }, ..interface }
}

fn lo() -> Interface {
    interface("lo", &["127.0.0.1/8", "::1/128"])
}

fn by(path: &str) -> PathName {
    path.parse().unwrap()
}

fn hint(ip: &str) -> Option<IpAddr> {
    Some(ip.parse().unwrap())
}

/// The chosen interfaces and addresses in short, or the error's text.
fn chosen(
    local: &[Interface],
    remote: &[Interface],
    path: &str,
    hint: Option<IpAddr>,
) -> Result<String, String> {
    choose(local, remote, &by(path), hint)
        .map(|choice| {
            format!(
                "{} {} {} {}",
                choice.local_interface,
                choice.local_addr,
                choice.remote_interface,
                choice.remote_addr
            )
        })
        .map_err(|error| error.to_string())
}

#[test]
fn each_kind_has_its_own_path() {
    let here = [
        lo(),
        interface("eth0", &["10.1.0.1/24", "fd01::1/64"]),
        interface("ib0", &["10.2.0.1/24"]),
    ];
    let there = [lo(), interface("eth5", &["10.1.0.2/24"]), interface("ib3", &["10.2.0.2/24"])];
    let peer = hint("10.1.0.2");
    let ethernet = "eth0 10.1.0.1 eth5 10.1.0.2";
    let ipoib = "ib0 10.2.0.1 ib3 10.2.0.2";
    assert_eq!(chosen(&here, &there, "ethernet", peer).unwrap(), ethernet);
    assert_eq!(chosen(&here, &there, "ipoib", peer).unwrap(), ipoib);
    assert_eq!(chosen(&here, &there, "eth0", peer).unwrap(), ethernet);
    assert_eq!(chosen(&here, &there, "ib0", None).unwrap(), ipoib);
    let error = chosen(&here, &there, "eth5", None).unwrap_err();
    assert!(error.contains("no interface eth5") && error.contains("lo, eth0, ib0"), "{error}");
}

#[test]
fn loopback_is_of_this_host_alone() {
    let here = [lo(), interface("eth0", &["10.1.0.1/24"])];
    let there = [lo(), interface("eth0", &["10.1.0.2/24"])];
    for peer in [None, hint("127.0.0.1"), hint("10.1.0.1")] {
        let expected = "lo 127.0.0.1 lo 127.0.0.1";
        assert_eq!(chosen(&here, &here, "loopback", peer).unwrap(), expected);
    }
    let expected = "lo ::1 lo ::1";
    assert_eq!(chosen(&here, &here, "loopback", hint("::1")).unwrap(), expected);
    let error = chosen(&here, &there, "loopback", hint("10.1.0.2")).unwrap_err();
    assert!(error.contains("10.1.0.2 is another host"), "{error}");
}

#[test]
fn one_host_has_no_path_to_itself_but_loopback() {
    let here = [lo(), interface("eth0", &["10.1.0.1/24"]), interface("eth1", &["10.1.0.2/24"])];
    let error = chosen(&here, &here, "ethernet", hint("10.1.0.1")).unwrap_err();
    assert!(error.contains("choose loopback"), "{error}");
}

#[test]
fn dockers_bridge_is_the_same_on_every_host_and_no_path() {
    let docker = || bridge(interface("docker0", &["172.17.0.1/16"]));
    let here = [docker(), interface("eth3", &["10.1.0.1/24"])];
    let there = [docker(), interface("eth3", &["10.1.0.2/24"])];
    let expected = "eth3 10.1.0.1 eth3 10.1.0.2";
    assert_eq!(chosen(&here, &there, "ethernet", None).unwrap(), expected);
    let error = chosen(&here[..1], &there[..1], "ethernet", None).unwrap_err();
    assert!(error.contains("both sides have the address 172.17.0.1"), "{error}");
}

#[test]
fn an_address_that_one_side_has_elsewhere_leads_nowhere() {
    let here = [interface("eth0", &["10.1.0.1/24"]), interface("eth1", &["10.9.0.1/24"])];
    let there = [interface("eth0", &["10.1.0.2/24"]), interface("eth1", &["10.9.0.2/24"])];
    let expected = "eth1 10.9.0.1 eth1 10.9.0.2";

    // Here, what is sent to 10.1.0.2 would go to loopback; there, what is sent to 10.1.0.1.
    let with = |list: &[Interface], own: &str| [list, &[interface("br5", &[own])]].concat();
    let here_too = with(&here, "10.1.0.2/32");
    assert_eq!(chosen(&here_too, &there, "ethernet", None).unwrap(), expected);
    let there_too = with(&there, "10.1.0.1/32");
    assert_eq!(chosen(&here, &there_too, "ethernet", None).unwrap(), expected);
}

#[test]
fn the_lowest_index_wins_wherever_it_stands_in_the_list() {
    let here = [interface("eth1", &["10.1.0.3/24"]), interface("eth0", &["10.1.0.1/24"])];
    let there = [interface("eth1", &["10.1.0.4/24"]), interface("eth0", &["10.1.0.2/24"])];
    let expected = "eth0 10.1.0.1 eth0 10.1.0.2";
    assert_eq!(chosen(&here, &there, "ethernet", None).unwrap(), expected);
}

#[test]
fn the_better_pair_wins_and_says_why() {
    let a = |backed: fn(Interface) -> Interface| {
        [backed(interface("eth0", &["10.1.0.1/24"])), interface("eth1", &["10.2.0.1/24"])]
    };
    let b = [interface("eth0", &["10.1.0.2/24"]), interface("eth1", &["10.2.0.2/24"])];
    let reason = |here: &[Interface], there: &[Interface], hint| {
        let choice = choose(here, there, &PathName::Ethernet, hint).unwrap();
        (choice.local_interface, choice.reason)
    };

    let (name, why) = reason(&a(|same| same), &b, None);
    assert_eq!(name, "eth0");
    assert!(why.contains("lower index"), "{why}");

    let (name, why) = reason(&a(|same| same), &b, hint("10.2.0.2"));
    assert_eq!(name, "eth1");
    assert!(
        why.contains("before eth0 to eth0, which the control connection does not use"),
        "{why}"
    );

    for lesser in [bridge, emulated] {
        let (name, why) = reason(&a(lesser), &b, None);
        assert_eq!(name, "eth1");
        assert!(why.contains("no hardware on both sides"), "{why}");
    }

    let there = [b[0].clone(), fast(100_000, b[1].clone())];
    let here = [fast(25_000, a(|same| same)[0].clone()), fast(25_000, a(|same| same)[1].clone())];
    let (name, why) = reason(&here, &there, None);
    assert_eq!(name, "eth1");
    assert!(why.contains("at 25000 Mb/s against unknown speed"), "{why}");
}

#[test]
fn a_subnet_in_common_comes_before_a_route() {
    let here = [interface("eth0", &["10.1.0.1/24"]), interface("eth1", &["10.2.0.1/24"])];
    let there = [interface("eth0", &["10.9.0.2/24"]), interface("eth1", &["10.2.0.2/24"])];
    let choice = choose(&here, &there, &PathName::Ethernet, hint("10.9.0.2")).unwrap();
    assert!(choice.on_link);
    assert_eq!(choice.remote_addr, hint("10.2.0.2").unwrap());

    let choice = choose(&here[..1], &there[..1], &PathName::Ethernet, None).unwrap();
    assert!(!choice.on_link);
    assert!(choice.reason.contains("may be routed"), "{}", choice.reason);
}

#[test]
fn the_family_is_that_of_the_control_connection() {
    let here = [interface("ib0", &["10.2.0.1/24", "fd02::1/64"])];
    let there = [interface("ib0", &["10.2.0.2/24", "fd02::2/64", "fd02::3/64"])];
    let to = |hint| choose(&here, &there, &PathName::Ipoib, hint).unwrap().remote_addr.to_string();
    assert_eq!(to(None), "10.2.0.2");
    assert_eq!(to(hint("fd01::9")), "fd02::2");
    assert_eq!(to(hint("fd02::3")), "fd02::3");
}

#[test]
fn link_local_addresses_are_used_only_when_the_user_did() {
    let here = [interface("eth0", &["fe80::1/64"]), interface("eth1", &["fe80::2/64"])];
    let there = [interface("eth7", &["fe80::9/64"])];
    let choice = choose(&here, &there, &by("eth1"), hint("fe80::9")).unwrap();
    assert_eq!(choice.remote_socket_addr(80).to_string(), "[fe80::9%2]:80");
    assert_eq!(choice.local_socket_addr(0).to_string(), "[fe80::2%2]:0");
    let error = chosen(&here, &there, "ethernet", None).unwrap_err();
    assert!(error.contains("fe80::9%eth0"), "{error}");
}

#[test]
fn emulated_ends_are_told() {
    let here = [interface("ib0", &["10.2.0.1/24"])];
    let there = [emulated(interface("ib0", &["10.2.0.2/24"]))];
    assert!(choose(&here, &there, &PathName::Ipoib, None).unwrap().emulated);
    assert!(choose(&there, &here, &PathName::Ipoib, None).unwrap().emulated);
}

#[test]
fn what_is_missing_is_said_with_its_cure() {
    let eth0 = || interface("eth0", &["10.1.0.1/24"]);
    let ib0 = |state| Interface { state, ..interface("ib0", &["10.2.0.1/24"]) };
    let peer = [interface("eth0", &["10.1.0.2/24"]), interface("ib0", &["10.2.0.2/24"])];
    let refusal = |here: &[Interface], there: &[Interface]| {
        let error = chosen(here, there, "ipoib", None).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let cases = [
        (
            refusal(&[eth0(), lo()], &peer),
            "no IPoIB interface (ARPHRD 32), only eth0 (Ethernet, up)",
        ),
        (refusal(&[eth0()], &peer), "the peer has ib0 (IPoIB, up) with 10.2.0.2/24"),
        (refusal(&[eth0()], &peer), "load ib_ipoib here"),
        (refusal(&peer, &[eth0()]), "load ib_ipoib on the peer"),
        (refusal(&[ib0(State::Down)], &peer), "ip link set ib0 up here"),
        (refusal(&peer, &[ib0(State::NoCarrier)]), "see on the peer whether the port of ib0"),
        (refusal(&[interface("ib0", &[])], &peer), "dev ib0 here"),
        (refusal(&[interface("ib0", &["fd02::1/64"])], &peer), "one family and subnet"),
        (refusal(&[], &[]), "no IPoIB interface (ARPHRD 32): load"),
    ];
    for (error, text) in cases {
        assert!(error.contains(text), "{text:?} is not in {error:?}");
    }
    let down =
        |number| Interface { state: State::Down, ..interface(&format!("veth{number}"), &[]) };
    let many: Vec<_> = (0..300).map(down).chain([eth0()]).collect();
    let error = refusal(&many, &peer);
    assert!(error.contains("only eth0 (Ethernet, up), veth0"), "{error}");
    assert!(error.contains("and 295 more") && error.len() < 600, "{error}");
}

fn any_interface() -> impl Strategy<Value = Interface> {
    let addresses = prop::sample::subsequence(
        vec![
            "10.1.0.1/24",
            "10.1.0.2/24",
            "10.1.0.3/16",
            "10.2.0.1/24",
            "10.2.0.2/24",
            "172.17.0.1/16",
            "127.0.0.1/8",
            "fd00::1/64",
            "fd00::2/64",
            "fe80::1/64",
            "fe80::2/64",
        ],
        0..4,
    );
    let kind = prop_oneof![
        Just(Kind::Ethernet),
        Just(Kind::Ipoib(Ipoib::default())),
        Just(Kind::Loopback),
        Just(Kind::Other(libc::ARPHRD_NONE)),
    ];
    let state =
        prop_oneof![3 => Just(State::Up), 1 => Just(State::Down), 1 => Just(State::NoCarrier)];
    let speed = prop::option::of(prop_oneof![Just(1_000), Just(100_000)]);
    (kind, state, speed, addresses, 0..3u8).prop_map(|(kind, state, speed, addresses, backed)| {
        let plain = Interface { kind, state, speed_mbps: speed, ..interface("x0", &addresses) };
        match backed {
            0 => plain,
            1 => bridge(plain),
            _ => emulated(plain),
        }
    })
}

fn host() -> impl Strategy<Value = Vec<Interface>> {
    prop::collection::vec(any_interface(), 0..5).prop_map(|interfaces| {
        let number = |(index, interface)| Interface {
            name: format!("x{index}"),
            index: index as u32 + 1,
            ..interface
        };
        interfaces.into_iter().enumerate().map(number).collect()
    })
}

fn any_path() -> impl Strategy<Value = PathName> {
    prop_oneof![
        Just(PathName::Ipoib),
        Just(PathName::Ethernet),
        Just(PathName::Loopback),
        (0..5u8).prop_map(|number| PathName::Named(format!("x{number}"))),
    ]
}

fn any_hint() -> impl Strategy<Value = Option<IpAddr>> {
    prop::option::of(prop::sample::select(vec!["10.1.0.2", "10.2.0.2", "fe80::2", "127.0.0.1"]))
        .prop_map(|ip| ip.map(|ip| ip.parse().unwrap()))
}

proptest! {
    #[test]
    fn a_choice_is_of_the_kind_and_up_on_both_sides(
        local in host(), remote in host(), path in any_path(), hint in any_hint(),
    ) {
        let Ok(choice) = choose(&local, &remote, &path, hint) else { return Ok(()) };
        let here = local.iter().find(|one| one.name == choice.local_interface).unwrap();
        let there = remote.iter().find(|one| one.name == choice.remote_interface).unwrap();
        prop_assert!(here.is_up() && there.is_up());
        prop_assert!(is_of(&path, here));
        prop_assert_eq!(&here.kind, &there.kind);
        prop_assert!(here.addresses.iter().any(|address| address.ip == choice.local_addr));
        prop_assert!(there.addresses.iter().any(|address| address.ip == choice.remote_addr));
        prop_assert_eq!(choice.local_addr.is_ipv4(), choice.remote_addr.is_ipv4());
        prop_assert_eq!(
            choice.local_addr == choice.remote_addr,
            here.kind == Kind::Loopback,
            "only loopback leads to the same address"
        );
        prop_assert_eq!(choice.emulated, here.is_emulated() || there.is_emulated());
    }

    #[test]
    fn a_plain_path_is_found_whatever_else_there_is(
        mut local in host(), mut remote in host(), hint in any_hint(),
    ) {
        local.push(Interface { index: 90, ..interface("y0", &["192.0.2.1/24"]) });
        remote.push(Interface { index: 90, ..interface("y0", &["192.0.2.2/24"]) });
        let choice = choose(&local, &remote, &PathName::Ethernet, hint).unwrap();
        prop_assert!(choice.on_link);
    }

    #[test]
    fn the_order_of_interfaces_does_not_decide(
        local in host(), remote in host(), path in any_path(), hint in any_hint(),
    ) {
        let reversed = |list: &[Interface]| list.iter().rev().cloned().collect::<Vec<_>>();
        let one = choose(&local, &remote, &path, hint).ok();
        let other = choose(&reversed(&local), &reversed(&remote), &path, hint).ok();
        prop_assert_eq!(
            one.map(|choice| (choice.local_interface, choice.remote_addr)),
            other.map(|choice| (choice.local_interface, choice.remote_addr))
        );
    }
}
