//! Connections that show a key, and those that show another one or none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fabricbench_grpc::{
    Client, ConnectOptions, ConnectStage, Error, Identity, Key, ListenOptions, Observer, Tuning,
    socket::connect_blocking,
};

use crate::support::{PATIENCE, Running, run};

fn listen() -> ListenOptions {
    ListenOptions::new("127.0.0.1:0".parse().unwrap())
}

fn silent(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn both_stacks_serve_who_shows_the_key_and_nobody_else() {
    let identity = Identity::generate().unwrap();
    let (tuned, lean) = (Tuning::tuned(1 << 20, 2).unwrap(), Tuning::lean(1 << 20, 2).unwrap());
    for (tuning, sealed) in [(&tuned, false), (&tuned, true), (&lean, false)] {
        let (key, other) = (Key::generate().unwrap(), Key::generate().unwrap());
        let mut options = listen().door(key.clone(), 2);
        options.identity = sealed.then(|| identity.clone());
        let server = Running::start_with(&options, tuning, Observer::new());
        let strangers: Vec<_> = (0..100).map(|_| silent(server.address)).collect();
        let connect = |key: Option<&Key>| {
            let mut options = ConnectOptions::new(server.address);
            options.key = key.cloned();
            options.certificate = sealed.then(|| identity.certificate().to_owned());
            options.timeout = if key.is_some() { PATIENCE } else { Duration::from_millis(300) };
            options
        };
        let refused = run(Client::connect(&connect(Some(&other)), tuning)).unwrap_err();
        assert!(matches!(refused, Error::OtherKey { .. }), "{refused}");
        run(Client::connect(&connect(None), tuning)).unwrap_err();
        run(async {
            let options = connect(Some(&key));
            let client = Client::connect(&options, tuning).await.unwrap();
            let message = Bytes::from(vec![7; 1 << 20]);
            assert_eq!(client.echo(message.clone()).await.unwrap(), message);
            let second = Client::connect(&options, tuning).await.unwrap();
            assert_eq!(second.echo(message.clone()).await.unwrap(), message);
            // All places are taken: nobody listens any more.
            let gone = Client::connect(&options, tuning).await.unwrap_err();
            assert!(matches!(gone, Error::Connect { .. }), "{gone}");
            assert_eq!(client.echo(message.clone()).await.unwrap(), message);
        });
        for mut stranger in strangers {
            assert_eq!(stranger.read(&mut [0]).unwrap_or(0), 0, "it is cut off");
        }
        server.stop().unwrap();
    }
}

/// A listener that does with the first connections what it is told, one after the other.
fn listener(answers: Vec<fn(TcpStream)>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            answer(listener.accept().unwrap().0);
        }
    });
    address
}

/// Who is cut off before it has an answer, as among many strangers, tries again; who has one does not.
#[test]
fn a_client_knows_the_listener_it_was_sent_to() {
    let cut: fn(TcpStream) = drop;
    let foreign: fn(TcpStream) = |mut stream| {
        let _ = stream.write_all(&[b'x'; 32]);
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let silent: fn(TcpStream) = |mut stream| drop(stream.read_to_end(&mut Vec::new()));
    let tuning = Tuning::tuned(8, 1).unwrap();
    for blocking in [false, true] {
        let connect = |answers, within| {
            let options = ConnectOptions::new(listener(answers))
                .key(Key::generate().unwrap())
                .timeout(within);
            match blocking {
                true => connect_blocking(&options).map(drop).unwrap_err(),
                false => run(Client::connect(&options, &tuning)).map(drop).unwrap_err(),
            }
        };
        let error = connect(vec![cut, cut, foreign], PATIENCE);
        assert!(matches!(error, Error::ForeignListener { .. }), "{blocking}: {error}");
        let since = Instant::now();
        let error = connect(vec![cut, silent], Duration::from_millis(300));
        let Error::ConnectTimeout { stage, .. } = error else { panic!("{blocking}: {error}") };
        assert_eq!(stage, ConnectStage::Door);
        assert!(since.elapsed() < PATIENCE);
    }
}
