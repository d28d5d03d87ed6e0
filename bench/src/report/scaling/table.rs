//! The fits as a table.

use comfy_table::{CellAlignment, Table, presets};

use super::{
    record::{FitRecord, ModelRecord, PieceRecord},
    words::{about, name},
};
use crate::{plan::display_bytes, report::number::figure};

/// What stands over [`cost_rows`].
pub(crate) const COST_HEAD: [&str; 10] = [
    "transport",
    "pattern",
    "sizes",
    "start-up us",
    "95 %",
    "MB/s",
    "95 %",
    "half at",
    "residuals %",
    "largest %",
];

/// What the columns are.
pub(crate) const COST_NOTE: &str = "time of a message = start-up + size by MB/s, in pieces where it changes; a start-up below 0 is that of a line \
     that begins at large sizes; half at: the size that reaches half of the MB/s; residuals: of the fit, relative, root of \
     the mean square and the largest; intervals over rounds; -: not known, or not shown to be above 0";

/// The fits in lines; empty where there are none.
pub(crate) fn costs(model: &ModelRecord) -> String {
    if model.fits.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(COST_HEAD);
    for row in cost_rows(model) {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n{COST_NOTE}\n\n", table.trim_fmt())
}

/// A row a piece.
pub(crate) fn cost_rows(model: &ModelRecord) -> Vec<[String; 10]> {
    let pieces = |fit: &FitRecord| -> Vec<_> {
        fit.pieces.iter().enumerate().map(|(index, piece)| row(fit, piece, index == 0)).collect()
    };
    model.fits.iter().flat_map(pieces).collect()
}

fn row(fit: &FitRecord, piece: &PieceRecord, is_first: bool) -> [String; 10] {
    let once = |text: String| if is_first { text } else { String::new() };
    let us = |time: f64| figure(Some(time / 1e3));
    let ends = |ends: Option<[f64; 2]>, of: &dyn Fn(f64) -> String| match ends {
        Some([low, high]) => format!("{}..{}", of(low), of(high)),
        None => "-".to_owned(),
    };
    // The rate is the inverse, and so are the ends, in turn.
    let rates = piece.per_byte_interval_95.filter(|[low, _]| *low > 0.0);
    let rates = rates.filter(|_| piece.bytes_per_s.is_some()).map(|[low, high]| [high, low]);
    let sizes = match piece.from == piece.to {
        true => display_bytes(piece.from).to_string(),
        false => format!("{}..{}", display_bytes(piece.from), display_bytes(piece.to)),
    };
    [
        once(fit.of.to_string()),
        once(name(&fit.question)),
        sizes,
        us(piece.start_up_ns),
        ends(piece.start_up_interval_95, &us),
        figure(piece.bytes_per_s.map(|rate| rate / 1e6)),
        ends(rates, &|per_byte| figure(Some(1e3 / per_byte))),
        piece.half_rate_bytes.map_or_else(|| "-".to_owned(), about),
        once(figure(Some(fit.residual_rms * 100.0))),
        once(format!(
            "{} at {}",
            figure(Some(fit.residual_largest * 100.0)),
            display_bytes(fit.residual_largest_at)
        )),
    ]
}
