//! The published schema of the result document.

use schemars::{Schema, generate::SchemaSettings};

use super::{Document, SCHEMA};

/// The JSON Schema (draft 2020-12) of [`Document`], as every version of it that is named [`SCHEMA`] keeps to:
/// a field that came later may be missing, and one that is not known here may be there.
#[must_use]
pub fn json_schema() -> Schema {
    let mut schema = SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<Document>();
    schema.insert("title".to_owned(), format!("Result of fabricbench, {SCHEMA}").into());
    schema
}
