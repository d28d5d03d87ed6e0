//! Text that others chose, such as a name that was typed, on a terminal: in one line, and without
//! what a terminal would obey.

use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

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

/// `document` with the control characters of all its texts escaped.
///
/// # Errors
/// A text in it must not change.
pub fn plain_throughout<T: Serialize + DeserializeOwned>(document: &T) -> serde_json::Result<T> {
    let mut value = serde_json::to_value(document)?;
    escape(&mut value);
    serde_json::from_value(value)
}

fn escape(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(escaped) = plain(text) {
                *text = escaped;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(escape),
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                escape(&mut value);
                fields.insert(plain(&name).into_owned(), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(plain("a\nb\t\u{1b}[31m\u{9b}é"), "a\\nb\\t\\u{1b}[31m\\u{9b}é");
        assert!(matches!(plain("é \u{200b}"), Cow::Borrowed(_)));
    }
    #[test]
    fn every_text_of_a_document_is_made_plain() {
        let said = serde_json::json!({ "a\n": ["\u{1b}[2J", { "b": "\r", "c": 1.5, "d": null }], "e": u64::MAX });
        let plain = serde_json::json!({ "a\\n": ["\\u{1b}[2J", { "b": "\\r", "c": 1.5, "d": null }], "e": u64::MAX });
        assert_eq!(plain_throughout(&said).unwrap(), plain);
    }
}
