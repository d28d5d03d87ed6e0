//! The `fabricbench` command on one host without RDMA, as its users and their scripts meet it.
//!
//! Every server listens on a port of its own on loopback, and every wait is bounded.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "document/mod.rs"]
mod document;
#[path = "process/mod.rs"]
mod process;
#[path = "readme/mod.rs"]
mod readme;

#[path = "command/access.rs"]
mod access;
#[path = "command/arguments.rs"]
mod arguments;
#[path = "command/axes.rs"]
mod axes;
#[path = "command/buffers.rs"]
mod buffers;
#[path = "command/calls.rs"]
mod calls;
#[path = "command/clients.rs"]
mod clients;
#[path = "command/compare.rs"]
mod compare;
#[path = "command/data_path.rs"]
mod data_path;
#[path = "command/descriptor_limit.rs"]
mod descriptor_limit;
#[path = "command/diagnose.rs"]
mod diagnose;
#[path = "command/formats.rs"]
mod formats;
#[path = "command/generate.rs"]
mod generate;
#[path = "command/help.rs"]
mod help;
#[path = "command/interruption.rs"]
mod interruption;
#[path = "command/knee.rs"]
mod knee;
#[path = "command/limits.rs"]
mod limits;
#[path = "command/lost_peer.rs"]
mod lost_peer;
#[path = "command/lying_server.rs"]
mod lying_server;
#[path = "command/method.rs"]
mod method;
#[path = "command/model.rs"]
mod model;
#[path = "command/models.rs"]
mod models;
#[path = "command/open_loop.rs"]
mod open_loop;
#[path = "command/output.rs"]
mod output;
#[path = "command/own_server.rs"]
mod own_server;
#[path = "command/pace.rs"]
mod pace;
#[path = "command/patterns.rs"]
mod patterns;
#[path = "command/perftest.rs"]
mod perftest;
#[path = "command/phases.rs"]
mod phases;
#[path = "command/probe.rs"]
mod probe;
#[path = "command/processors.rs"]
mod processors;
#[path = "command/ps.rs"]
mod ps;
#[path = "command/report.rs"]
mod report;
#[path = "command/rogue.rs"]
mod rogue;
#[path = "command/schema.rs"]
mod schema;
#[path = "command/service.rs"]
mod service;
#[path = "command/strangers.rs"]
mod strangers;
#[path = "command/suite.rs"]
mod suite;
#[path = "command/sweep.rs"]
mod sweep;
#[path = "command/tensors.rs"]
mod tensors;
#[path = "command/terminal.rs"]
mod terminal;
#[path = "command/think.rs"]
mod think;
#[path = "command/thread_limit.rs"]
mod thread_limit;
#[path = "command/unreachable.rs"]
mod unreachable;
