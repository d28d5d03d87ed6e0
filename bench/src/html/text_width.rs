//! How wide words are, without the font that a reader will have.

/// How much wider than Helvetica a font may be.
const WIDER: f64 = 1.06;

/// Width of `text` in pixels at a font size of `size` pixels: that of Helvetica, and somewhat more for wider fonts.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(width).sum::<f64>() * size * WIDER
}

/// `text`, or what of its ends fits into `room` pixels with an ellipsis between: names begin with what they are of,
/// and end with what tells them apart.
pub(super) fn fitted(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let room = room - text_width("…", size);
    let within = |letters: &mut dyn Iterator<Item = char>, mut left: f64| -> Vec<char> {
        let fits = |letter: &char| {
            left -= size * WIDER * width(*letter);
            left >= 0.0
        };
        letters.take_while(fits).collect()
    };
    let head = within(&mut text.chars(), room * 0.4);
    let tail = within(&mut text.chars().rev(), room * 0.6);
    head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect()
}

fn width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '\'' | '|' => 0.24,
        'f' | 't' | 'r' | 'I' | '.' | ',' | ':' | ';' | ' ' | '[' | ']' | '(' | ')' | '-' | '/'
        | '!' => 0.31,
        'm' | 'w' | 'M' | 'W' | '%' => 0.85,
        '@' | '…' => 1.0,
        'A'..='Z' | '&' | '=' | '+' | '<' | '>' => 0.68,
        // Of other scripts some letters are as wide as they are high.
        letter if (letter as u32) >= 0x1100 => 1.0,
        _ => 0.56,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(fitted("tcp@ipoib", 12.0, 100.0), "tcp@ipoib");
        let cut = fitted("grpc-stock@ethernet[serialized=yes]", 12.0, 100.0);
        assert!(
            cut.starts_with("grpc") && cut.ends_with("yes]") && text_width(&cut, 12.0) <= 100.0,
            "{cut}"
        );
        assert_eq!(fitted("ab", 12.0, 1.0), "…");
    }
}
