//! sockperf: round trips over one TCP connection.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{
    child::Running,
    port::{is_listening, wait_until_listening},
};

/// Time for the server to listen, and for the client beyond the time it measures.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server to run against, on loopback.
#[derive(Debug)]
pub struct Sockperf {
    port: u16,
    client_cpu: Option<u32>,
    // Ends with this value.
    _server: Running,
}

impl Sockperf {
    /// Starts a server, client and server on the processors of `cpus` if given.
    ///
    /// # Errors
    /// It did not come up.
    pub fn on_loopback(port: u16, cpus: Option<(u32, u32)>) -> Result<Self> {
        ensure!(
            !is_listening(port),
            "another process listens on port {port}: give --sockperf-port"
        );
        let number = port.to_string();
        let arguments = ["server", "--tcp", "-i", "127.0.0.1", "-p", &number];
        let mut server = Running::start("sockperf", cpus.map(|(_, server)| server), arguments)?;
        wait_until_listening(&mut server, port, PATIENCE)
            .context("sockperf is needed (ci/packages peers)")?;
        Ok(Self { port, client_cpu: cpus.map(|(client, _)| client), _server: server })
    }

    /// The median of whole round trips of `size` bytes during `seconds`, in microseconds.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub fn round_trip_us(&self, size: u64, seconds: u32) -> Result<f64> {
        let (port, size, time) = (self.port.to_string(), size.to_string(), seconds.to_string());
        let arguments = [
            "ping-pong",
            "--tcp",
            "--full-rtt",
            "-i",
            "127.0.0.1",
            "-p",
            &port,
            "-m",
            &size,
            "-t",
            &time,
        ];
        let limit = PATIENCE + Duration::from_secs(seconds.into());
        Running::start("sockperf", self.client_cpu, arguments)?.wait_and_read(limit, median_us)
    }
}

/// Of its lines of percentiles, that of the median.
fn median_us(text: &str) -> Result<f64> {
    let line = text.lines().find(|line| line.contains("percentile 50.000"));
    let value = line.and_then(|line| line.rsplit('=').next()).context("it tells no median")?;
    value.trim().parse().with_context(|| format!("no number: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // What sockperf 3.7 printed on loopback, in part.
    const OUTPUT: &str = "\
sockperf: Summary: Round trip is 101.853 usec
sockperf: ---> percentile 75.000 =   50.292
sockperf: ---> percentile 50.000 =   48.285
sockperf: ---> <MIN> observation =   24.116
";

    #[test]
    fn a_recorded_output() {
        assert_eq!(median_us(OUTPUT).unwrap(), 48.285);
        assert!(median_us("sockperf: ERROR: Connection refused").is_err());
    }
}
