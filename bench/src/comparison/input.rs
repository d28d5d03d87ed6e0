//! Result files, read as what strangers may have written.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use serde::Deserialize;
use thiserror::Error;

use crate::report::{Document, SCHEMA};

/// Bytes of the largest file that is read: some fifty thousand cells with their histograms.
pub const LARGEST_RESULT: u64 = 1 << 30;

/// Why a file is no result that can be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The file system refused.
    #[error("cannot read {file}: {source}; give a file that `fabricbench run -o FILE` wrote")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing is in it.
    #[error("{0} is empty: the run that was to write it ended before it measured anything")]
    Empty(String),
    /// It is not one JSON document, or no result.
    #[error(
        "{file} is no result of fabricbench: {reason}; give a file that `fabricbench run -o FILE` wrote"
    )]
    NoResult {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// It is a result of another schema.
    #[error(
        "{file} has the schema `{schema}` (fabricbench {version}), and this fabricbench reads `{SCHEMA}`; \
         compare by the version that wrote it, or measure again"
    )]
    Schema {
        /// The file.
        file: String,
        /// Its schema.
        schema: String,
        /// The version that wrote it.
        version: String,
    },
}

/// A result and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The file's name.
    pub file: String,
    /// What is in it.
    pub document: Document,
}

/// What every version of the schema has.
#[derive(Deserialize)]
struct Header {
    schema: Option<String>,
    fabricbench: Option<String>,
}

/// Reads the result in `path`.
///
/// # Errors
/// [`InputError`].
pub fn read(path: &Path) -> Result<Input, InputError> {
    let file = path.display().to_string();
    match content(path) {
        Ok(text) => parse(file, &text),
        Err(source) => Err(InputError::Read { file, source }),
    }
}

/// What is in `path`.
///
/// # Errors
/// It cannot be read, or is larger than any result.
pub fn content(path: &Path) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::other(format!("it has more than {LARGEST_RESULT} bytes"));
    let opened = File::open(path)?;
    if opened.metadata()?.len() > LARGEST_RESULT {
        return Err(too_large());
    }
    let mut text = Vec::new();
    // One more, to tell it from a longer one: of a device or a pipe nothing tells before.
    let length = opened.take(LARGEST_RESULT + 1).read_to_end(&mut text)?;
    if length as u64 > LARGEST_RESULT { Err(too_large()) } else { Ok(text) }
}

/// Reads the result `text` of the file of that name.
///
/// # Errors
/// [`InputError`].
pub(super) fn parse(file: String, text: &[u8]) -> Result<Input, InputError> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(InputError::Empty(file));
    }
    let refused = |reason: String| InputError::NoResult { file: file.clone(), reason };
    let document = match serde_json::from_slice::<Document>(text) {
        Ok(document) if document.schema == SCHEMA => document,
        Ok(document) => {
            let Document { schema, fabricbench: version, .. } = document;
            return Err(InputError::Schema { file, schema, version });
        }
        // Another schema says more than what it lacks of this one.
        Err(error) => {
            let header = serde_json::from_slice::<Header>(text)
                .map_err(|_| refused(format!("it is not one JSON document ({error})")))?;
            let version = header.fabricbench.unwrap_or_else(|| "of no version".to_owned());
            return Err(match header.schema {
                None => refused("it has no `schema`".to_owned()),
                Some(schema) if schema == SCHEMA => refused(format!(
                    "fabricbench {version} wrote it, and {} cannot read it ({error})",
                    env!("CARGO_PKG_VERSION")
                )),
                Some(schema) => InputError::Schema { file, schema, version },
            });
        }
    };
    Ok(Input { file, document })
}
