//! A suite between two hosts: what the publication compares, IPoIB with Ethernet.

use serde_json::Value;

use crate::{cluster::Cluster, document::number};

#[test]
fn ipoib_is_compared_with_ethernet_as_in_the_publication() {
    let Some(cluster) = Cluster::new() else { return };
    let server = cluster.server("10.77.2.2");
    let options = "-D 60ms --warm-up 10ms --rounds 2 --timeout 1m --scheme uniform,skew-medium --iovecs 5 \
                   --categories s,m --format json";
    let finished = cluster.suite(&server, options);
    // The usual transports, of which a host without RDMA lacks verbs.
    let suite: Value = serde_json::from_str(&finished.quietly(3).stdout).unwrap();
    for table in suite["tables"].as_array().unwrap() {
        let columns = [
            "verbs-write",
            "verbs-send",
            "grpc@ipoib",
            "grpc@ethernet",
            "tcp@ipoib",
            "tcp@ethernet",
        ];
        assert_eq!(table["columns"], serde_json::json!(columns));
        assert_eq!(table["base"], "grpc@ethernet", "though IPoIB comes first");
        for row in table["rows"].as_array().unwrap() {
            let figures = row["figures"].as_array().unwrap();
            for verbs in &figures[..2] {
                assert_eq!(
                    (&verbs["status"], &verbs["value"]),
                    (&"unsupported".into(), &Value::Null)
                );
                assert!(!verbs["reason"].as_str().unwrap().is_empty());
            }
            for ip in &figures[2..] {
                assert!(number(&ip["ratio"]) > 0.0, "{ip}");
                assert!(number(&ip["client"]["sent_bytes_per_s"]) > 0.0, "{ip}");
            }
            assert_eq!(figures[3]["ratio"], 1.0);
        }
    }
}
