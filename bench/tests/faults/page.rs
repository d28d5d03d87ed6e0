//! docs/reliability.md names tests that are there.

use std::{collections::BTreeSet, fs, path::Path};

/// Of a page, each `FILE.rs::TEST` between backticks, FILE from the top of the tree.
fn named(page: &str) -> BTreeSet<(&str, &str)> {
    let words = page.split('`').skip(1).step_by(2);
    words.filter_map(|word| word.split_once(".rs::")).collect()
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(top.join("docs/reliability.md")).unwrap();
    let named = named(&page);
    assert!(named.len() >= 30, "{named:?}");
    let missing: Vec<_> = named
        .iter()
        .filter(|(file, test)| {
            let text = fs::read_to_string(top.join(format!("{file}.rs"))).unwrap_or_default();
            // Those of a macro have their name before a colon.
            !text.contains(&format!("fn {test}(")) && !text.contains(&format!(" {test}: "))
        })
        .collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}
