//! The result file: whole at every moment, whatever happens to the process.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::Document;

/// Why a result could not be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The file system refused.
    #[error("cannot write the result to {path}: {source}; choose another place with --output")]
    Write {
        /// The file that was asked for.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Where a result goes.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    // A file beside it that becomes it by renaming; none for a device or a pipe, which can only be
    // written once, at the end.
    draft: Option<PathBuf>,
}

impl ResultFile {
    /// Makes sure that the result can be written before anything is measured for it.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let failed = |source| OutputError::Write { path: path.display().to_string(), source };
        // What ends in a slash or in dots can only be a directory, also where there is none.
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let is_regular = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            Ok(metadata) => metadata.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(error)),
        };
        if !is_regular {
            OpenOptions::new().write(true).open(path).map_err(failed)?;
            return Ok(Self { path: path.to_owned(), draft: None });
        }
        // Through a link to the file itself, so that the link stays one.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let draft = path.with_file_name(name);
        File::create(&draft).and_then(|_| fs::remove_file(&draft)).map_err(failed)?;
        Ok(Self { path, draft: Some(draft) })
    }

    /// Writes the document as it is so far: the file holds the old one or the new one, never a part.
    /// A device or pipe is left for [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`OutputError`]; the file then still holds what was written before.
    pub fn write(&self, document: &Document) -> Result<(), OutputError> {
        let Some(draft) = &self.draft else { return Ok(()) };
        let written = File::create(draft)
            .and_then(|mut file| {
                write_document(&mut file, document).and_then(|()| file.sync_data())
            })
            .and_then(|()| fs::rename(draft, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(draft);
        }
        self.failing(written)
    }

    /// Writes the document for the last time.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn finish(&self, document: &Document) -> Result<(), OutputError> {
        if self.draft.is_some() {
            return self.write(document);
        }
        let file = OpenOptions::new().write(true).open(&self.path);
        self.failing(file.and_then(|mut file| write_document(&mut file, document)))
    }

    fn failing(&self, result: io::Result<()>) -> Result<(), OutputError> {
        let path = self.path.display().to_string();
        result.map_err(|source| OutputError::Write { path, source })
    }
}

fn write_document(file: &mut File, document: &Document) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    file.write_all(&text)
}
