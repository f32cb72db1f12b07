//! Any other processor: nothing is known of the access, so it is taken for a write. That is correct, for a
//! page that may be written may be read too, and slower: a page that is only read is treated as if it were
//! about to be written.

use crate::fault::Access;

/// Always a write.
pub(crate) fn access(_context: &libc::ucontext_t) -> Option<Access> {
    Some(Access::Write)
}

/// Not known.
pub(crate) fn instruction(_context: &libc::ucontext_t) -> usize {
    0
}
