//! What a device says about itself.

use std::net::IpAddr;

use fabricbench_verbs::{Counters, Error, Kind, Sysfs, devices};

use crate::pair::{device, shared};

#[test]
fn the_device_is_listed_and_described() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    assert!(devices().unwrap().iter().any(|device| device.name() == context.name()));
    assert!(port.is_active());
    assert!(port.max_message > 0);
    assert!(port.active_mtu.is_some() && port.active_mtu <= port.max_mtu, "{port:?}");
    assert!(port.gigabits.is_some_and(|rate| rate > 0.0), "{port:?}");
    let limits = context.limits();
    assert!(limits.queue_pairs > 0 && limits.completions > 0 && limits.work_requests > 0);
    if port.is_ethernet() {
        assert!(port.netdev.is_some(), "{port:?}");
    }
    // What the kernel makes of an ordinary interface must never pass for an adapter.
    if Sysfs::default().device(context.name()).join("parent").exists() {
        assert_eq!((port.kind, port.emulated), (Kind::SoftRoce, true));
    }
}

#[test]
fn a_wrong_name_or_port_says_what_there_is() {
    let Some(_guard) = shared() else { return };
    let (context, _) = device();
    let name = fabricbench_verbs::open(Some("nosuch0"), None).unwrap_err().to_string();
    assert!(name.contains("nosuch0") && name.contains(context.name()), "{name}");
    for number in [0, context.limits().ports + 1] {
        let port = fabricbench_verbs::open(Some(context.name()), Some(number)).unwrap_err();
        assert!(matches!(port, Error::PortNotFound { .. }), "{port}");
    }
}

#[test]
fn the_gid_is_chosen_from_the_table_with_a_reason() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let table = context.gid_table(port.number).unwrap();
    assert!(!table.is_empty());
    assert!(table.iter().all(|entry| !entry.gid.is_zero() && entry.index < port.gid_slots));
    let choice = context.choose_gid(port.number, None).unwrap();
    assert!(table.contains(&choice.entry) && !choice.explicit && !choice.reason.is_empty());
    // Soft-RoCE on an interface with an IPv4 address.
    if port.kind == Kind::SoftRoce && table.iter().any(|entry| entry.gid.ipv4().is_some()) {
        assert!(choice.entry.gid.ipv4().is_some(), "{choice:?}");
        assert!(choice.reason.contains("RoCE v2 entry with an IPv4"), "{choice:?}");
    }
    let again = context.choose_gid(port.number, Some(choice.entry.index)).unwrap();
    assert!(again.explicit && again.entry == choice.entry);
}

#[test]
fn a_gid_is_chosen_by_its_address() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    for entry in context.gid_table(port.number).unwrap() {
        let address = entry.gid.ipv4().map_or(entry.gid.to_ipv6().into(), IpAddr::from);
        let choice = context.choose_gid_by_address(port.number, address).unwrap();
        assert!(choice.explicit && choice.entry.gid == entry.gid, "{choice:?}");
        assert!(choice.reason.contains(&address.to_string()), "{choice:?}");
    }
    let stranger = context.choose_gid_by_address(port.number, "192.0.2.1".parse().unwrap());
    let text = stranger.unwrap_err().to_string();
    assert!(text.contains("no GID is the address 192.0.2.1"), "{text}");
}

#[test]
fn an_empty_gid_index_is_refused_with_the_ones_that_work() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let table = context.gid_table(port.number).unwrap();
    let empty = (0..port.gid_slots).find(|i| table.iter().all(|entry| entry.index != *i)).unwrap();
    let text = context.choose_gid(port.number, Some(empty)).unwrap_err().to_string();
    assert!(text.contains(&format!("index {empty} is empty")), "{text}");
    assert!(text.contains(&table[0].to_string()), "{text}");
    let text = context.choose_gid(port.number, Some(port.gid_slots)).unwrap_err().to_string();
    assert!(text.contains("does not exist"), "{text}");
}

#[test]
fn the_port_is_counted() {
    let Some(_guard) = shared() else { return };
    let (context, port) = device();
    let counters = Counters::read(&Sysfs::default(), context.name(), port.number);
    assert!(counters.traffic().is_counted(), "{counters:?}");
}
