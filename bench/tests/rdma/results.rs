//! What is made of results, on real ones over RDMA: the published schema, comparison and page.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    pair::{client, device, server},
    process::{Running, Server, fabricbench, run},
};

const TRANSPORTS: &str = "verbs-write,verbs-send,grpc@eth-a,tcp@eth-a";

/// Measures into `file`.
fn measure(server: &Server, options: &str, file: &Path) -> Value {
    let options = format!("--transport {TRANSPORTS} {options} -o {}", file.display());
    client(server, &options).end().quietly(0);
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// A delay on the way here to the peer over Ethernet, which RDMA does not take; gone when dropped.
struct Delay;

impl Delay {
    fn milliseconds(delay: u32) -> Self {
        tc(&format!("qdisc add dev eth-a root netem delay {delay}ms"));
        Self
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        tc("qdisc del dev eth-a root");
    }
}

fn tc(arguments: &str) {
    let status = Command::new("tc").args(arguments.split_whitespace()).status().unwrap();
    assert!(status.success(), "tc {arguments}: {status}");
}

/// Where `FABRICBENCH_RESULTS` names a folder, the result stays there for the browser's tests.
#[test]
fn a_result_over_rdma_fits_the_schema_and_becomes_a_page() {
    let Some(_device) = device() else { return };
    let server = server();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("soft-roce.json");
    let result = measure(&server, "--sizes 64,4K -n 45 --warm-up 5 --rounds 3", &file);

    let schema: Value = serde_json::from_str(&run("schema").quietly(0).stdout).unwrap();
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&result)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 16);
    for cell in cells {
        assert_eq!(cell["status"], "measured", "{cell}");
        assert_eq!(cell["rounds"].as_array().unwrap().len(), 3, "{cell}");
    }

    let page = folder.path().join("soft-roce.html");
    let mut report = fabricbench("report --quiet");
    Running::start(report.arg(&file).arg("-o").arg(&page)).end().quietly(0);
    let page = fs::read_to_string(page).unwrap();
    for words in [
        "Latency against message size",
        "Bandwidth against message size",
        "verbs-write",
        "tcp@eth-a",
        "rxe0",
        "16 of 16 cells have figures",
        "download=\"soft-roce.json.gz\"",
    ] {
        assert!(page.contains(words), "no `{words}` in the page of {} bytes", page.len());
    }
    if let Some(kept) = std::env::var_os("FABRICBENCH_RESULTS") {
        fs::copy(&file, Path::new(&kept).join("soft-roce.json")).unwrap();
    }
}

/// Forty milliseconds more on the Ethernet link, and none on RDMA's: the one is found and trips its gate,
/// the other does not.
#[test]
fn a_delay_on_one_of_two_links_is_found_by_comparison() {
    let Some(_device) = device() else { return };
    let server = server();
    let folder = TempDir::new().unwrap();
    let [base, slow] = ["base.json", "slow.json"].map(|name| folder.path().join(name));
    let options = "--pattern latency --sizes 64 -n 70 --warm-up 5 --rounds 7";
    measure(&server, options, &base);
    {
        let _delay = Delay::milliseconds(40);
        measure(&server, options, &slow);
    }
    let gated = |gate: &str, code| {
        let mut compare = fabricbench("compare --format json --fail-on");
        compare.arg(gate).args([&base, &slow]);
        let finished = Running::start(&mut compare).end().quietly(code);
        serde_json::from_str::<Value>(&finished.stdout).unwrap()
    };
    let compared = gated("latency.p50 > 1.5 @ tcp@eth-a", 5);
    gated("latency.p50 > 3 @ verbs-*", 0);
    let cells = compared["comparisons"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let figures = cell["figures"].as_array().unwrap();
        let median = figures.iter().find(|figure| figure["metric"] == "latency.p50").unwrap();
        let delayed = cell["transport"].as_str().unwrap().ends_with("@eth-a");
        let by = median["new"].as_f64().unwrap() - median["base"].as_f64().unwrap();
        // Half of a round trip that took 40 ms longer, in nanoseconds; busy or not, it takes no less.
        assert_eq!(by > 12e6, delayed, "{cell}");
        if cell["transport"] == "tcp@eth-a" {
            assert_eq!(median["finding"], "slower", "{cell}");
        }
    }
}
