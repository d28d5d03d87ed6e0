//! What this process may have of memory for devices.

use super::{
    device::Device,
    evidence::Evidence,
    finding::{Check, Finding},
    numa::status_line,
    tree::Tree,
};

const LIMITS: &str = "/proc/self/limits";
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";
/// The largest message of a run with no options, in bytes: it is in one region, with others beside it.
const LARGEST_MESSAGE: u64 = 8 << 20;
/// Of `CapEff` (linux/capability.h).
const CAP_IPC_LOCK: u32 = 14;

pub(super) fn check(evidence: &Evidence, devices: &[Device]) -> Vec<Finding> {
    let tree = &evidence.tree;
    let has_device = !devices.is_empty() || evidence.verbs.iter().flatten().next().is_some();
    let mut found = vec![locked(tree, has_device)];
    if has_device {
        found.extend(huge_pages(tree));
    }
    found
}

/// The kernel holds pinned memory against the limit, unless the process has CAP_IPC_LOCK in the
/// initial user namespace (`can_do_mlock` and `ib_umem_get`; getrlimit(2), user_namespaces(7)).
///
/// Without a device nothing is locked yet, and so the limit is no problem yet.
fn locked(tree: &Tree, has_device: bool) -> Finding {
    let limits = tree.text(LIMITS).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    let subject = "this process";
    let capabilities = status_line(tree, "CapEff:");
    let capabilities = capabilities.and_then(|set| u64::from_str_radix(&set, 16).ok());
    let is_privileged = capabilities.is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1);
    let fine = |seen: String| Finding::fine(Check::LockedMemory, subject, seen, LIMITS);
    let limit: u64 = match soft {
        Some("unlimited") => return fine("unlimited".to_owned()),
        Some(limit) if limit.parse::<u64>().is_ok() => limit.parse().unwrap_or_default(),
        _ => {
            let why = "the limit on locked memory is not shown";
            return Finding::unknown(Check::LockedMemory, subject, why, LIMITS);
        }
    };
    let in_namespace = !is_initial_user_namespace(tree);
    if is_privileged && !in_namespace {
        return fine(format!("{limit} B, which CAP_IPC_LOCK passes"));
    }
    let seen = format!(
        "{limit} B of locked memory, {}",
        if is_privileged {
            "which CAP_IPC_LOCK of a user namespace does not pass"
        } else {
            "without CAP_IPC_LOCK"
        }
    );
    let mend = "ulimit -l unlimited; for ever: `* - memlock unlimited` in /etc/security/limits.conf, \
                LimitMEMLOCK=infinity of slurmd's or containerd's unit; docker run --ulimit memlock=-1";
    if !has_device {
        Finding::advice(Check::LockedMemory, subject, seen, LIMITS).because(
            "all memory of verbs is locked: large messages may not fit once there is an RDMA device",
            mend,
        )
    } else if limit <= LARGEST_MESSAGE {
        Finding::problem(Check::LockedMemory, subject, seen, LIMITS).because(
            "all memory of verbs is locked: the 8 MiB messages of a run without options do not fit",
            mend,
        )
    } else {
        Finding::advice(Check::LockedMemory, subject, seen, LIMITS).because(
            "all memory of verbs is locked: large messages, or many threads and queue pairs, may not fit",
            mend,
        )
    }
}

/// Its map is the whole of all users onto themselves (user_namespaces(7)).
fn is_initial_user_namespace(tree: &Tree) -> bool {
    tree.text("/proc/self/uid_map")
        .is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Only `--pages 2M` and `1G` take them.
fn huge_pages(tree: &Tree) -> Option<Finding> {
    let sizes = tree.names(HUGE_PAGES);
    let counted: Vec<_> = sizes
        .iter()
        .filter_map(|size| {
            let kibibytes = size.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            let count = |name: &str| tree.value::<u64>(&format!("{HUGE_PAGES}/{size}/{name}"));
            let (free, all) = (count("free_hugepages")?, count("nr_hugepages")?);
            Some(format!("{free} of {all} free of {kibibytes} KiB"))
        })
        .collect();
    let source = format!("{HUGE_PAGES}/*/free_hugepages");
    (!counted.is_empty()).then(|| {
        Finding::fine(
            Check::HugePages,
            "host",
            format!("huge pages: {}", counted.join(", ")),
            source,
        )
    })
}
