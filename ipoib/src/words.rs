//! How lists and numbers are put into messages.

/// Items joined by commas, or `none` if there are none.
pub(crate) fn list_or(items: &[String], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { items.join(", ") }
}

/// A number with its thousands set off, as in 8,000,000.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_thousands_off() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (8_000_000, "8,000,000"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ];
        for (number, text) in cases {
            assert_eq!(thousands(number), text);
        }
    }
}
