//! TF-gRPC-Bench over RDMA, beside gRPC and TCP on the same link.

use serde_json::Value;

use crate::{
    document::number,
    pair::{device, server},
    process::{Running, fabricbench},
};

#[test]
fn every_benchmark_goes_over_verbs() {
    let Some(_device) = device() else { return };
    let server = server();
    let options = "--transport verbs-write,verbs-send,grpc@ethernet,tcp@ethernet --scheme uniform \
                   --servers 2 --workers 2 -D 100ms --warm-up 10ms --rounds 1 --timeout 2m --format json";
    let arguments = format!("suite tf-grpc {} {options}", server.address);
    let finished = Running::start(&mut fabricbench(&arguments)).end();
    let suite: Value = serde_json::from_str(&finished.quietly(0).stdout).unwrap();
    let tables = suite["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 3);
    for table in tables {
        assert_eq!(table["base"], "grpc@ethernet");
        for row in table["rows"].as_array().unwrap() {
            for figure in row["figures"].as_array().unwrap() {
                assert_eq!(figure["status"], "measured", "{figure}");
                assert!(number(&figure["ratio"]) > 0.0, "{figure}");
                assert!(number(&figure["client"]["peak_memory_bytes"]) > 3e6, "{figure}");
            }
        }
    }
    for cell in suite["document"]["cells"].as_array().unwrap() {
        assert_eq!(cell["buffers"]["lengths"].as_array().unwrap().len(), 10, "{cell}");
        assert_eq!(cell["payload"]["corrupt_messages"], 0, "{cell}");
        assert!(cell["payload"]["verified_messages"].as_u64().unwrap() > 0, "{cell}");
    }
}
