//! `fabricbench schema`.

use super::{Exit, Failure, print};
use crate::report::json_schema;

/// Prints the JSON Schema of the result document.
///
/// # Errors
/// Standard output takes no more.
pub(super) fn schema() -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(&json_schema()).map_err(Failure::error)?;
    print(&format!("{text}\n"))?;
    Ok(Exit::Complete)
}
