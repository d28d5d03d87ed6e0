//! A stand-in for an IPoIB link.
fn main() {}
