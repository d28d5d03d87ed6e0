//! The result file: whole at every moment, whatever happens to the process. A trace and a page go the same
//! way.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::OFlags,
    io::Errno,
    time::Timespec,
};
use thiserror::Error;

use super::Document;
use crate::transport::StopSignal;

/// Why a result could not be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The file system refused.
    #[error(
        "cannot write the {} to {path}: {source}; choose another place with {}",
        content.name(),
        content.option()
    )]
    Write {
        /// What was to be written.
        content: Content,
        /// The file that was asked for.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// What a file is for, as its failures name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A document, or the page that is drawn of some.
    Result,
    /// Marked calls.
    Trace,
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Trace => "trace",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Result => "--output",
            Self::Trace => "--trace",
        }
    }
}

/// How long a pipe may be without a reader.
const LONGEST_WAIT_FOR_READER: Duration = Duration::from_secs(5);

/// How long a pipe's reader may leave it full: somebody may be leafing through it.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The same once the user has interrupted: enough for a program that reads.
const LONGEST_PAUSE_INTERRUPTED: Duration = Duration::from_secs(1);

/// Time between two looks at whether the user has interrupted.
const TURN: Duration = Duration::from_millis(20);

/// Where a result goes.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    content: Content,
    target: Target,
    // Whether something was there before that would be lost.
    held: bool,
    stop: StopSignal,
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
    /// Makes sure that `content` can be written before anything is measured for it. `stop` ends the wait
    /// for a pipe's reader.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn create(path: &Path, content: Content, stop: &StopSignal) -> Result<Self, OutputError> {
        let failed =
            |source| OutputError::Write { content, path: path.display().to_string(), source };
        // What ends in a slash or in dots can only be a directory, also where there is none.
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let (is_regular, held) = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            Ok(metadata) => (metadata.is_file(), metadata.is_file() && metadata.len() > 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (true, false),
            Err(error) => return Err(failed(error)),
        };
        // Through a link to the file itself, so that the link stays one.
        // A pipe of /dev/stdout has no such place.
        let path = fs::canonicalize(path).unwrap_or_else(|_| match fs::metadata(path) {
            Ok(_) => path.to_owned(),
            Err(_) => led_to(path),
        });
        let kept = |path: &Path| open_to_read_by_others(path, stop).map(Target::Kept);
        let made = |target, path| Self { path, content, target, held, stop: stop.clone() };
        if !is_regular {
            return Ok(made(kept(&path).map_err(failed)?, path));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let draft = path.with_file_name(name);
        // The whole way, rename included, with what the file holds already.
        let tried = match fs::read(&path) {
            Ok(old) => replace(&draft, &path, |to| to.write_all(&old)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                File::create_new(&draft).and_then(|_| fs::remove_file(&draft))
            }
            Err(error) => Err(error),
        };
        match tried {
            Ok(()) => Ok(made(Target::Replaced { draft }, path)),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                Ok(made(kept(&path).map_err(failed)?, path))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Whether the place held something when this was made that the first writing replaces.
    #[must_use]
    pub fn replaces(&self) -> bool {
        self.held
    }

    /// Writes the document as it is so far: the file holds the old one or the new one, never a part.
    /// A device or pipe is left for [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`OutputError`]; the file then still holds what was written before.
    pub fn write(&self, document: &Document) -> Result<(), OutputError> {
        match &self.target {
            Target::Replaced { draft } => {
                self.failing(replace(draft, &self.path, |to| write(document, to)))
            }
            Target::Kept(_) => Ok(()),
        }
    }

    /// Writes the document for the last time; a pipe that its reader leaves full is given up.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn finish(&self, document: &Document) -> Result<(), OutputError> {
        self.finish_by(|to| write(document, to))
    }

    /// Writes `content` for the last time, in place of a document.
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn finish_as(&self, content: &[u8]) -> Result<(), OutputError> {
        self.finish_by(|to| to.write_all(content))
    }

    fn finish_by(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        self.failing(match &self.target {
            Target::Replaced { draft } => replace(draft, &self.path, write),
            Target::Kept(file) => {
                // Refused by devices and pipes, which have no length.
                let _ = file.set_len(0);
                let mut content = Vec::new();
                write(&mut content)
                    .and_then(|()| write_to_reader(file, &content, LONGEST_PAUSE, &self.stop))
            }
        })
    }

    fn failing<T>(&self, result: io::Result<T>) -> Result<T, OutputError> {
        let path = self.path.display().to_string();
        result.map_err(|source| OutputError::Write { content: self.content, path, source })
    }
}

