//! The result file: whole at every moment, whatever happens to the process.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
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

/// How long a pipe may be without a reader.
const LONGEST_WAIT_FOR_READER: Duration = Duration::from_secs(5);

/// Where a result goes.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A file that is replaced by one written beside it.
    Replaced {
        /// The one beside it.
        draft: PathBuf,
    },
    /// A device, a pipe, or a file that cannot be replaced (a container's bind mount): held open,
    /// and written once, at the end.
    Kept(File),
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
        // Through a link to the file itself, so that the link stays one.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let kept = |path: &Path| open_to_read_by_others(path).map(Target::Kept);
        if !is_regular {
            return Ok(Self { target: kept(&path).map_err(failed)?, path });
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let draft = path.with_file_name(name);
        // The whole way, rename included, with what the file holds already.
        let tried = match fs::read(&path) {
            Ok(old) => replace(&draft, &path, &old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                File::create_new(&draft).and_then(|_| fs::remove_file(&draft))
            }
            Err(error) => Err(error),
        };
        match tried {
            Ok(()) => Ok(Self { target: Target::Replaced { draft }, path }),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                Ok(Self { target: kept(&path).map_err(failed)?, path })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes the document as it is so far: the file holds the old one or the new one, never a part.
    /// A device or pipe is left for [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`OutputError`]; the file then still holds what was written before.
    pub fn write(&self, document: &Document) -> Result<(), OutputError> {
        match &self.target {
            Target::Replaced { draft } => {
                self.failing(text(document).and_then(|text| replace(draft, &self.path, &text)))
            }
            Target::Kept(_) => Ok(()),
        }
    }

    /// Writes the document for the last time.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn finish(&self, document: &Document) -> Result<(), OutputError> {
        self.failing(text(document)).and_then(|text| self.finish_as(&text))
    }

    /// Writes `content` for the last time, in place of a document.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn finish_as(&self, content: &[u8]) -> Result<(), OutputError> {
        self.failing(match &self.target {
            Target::Replaced { draft } => replace(draft, &self.path, content),
            Target::Kept(file) => {
                // Refused by devices and pipes, which have no length.
                let _ = file.set_len(0);
                (&*file).write_all(content)
            }
        })
    }

    fn failing<T>(&self, result: io::Result<T>) -> Result<T, OutputError> {
        let path = self.path.display().to_string();
        result.map_err(|source| OutputError::Write { path, source })
    }
}

/// Opens a device or a pipe. A pipe that nobody reads yet would hold us for ever, deaf to signals.
fn open_to_read_by_others(path: &Path) -> io::Result<File> {
    let deadline = Instant::now() + LONGEST_WAIT_FOR_READER;
    loop {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path);
        match opened {
            Ok(file) => {
                // A reader that is slow is waited for.
                fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                if Instant::now() >= deadline {
                    return Err(io::Error::other("nobody reads from this pipe"));
                }
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
}

fn text(document: &Document) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    Ok(text)
}

/// Makes `path` hold `content` in one step; on failure it is as before, and `draft` is gone.
fn replace(draft: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    // What is there is a leftover, or somebody's link to a file that is not ours to write: only
    // the name is removed.
    let _ = fs::remove_file(draft);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_data()))
        .and_then(|()| fs::rename(draft, path));
    if written.is_err() {
        let _ = fs::remove_file(draft);
    }
    written
}
