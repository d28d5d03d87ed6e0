//! Links that go down and devices that are taken away. Only done to soft-RoCE: somebody may be
//! using an adapter.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use fabricbench_verbs::{Error, EventKind, Kind, Operation, SendRequest, Subject};

use crate::pair::{PATIENCE, Pair, alone, device};

fn shell(script: &str) {
    let output = Command::new("sh").args(["-e", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_link_that_goes_down_is_an_event() {
    let Some(_guard) = alone() else { return };
    let (context, port) = device();
    assert_eq!(context.poll_async_event().unwrap(), None);
    // Not on an adapter, which somebody may be using.
    let (Kind::SoftRoce, Some(netdev)) = (port.kind, port.netdev) else {
        eprintln!("skipped: only done to a soft-RoCE device");
        return;
    };
    let set = |state: &str| {
        let status = Command::new("ip").args(["link", "set", &netdev, state]).status().unwrap();
        assert!(status.success(), "ip link set {netdev} {state}");
    };
    let wait_for = |kind| {
        let start = Instant::now();
        loop {
            if let Some(event) = context.poll_async_event().unwrap()
                && event.kind == kind
            {
                return event;
            }
            assert!(start.elapsed() < PATIENCE, "no event {kind}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    set("down");
    let event = wait_for(EventKind::PORT_ERR);
    assert!(event.is_fatal() && event.subject == Subject::Port(port.number), "{event}");
    set("up");
    assert!(!wait_for(EventKind::PORT_ACTIVE).is_fatal());
    let start = Instant::now();
    while !context.port(port.number).unwrap().is_active() {
        assert!(start.elapsed() < PATIENCE, "the port does not come back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const DEVICE: &str = "rxe-gone";

/// A soft-RoCE device of its own to take away, on one end of a pair of interfaces; all of it is
/// gone again when the value is.
struct Removable;

impl Removable {
    fn new() -> Self {
        shell(&format!(
            "ip link add gone0 type veth peer gone1; ip addr add 198.51.100.1/24 dev gone0; \
             ip link set gone0 up; ip link set gone1 up; \
             rdma link add {DEVICE} type rxe netdev gone0"
        ));
        let made = Self;
        until("the new device is active with a GID", || {
            fabricbench_verbs::open(Some(DEVICE), None).is_ok_and(|(context, port)| {
                let gid = context.choose_gid(port.number, None);
                gid.is_ok_and(|gid| gid.entry.gid.ipv4().is_some())
            })
        });
        made
    }
}

impl Drop for Removable {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", "gone0"]).output();
    }
}

fn start(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).spawn().unwrap()
}

/// A driver that cannot take a device from its users sends no event and waits for them, with
/// traffic flowing: only the node in `/dev` tells.
#[test]
fn a_device_deleted_while_in_use_is_seen_and_let_go() {
    let Some(_guard) = alone() else { return };
    if device().1.kind != Kind::SoftRoce {
        return;
    }
    let _removable = Removable::new();
    let Pair { a, b, .. } = Pair::of(Some(DEVICE));
    let context = a.qp.context();
    context.check().unwrap();
    assert!(context.is_present());
    let mut deletion = start(&format!("exec rdma link del {DEVICE}"));
    until("the device is no longer present", || !context.is_present());
    let error = context.check().unwrap_err();
    assert!(
        matches!(error, Error::Removed { .. }) && error.to_string().contains(DEVICE),
        "{error}"
    );
    // Until all of it is dropped, the removal waits; then it ends.
    drop((context, a, b));
    until("the deletion ends", || deletion.try_wait().unwrap().is_some());
    assert!(deletion.wait().unwrap().success());
}

#[test]
fn an_interface_deleted_under_the_device_ends_traffic_with_an_error() {
    let Some(_guard) = alone() else { return };
    if device().1.kind != Kind::SoftRoce {
        return;
    }
    let _removable = Removable::new();
    let Pair { a, b, .. } = Pair::of(Some(DEVICE));
    let context = a.qp.context();
    let mut deletion = start("exec ip link del gone0");
    let write = Operation::Write(b.region.remote().at(0));
    let request = SendRequest::new(0, write, a.id.range(0, 8));
    until("a request fails or the device is seen to go", || {
        let failed = a.qp.post_send(&request).is_err() || a.completion().check().is_err();
        failed || context.check().is_err()
    });
    until("the device is seen to go", || context.check().is_err());
    drop((context, a, b));
    until("the deletion ends", || deletion.try_wait().unwrap().is_some());
}