/// Links on the way to a file, at the most: as many as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Where a link leads to that has nothing at its end; `path` itself if it is none.
fn led_to(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Opens a device or a pipe, without waiting in the kernel: a pipe that nobody reads would hold us there
/// for ever, deaf to signals.
fn open_to_read_by_others(path: &Path, stop: &StopSignal) -> io::Result<File> {
    let deadline = Instant::now() + LONGEST_WAIT_FOR_READER;
    loop {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path);
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                if Instant::now() >= deadline || stop.is_given() {
                    return Err(io::Error::other("nobody reads from this pipe"));
                }
                thread::sleep(TURN);
            }
            opened => return opened,
        }
    }
}

/// Writes all of `content` to a file that does not block, as fast as its reader takes it; one that takes
/// nothing for `pause` is given up.
fn write_to_reader(
    mut file: &File,
    mut content: &[u8],
    pause: Duration,
    stop: &StopSignal,
) -> io::Result<()> {
    let mut since = Instant::now();
    while !content.is_empty() {
        match file.write(content) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => {
                content = content.get(taken..).unwrap_or_default();
                since = Instant::now();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let most =
                    if stop.is_given() { pause.min(LONGEST_PAUSE_INTERRUPTED) } else { pause };
                if since.elapsed() >= most {
                    return Err(io::Error::other(format!(
                        "whoever has this pipe open has read nothing of it for {most:?}"
                    )));
                }
                let turn = Timespec { tv_sec: 0, tv_nsec: TURN.subsec_nanos().into() };
                // Whatever it says: the next write knows better.
                let _ = poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&turn));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Piece by piece: as one text, a document of thousands of cells is larger than all else that a run holds.
fn write(document: &Document, mut to: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, document)?;
    to.write_all(b"\n")
}

/// Makes `path` hold what `write` writes in one step, for those who might read it before; on failure it is as
/// before, and `draft` is gone.
fn replace(
    draft: &Path,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // What is there is a leftover, or somebody's link to a file that is not ours to write: only
    // the name is removed.
    let _ = fs::remove_file(draft);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)
        .and_then(|file| {
            if let Ok(old) = fs::metadata(path) {
                // Refused by file systems that have no modes.
                let _ = file.set_permissions(old.permissions());
            }
            let mut to = BufWriter::new(&file);
            write(&mut to).and_then(|()| to.flush())?;
            drop(to);
            file.sync_data()
        })
        .and_then(|()| fs::rename(draft, path));
    if written.is_err() {
        let _ = fs::remove_file(draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::fd::OwnedFd};

    use super::*;
    use crate::transport::StopReason;

    /// More than a pipe holds.
    const LONG: usize = 1 << 20;

    fn pipe() -> (File, File) {
        let (reader, writer) = io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
    }

    #[test]
    fn a_reader_that_reads_nothing_is_given_up() {
        let (_reader, writer) = pipe();
        let short = Duration::from_millis(50);
        let stop = StopSignal::new();
        let refused = write_to_reader(&writer, &[b' '; LONG], short, &stop).unwrap_err();
        assert!(refused.to_string().contains("read nothing of it"), "{refused}");
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_a_reader() {
        let (_reader, writer) = pipe();
        let (stop, long) = (StopSignal::new(), Duration::from_secs(3600));
        let begun = Instant::now();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| write_to_reader(&writer, &[b' '; LONG], long, &stop));
            stop.give(StopReason::Interrupted);
            assert!(waiting.join().unwrap().is_err());
        });
        assert!(begun.elapsed() < long);
    }

    #[test]
    fn a_slow_reader_gets_all() {
        let (mut reader, writer) = pipe();
        let content: Vec<u8> = (0..LONG).map(|index| index as u8).collect();
        let read = thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let (mut all, mut some) = (Vec::new(), [0; 30_000]);
                while let Ok(got @ 1..) = reader.read(&mut some) {
                    all.extend_from_slice(&some[..got]);
                    thread::sleep(Duration::from_millis(5));
                }
                all
            });
            write_to_reader(&writer, &content, Duration::from_secs(60), &StopSignal::new())
                .unwrap();
            drop(writer);
            reading.join().unwrap()
        });
        assert!(read == content);
    }
}
