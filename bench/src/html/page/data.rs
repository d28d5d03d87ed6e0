//! The documents themselves, to be saved from the page without a network.

use std::io::{self, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flate2::{Compression, write::GzEncoder};
use maud::{Markup, html};
use sha2::{Digest as _, Sha256};

use crate::{html::source::Source, report::csv};

/// A link to each document, as it was given to the byte, and to its figures as CSV.
pub(super) fn data(sources: &[Source]) -> Markup {
    html! {
        section id="data" {
            h2 { "Data" }
            p class="soft" {
                "The result documents as they were given, and their figures as comma-separated values; compressed (gunzip)."
            }
            ul {
                @for source in sources {
                    li {
                        (link(&format!("{}.json", file_name(&source.name)), &source.bytes))
                        @if let Ok(csv) = csv(&source.document) {
                            ", " (link(&format!("{}.csv", file_name(&source.name)), csv.as_bytes()))
                        }
                    }
                }
            }
        }
    }
}

fn link(name: &str, content: &[u8]) -> Markup {
    match compressed(content) {
        Ok(bytes) => html! {
            a class="data" download={ (name) ".gz" }
                href={ "data:application/gzip;base64," (BASE64.encode(bytes)) } { (name) ".gz" }
        },
        Err(error) => html! { (name) ": " (error) },
    }
}

/// As `gzip` does it. In memory nothing fails.
fn compressed(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    encoder.finish()
}

/// A name that every file system takes.
fn file_name(name: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_. ".contains(letter);
    let plain = |letter| if plain(letter) { letter } else { '_' };
    name.chars().map(plain).collect::<String>().trim_matches(['.', ' ']).to_owned()
}

/// As a content security policy names a script or a style.
pub(super) fn sha256(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(text.as_bytes())))
}
