//! Tables that can be pasted into the documentation.

use crate::ratio::{Bar, Ratio};

/// The columns that [`judged`] fills.
pub const JUDGED: [&str; 5] = ["ratio", "95 % interval", "bar", "by median", "by lower end"];

/// A ratio, its interval, its bar, and what median and lower end say to that.
pub fn judged(ratio: Option<Ratio>, bar: Option<Bar>) -> [String; 5] {
    let none = || "-".to_owned();
    let Some(ratio) = ratio else {
        return [none(), none(), bar.map_or_else(none, |bar| bar.to_string()), none(), none()];
    };
    let interval = ratio
        .interval
        .map_or_else(none, |interval| format!("{:.3} to {:.3}", interval.low, interval.high));
    let verdict = |figure: Option<f64>| match (figure, bar) {
        (Some(figure), Some(bar)) => bar.verdict(figure).to_owned(),
        _ => none(),
    };
    [
        format!("{:.3}", ratio.median),
        interval,
        bar.map_or_else(none, |bar| bar.to_string()),
        verdict(Some(ratio.median)),
        verdict(ratio.interval.map(|interval| interval.low)),
    ]
}

/// A figure with three significant digits at least; `-` where there is none.
pub fn figure(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let decimals = match value {
        large if large >= 100.0 => 0,
        medium if medium >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A table whose first `left` columns are aligned to the left, and the others to the right.
pub fn table(header: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let body = rows.iter().map(|row| cell(row, column).chars().count());
            body.chain([header[column].chars().count(), 3]).max().unwrap_or(3)
        })
        .collect();
    let line = |texts: &[String]| {
        let padded = widths.iter().enumerate().map(|(column, &width)| {
            let text = cell(texts, column);
            if column < left { format!(" {text:<width$} |") } else { format!(" {text:>width$} |") }
        });
        format!("|{}\n", padded.collect::<String>())
    };
    let rule = widths.iter().enumerate().map(|(column, &width)| {
        let dashes = "-".repeat(width);
        if column < left { format!(" {dashes} |") } else { format!(" {}: |", &dashes[1..]) }
    });
    let head: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let mut text = line(&head);
    text.push_str(&format!("|{}\n", rule.collect::<String>()));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_markdown() {
        let rows =
            [vec!["write".to_owned(), "1.05".to_owned()], vec!["µ".to_owned(), "12.3".to_owned()]];
        assert_eq!(
            table(&["verb", "us"], 1, &rows),
            "| verb  |   us |\n\
             | ----- | ---: |\n\
             | write | 1.05 |\n\
             | µ     | 12.3 |\n"
        );
    }

    #[test]
    fn both_readings_of_a_ratio_stand_side_by_side() {
        let of = |values: [f64; 6]| Ratio::of(&values.map(Some), &[Some(1.0); 6]);
        let ratio = of([1.0, 1.04, 1.08, 1.08, 1.1, 1.2]);
        let bar = Some(Bar::AtMost(1.05));
        assert_eq!(judged(ratio, bar), ["1.080", "1.000 to 1.200", "≤ 1.05", "missed", "met"]);
        assert_eq!(judged(ratio, None)[2..], ["-", "-", "-"]);
        assert_eq!(judged(None, bar), ["-", "-", "≤ 1.05", "-", "-"]);
        let few = Ratio::of(&[Some(1.0)], &[Some(1.0)]);
        assert_eq!(judged(few, bar), ["1.000", "-", "≤ 1.05", "met", "-"]);
    }

    #[test]
    fn figures() {
        let shown = [None, Some(0.5), Some(13.27), Some(1234.4)].map(figure);
        assert_eq!(shown, ["-", "0.50", "13.3", "1234"]);
    }
}
