//! The `fabricbench` command.
fn main() {}
