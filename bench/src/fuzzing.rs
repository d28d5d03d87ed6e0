//! What reads the network, files and the command line, for `ci/fuzz`. A target takes any bytes: it may refuse them, and
//! must not panic, hang or take memory by what they claim. Built with `--cfg fuzzing` only.

use crate::{cli, comparison, control, html, plan, session, transport};

/// Name and function of each target.
pub const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("request", control::fuzzing::request),
    ("reply", control::fuzzing::reply),
    ("greeting", control::fuzzing::greeting),
    ("admission", control::fuzzing::admission),
    ("prepare", control::fuzzing::prepare),
    ("phases", session::fuzzing::phases),
    ("verbs-plan", transport::fuzzing::verbs_plan),
    ("tcp-stream", transport::fuzzing::tcp_stream),
    ("tensor-call", transport::fuzzing::tensor_call),
    ("result", comparison::fuzzing::result),
    ("page", html::fuzzing::page),
    ("histogram", comparison::fuzzing::histogram),
    ("gate", comparison::fuzzing::gate),
    ("model", plan::fuzzing::model),
    ("size", plan::fuzzing::size),
    ("transport", plan::fuzzing::transport),
    ("command", cli::fuzzing::command),
];
