//! Result files that strangers may have written, and what is said of them.

use std::sync::OnceLock;

use super::{Comparison, Gate, Input, Request, input, json, markdown, text};
use crate::{
    report::{self, Look, PerftestColumns},
    stats::Distribution,
    suite::{self, tf_grpc},
};

/// A small document that was measured.
const MEASURED: &[u8] = include_bytes!("../../../ci/fuzz/corpus/result/loopback");

/// A result in all faces, and compared with one that was measured.
pub(crate) fn result(input: &[u8]) {
    static BASE: OnceLock<Input> = OnceLock::new();
    let base = BASE.get_or_init(|| {
        input::parse("base".to_owned(), MEASURED).expect("it was written by a run")
    });
    let new = match input::parse("new".to_owned(), input) {
        Ok(new) => new,
        Err(error) => {
            let _ = error.to_string();
            return;
        }
    };
    let document = &new.document;
    let styled = Look { line: 40, styled: true, unicode: true };
    for look in [Look::PLAIN, styled] {
        let _ = (report::table(document, look), report::latency_chart(document, look));
    }
    let _ = (report::long(document), report::markdown(document), report::openmetrics(document));
    let _ = report::csv(document).expect("any document has rows");
    for gigabits in [false, true] {
        let _ = report::perftest(
            document,
            PerftestColumns { gigabits, by_duration: gigabits, cpu_util: gigabits },
        );
    }
    let written = serde_json::to_vec(document).expect("it was read");
    input::parse("again".to_owned(), &written).expect("what was read can be written and read");
    let gates = ["latency.p50 > 1.1", "rate < 0.9 @ tcp* latency"]
        .map(|gate| gate.parse::<Gate>().expect("it is one"));
    for (from, to) in [(base, &new), (&new, base), (&new, &new)] {
        let request = Request { anyway: true, all_figures: true, gates: gates.to_vec() };
        let comparison = Comparison::of(from, to, &request);
        let _ = (text(&comparison), markdown(&comparison));
        let _ = json(&[comparison]).expect("figures are numbers");
    }
    let _ = suite::text(&tf_grpc(document.clone(), &[]));
}

pub(crate) fn histogram(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(read) = Distribution::parse(text) else { return };
    let _ = (read.len(), read.is_empty(), read.median_interval(1.96));
    for q in [0.0, 0.5, 0.999, 1.0] {
        let _ = (read.quantile(q), read.quantile_interval(q, 1.96));
    }
    let mut before = (0, 0);
    for (value, seen) in read.cumulated() {
        assert!(value >= before.0 && seen >= before.1, "not in ascending order");
        before = (value, seen);
    }
}

pub(crate) fn gate(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<Gate>() {
        Err(error) => _ = error.to_string(),
        Ok(gate) => {
            static CELLS: OnceLock<Input> = OnceLock::new();
            let measured = CELLS.get_or_init(|| {
                input::parse("base".to_owned(), MEASURED).expect("it was written by a run")
            });
            let request = Request { gates: vec![gate], ..Request::default() };
            let _ = Comparison::of(measured, measured, &request);
        }
    }
}
