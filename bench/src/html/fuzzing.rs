//! Documents that are drawn.

use super::{Options, Source, report, tell_apart};

/// A document as a page and as figures.
pub(crate) fn page(input: &[u8]) {
    let Ok(source) = Source::of(std::path::Path::new("result.json"), input.to_vec()) else {
        return;
    };
    let mut sources = [source.clone(), source];
    tell_apart(&mut sources);
    let drawn = report(&sources, &Options { sizes: vec![64], line_rate: Some(1.25e9) });
    // A name may be anything, a figure not. (The page holds the documents as well.)
    let says_nothing = |text: &str| text.contains("NaN") || text.contains("\"inf\"");
    if !says_nothing(&String::from_utf8_lossy(input)) {
        for (name, figure) in &drawn.figures {
            assert!(!says_nothing(figure), "{name} has a number that is none");
        }
    }
}
