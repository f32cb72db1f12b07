//! Files in memory: which pages have contents. All others are zeros, and take no memory as long as nobody
//! looks at them.

use crate::fault::PAGE;
use nix::unistd::{Whence, lseek};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The pages of a file, of these, that have contents, in ascending order.
pub(super) fn with_contents(file: BorrowedFd<'_>, pages: Range<u32>) -> impl Iterator<Item = u32> {
    let find = move |page: u32, whence| {
        let found = lseek(file, i64::from(page) * PAGE as i64, whence).ok()?;
        u32::try_from(found / PAGE as i64).ok()
    };
    let mut run = pages.start..pages.start;
    std::iter::from_fn(move || {
        if run.is_empty() {
            let first = find(run.end, Whence::SeekData).filter(|first| *first < pages.end)?.max(run.end);
            run = first..find(first, Whence::SeekHole).unwrap_or(pages.end).min(pages.end);
        }
        run.next()
    })
}
