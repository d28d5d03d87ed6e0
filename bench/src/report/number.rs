//! Figures as people read them: three significant digits, no exponent.

/// A figure with three significant digits and thousands separators; `-` where there is none, or none that
/// is finite.
pub(crate) fn figure(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".to_owned() };
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 || size == 0.0 => 3,
        size if size >= 0.01 => 4,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.len() - index;
        if index > 0 && left.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        assert_eq!(figure(None), "-");
        assert_eq!(figure(Some(f64::NAN)), "-");
        assert_eq!(figure(Some(0.001_234)), "0.00123");
        assert_eq!(figure(Some(0.012_34)), "0.0123");
        assert_eq!(figure(Some(0.1234)), "0.123");
        assert_eq!(figure(Some(1.234)), "1.23");
        assert_eq!(figure(Some(27.64)), "27.6");
        assert_eq!(figure(Some(999.6)), "1,000");
        assert_eq!(figure(Some(1_234_567.8)), "1,234,568");
        assert_eq!(figure(Some(-1_234.0)), "-1,234");
    }
}
