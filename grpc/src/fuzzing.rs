//! What a peer sends, for `ci/fuzz`. Built with `--cfg fuzzing` only.

use std::{
    future::pending,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use crate::{
    Client, ConnectOptions, FetchRequest, ListenOptions, Observer, PushSummary, Server, Tuning,
    lean::fuzzing::messages, marks::pass_any,
};

/// Name and function of each target: it takes any bytes, may refuse them, and must not panic or hang.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("grpc-messages", messages),
    ("grpc-frames", pass_any),
    ("grpc-numbers", numbers),
    ("grpc-server", server),
    ("grpc-client", client),
];

/// What a client says before its first call.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// And a server: its settings, and that it has read the client's.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

/// A side that has not ended so long after its peer did hangs. Far beyond what a busy machine needs.
const HANGS: Duration = Duration::from_secs(20);

/// The largest message of both sides, in bytes.
const LARGEST: u64 = 1 << 16;

fn numbers(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    if let Some(summary) = PushSummary::decode(bytes.clone()) {
        assert_eq!(PushSummary::decode(summary.encode()), Some(summary));
    }
    if let Some(request) = FetchRequest::decode(bytes.clone()) {
        assert_eq!(request.encode(), bytes);
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn tuning() -> Tuning {
    Tuning::lean(LARGEST, 8).expect("it is within the limits")
}

/// A lean server that lives as long as the process: its client says these frames and ends.
fn server(frames: &[u8]) {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    let address = *ADDRESS.get_or_init(|| {
        let runtime = runtime();
        let options = ListenOptions::new("127.0.0.1:0".parse().expect("an address"));
        let server = Server::bind(&options, &tuning()).expect("there is a port");
        let address = server.local_addr();
        let observer = Observer::new().serve_from(|size| vec![7_u8; size as usize]);
        thread::spawn(move || runtime.block_on(server.serve(Arc::new(observer), pending())));
        address
    });
    let mut stream = TcpStream::connect(address).expect("the server takes clients");
    stream.set_read_timeout(Some(HANGS)).expect("it is a socket");
    // It may close before all is said.
    let _ = stream.write_all(PREFACE).and_then(|()| stream.write_all(frames));
    let _ = stream.shutdown(Shutdown::Write);
    ends(&mut stream);
}

fn ends(stream: &mut TcpStream) {
    let mut read = [0; 4096];
    loop {
        match stream.read(&mut read) {
            Ok(1..) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it hangs"),
            Ok(0) | Err(_) => return,
        }
    }
}

/// A server that says these frames and ends, and a lean client that makes a call of each kind.
fn client(said: &[u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it listens");
    let said = said.to_vec();
    let serving = thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let _ = stream.set_read_timeout(Some(HANGS));
        let _ = stream.write_all(SETTINGS).and_then(|()| stream.write_all(&said));
        let _ = stream.shutdown(Shutdown::Write);
        ends(&mut stream);
    });
    runtime().block_on(async {
        let calls = async {
            let options = ConnectOptions::new(address);
            let Ok(client) = Client::connect(&options, &tuning()).await else { return };
            if client.echo(Bytes::from_static(b"there")).await.is_err() {
                return;
            }
            let _ = client.call(Bytes::from_static(b"there")).await;
        };
        tokio::time::timeout(HANGS, calls).await.expect("it hangs");
    });
    serving.join().expect("it ends");
}
