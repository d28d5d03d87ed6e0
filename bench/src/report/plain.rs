//! Text that others chose, such as a name that was typed, on a terminal: in one line, and without
//! what a terminal would obey.

use std::borrow::Cow;

/// `text` with its control characters escaped, as `\n` and `\u{1b}`.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(plain("a\nb\t\u{1b}[31m\u{9b}é"), "a\\nb\\t\\u{1b}[31m\\u{9b}é");
        assert!(matches!(plain("é \u{200b}"), Cow::Borrowed(_)));
    }
}
