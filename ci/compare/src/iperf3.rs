//! iperf3: how it is run, and what its JSON says.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    child::Running,
    port::{is_listening, wait_until_listening},
};

/// Time for the server to listen, and for the client beyond the time it measures.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server to run against.
#[derive(Debug)]
pub struct Iperf3 {
    host: String,
    port: u16,
    // Ends with this value.
    _server: Option<Running>,
}

impl Iperf3 {
    /// Starts a server on loopback.
    ///
    /// # Errors
    /// It did not come up.
    pub fn on_loopback(port: u16) -> Result<Self> {
        ensure!(!is_listening(port), "another process listens on port {port}: give --iperf3-port");
        let host = "127.0.0.1".to_owned();
        let arguments = ["--server", "--bind", &host, "--port", &port.to_string()];
        let mut server = Running::start("iperf3", None, arguments)?;
        wait_until_listening(&mut server, port, PATIENCE)
            .context("iperf3 is needed (ci/packages peers)")?;
        Ok(Self { host, port, _server: Some(server) })
    }

    /// Starts a server at the address `host` of the network namespace `netns`.
    ///
    /// # Errors
    /// It did not come up.
    pub fn within(netns: &str, host: &str, port: u16) -> Result<Self> {
        // Its lines are not to wait in a buffer until it ends.
        let port_text = port.to_string();
        let arguments = ["--server", "--forceflush", "--bind", host, "--port", &port_text];
        let mut server = Running::start_within(Some(netns), "iperf3", None, arguments)?;
        server.first_line(PATIENCE).context("iperf3 is needed (ci/packages peers)")?;
        Ok(Self { host: host.to_owned(), port, _server: Some(server) })
    }

    /// Uses a server that somebody else started.
    pub fn at(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, _server: None }
    }

    /// The version it states.
    ///
    /// # Errors
    /// It is not installed.
    pub fn version() -> Result<String> {
        let text = Running::start("iperf3", None, ["--version"])?
            .wait(PATIENCE)
            .context("iperf3 is needed (ci/packages peers)")?;
        let version = text.split_whitespace().nth(1).context("iperf3 states no version")?;
        Ok(version.to_owned())
    }

    /// One stream for `seconds`, client and server on the processors of `cpus` if given, reads and
    /// writes of `length` bytes (without: iperf3's default, 128 KiB): bytes per second as the receiver
    /// counts them.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub fn measure(
        &self,
        seconds: u32,
        cpus: Option<(u32, u32)>,
        length: Option<u64>,
    ) -> Result<f64> {
        let mut arguments: Vec<String> =
            ["--json", "--client", &self.host].map(str::to_owned).into();
        arguments.extend(["--port".to_owned(), self.port.to_string()]);
        arguments.extend(["--time".to_owned(), seconds.to_string()]);
        if let Some(length) = length {
            arguments.extend(["--length".to_owned(), length.to_string()]);
        }
        if let Some((client, server)) = cpus {
            arguments.extend(["--affinity".to_owned(), format!("{client},{server}")]);
        }
        let limit = PATIENCE + Duration::from_secs(seconds.into());
        Running::start("iperf3", None, arguments)?.wait_and_read(limit, bytes_per_s)
    }
}

#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    end: End,
}

#[derive(Deserialize)]
struct End {
    sum_received: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    bits_per_second: f64,
}

/// iperf3 ends with 0 when it could not connect; its JSON has the reason.
fn bytes_per_s(text: &str) -> Result<f64> {
    let report: Report = serde_json::from_str(text).context("no JSON")?;
    if let Some(error) = report.error {
        bail!("{error}");
    }
    let bits = report.end.sum_received.context("no sum of what was received")?.bits_per_second;
    ensure!(bits > 0.0, "nothing was received");
    Ok(bits / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Recorded from iperf3 3.12, without the parts that are not read here.
    const REPORT: &str = r#"{
        "start": { "connected": [{ "socket": 5 }], "version": "iperf 3.12" },
        "intervals": [],
        "end": {
            "sum_sent": { "seconds": 1.000267, "bytes": 1833697280,
                "bits_per_second": 14665662508.110334, "retransmits": 30, "sender": true },
            "sum_received": { "seconds": 1.000317, "bytes": 1832779564,
                "bits_per_second": 14657590055.952265, "sender": true } } }"#;
    const REFUSED: &str = r#"{ "start": { "connected": [], "version": "iperf 3.12" },
        "intervals": [], "end": {}, "error": "unable to connect to server: Connection refused" }"#;

    #[test]
    fn what_the_receiver_got_counts() {
        let rate = bytes_per_s(REPORT).unwrap();
        assert!((rate - 1_832_779_564.0 / 1.000317).abs() < 1e6, "{rate}");
    }

    #[test]
    fn errors_are_told_whatever_the_exit_status() {
        let error = bytes_per_s(REFUSED).unwrap_err().to_string();
        assert_eq!(error, "unable to connect to server: Connection refused");
        let nothing = REPORT.replace("14657590055.952265", "0");
        assert!(bytes_per_s(&nothing).is_err());
        assert!(bytes_per_s("{ \"end\": {} }").is_err());
        assert!(bytes_per_s("iperf3: error").is_err());
    }
}
