//! A comparison as a document.

use serde::Serialize;

use super::Comparison;

/// The value of `schema` in the document.
pub const COMPARISON_SCHEMA: &str = "fabricbench-comparison/1";

/// How intervals are made, in a line.
const METHOD: &str = "ratio: new by base; 95 % interval: of medians and rates Welch's t on the logarithms of the \
     rounds' figures, never narrower than order statistics of all samples give (MOVER); of other times order \
     statistics (minimum and maximum: Rosenbaum's test; mean: its standard error) widened by how the \
     rounds' medians differ; of processor time by how the rounds' rates differ";

#[derive(Serialize)]
struct Whole<'a> {
    schema: &'static str,
    method: &'static str,
    comparisons: &'a [Comparison],
}

/// All comparisons as one JSON document.
///
/// # Errors
/// A name in it cannot be written.
pub fn json(comparisons: &[Comparison]) -> serde_json::Result<String> {
    let whole = Whole { schema: COMPARISON_SCHEMA, method: METHOD, comparisons };
    let mut text = serde_json::to_string_pretty(&whole)?;
    text.push('\n');
    Ok(text)
}
