//! gRPC in C++: `ci/grpc-peer`, its variants, and what its JSON says.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::child::Running;

/// Time for the server to say its port, and for the client beyond the time it measures.
const PATIENCE: Duration = Duration::from_secs(15);

/// One way to run it, on both sides: the options that make it.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub name: &'static str,
    pub options: &'static [&'static str],
}

/// Which of them is fastest depends on the message, so all of them run.
pub const VARIANTS: [Variant; 4] = [
    Variant { name: "C++ sync stock", options: &[] },
    Variant { name: "C++ sync tuned", options: &["--tuned"] },
    Variant { name: "C++ async stock", options: &["--async"] },
    Variant { name: "C++ async tuned", options: &["--async", "--tuned"] },
];

/// A server of a variant, on loopback, and its client.
#[derive(Debug)]
pub struct CppPeer {
    program: String,
    variant: Variant,
    port: String,
    client_cpu: Option<u32>,
    // Ends with this value.
    _server: Running,
}

/// What a run found.
#[derive(Debug, Deserialize)]
pub struct Found {
    pub p50_us: Option<f64>,
    pub calls_per_s: Option<f64>,
    pub bytes_per_s: Option<f64>,
}

/// Where its Makefile puts the program.
///
/// # Errors
/// It is not built.
pub fn built(target: &Path) -> Result<PathBuf> {
    let program = target.join("grpc-peer/grpc-peer");
    ensure!(program.is_file(), "no {}; run make -C ci/grpc-peer", program.display());
    Ok(program)
}

impl CppPeer {
    /// Starts a server, client and server on the processors of `cpus` if given.
    ///
    /// # Errors
    /// It did not come up.
    pub fn on_loopback(program: &Path, variant: Variant, cpus: Option<(u32, u32)>) -> Result<Self> {
        let program = program.display().to_string();
        let arguments = ["serve"].iter().chain(variant.options);
        let mut server = Running::start(&program, cpus.map(|(_, server)| server), arguments)?;
        let line = server.first_line(PATIENCE)?;
        let port = line.rsplit(' ').next().unwrap_or_default().trim().to_owned();
        ensure!(port.parse::<u16>().is_ok(), "{program} does not say its port: {line}");
        Ok(Self {
            program,
            variant,
            port,
            client_cpu: cpus.map(|(client, _)| client),
            _server: server,
        })
    }

    /// Measures `pattern`, `depth` calls in flight.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub fn measure(&self, pattern: &str, size: u64, depth: u32, time: Duration) -> Result<Found> {
        let (size, depth) = (size.to_string(), depth.to_string());
        let seconds = time.as_secs_f64().to_string();
        let arguments = [
            "measure",
            "--port",
            &self.port,
            "--pattern",
            pattern,
            "--size",
            &size,
            "--depth",
            &depth,
            "--seconds",
            &seconds,
        ];
        let arguments = arguments.iter().chain(self.variant.options);
        Running::start(&self.program, self.client_cpu, arguments)?
            .wait_and_read(PATIENCE + time, |text| serde_json::from_str(text).context("no JSON"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints() {
        let found: Found =
            serde_json::from_str(r#"{"calls": 2517, "p50_us": 89.514, "calls_per_s": 5033.67}"#)
                .unwrap();
        assert_eq!((found.p50_us, found.calls_per_s), (Some(89.514), Some(5033.67)));
        assert_eq!(found.bytes_per_s, None);
    }
}
