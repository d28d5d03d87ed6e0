//! Tensors in the result document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{TensorCall, Tensors};

/// What the steps of a pattern of tensors move, and how fast that was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TensorRecord {
    /// The model's name.
    pub model: String,
    /// Bytes of each tensor, in the order of the model.
    pub lengths: Vec<u64>,
    /// `no`: each tensor by a call of its own; `all`: those of a server by one; a number: those that
    /// follow one another by one, up to so many bytes.
    pub coalesce: String,
    /// The rule by which tensors are placed on servers, in words.
    pub placement: String,
    /// Each parameter server's share.
    pub servers: Vec<ParameterServer>,
    /// Rate of the transfer in MB/s, 1 MB = 10^6 bytes, as `tensor_transfer_throughput` gives it: bytes of
    /// the tensors by the time of the steps, of all workers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transfer_mb_per_s: Option<f64>,
    /// Tensors a second, of all workers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tensors_per_s: Option<f64>,
    /// How long the tensors' copies to their places took, where they were made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub assign: Option<Assign>,
}

impl TensorRecord {
    /// Of what is planned, with so many parameter servers and no figures yet.
    #[must_use]
    pub fn planned(tensors: &Tensors, servers: u32) -> Self {
        Self {
            model: tensors.model.clone(),
            lengths: tensors.lengths.clone(),
            coalesce: tensors.coalesce.to_string(),
            placement: "largest first, each on the server with the fewest bytes so far".to_owned(),
            servers: tensors
                .calls(servers)
                .iter()
                .map(|calls| ParameterServer::of(calls))
                .collect(),
            ..Self::default()
        }
    }
}

/// A parameter server's share of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ParameterServer {
    /// Which tensors it has, in the order of the model, counted from 0.
    pub tensors: Vec<usize>,
    /// Their bytes.
    pub bytes: u64,
    /// Calls by which a worker moves them in a step.
    pub calls: u64,
}

impl ParameterServer {
    /// That of these calls.
    #[must_use]
    pub fn of(calls: &[TensorCall]) -> Self {
        let tensors = calls.iter().flat_map(|call| &call.tensors).map(|tensor| tensor.index);
        Self {
            tensors: tensors.collect(),
            bytes: calls.iter().map(TensorCall::bytes).sum(),
            calls: calls.len() as u64,
        }
    }
}

/// Times of the copies of a step's tensors to their places: the sum of those of one worker's step, which
/// several servers make beside one another. It is part of the time of the step, and of the warm-up's
/// steps too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Assign {
    /// Who copied: `server` in a push, `client` in a fetch.
    pub side: String,
    /// Always "ns".
    pub unit: String,
    /// Steps behind the figures, warm-up included.
    pub samples: u64,
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Arithmetic mean.
    pub mean: f64,
}
