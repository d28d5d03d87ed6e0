//! What a search for rates found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CellRecord;
use crate::plan::{Axis, Buffers, KneeFigure, Pattern, TransportName, Variant};

/// How much load is borne by a transport at a size, and from where on calls take longer: read off the cells of
/// the same transport, pattern, size and variant, which have a rate beside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KneeRecord {
    /// How the message travels.
    pub transport: TransportName,
    /// Who sends what.
    pub pattern: Pattern,
    /// Size of a request in bytes.
    pub size: u64,
    /// Size of a reply in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reply: Option<u64>,
    /// The buffers that a request is made of; absent where it is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub buffers: Option<Buffers>,
    /// Settings that its cells have of their own, without the rate.
    #[serde(skip_serializing_if = "Variant::is_empty", default)]
    pub variant: Variant,
    /// Calls a second in a closed loop, of which shares were offered; `null` where that was not measured.
    pub capacity_per_s: Option<f64>,
    /// Calls in flight in that loop, on each connection.
    pub closed_depth: Option<u32>,
    /// The highest rate that was offered and sustained in more than half of its rounds, which is what sustained means
    /// here: what stood still once says nothing of the load. `null` if none was.
    pub sustained_per_s: Option<f64>,
    /// The lowest rate above that which was offered; it was not sustained. `null` if all were.
    pub unsustained_per_s: Option<f64>,
    /// Rates below `sustained_per_s` that were not sustained: more than 0 where the machine was not steady.
    pub unsustained_below: u64,
    /// Whether a rate was found that is too much.
    pub saturated: bool,
    /// The figure of a call's time by which the knee is told.
    pub figure: KneeFigure,
    /// How many times the least figure the one at the knee may be.
    pub times: f64,
    /// Always "ns".
    pub unit: String,
    /// The least figure at a rate that was sustained; `null` if there is none.
    pub least: Option<f64>,
    /// The knee: the highest rate that was sustained with a figure of at most `times` the least one.
    pub knee_per_s: Option<f64>,
    /// The figure there.
    pub knee_time: Option<f64>,
    /// The lowest rate above the knee that was offered: the knee is between the two. `null` if there is none.
    pub beyond_per_s: Option<f64>,
    /// Why there is no knee; `null` where there is one.
    pub reason: Option<String>,
}

impl KneeRecord {
    /// Whether `cell` is a point of its curve.
    #[must_use]
    pub fn has(&self, cell: &CellRecord) -> bool {
        let rated = cell.variant.get(Axis::Rate).is_some();
        let others = |variant: &Variant| {
            let others = variant.iter().filter(|(axis, _)| *axis != Axis::Rate);
            others.map(|(axis, value)| (axis, value.clone())).collect::<Vec<_>>()
        };
        rated
            && (&self.transport, self.pattern, self.size)
                == (&cell.transport, cell.pattern, cell.size)
            && (self.reply, &self.buffers) == (cell.reply, &cell.buffers)
            && others(&self.variant) == others(&cell.variant)
    }

    /// Transport and variant.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}{}", self.transport, self.variant)
    }
}
