//! Diffs: what a writer changed in a page, to the byte.
//!
//! Before the first write of an interval a page's writer keeps a copy of it, the *twin*. At the interval's
//! end page and twin are compared, and the bytes that differ travel to the page's home, which merges the
//! diffs of all writers. Two writers may share a page at the grain of a byte (C structures do), so a byte
//! that a writer left alone must never be in its diff: merging it would undo what the other wrote there.
//!
//! **Invariant:** a diff holds exactly the bytes that changed. Diffs of writers of different bytes can be
//! merged in any order.
//!
//! A diff is the set of changed bytes ([`Changes`]), then the bytes themselves in ascending order. The set
//! takes one of two forms, whichever is shorter; all else is the same for both. Contiguous data (integers,
//! copied buffers, a few variables) make few runs. Floating-point arrays make many: an iteration changes the
//! low bytes of every number and leaves exponents alone, so each of a page's 512 numbers is a run of six or
//! seven bytes, and masks are far shorter.
//!
//! ```text
//!            1       3 · count                          changed bytes
//!   runs   ┌───────┬──────────────────────────────────┬───────────────────────────┐
//!          │ count │ count × (offset, length − 1),    │ their values, ascending   │
//!          │ 1–255 │ 12 bits each, ascending          │                           │
//!          └───────┴──────────────────────────────────┴───────────────────────────┘
//!
//!            1   8               8               8 · partial lines   changed bytes
//!   masks  ┌───┬───────────────┬───────────────┬───────────────────┬───────────────────────────┐
//!          │ 0 │ changed lines │ partial lines │ mask of each      │ their values, ascending   │
//!          │   │               │               │ partial line      │                           │
//!          └───┴───────────────┴───────────────┴───────────────────┴───────────────────────────┘
//!
//!   no change: no bytes at all
//! ```
//!
//! A line is 64 bytes of the page. Bit i of a set of lines is line i, bit i of a line's mask is its byte i; a
//! changed line that is not partial has changed throughout and needs no mask. All integers are little-endian;
//! a run's 24 bits too, with the offset in the low 12.
//!
//! # Cost
//! `cargo run --release -p scash-bench --example diff_cost` prints nanoseconds and sizes for typical pages.

mod changes;
mod decode;
mod encode;
mod pack;
#[cfg(test)]
mod tests;

use crate::PAGE_SIZE;

pub use changes::{Changes, Run, Runs};
pub use decode::{Diff, DiffError, Pieces};
pub use encode::{ENCODE_ROOM, MAX_ENCODED};

/// The bytes of a page.
pub type PageBytes = [u8; PAGE_SIZE];

/// Bytes of a line: one bit of a `u64` each.
const LINE: usize = 64;
/// Lines of a page: one bit of a `u64` each.
const LINES: usize = PAGE_SIZE / LINE;
/// A run's offset and length − 1 take this many bits each.
const RUN_BITS: u32 = 12;

const _: () = assert!(LINE == u64::BITS as usize && LINES == u64::BITS as usize);
const _: () = assert!(PAGE_SIZE == 1 << RUN_BITS);

/// Appends the diff that leads from `old` to `new` to `out` and returns its length: 0 if the pages are equal,
/// at most [`MAX_ENCODED`].
///
/// Does not allocate if `out` has [`ENCODE_ROOM`] bytes to spare.
pub fn encode(old: &PageBytes, new: &PageBytes, out: &mut Vec<u8>) -> usize {
    Changes::between(old, new).encode(new, out)
}

/// Merges a diff into a page. A malformed diff leaves the page as it was.
///
/// The page must be the caller's alone: bytes around the changed ones are rewritten with what they held. For
/// a frame that others may be writing, store the [`Pieces`] of a parsed [`Diff`] one by one.
pub fn apply(diff: &[u8], page: &mut PageBytes) -> Result<(), DiffError> {
    Diff::parse(diff).map(|diff| diff.apply(page))
}
