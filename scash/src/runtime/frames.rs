//! Reading and writing page frames: memory that other processes write, too.
//!
//! **Invariant:** no Rust reference ever points into a frame. Bytes are copied out to private memory before
//! they are looked at, and stored by raw pointers. What a copy shows when a peer writes at the same time is
//! some mixture of old and new bytes; the protocol relies only on bytes that a data-race-free program leaves
//! alone meanwhile.

use crate::fault::{PAGE, Region};
use scash_proto::diff::PageBytes;
use std::ptr;

/// Copies a page's frame out.
pub(crate) fn load(region: &Region, page: u32, into: &mut PageBytes) {
    // SAFETY: the runtime view holds a whole page there (`frame`), and `into` is private memory, so they do
    // not overlap.
    unsafe { ptr::copy_nonoverlapping(frame(region, page), into.as_mut_ptr(), PAGE) };
}

/// Stores bytes into a page's frame.
///
/// # Panics
/// If they do not fit.
pub(crate) fn store(region: &Region, page: u32, offset: usize, bytes: &[u8]) {
    assert!(offset + bytes.len() <= PAGE, "{} bytes at {offset} of a page", bytes.len());
    let at = frame(region, page).wrapping_add(offset);
    // SAFETY: within one page of the runtime view, which is always writable; `bytes` cannot lie in a frame
    // (first invariant).
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
}

/// The page's frame in the runtime view.
///
/// # Panics
/// If the region has no such page.
pub(crate) fn frame(region: &Region, page: u32) -> *mut u8 {
    assert!(page < region.pages(), "page {page} of {}", region.pages());
    region.runtime_base().wrapping_add(page as usize * PAGE)
}
