//! How text is to look where it is shown: on a terminal, or in a file.

use anstyle::{AnsiColor, Style};

/// What the place can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Characters of a line.
    pub line: usize,
    /// Whether it shows colours.
    pub styled: bool,
    /// Whether it shows more than ASCII.
    pub unicode: bool,
}

/// Characters of a line where nobody says otherwise: more would wrap in many a terminal.
const LINE: usize = 100;

impl Look {
    /// A file or a pipe.
    pub const PLAIN: Self = Self { line: LINE, styled: false, unicode: false };

    /// `text` in `style`, where that is shown.
    #[must_use]
    pub fn paint(self, style: Style, text: &str) -> String {
        if self.styled && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// What stands over a column.
pub(crate) const HEADING: Style = Style::new().bold();

/// The best figure of a row.
pub(crate) const BEST: Style = AnsiColor::Green.on_default().bold();

/// A word in place of a figure.
pub(crate) const MISSING: Style = AnsiColor::Red.on_default();

/// What a reader must know before believing a figure.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();

/// What could be set better.
pub(crate) const ADVICE: Style = AnsiColor::Cyan.on_default();
