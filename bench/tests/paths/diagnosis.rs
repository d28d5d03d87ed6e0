//! The diagnosis finds what was done to a path.
//!
//! Rates are low, so that no processor of a busy machine is what limits.

use std::time::Duration;

use serde_json::Value;

use crate::{
    cluster::{Cluster, try_command},
    document::number,
    process::{Finished, Server},
};

const QUICK: &str = "-s 128K --tensor 512K -D 0.6s --rounds 2 --connections 1,8";

fn diagnosis(finished: Finished) -> Value {
    let diagnosis: Value = serde_json::from_str(&finished.quietly(0).stdout).unwrap();
    assert_eq!(diagnosis["schema"], "fabricbench-diagnosis/1");
    diagnosis
}

fn diagnose(cluster: &Cluster, server: &Server, options: &str) -> Value {
    diagnosis(cluster.diagnose(server, &format!("{options} --format json")))
}

/// Causes, what costs most first.
fn causes(diagnosis: &Value) -> Vec<&str> {
    let findings = diagnosis["verdict"].as_array().unwrap();
    findings.iter().map(|finding| finding["cause"].as_str().unwrap()).collect()
}

fn step<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let steps = diagnosis["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no {name}: {steps:?}"))
}

/// `tc` on the first host, a command a line.
fn shape(cluster: &Cluster, commands: &[String]) {
    let shaped = || commands.iter().try_for_each(|command| try_command("tc", command));
    cluster.here.within(shaped).unwrap().unwrap();
}

/// 400 Mb/s, of which each flow gets 60: it is told by its source port.
#[test]
fn a_limit_of_each_socket_is_told_from_one_of_the_path() {
    let Some(cluster) = Cluster::new() else { return };
    let mut commands = vec![
        "qdisc add dev eth0 root handle 1: htb default 1".to_owned(),
        "class add dev eth0 parent 1: classid 1:99 htb rate 400mbit".to_owned(),
        "class add dev eth0 parent 1:99 classid 1:1 htb rate 1mbit ceil 400mbit".to_owned(),
    ];
    for class in 0..32 {
        let id = format!("1:{}", 100 + class);
        commands.extend([
            format!("class add dev eth0 parent 1:99 classid {id} htb rate 1mbit ceil 60mbit"),
            format!("qdisc add dev eth0 parent {id} pfifo limit 60"),
            format!(
                "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff \
                 match ip sport {} 0x003e flowid {id}",
                2 * class
            ),
        ]);
    }
    shape(&cluster, &commands);
    let server = cluster.server("10.77.2.2");
    let diagnosis = diagnose(&cluster, &server, &format!("{QUICK} --path ethernet"));
    assert_eq!(causes(&diagnosis)[0], "socket", "{}", diagnosis["verdict"]);
    for transport in ["TCP", "gRPC raw"] {
        let one = step(&diagnosis, &format!("{transport}, 1 connection"));
        let eight = step(&diagnosis, &format!("{transport}, 8 connections"));
        assert_eq!((&one["connections"], &eight["connections"]), (&1.into(), &8.into()));
        assert!(number(&one["bytes_per_s"]) < 7.6e6, "{one}");
        // Two flows may be of one class, but not all of them.
        assert!(number(&eight["bytes_per_s"]) > 2.0 * number(&one["bytes_per_s"]), "{eight}");
        // What the interface carried is the payload with its headers.
        assert!(number(&eight["interface_bytes_per_s"]) > number(&eight["bytes_per_s"]));
    }
    assert_eq!(diagnosis["line_from"], "fastest-tcp", "veth has no rate");
    let text = cluster.diagnose(&server, &format!("{QUICK} --path eth0")).quietly(0).stdout;
    assert!(text.contains("\nverdict: one socket's limit: one TCP socket carries "), "{text}");
    assert!(text.contains("the kernel states no rate of this link"), "{text}");
}

#[test]
fn a_full_link_is_named_and_measured_by_the_rate_that_was_told() {
    let Some(cluster) = Cluster::new() else { return };
    shape(&cluster, &["qdisc add dev eth0 root tbf rate 160mbit burst 64kb limit 1mb".to_owned()]);
    let server = cluster.server("10.77.2.2");
    let full = diagnose(&cluster, &server, &format!("{QUICK} --path eth0 --line-rate 160M"));
    assert_eq!(causes(&full), ["link"], "{}", full["verdict"]);
    assert_eq!((&full["line_from"], &full["line_bytes_per_s"]), (&"option".into(), &20e6.into()));
    let far = diagnose(&cluster, &server, &format!("{QUICK} --path eth0 --line-rate 10G"));
    assert_eq!(causes(&far)[0], "path", "{}", far["verdict"]);
}

/// The window of tonic's server, 1 MiB, lets through 26 MB/s where a round trip takes 40 ms.
#[test]
fn a_window_that_is_too_small_for_a_long_path_is_named() {
    let Some(cluster) = Cluster::with_delay(Duration::from_millis(20)) else { return };
    shape(&cluster, &["qdisc add dev ib0 root tbf rate 480mbit burst 256kb limit 2mb".to_owned()]);
    let server = cluster.server("10.77.3.2");
    let diagnosis = diagnose(
        &cluster,
        &server,
        "--path ipoib -s 256K --tensor 1M -D 3s --rounds 2 --connections 1,2",
    );
    assert_eq!(causes(&diagnosis)[0], "http2-window", "{diagnosis:#}");
    let text = diagnosis["verdict"][0]["text"].as_str().unwrap();
    assert!(text.contains("library's defaults") && text.contains("1024 KiB"), "{text}");
}
