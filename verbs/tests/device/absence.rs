//! A device the kernel has and this process may not use, as in a container.

use std::process::Command;

use fabricbench_verbs::{Error, devices};

use crate::pair::{device, shared};

/// Which state the child process finds itself in.
const STATE: &str = "FABRICBENCH_TEST_DEVICE_NODE";

/// Runs the test `name` again as an ordinary user whose `/dev/infiniband` is what `setup` makes
/// of an empty directory.
fn again_with(name: &str, setup: &str) {
    let become_nobody = "exec setpriv --reuid 65534 --regid 65534 --clear-groups";
    let script = format!(
        "set -e; numbers=$(stat -c '0x%t 0x%T' /dev/infiniband/uverbs0); \
         mount -t tmpfs none /dev/infiniband; {setup}; {become_nobody} \"$0\" --exact \"$1\""
    );
    let program = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, program.to_str().unwrap(), name])
        .env(STATE, name)
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}

#[test]
fn a_device_without_its_node_is_named_with_the_way_to_pass_it_in() {
    if std::env::var_os(STATE).is_some() {
        let error = devices().unwrap_err();
        assert!(matches!(error, Error::NodeAbsent { .. }), "{error}");
        assert!(error.to_string().contains("--device=/dev/infiniband"), "{error}");
        return;
    }
    let Some(_guard) = shared() else { return };
    device();
    again_with("absence::a_device_without_its_node_is_named_with_the_way_to_pass_it_in", ":");
}

#[test]
fn a_node_that_may_not_be_opened_is_a_matter_of_permission() {
    if std::env::var_os(STATE).is_some() {
        let error = fabricbench_verbs::open(None, None).unwrap_err();
        assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
        assert!(error.to_string().contains("/dev/infiniband/uverbs0"), "{error}");
        return;
    }
    let Some(_guard) = shared() else { return };
    device();
    let name = "absence::a_node_that_may_not_be_opened_is_a_matter_of_permission";
    again_with(name, "mknod -m 600 /dev/infiniband/uverbs0 c $numbers");
}
