//! What control groups leave of processors and memory: a container's limits, or a job's
//! (Documentation/admin-guide/cgroup-v2.rst: `cpu.max`, `memory.max`; cgroup-v1/memory.rst;
//! scheduler/sched-bwc.rst).

use super::{
    evidence::Evidence,
    finding::{Check, Finding},
    tree::Tree,
};

const MEMBERSHIP: &str = "/proc/self/cgroup";
const ROOT: &str = "/sys/fs/cgroup";
/// Groups searched upwards, more than anybody nests.
const DEEPEST: usize = 32;
/// A run polls with one thread, and another one talks to the far side.
const FEWEST_PROCESSORS: f64 = 2.0;
/// A gibibyte: buffers of the largest messages of a run without options, on both sides of a host, and
/// the histograms of its cells.
const LITTLE_MEMORY: u64 = 1 << 30;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    if evidence.tree.text(MEMBERSHIP).is_none() {
        let unknown = |check| {
            let why = "the kernel does not show this process's control group";
            Finding::unknown(check, "this process", why, MEMBERSHIP)
        };
        return vec![unknown(Check::CpuLimit), unknown(Check::MemoryLimit)];
    }
    vec![processors(&evidence.tree), memory(&evidence.tree)]
}

/// The directories of this process's group of a controller, and of all above it. In a container the
/// path may be the host's, of which only the root is here.
fn groups(tree: &Tree, controller: &str) -> Vec<String> {
    let membership = tree.text(MEMBERSHIP).unwrap_or_default();
    let of = |wanted: &str| {
        membership.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|name| name == wanted).then(|| {
                let mount = if wanted.is_empty() {
                    ROOT.to_owned()
                } else {
                    // A mount of several controllers has all their names, and links of one each.
                    format!("{ROOT}/{wanted}")
                };
                (mount, path.to_owned())
            })
        })
    };
    let mut groups = Vec::new();
    for (mount, path) in [of(controller), of("")].into_iter().flatten() {
        let mut path = path.trim_matches('/');
        for _ in 0..DEEPEST {
            groups.push(format!("{mount}/{path}").trim_end_matches('/').to_owned());
            let Some((parent, _)) = path.rsplit_once('/') else { break };
            path = parent;
        }
        groups.push(mount);
    }
    groups
}

/// The least that any of the groups leaves, and the file that says so.
fn least<T: PartialOrd>(
    tree: &Tree,
    controller: &str,
    limit: impl Fn(&Tree, &str) -> Option<(T, String)>,
) -> Option<(T, String)> {
    let limits = groups(tree, controller).into_iter().filter_map(|group| limit(tree, &group));
    limits.reduce(|least, next| if next.0 < least.0 { next } else { least })
}

/// Processors that a group may use: its quota of each period.
fn quota(tree: &Tree, group: &str) -> Option<(f64, String)> {
    let second = format!("{group}/cpu.max");
    let first = format!("{group}/cpu.cfs_quota_us");
    let (quota, period, source): (f64, f64, _) = match tree.text(&second) {
        Some(text) => {
            let mut parts = text.split_whitespace();
            (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, second)
        }
        None => (tree.value(&first)?, tree.value(&format!("{group}/cpu.cfs_period_us"))?, first),
    };
    let processors = quota / period;
    (quota > 0.0 && period > 0.0 && processors.is_finite()).then_some((processors, source))
}

fn processors(tree: &Tree) -> Finding {
    let subject = "this process";
    let Some((processors, source)) = least(tree, "cpu", quota) else {
        return Finding::fine(Check::CpuLimit, subject, "no limit of processor time", MEMBERSHIP);
    };
    let seen = format!("{processors:.2} processors' time by its control group");
    let matters = "what is used up is waited for until the next period, tens of milliseconds: it is in \
                   the tail of each latency";
    let mend = "run without a limit (Kubernetes: no limits.cpu, or whole processors with the static CPU \
                manager; docker run without --cpus; Slurm: more --cpus-per-task)";
    if processors < FEWEST_PROCESSORS {
        Finding::problem(Check::CpuLimit, subject, seen, source).because(matters, mend)
    } else {
        Finding::advice(Check::CpuLimit, subject, seen, source).because(matters, mend)
    }
}

/// Bytes that a group may have. Of version 1 no limit is a number as large as there is.
fn most_memory(tree: &Tree, group: &str) -> Option<(u64, String)> {
    ["memory.max", "memory.limit_in_bytes"].into_iter().find_map(|name| {
        let source = format!("{group}/{name}");
        let bytes: u64 = tree.value(&source)?;
        (bytes < 1 << 62).then_some((bytes, source))
    })
}

fn memory(tree: &Tree) -> Finding {
    let subject = "this process";
    let Some((bytes, source)) = least(tree, "memory", most_memory) else {
        return Finding::fine(Check::MemoryLimit, subject, "no limit of memory", MEMBERSHIP);
    };
    let seen = format!("{} MiB of memory by its control group", bytes >> 20);
    if bytes >= LITTLE_MEMORY {
        return Finding::fine(Check::MemoryLimit, subject, seen, source);
    }
    Finding::advice(Check::MemoryLimit, subject, seen, source).because(
        "locked memory counts too; a process that needs more is killed in the middle of a run",
        "give it 1 GiB (Kubernetes: limits.memory; docker run --memory; Slurm: --mem), or fewer \
         threads, connections and depth",
    )
}
