//! Whether somebody listens on a TCP port here, without connecting: perftest's server takes the
//! first connection for its client.

use std::{fs, thread, time::Duration, time::Instant};

use anyhow::{Result, bail};

use crate::child::Running;

/// The kernel's number for a socket that listens, as /proc/net/tcp writes it.
const LISTENING: &str = "0A";

/// Waits until `server` listens on `port`.
///
/// # Errors
/// It ended before, or took longer than `limit`.
pub fn wait_until_listening(server: &mut Running, port: u16, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !is_listening(port) {
        if server.has_ended() {
            return Err(server.ended_early());
        }
        if Instant::now() >= deadline {
            bail!("nobody listens on port {port} after {limit:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether any process of this network namespace listens on `port`.
pub fn is_listening(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .any(|table| lists_listener(&table, port))
}

/// Lines are `index: local-address:port remote-address:port state ...`, in hexadecimal.
fn lists_listener(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        local.is_some_and(|local| local.ends_with(&suffix)) && state == Some(LISTENING)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1691 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 246237
   2: 0100007F:E29C 0100007F:16F5 01 00000000:00000000 00:00000000 00000000     0        0 244530
";

    #[test]
    fn only_listeners_and_only_local_ports_count() {
        assert!(lists_listener(TABLE, 0x1691));
        assert!(!lists_listener(TABLE, 0xe29c), "connected");
        assert!(!lists_listener(TABLE, 0x16f5), "remote");
        assert!(!lists_listener(TABLE, 0));
    }

    #[test]
    fn a_real_listener_is_seen_and_its_end_too() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // The host may have IPv6 switched off.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(is_listening(port));
            drop(listener);
            assert!(!is_listening(port));
        }
    }

    #[test]
    fn a_server_that_ends_is_not_waited_for() {
        let mut server = Running::start("sh", None, ["-c", "echo no device >&2; exit 1"]).unwrap();
        let error = wait_until_listening(&mut server, 1, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.to_string(), "sh ended with exit status: 1; it said: no device");
    }
}
