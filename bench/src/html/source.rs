//! Result documents as they are read.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;

use crate::{
    comparison::content,
    report::{Document, SCHEMA},
};

/// Why a file is no source of a report.
#[derive(Debug, Error)]
pub enum SourceError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing is in it.
    #[error("{0} is empty: the run that was to write it ended before it measured anything")]
    Empty(String),
    /// It is of another version, or of another program.
    #[error("{path} is no result: its `schema` is `{schema}`, and {SCHEMA} is what can be read")]
    Schema {
        /// The file.
        path: String,
        /// What it says it is.
        schema: String,
    },
    /// It is no result document.
    #[error("{path} is no result that `fabricbench run -o` wrote: {source}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
}

/// A result document with the bytes that it was read from.
#[derive(Debug, Clone)]
pub struct Source {
    /// What the run is called in the report: the file's name, as far as that tells it from the others.
    pub name: String,
    /// The file as it was given.
    pub path: PathBuf,
    /// Its content, to the byte.
    pub bytes: Vec<u8>,
    /// What that says.
    pub document: Document,
}

/// As much of a file as tells what it is.
#[derive(Deserialize)]
struct Kind {
    schema: Option<String>,
    // What a suite and a diagnosis have their cells in.
    document: Option<Document>,
}

impl Source {
    /// Reads a result: the document of a run, or one that holds such a document (of a suite or a
    /// diagnosis, by `--format json`).
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        match content(path) {
            Ok(bytes) => Self::of(path, bytes),
            Err(source) => Err(SourceError::Read { path: path.display().to_string(), source }),
        }
    }

    /// The result whose file `path` holds `bytes`.
    pub(super) fn of(path: &Path, bytes: Vec<u8>) -> Result<Self, SourceError> {
        let shown = path.display().to_string();
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(SourceError::Empty(shown));
        }
        let content = |source| SourceError::Content { path: shown.clone(), source };
        let document = match serde_json::from_slice(&bytes) {
            Ok(document) => document,
            // Why it is none may be that it holds one, or is of another kind.
            Err(error) => match serde_json::from_slice::<Kind>(&bytes).map_err(content)? {
                Kind { document: Some(document), .. } => document,
                Kind { schema: Some(schema), .. } if schema != SCHEMA => {
                    return Err(SourceError::Schema { path: shown, schema });
                }
                _ => return Err(content(error)),
            },
        };
        if document.schema != SCHEMA {
            return Err(SourceError::Schema { path: shown, schema: document.schema });
        }
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        let name = stem.to_string_lossy().into_owned();
        Ok(Self { name, path: path.to_owned(), bytes, document })
    }
}

/// Gives those whose names are alike names that are not: their paths, and if these are alike a number.
pub fn tell_apart(sources: &mut [Source]) {
    let alike = |sources: &[Source], at: usize| {
        let name = |source: &Source| sources.get(at).is_some_and(|this| this.name == source.name);
        sources.iter().filter(|source| name(source)).count() > 1
    };
    let same: Vec<usize> = (0..sources.len()).filter(|&at| alike(sources, at)).collect();
    for at in same {
        if let Some(source) = sources.get_mut(at) {
            source.name = source.path.display().to_string();
        }
    }
    let same: Vec<usize> = (0..sources.len()).filter(|&at| alike(sources, at)).collect();
    for at in same {
        if let Some(source) = sources.get_mut(at) {
            source.name = format!("{} ({})", source.name, at + 1);
        }
    }
}
