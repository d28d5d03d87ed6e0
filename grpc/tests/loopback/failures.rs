//! What is wrong is said, soon, and with the address.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fabricbench_grpc::{
    Client, ConnectOptions, ConnectStage, Error, ListenOptions, Observer, Server, Tuning,
};

use crate::support::{PATIENCE, Running, run};

fn tuning() -> Tuning {
    Tuning::tuned(1 << 20, 4).unwrap()
}

fn stacks() -> [Tuning; 3] {
    [tuning(), Tuning::stock(1 << 20).unwrap(), Tuning::lean(1 << 20, 4).unwrap()]
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn connect(server: &Running, tuning: &Tuning) -> Client {
    Client::connect(&ConnectOptions::new(server.address), tuning).await.unwrap()
}

/// One error message that names all of `parts`.
#[track_caller]
fn assert_says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[test]
fn a_server_that_dies_in_a_push_ends_the_push() {
    for tuning in stacks() {
        let server = Running::start(&tuning);
        let address = server.address.to_string();
        run(async {
            let client = connect(&server, &tuning).await;
            let mut push = client.push();
            let message = Bytes::from(vec![0; 1 << 20]);
            while server.observer.pushed().messages < 10 {
                push.send(message.clone()).await.unwrap();
            }
            server.kill();
            // What was queued before the loss was noticed is accepted; then it ends.
            let error = loop {
                if let Err(error) = push.send(message.clone()).await {
                    break error;
                }
            };
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
            assert_says(&error, &[&address, "/fabricbench.Raw/Push"]);
            let error = push.finish().await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        });
    }
}

#[test]
fn a_server_that_dies_before_it_confirms_fails_the_push() {
    for tuning in stacks() {
        let server = Running::start(&tuning);
        run(async {
            let client = connect(&server, &tuning).await;
            let mut push = client.push();
            push.send(Bytes::from_static(b"one")).await.unwrap();
            while server.observer.pushed().messages < 1 {
                tokio::task::yield_now().await;
            }
            server.kill();
            let error = push.finish().await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        });
    }
}

#[test]
fn a_server_that_dies_in_an_echo_ends_the_echo_and_is_not_replaced() {
    for tuning in stacks() {
        let server = Running::start(&tuning);
        let address = server.address;
        run(async {
            let client = connect(&server, &tuning).await;
            let message = Bytes::from(vec![0; 1 << 20]);
            let calls: Vec<_> =
                (0..64).map(|_| tokio::spawn(client.echo(message.clone()))).collect();
            while server.observer.echoed().messages < 4 {
                tokio::task::yield_now().await;
            }
            server.kill();
            let mut lost = 0;
            for call in calls {
                if let Err(error) = call.await.unwrap() {
                    assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
                    lost += 1;
                }
            }
            assert!(lost > 0);
            // A new server on the same port must not be taken for the old one.
            let next = Running::start_on(&address.to_string(), &tuning);
            let error = client.echo(message.clone()).await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
            assert_says(&error, &[&address.to_string(), "/fabricbench.Raw/Echo"]);
            let error = client.push().finish().await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
            assert_eq!(next.observer.accepted(), 0);
        });
    }
}

#[test]
fn a_server_that_dies_in_a_fetch_ends_the_fetch() {
    for tuning in stacks() {
        let server = Running::start(&tuning);
        run(async {
            let client = connect(&server, &tuning).await;
            let mut fetch = client.fetch(u64::MAX, 1 << 20).await.unwrap();
            fetch.next().await.unwrap();
            server.kill();
            let error = loop {
                match fetch.next().await {
                    Ok(message) => assert!(message.is_some()),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        });
    }
}

#[test]
fn a_server_that_dies_in_an_exchange_ends_the_exchange() {
    for tuning in stacks() {
        let server = Running::start(&tuning);
        let address = server.address.to_string();
        run(async {
            let client = connect(&server, &tuning).await;
            let mut exchange = client.exchange(|_: &[u8]| true);
            let message = Bytes::from(vec![0; 1 << 20]);
            while server.observer.pushed().messages < 10 || server.observer.fetched().messages < 10
            {
                exchange.send(message.clone()).await.unwrap();
            }
            server.kill();
            let error = loop {
                if let Err(error) = exchange.send(message.clone()).await {
                    break error;
                }
            };
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
            assert_says(&error, &[&address, "/fabricbench.Raw/Exchange"]);
            let error = exchange.finish().await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        });
    }
}

/// The server pushes without end until it is told to stop: it must notice that nobody listens.
#[test]
fn a_client_that_goes_in_an_exchange_leaves_nothing_behind() {
    for tuning in stacks() {
        let server = Running::start(&tuning);
        run(async {
            let client = connect(&server, &tuning).await;
            let mut exchange = client.exchange(|_: &[u8]| true);
            while server.observer.fetched().messages < 10 {
                exchange.send(Bytes::from(vec![0; 1 << 16])).await.unwrap();
            }
            drop(exchange);
            // The same connection serves on.
            client.echo(Bytes::from_static(b"still there")).await.unwrap();
            let sent = server.observer.fetched().messages;
            client.echo(Bytes::from_static(b"still there")).await.unwrap();
            assert_eq!(server.observer.fetched().messages, sent);
        });
        server.stop().unwrap();
    }
}

#[test]
fn a_shutdown_does_not_wait_for_clients_for_ever() {
    for tuning in stacks() {
        let server = Running::start(&tuning);
        run(async {
            let client = connect(&server, &tuning).await;
            let mut push = client.push();
            push.send(Bytes::from_static(b"and no more")).await.unwrap();
            while server.observer.pushed().messages < 1 {
                tokio::task::yield_now().await;
            }
            // Nothing drives the client while this thread waits for the server.
            let observer = server.observer.clone();
            server.stop().unwrap();
            assert_eq!(observer.open_connections(), []);
            let error = push.finish().await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
        });
    }
}

/// The runtime lives on after `serve`, unlike in the test above, and would keep the connection.
#[test]
fn a_shutdown_closes_connections_that_never_spoke() {
    for tuning in stacks() {
        let server = Server::bind(&ListenOptions::new(any_port()), &tuning).unwrap();
        let mut silent = std::net::TcpStream::connect(server.local_addr()).unwrap();
        let observer = Arc::new(Observer::new());
        run(async {
            let accepted = async {
                while observer.accepted() < 1 {
                    tokio::task::yield_now().await;
                }
            };
            server.serve(observer.clone(), accepted).await.unwrap();
            assert_eq!(observer.open_connections(), []);
            // What the server sent before (its SETTINGS), and then the end.
            silent.set_read_timeout(Some(PATIENCE)).unwrap();
            silent.read_to_end(&mut Vec::new()).unwrap();
        });
    }
}

#[test]
fn a_closed_port_is_refused() {
    let port = TcpListener::bind(any_port()).unwrap().local_addr().unwrap();
    let error = run(Client::connect(&ConnectOptions::new(port), &tuning())).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    assert_says(&error, &[&port.to_string(), "refused", "start it"]);
}

/// A listener with a full backlog drops further SYNs, like a host that does not answer.
#[test]
fn an_address_that_does_not_answer_times_out() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&any_port().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _fills_the_backlog = std::net::TcpStream::connect(address).unwrap();
    let options = ConnectOptions::new(address).timeout(Duration::from_millis(300));
    let error = run(Client::connect(&options, &tuning())).unwrap_err();
    assert!(matches!(error, Error::ConnectTimeout { stage: ConnectStage::Tcp, .. }), "{error}");
    assert_says(&error, &[&address.to_string(), "300ms"]);
}

#[test]
fn a_listener_that_never_speaks_times_out() {
    for tuning in stacks() {
        let listener = TcpListener::bind(any_port()).unwrap();
        let address = listener.local_addr().unwrap();
        let options = ConnectOptions::new(address).timeout(Duration::from_millis(300));
        let error = run(Client::connect(&options, &tuning)).unwrap_err();
        assert!(
            matches!(error, Error::ConnectTimeout { stage: ConnectStage::Grpc, .. }),
            "{error}"
        );
        assert_says(&error, &[&address.to_string(), "no gRPC server answers"]);
    }
}

#[test]
fn a_server_of_something_else_is_not_taken_for_ours() {
    for tuning in stacks() {
        use std::io::Write as _;
        let listener = TcpListener::bind(any_port()).unwrap();
        let address = listener.local_addr().unwrap();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").unwrap();
            // Until the client hangs up.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let error = run(Client::connect(&ConnectOptions::new(address), &tuning)).unwrap_err();
        assert!(matches!(error, Error::NotThisService { .. }), "{error}");
        assert_says(&error, &[&address.to_string()]);
        other.join().unwrap();
    }
}

#[test]
fn a_port_in_use_is_named() {
    let first = Server::bind(&ListenOptions::new(any_port()), &tuning()).unwrap();
    let taken = first.local_addr();
    let error = Server::bind(&ListenOptions::new(taken), &tuning()).unwrap_err();
    assert!(matches!(error, Error::Listen { .. }), "{error}");
    assert_says(&error, &[&taken.to_string(), "in use", "port 0"]);
}

#[test]
fn addresses_of_other_hosts_are_refused() {
    // 192.0.2.0/24 is for documentation: no host has it (RFC 5737).
    let other = "192.0.2.1:0".parse().unwrap();
    let error = Server::bind(&ListenOptions::new(other), &tuning()).unwrap_err();
    assert_says(&error, &["192.0.2.1", "not one of this host's"]);

    let server = Running::start(&tuning());
    let options = ConnectOptions::new(server.address).local_address(other.ip());
    let error = run(Client::connect(&options, &tuning())).unwrap_err();
    assert_says(&error, &["local address", "not one of this host's"]);
}

#[test]
fn absent_interfaces_are_named_on_both_sides() {
    let error =
        Server::bind(&ListenOptions::new(any_port()).interface("nosuch0"), &tuning()).unwrap_err();
    assert!(matches!(error, Error::NoSuchInterface { .. }), "{error}");
    assert_says(&error, &["nosuch0", "ip link"]);

    let server = Running::start(&tuning());
    for peer in [server.address, "[fe80::1]:1".parse().unwrap()] {
        let options = ConnectOptions::new(peer).interface("nosuch0");
        let error = run(Client::connect(&options, &tuning())).unwrap_err();
        assert!(matches!(error, Error::NoSuchInterface { .. }), "{error}");
    }
    for name in ["", "sixteen_letters_", "a b", "a/b"] {
        let options = ConnectOptions::new(server.address).interface(name);
        let error = run(Client::connect(&options, &tuning())).unwrap_err();
        assert!(matches!(error, Error::InvalidInterfaceName { .. }), "{error}");
    }
    assert_eq!(server.observer.accepted(), 0);
}
