//! The token that a server and its clients share: where it is found, and who goes without.

use std::{
    env,
    ffi::OsString,
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use clap::Args;
use rustix::fs::OFlags;

use super::{Failure, say};
use crate::control::{LONGEST_TOKEN, SHORTEST_TOKEN, Token};

/// Where a token is found when no file is named.
pub(super) const VARIABLE: &str = "FABRICBENCH_TOKEN";

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Token (the same on server and client)")]
pub(super) struct AccessOptions {
    /// File with the token that server and clients share, in one line [default: FABRICBENCH_TOKEN, else
    /// fabricbench/token in $XDG_CONFIG_HOME or ~/.config, where it is]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    token_file: Option<PathBuf>,
    /// Do without a token: whoever reaches the server's port may use it
    #[arg(long)]
    insecure: bool,
}

impl AccessOptions {
    /// Whether no token was to be asked for.
    pub(super) fn is_insecure(&self) -> bool {
        self.insecure
    }

    /// The token that there is: of the file that was named, of the variable, of the usual file. Who listens on
    /// loopback or asks a server there (`local`) may do without: a usual file that cannot be read is nothing to it.
    ///
    /// # Errors
    /// It cannot be read, or is no token.
    pub(super) fn token(&self, local: bool) -> Result<Option<Token>, Failure> {
        if self.insecure {
            return Ok(None);
        }
        if let Some(token) = self.of_named_file()? {
            return Ok(Some(token));
        }
        if let Some(text) = env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
            let Some(text) = text.to_str() else {
                return Err(Failure::Error(format!(
                    "what {VARIABLE} holds is no token: it is no text"
                )));
            };
            return Token::parse(text).map(Some).map_err(|error| {
                Failure::Error(format!("what {VARIABLE} holds is no token: {error}"))
            });
        }
        let Some(path) = usual_file() else { return Ok(None) };
        match from_file(&path) {
            Ok(token) => Ok(Some(token)),
            Err(Unusable::Io(error)) if local || error.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(why) => Err(Failure::Error(format!(
                "{}; nobody named this file, where a token is looked for: --token-file names another, \
                 --insecure does without",
                refused(&path, &why)
            ))),
        }
    }

    /// The token of the file that was named, if one was.
    ///
    /// # Errors
    /// It cannot be read, or holds no token.
    pub(super) fn of_named_file(&self) -> Result<Option<Token>, Failure> {
        let token =
            |path: &PathBuf| from_file(path).map_err(|why| Failure::Error(refused(path, &why)));
        self.token_file.as_ref().map(token).transpose()
    }

    /// The same for a command of ours.
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(path) = &self.token_file {
            words.extend([OsString::from("--token-file"), path.into()]);
        }
        if self.insecure {
            words.push("--insecure".into());
        }
        words
    }
}

enum Unusable {
    Io(io::Error),
    /// A directory, a device or a pipe.
    NoFile,
    Token(crate::control::TokenError),
}

fn refused(path: &Path, why: &Unusable) -> String {
    let path = path.display();
    match why {
        Unusable::Io(error) => format!(
            "cannot read the token file {path}: {error}; it holds one line of {SHORTEST_TOKEN} characters or more, \
             as `openssl rand -hex 16` makes"
        ),
        Unusable::NoFile => format!(
            "the token file {path} is no regular file; it holds one line of {SHORTEST_TOKEN} characters or more, as \
             `openssl rand -hex 16` makes"
        ),
        Unusable::Token(error) => format!("the token file {path} holds no token: {error}"),
    }
}

fn from_file(path: &Path) -> Result<Token, Unusable> {
    // A pipe that nobody writes to would hold us in the kernel for ever, deaf to signals.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(Unusable::Io)?;
    let metadata = file.metadata().map_err(Unusable::Io)?;
    if !metadata.is_file() {
        return Err(Unusable::NoFile);
    }
    if metadata.permissions().mode() & 0o007 != 0 {
        say(format_args!(
            "warning: the token file {0} is open to all users; chmod 600 {0}",
            path.display()
        ));
    }
    let mut text = String::new();
    // What is longer is no token, and need not be read to its end.
    let most = LONGEST_TOKEN as u64 + 3;
    file.take(most).read_to_string(&mut text).map_err(Unusable::Io)?;
    Token::parse(&text).map_err(Unusable::Token)
}

/// The XDG base directories' place for what a user sets.
fn usual_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(folder.join("fabricbench/token"))
}
