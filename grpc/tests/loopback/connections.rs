//! Sockets: how many, from where, through which interface, and without Nagle's algorithm.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fabricbench_grpc::{Binding, Client, ConnectOptions, ListenOptions, Observer, Server, Tuning};

use crate::support::{Running, run};

fn tuning() -> Tuning {
    Tuning::tuned(1 << 20, 4).unwrap()
}

#[test]
fn each_client_is_a_socket_of_its_own() {
    let server = Running::start(&tuning());
    run(async {
        let mut clients = Vec::new();
        for _ in 0..8 {
            let options = ConnectOptions::new(server.address);
            clients.push(Client::connect(&options, &tuning()).await.unwrap());
        }
        for client in &clients {
            client.echo(Bytes::from_static(b"hello")).await.unwrap();
            assert_eq!(client.peer_addr(), server.address);
        }
        let ours: BTreeSet<_> = clients.iter().map(Client::local_addr).collect();
        let theirs: BTreeSet<_> = server.observer.open_connections().into_iter().collect();
        assert_eq!(ours.len(), 8);
        assert_eq!(ours, theirs);
        assert_eq!(server.observer.accepted(), 8);

        clients.truncate(3);
        while server.observer.open_connections().len() > 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ours: BTreeSet<_> = clients.iter().map(Client::local_addr).collect();
        let theirs: BTreeSet<_> = server.observer.open_connections().into_iter().collect();
        assert_eq!(ours, theirs);
        assert_eq!(server.observer.accepted(), 8);
    });
}

/// With Nagle's algorithm on either side such replies wait for the delayed acknowledgement, 40 ms.
#[test]
fn replies_of_a_few_hundred_bytes_do_not_stall() {
    for tuning in [
        Tuning::stock(4096).unwrap(),
        Tuning::tuned(4096, 1).unwrap(),
        Tuning::lean(4096, 1).unwrap(),
    ] {
        let server = Running::start(&tuning);
        run(async {
            let options = ConnectOptions::new(server.address);
            let client = Client::connect(&options, &tuning).await.unwrap();
            for size in [200, 256, 300] {
                let message = Bytes::from(vec![0; size]);
                let mut times = Vec::new();
                for _ in 0..101 {
                    let start = Instant::now();
                    client.echo(message.clone()).await.unwrap();
                    times.push(start.elapsed());
                }
                times.sort();
                let median = times[times.len() / 2];
                // Half of what a stall takes, and much more than a busy machine does.
                assert!(median < Duration::from_millis(20), "{size} B: {median:?}");
            }
        });
    }
}

#[test]
fn both_sides_bind_to_the_loopback_device() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listen = ListenOptions::new(address.parse().unwrap()).interface("lo");
        let bound = Server::bind(&listen, &tuning()).unwrap();
        assert_eq!(*bound.binding(), Binding::Device { interface: "lo".into() });
        let server = Running::start_with(&listen, &tuning(), Observer::new());
        run(async {
            let options = ConnectOptions::new(server.address).interface("lo");
            let client = Client::connect(&options, &tuning()).await.unwrap();
            assert_eq!(*client.binding(), Binding::Device { interface: "lo".into() });
            client.echo(Bytes::from_static(b"through lo")).await.unwrap();
        });
    }
}

#[test]
fn the_source_address_is_the_one_asked_for() {
    let server = Running::start(&tuning());
    let source: IpAddr = "127.0.0.77".parse().unwrap();
    run(async {
        let options = ConnectOptions::new(server.address).local_address(source);
        let client = Client::connect(&options, &tuning()).await.unwrap();
        assert_eq!(client.local_addr().ip(), source);
        assert_eq!(server.observer.open_connections(), [client.local_addr()]);
        let Binding::SourceAddressOnly { address, why } = client.binding() else {
            panic!("{:?}", client.binding())
        };
        assert_eq!(*address, source);
        assert!(why.contains("no interface"), "{why}");

        let plain = ConnectOptions::new(server.address);
        let client = Client::connect(&plain, &tuning()).await.unwrap();
        assert_eq!(*client.binding(), Binding::Unbound);
    });
}
