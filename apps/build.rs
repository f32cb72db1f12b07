//! Compiles the C twins of the programs.
fn main() {}
