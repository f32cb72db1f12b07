//! What a rank says on its stderr.

use std::io::Write;

/// Writes `words`, which end their lines themselves, by one system call: so that ranks do not talk over each
/// other. If nobody listens any more, nothing is said.
pub(crate) fn say(words: &str) {
    let _ = std::io::stderr().write_all(words.as_bytes());
}
