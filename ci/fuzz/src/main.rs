//! libFuzzer on one decoder: `FABRICBENCH_FUZZ=NAME fabricbench-fuzz [FLAG]... [CORPUS]...`. Without a name it lists
//! the decoders.
//!
//! A decoder is a function of the crate that it belongs to, in that crate's `fuzzing`, so that it can be private
//! there.
#![no_main]
#![allow(unsafe_code, reason = "libFuzzer calls a symbol that a macro of its crate exports")]

mod host;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn chosen() -> fn(&[u8]) {
    let lists = [
        fabricbench::fuzzing::TARGETS,
        fabricbench_grpc::fuzzing::TARGETS,
        fabricbench_ipoib::fuzzing::TARGETS,
        host::TARGETS,
    ];
    let wanted = std::env::var("FABRICBENCH_FUZZ").unwrap_or_default();
    match lists.into_iter().flatten().find(|(name, _)| *name == wanted) {
        Some(&(_, target)) => target,
        None => {
            lists.into_iter().flatten().for_each(|(name, _)| println!("{name}"));
            std::process::exit(if wanted.is_empty() { 0 } else { 2 });
        }
    }
}

fuzz_target!(init: { TARGET.get_or_init(chosen); }, |input: &[u8]| {
    if let Some(target) = TARGET.get() {
        target(input);
    }
});
