//! A request names attached memory: a pointer or a slice of the caller's cannot be posted.

use fabricbench_verbs::{Operation, SendRequest};

fn slice(bytes: &[u8]) -> SendRequest {
    SendRequest::new(0, Operation::Send, bytes)
}

fn main() {}
