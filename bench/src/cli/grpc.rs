//! Options of the gRPC transports.

use clap::Args;

use crate::transport::grpc::{GrpcSettings, MOST_RUNTIME_THREADS, RuntimeKind};

/// Options of grpc@PATH and grpc-stock@PATH.
#[derive(Debug, Args)]
#[command(next_help_heading = "gRPC (given once, here; the server follows)")]
pub(super) struct GrpcOptions {
    /// Messages as protobuf, `message { bytes data = 1; }`, encoded and decoded within the time that is
    /// measured, instead of raw bytes
    #[arg(long)]
    pub(super) serialized: bool,
    /// Encrypt: TLS with a certificate that the server makes for each slice, and tells over the control
    /// connection
    #[arg(long)]
    pub(super) tls: bool,
    /// Copy every message of a push to one place on the server, as an assignment to a tensor does: in the
    /// pattern bandwidth; in the pattern tensor, over TCP too, each tensor to its own memory, on the
    /// side that receives it
    #[arg(long)]
    pub(super) assign: bool,
    /// Runtime of each side: current-thread, multi-thread (a thread a processor) or multi-thread:N
    #[arg(long, value_name = "RUNTIME", default_value_t = RuntimeKind::CurrentThread,
          value_parser = RuntimeKind::parse)]
    runtime: RuntimeKind,
    /// Threads of the server's runtime for each thread of the client [default: as --runtime]
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RUNTIME_THREADS)))]
    server_threads: Option<u32>,
}

impl GrpcOptions {
    pub(super) fn settings(&self) -> GrpcSettings {
        let Self { serialized, tls, assign, runtime, server_threads } = *self;
        let server_runtime = match server_threads {
            Some(threads) => RuntimeKind::MultiThread { threads: Some(threads) },
            None => runtime,
        };
        GrpcSettings { serialized, tls, assign, runtime, server_runtime }
    }
}
