//! What the terminal can show, and whether what is shown there is one.

use std::io::{self, IsTerminal};

use anstream::AutoStream;
use clap::ValueEnum;

use crate::report::Look;

/// When something is done that a terminal is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl When {
    /// From here on decides about the colours of both outputs. By itself that is a terminal which is not
    /// `TERM=dumb`, without `NO_COLOR`.
    pub(super) fn decide_colours(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }

    /// Whether it is to be on standard output.
    pub(super) fn holds(self) -> bool {
        match self {
            Self::Auto => io::stdout().is_terminal(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// How text is to look on standard output.
pub(super) fn look() -> Look {
    let stdout = io::stdout();
    let line = match rustix::termios::tcgetwinsize(&stdout) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => Look::PLAIN.line,
    };
    let styled = is_styled(AutoStream::choice(&stdout));
    Look { line, styled, unicode: has_unicode(|name| std::env::var(name).ok()) }
}

/// How a line is to look on standard error.
pub(super) fn error_look() -> Look {
    Look { styled: is_styled(AutoStream::choice(&io::stderr())), ..Look::PLAIN }
}

fn is_styled(choice: anstream::ColorChoice) -> bool {
    choice != anstream::ColorChoice::Never
}

/// Whether the locale's characters are those of UTF-8: the first of its variables that is set decides (locale(7)).
fn has_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides_the_characters() {
        let with = |set: &[(&str, &str)]| {
            has_unicode(|name| {
                set.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(with(&[("LANG", "en_GB.UTF-8")]) && with(&[("LC_CTYPE", "C.utf8")]));
        assert!(!with(&[]) && !with(&[("LANG", "C")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "C.UTF-8")]), "an empty one is not set");
    }
}
