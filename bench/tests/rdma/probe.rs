//! Findings where there is a device: of soft-RoCE, over an interface that has room for the largest path
//! MTU.

use std::process::Command;

use fabricbench::doctor::{Check, Finding, Severity};

use crate::{pair::device, process::run};

fn findings() -> Vec<Finding> {
    let document: serde_json::Value =
        serde_json::from_str(&run("probe --json").quietly(0).stdout).unwrap();
    serde_json::from_value(document["findings"].clone()).unwrap()
}

/// The one finding of `check` at `subject`.
#[track_caller]
fn of(findings: &[Finding], check: Check, subject: &str) -> Finding {
    let is = |finding: &&Finding| finding.check == check && finding.subject == subject;
    let found: Vec<_> = findings.iter().filter(is).collect();
    let [finding] = found[..] else { panic!("{check:?} of {subject}: {findings:#?}") };
    finding.clone()
}

/// The MTU of the interface under the device; as it was when dropped.
struct Mtu;

impl Mtu {
    fn set(bytes: &str) {
        let set = Command::new("ip").args(["link", "set", "v0", "mtu", bytes]).status();
        assert!(set.unwrap().success());
    }
}

impl Drop for Mtu {
    fn drop(&mut self) {
        Self::set("4200");
    }
}

#[test]
fn soft_roce_is_found_and_nothing_is_asked_of_its_hardware() {
    let Some(_device) = device() else { return };
    let found = findings();
    for (check, subject, seen) in [
        (Check::Device, "rxe0", "emulated by the kernel"),
        (Check::PortState, "rxe0 port 1", "active, "),
        (Check::Gid, "rxe0 port 1", "RoCE v2 at index "),
        (Check::Gid, "rxe0 port 1", "10.77.1.1"),
        (Check::Mtu, "rxe0 port 1", "path MTU 4096, over v0 with an MTU of 4200"),
        (Check::RdmaCore, "host", "rdma-core "),
    ] {
        let finding = of(&found, check, subject);
        assert_eq!(finding.severity, Severity::Fine, "{finding:?}");
        assert!(finding.seen.contains(seen), "no `{seen}` in {finding:?}");
    }
    let of_hardware = |finding: &&Finding| {
        matches!(finding.check, Check::PcieLink | Check::PortLink | Check::Iommu | Check::NumaNode)
    };
    assert_eq!(found.iter().filter(of_hardware).count(), 0, "{found:#?}");
}

/// The kernel gives the port the MTU that its interface has room for.
#[test]
fn an_interface_with_little_room_is_told() {
    let Some(_device) = device() else { return };
    let restored = Mtu;
    Mtu::set("1500");
    let finding = of(&findings(), Check::Mtu, "rxe0 port 1");
    assert_eq!(finding.severity, Severity::Advice, "{finding:?}");
    assert_eq!(finding.seen, "path MTU 1024, over v0 with an MTU of 1500");
    assert!(finding.mend.unwrap().starts_with("ip link set v0 mtu 4200"));
    drop(restored);
    assert_eq!(of(&findings(), Check::Mtu, "rxe0 port 1").severity, Severity::Fine);
}

/// An ordinary user's limit, without the privilege that passes it.
#[test]
fn little_locked_memory_is_a_problem() {
    let Some(_device) = device() else { return };
    let poor = "--reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536";
    let output = Command::new("setpriv")
        .args(poor.split(' '))
        .args([env!("CARGO_BIN_EXE_fabricbench"), "probe", "--brief"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line =
        "PROBLEM  this process: 65536 B of locked memory, without CAP_IPC_LOCK [locked-memory]";
    assert!(text.contains(line), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
