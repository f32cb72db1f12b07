//! The command `scash`.
fn main() {}
