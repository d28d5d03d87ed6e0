//! Raw-bytes gRPC.
