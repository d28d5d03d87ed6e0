//! `/sys`, `/proc` and `/dev`, below a root that tests replace.
//!
//! Whoever writes these files may be wrong, or a mount may hold anything: what cannot be read, is too
//! large or is no number is absent, and never an error.

use std::{fs, io::Read, path::PathBuf, str::FromStr};

/// More than any file that is read here has, in bytes: `/proc/self/maps` of a large program.
const LARGEST: u64 = 1 << 20;

/// The files of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree(PathBuf);

impl Default for Tree {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Tree {
    /// A directory that holds `sys`, `proc` and `dev`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// What is in a file, 1 MiB of it at the most.
    pub(super) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut file = fs::File::open(self.path(path)).ok()?;
        let mut bytes = Vec::new();
        file.by_ref().take(LARGEST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The text of a file without white space around it; none if that leaves nothing.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The value of a file that holds just one.
    pub(super) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// What a directory holds, in order; nothing of what is none.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// The numbers among the names of a directory, less a prefix, in order.
    pub(super) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(path);
        let mut numbers: Vec<_> =
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Whether there is something.
    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// The last part of what a symbolic link leads to.
    pub(super) fn target_name(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok()?.file_name()?.to_str().map(str::to_owned)
    }
}
