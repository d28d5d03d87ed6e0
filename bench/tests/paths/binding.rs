//! A user who may not bind sockets to an interface: before Linux 5.7 that takes CAP_NET_RAW. The kernel
//! of the test allows it, so its answer is replaced by a library that is loaded before the C library.

use std::{fs, process::Command};

use crate::{
    cluster::Cluster,
    document::{Document, measured, without_figures},
    process::{Running, Server, fabricbench},
};

/// `setsockopt` as it was, but for SO_BINDTODEVICE (25), which is not permitted (EPERM).
const REFUSAL: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int setsockopt(int socket, int level, int name, const void *value, socklen_t length)
{
    int (*next)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");
    if (level == SOL_SOCKET && name == SO_BINDTODEVICE) {
        errno = EPERM;
        return -1;
    }
    return next(socket, level, name, value, length);
}
"#;

#[test]
fn who_may_not_bind_to_an_interface_is_bound_to_its_address_and_told() {
    let Some(cluster) = Cluster::new() else { return };
    let place = tempfile::tempdir().unwrap();
    let (source, library) = (place.path().join("refusal.c"), place.path().join("refusal.so"));
    fs::write(&source, REFUSAL).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());

    let mut serve = fabricbench("serve --port 0 --listen 10.77.2.2");
    serve.env("LD_PRELOAD", &library);
    let server = cluster.there.within(|| Server::by(&mut serve)).unwrap();
    let run = |options: &str| {
        let mut command = fabricbench(&format!("run {} {options}", server.address));
        command.env("LD_PRELOAD", &library);
        cluster.here.within(|| Running::start(&mut command)).unwrap().end()
    };
    let cells = "--transport tcp@ethernet,grpc@ipoib,grpc-lean@eth0 --pattern latency -s 64 -n 50";
    let document = Document::read(&run(&format!("{cells} --format json")).quietly(0).stdout);
    for cell in document.cells() {
        measured(cell);
        let bound = cell["settings"]["transport"]["socket bound to"].as_str().unwrap();
        assert!(bound.starts_with("address 10.77.") && bound.contains("CAP_NET_RAW"), "{bound}");
        assert_eq!(cell["counters"]["proof"]["holds"], true);
    }
    let table = run(cells).quietly(0).stdout;
    assert!(
        table.contains("warning: tcp@ethernet: sockets are bound to the address 10.77.2.1"),
        "{table}"
    );

    // Where the route then leads by another interface, there is no figure.
    cluster
        .here
        .within(|| crate::cluster::ip("route add 10.77.3.2/32 dev eth0 via 10.77.2.2"))
        .unwrap();
    cluster
        .there
        .within(|| crate::cluster::ip("route add 10.77.3.1/32 dev eth0 via 10.77.2.1"))
        .unwrap();
    let finished = run("--transport tcp@ipoib --pattern latency -s 64 -n 50 --format json");
    for cell in Document::read(&finished.quietly(4).stdout).cells() {
        without_figures(cell, cell["status"].as_str().unwrap(), &["ib0"]);
        assert_ne!(cell["status"], "measured");
    }
}
