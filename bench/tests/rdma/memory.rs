//! Where messages lie: huge pages, NUMA nodes, and what a device lacks.

use std::fs;

use crate::{
    document::{measured, without_figures},
    pair::{device, run, server},
};

const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// So many pages of 2 MiB set aside; none when dropped.
struct HugePages;

impl HugePages {
    fn reserve(count: u32) -> Self {
        fs::write(POOL, count.to_string()).unwrap();
        assert_eq!(fs::read_to_string(POOL).unwrap().trim(), count.to_string());
        Self
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(POOL, "0");
    }
}

const BOTH: &str = "--transport verbs-write,verbs-send -s 4097 -n 20 --rounds 1";

/// Client and server take three pages each at the most.
#[test]
fn messages_lie_in_huge_pages_where_asked() {
    let Some(_device) = device() else { return };
    let _pool = HugePages::reserve(16);
    let server = server();
    for cell in run(&server, &format!("{BOTH} --pages 2M"), 0).cells() {
        measured(cell);
        assert_eq!(cell["payload"]["corrupt_messages"], 0);
        for side in ["client memory", "server memory"] {
            let memory = cell["settings"]["transport"][side].as_str().unwrap();
            assert!(memory.starts_with("2 MiB pages"), "{memory}");
        }
    }
}

#[test]
fn without_huge_pages_the_cell_is_unsupported_or_falls_back_as_asked() {
    let Some(_device) = device() else { return };
    let _pool = HugePages::reserve(0);
    let server = server();
    for (pages, words) in [
        ("2M", &["2 MiB pages", "0 of 0 free", "nr_hugepages", "--pages-fallback"][..]),
        ("1G", &["1 GiB pages"]),
    ] {
        for cell in run(&server, &format!("{BOTH} --pages {pages}"), 4).cells() {
            without_figures(cell, "unsupported", words);
        }
        for cell in run(&server, &format!("{BOTH} --pages {pages} --pages-fallback"), 0).cells() {
            let memory = cell["settings"]["transport"]["client memory"].as_str().unwrap();
            assert!(memory.starts_with("normal pages"), "{memory}");
        }
    }
}

#[test]
fn what_soft_roce_lacks_is_unsupported_by_name() {
    let Some(_device) = device() else { return };
    let server = server();
    let words = &["rxe0", "memory on the device"];
    for cell in run(&server, &format!("{BOTH} --device-memory"), 4).cells() {
        without_figures(cell, "unsupported", words);
    }
    // Soft-RoCE does sends and writes on demand since Linux 6.3.
    let document = run_any(&server, &format!("{BOTH} --odp"));
    for cell in document.cells() {
        if cell["status"] == "measured" {
            let memory = cell["settings"]["transport"]["client memory"].as_str().unwrap();
            assert!(memory.ends_with("registered on demand"), "{memory}");
        } else {
            without_figures(cell, "unsupported", &["rxe0", "ODP"]);
        }
    }
}

/// Whatever the kernel of the guest offers.
fn run_any(server: &crate::process::Server, options: &str) -> crate::document::Document {
    let finished = crate::pair::client(server, options).end();
    crate::document::Document::read(&finished.stdout)
}

#[test]
fn a_node_is_given_or_refused() {
    let Some(_device) = device() else { return };
    let server = server();
    let memory = |options: &str| {
        let options = format!("--transport verbs-send --pattern latency -s 8 -n 9 {options}");
        let document = run(&server, &options, 0);
        document.cells()[0]["settings"]["transport"]["client memory"].to_string()
    };
    // The guest has one node, and the interface of rxe0 is a virtual one.
    assert!(memory("").contains("the device's is not known"), "{}", memory(""));
    assert!(memory("--numa any").contains("normal pages on any NUMA node"));
    assert!(memory("--numa 0").contains("normal pages on NUMA node 0"));
    let options = "--transport verbs-send --pattern latency -s 8 -n 9 --numa 7";
    for cell in run(&server, options, 4).cells() {
        without_figures(cell, "unsupported", &["NUMA node 7 (--numa)", "any"]);
    }
}

#[test]
fn a_gid_is_found_by_its_address() {
    let Some(_device) = device() else { return };
    let server = server();
    let here = "--transport verbs-send --pattern latency -s 8 -n 9";
    let both = format!("{here} --gid 10.77.1.1 --peer-gid fd77:1::1");
    let refused = run(&server, &format!("{here} --gid 10.77.1.99"), 4);
    without_figures(&refused.cells()[0], "failed", &["10.77.1.99", "10.77.1.1", "rxe0"]);
    let document = run(&server, &format!("{here} --gid 10.77.1.1 --peer-gid 10.77.1.1"), 0);
    for path in ["path", "peer_path"] {
        let path = &document.cells()[0][path];
        assert_eq!(path["address"], "::ffff:10.77.1.1");
        let chosen = path["chosen"].as_str().unwrap();
        assert!(chosen.contains("of the address 10.77.1.1, which was asked for"), "{chosen}");
    }
    // IPv4 on one side and IPv6 on the other do not meet; either way it is told.
    let mixed = run_any(&server, &both);
    assert_ne!(mixed.cells()[0]["status"], "skipped");
}
