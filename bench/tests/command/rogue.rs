//! A client by hand, which need not do as a client should.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use fabricbench::control::{PROTOCOL, read_frame, write_frame};
use serde_json::{Value, json};

use crate::process::{NONCE, PATIENCE, Server, run};

/// A client that sends `bytes` and keeps its end open.
pub fn knock(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// One end of a conversation by hand.
pub struct Rogue(pub TcpStream);

impl Rogue {
    pub fn meet(server: &Server) -> Self {
        let mut stream = knock(server, format!("fabricbench-control {PROTOCOL} 0\n").as_bytes());
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let challenge: Value = read_frame(&mut stream).unwrap();
        assert_eq!(challenge["token"], false);
        write_frame(&mut stream, &json!({ "nonce": NONCE, "proof": null })).unwrap();
        let verdict: Value = read_frame(&mut stream).unwrap();
        assert!(verdict["admitted"]["proof"].is_null(), "{verdict}");
        Self(stream)
    }

    pub fn say(&mut self, request: &Value) {
        write_frame(&mut self.0, &json!({ "say": request })).unwrap();
    }

    /// What the server says next, or `None` when it has closed.
    pub fn hear(&mut self) -> Option<Value> {
        loop {
            match read_frame::<Value>(&mut self.0) {
                Ok(message) if message == "alive" => {}
                Ok(message) => return Some(message["say"].clone()),
                Err(_) => return None,
            }
        }
    }

    pub fn welcome(server: &Server) -> Self {
        let host = run("probe --json").quietly(0).stdout;
        let host: Value = serde_json::from_str(&host).unwrap();
        let mut rogue = Self::meet(server);
        rogue.say(&json!({ "begin": host }));
        assert!(rogue.hear().unwrap()["welcome"].is_object());
        rogue
    }

    pub fn prepare(&mut self, transport: &str, size: u64, depth: u64, offer: &Value) -> Value {
        self.say(&json!({ "prepare": {
            "cell": { "transport": transport, "pattern": "latency", "size": size },
            "depth": depth, "seed": 1, "cpu": null, "offers": [offer],
        }}));
        self.hear().unwrap()
    }
}

pub fn over_connections(connections: u64) -> Value {
    json!({ "tcp": { "interface": "lo", "address": "127.0.0.1", "connections": connections } })
}

pub fn on_loopback() -> Value {
    over_connections(1)
}
