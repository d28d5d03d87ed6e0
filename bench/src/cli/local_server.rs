//! A server process of our own, for a run without a host.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{Failure, access::VARIABLE};
use crate::control::Token;

/// Time for the server to end by itself.
const LONGEST_END: Duration = Duration::from_secs(2);

/// A child that serves on loopback and ends with us, however we end: its standard input is a pipe
/// that only we hold. It serves nobody else: its token is in its environment, which other users cannot read.
#[derive(Debug)]
pub(super) struct LocalServer {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) token: Token,
}

impl LocalServer {
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::Error(format!("cannot start a server process on this host: {error}"))
        };
        let token = Token::generate().map_err(Failure::error)?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1", "--port", "0", "--until-stdin-ends"])
            .env(VARIABLE, token.reveal())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        match line.trim_end().rsplit(' ').next().and_then(|address| address.parse().ok()) {
            Some(address) => Ok(Self { child, address, token }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(Failure::Error(
                    "the server process on this host ended at once; `fabricbench serve --listen \
                     127.0.0.1 --port 0` shows why"
                        .to_owned(),
                ))
            }
        }
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + LONGEST_END;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        // One that hangs, or is stopped, must not hold us.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
