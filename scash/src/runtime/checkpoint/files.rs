//! Files in memory: which pages have contents, and how they get them. All others are zeros, and take no
//! memory as long as nobody looks at them.

use crate::fault::PAGE;
use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The pages of a file, of these, that have contents, in ascending order. Other processes may give pages of
/// the file back meanwhile: of such a page it may be said that it has contents, or that it has none.
pub(super) fn with_contents(file: BorrowedFd<'_>, pages: Range<u32>) -> impl Iterator<Item = u32> {
    found_by(move |page, whence| lseek(file, i64::from(page) * PAGE as i64, whence), pages)
}

/// As [`with_contents`], by what finds the next place with contents, or without, from a page on.
fn found_by(find: impl Fn(u32, Whence) -> nix::Result<i64>, pages: Range<u32>) -> impl Iterator<Item = u32> {
    let page_of = |place: i64| u32::try_from(place / PAGE as i64).ok();
    let mut run = pages.start..pages.start;
    std::iter::from_fn(move || {
        // A page that had contents at the first look may have none at the second: then the run has no page.
        while run.is_empty() {
            let first = match find(run.end, Whence::SeekData) {
                Ok(data) => page_of(data)?.max(run.end),
                Err(Errno::ENXIO) => return None,
                // Nobody knows.
                Err(_) => run.end,
            };
            if first >= pages.end {
                return None;
            }
            // A file may end within a page.
            let end = find(first, Whence::SeekHole).ok().and_then(|hole| page_of(hole + PAGE as i64 - 1));
            run = first..end.unwrap_or(pages.end).min(pages.end);
        }
        run.next()
    })
}

/// Most pages that are written at once: as many as caches hold.
pub(super) const MOST_AT_ONCE: usize = 64;

/// Writes pages of a file in memory from `first` on: the system gives memory to them, and to no mapping.
///
/// # Errors
/// There is no memory left.
///
/// # Safety
/// So many pages of readable bytes begin at `bytes`.
pub(super) unsafe fn write_pages(
    file: BorrowedFd<'_>,
    first: u32,
    bytes: *const u8,
    pages: usize,
) -> io::Result<()> {
    // At once, instead of a fault for each. What the system cannot do now, it does then.
    // SAFETY: the call reads pages, which the caller says are there.
    let _ = unsafe { libc::madvise(bytes.cast_mut().cast(), pages * PAGE, libc::MADV_POPULATE_READ) };
    let (mut done, len) = (0, pages * PAGE);
    while done < len {
        let at = i64::from(first) * PAGE as i64 + i64::try_from(done).map_err(io::Error::other)?;
        let from = bytes.wrapping_add(done).cast();
        // SAFETY: so many bytes are there, as the caller says.
        let wrote = unsafe { libc::pwrite(file.as_raw_fd(), from, len - done, at) };
        match usize::try_from(wrote) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(wrote) => done += wrote,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::cell::RefCell;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn pages_with_contents_are_found_also_one_in_which_the_file_ends() {
        let file = File::from(memfd_create(c"pages", MFdFlags::MFD_CLOEXEC).unwrap());
        let write = |page: u64, bytes: usize| file.write_all_at(&vec![1; bytes], page * PAGE as u64).unwrap();
        let pages = |range| with_contents(file.as_fd(), range).collect::<Vec<u32>>();
        assert!(pages(0..7).is_empty());
        write(1, PAGE);
        write(4, PAGE + 3);
        assert_eq!(pages(0..7), [1, 4, 5]);
        assert_eq!((pages(2..5), pages(5..9), pages(2..4)), (vec![4], vec![5], vec![]));
    }

    #[test]
    fn pages_behind_one_that_is_given_back_between_two_looks_are_found() {
        let looks = RefCell::new(0);
        let is_given_back = || looks.replace_with(|looks| *looks + 1) > 0;
        // Pages 2 and 6 of 8 have contents; between the first look and the second one, 2 is given back.
        let find = |page: u32, whence| {
            let with: &[u32] = if is_given_back() { &[6] } else { &[2, 6] };
            let fits = |it: &u32| with.contains(it) == matches!(whence, Whence::SeekData);
            (page..8).find(fits).map(|page| i64::from(page) * PAGE as i64).ok_or(Errno::ENXIO)
        };
        assert_eq!(found_by(find, 0..8).collect::<Vec<u32>>(), [6]);
    }
}
