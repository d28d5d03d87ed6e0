//! What stands between a client and a server on the control connection, passes on what each says, and
//! holds one thing back.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use serde_json::Value;

use crate::process::PATIENCE;

/// What is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The client's first line.
    Greeting,
    /// The client's request of this name and number, from 1.
    Request(&'static str, usize),
    /// The server's reply of this name and number, from 1.
    Reply(&'static str, usize),
}

/// Between one client and one server.
#[derive(Debug)]
pub struct Between {
    /// Where the client finds it.
    pub address: SocketAddr,
    reached: Receiver<SocketAddr>,
    release: Sender<()>,
    data_port: Arc<AtomicU16>,
}

/// Where a direction is held.
struct Hold {
    /// Of a document, and its number; `None` for the greeting.
    document: Option<(&'static str, usize)>,
    /// Is told under which address the server knows the client.
    reached: Sender<SocketAddr>,
    release: Receiver<()>,
}

impl Between {
    /// At an address of its own beside `listener`'s, before `server`.
    pub fn new(listener: TcpListener, server: SocketAddr, at: At) -> Self {
        let address = listener.local_addr().unwrap();
        let ((tell, reached), (release, released)) = (channel(), channel());
        let data_port = Arc::new(AtomicU16::new(0));
        let port = Arc::clone(&data_port);
        thread::spawn(move || pass(&listener, server, (at, tell, released), &port));
        Self { address, reached, release, data_port }
    }

    /// Waits until it holds what it is to hold; under which address the server knows the client.
    #[track_caller]
    pub fn holds(&self) -> SocketAddr {
        self.reached.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never came to the phase"))
    }

    /// Where the server takes the data connections of the slice.
    pub fn data_port(&self) -> u16 {
        self.data_port.load(Ordering::Acquire)
    }

    /// Lets it go on.
    pub fn release(&self) {
        let _ = self.release.send(());
    }
}

fn pass(
    listener: &TcpListener,
    server: SocketAddr,
    (at, reached, release): (At, Sender<SocketAddr>, Receiver<()>),
    data_port: &Arc<AtomicU16>,
) {
    let (client, _) = listener.accept().unwrap();
    let server = TcpStream::connect(server).unwrap();
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (of_client, of_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let hold = |document| Some(Hold { document, reached, release });
    let (up, down) = match at {
        At::Greeting => (hold(None), None),
        At::Request(name, number) => (hold(Some((name, number))), None),
        At::Reply(name, number) => (None, hold(Some((name, number)))),
    };
    let known = server.local_addr().unwrap();
    let port = Arc::clone(data_port);
    thread::spawn(move || one_way(&of_server, &of_client, (down, known), &port));
    one_way(&client, &server, (up, known), data_port);
}

/// Until either end is gone, which the other then sees.
fn one_way(
    from: &TcpStream,
    to: &TcpStream,
    hold: (Option<Hold>, SocketAddr),
    data_port: &AtomicU16,
) {
    let _ = pass_on(from, to, hold, data_port);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn pass_on(
    mut from: &TcpStream,
    mut to: &TcpStream,
    (mut hold, known): (Option<Hold>, SocketAddr),
    data_port: &AtomicU16,
) -> io::Result<()> {
    let mut held = |document: Option<(&str, usize)>| {
        if let Some(hold) = hold.take_if(|hold| hold.document == document) {
            let _ = hold.reached.send(known);
            let _ = hold.release.recv();
        }
    };
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"\n") {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        greeting.extend(byte);
    }
    held(None);
    to.write_all(&greeting)?;
    let mut named: Vec<String> = Vec::new();
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut document = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut document)?;
        let said: Value = serde_json::from_slice(&document).unwrap();
        if let Some(port) = said.pointer("/say/prepared/answers/0/tcp/port") {
            let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
            data_port.store(port.unwrap(), Ordering::Release);
        }
        if let Some(name) = name(&said) {
            named.push(name);
            if let Some(last) = named.last() {
                let number = named.iter().filter(|name| *name == last).count();
                held(Some((last.as_str(), number)));
            }
        }
        to.write_all(&[&length[..], &document].concat())?;
    }
}

/// Of what is said: of the request or reply.
fn name(document: &Value) -> Option<String> {
    match document.get("say")? {
        Value::String(name) => Some(name.clone()),
        said => said.as_object()?.keys().next().cloned(),
    }
}
