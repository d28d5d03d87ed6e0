//! One host tells another of its interfaces: what arrives is what was sent, under names that
//! another version of this crate can rely on.

use std::net::Ipv4Addr;

use fabricbench_ipoib::{
    Address, Backing, Counters, Interface, Ipoib, Kind, Mode, PathName, RdmaPort, Scope, State,
    choose, interfaces,
};
use serde_json::json;

fn ib0() -> Interface {
    Interface {
        name: "ib0".to_owned(),
        index: 7,
        kind: Kind::Ipoib(Ipoib {
            mode: Some(Mode::Connected),
            connected_possible: Some(true),
            pkey: Some(0xffff),
            umcast: Some(false),
            parent: Some(RdmaPort { device: "mlx5_0".to_owned(), port: 1 }),
        }),
        backing: Backing::Physical { driver: Some("mlx5_core".to_owned()) },
        state: State::NoCarrier,
        mtu: 65_520,
        speed_mbps: Some(100_000),
        addresses: vec![Address {
            ip: Ipv4Addr::new(10, 2, 0, 1).into(),
            prefix: 24,
            scope: Scope::Global,
        }],
    }
}

#[test]
fn the_names_are_these() {
    let expected = json!({
        "name": "ib0",
        "index": 7,
        "kind": { "ipoib": {
            "mode": "connected", "connected_possible": true, "pkey": 65535, "umcast": false,
            "parent": { "device": "mlx5_0", "port": 1 },
        } },
        "backing": { "physical": { "driver": "mlx5_core" } },
        "state": "no-carrier",
        "mtu": 65520,
        "speed_mbps": 100_000,
        "addresses": [ { "ip": "10.2.0.1", "prefix": 24, "scope": "global" } ],
    });
    assert_eq!(serde_json::to_value(ib0()).unwrap(), expected);
    assert_eq!(serde_json::from_value::<Interface>(expected).unwrap(), ib0());
}

#[test]
fn what_this_host_has_survives_the_way() {
    let here = interfaces().unwrap();
    let text = serde_json::to_string(&here).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Interface>>(&text).unwrap(), here);

    let choice = choose(&here, &here, &PathName::Loopback, None).unwrap();
    let text = serde_json::to_string(&choice).unwrap();
    assert_eq!(serde_json::from_str::<fabricbench_ipoib::PathChoice>(&text).unwrap(), choice);

    let counters = Counters::read("lo").unwrap();
    let text = serde_json::to_string(&counters).unwrap();
    assert_eq!(serde_json::from_str::<Counters>(&text).unwrap(), counters);
}
