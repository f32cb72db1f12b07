//! Which pages of private memory have bytes of their own: not those of a file that nobody wrote, and not
//! those that nobody touched.

use super::area;
use super::kernel::{self, SyscallFailure};
use crate::pagemap::{CHECK_WPASYNC, IS_WRITTEN, PAGEMAP_SCAN, PageRegion, ScanArg, WP_MATCHING};
use crate::store::PAGE;
use std::ops::Range;

const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO_PAGE: u64 = 1 << 5;

/// Bits of a word of `/proc/self/pagemap`.
const FILE: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;

/// The page map of this process.
pub(super) struct PageMap {
    file: usize,
    /// Whether the kernel has `PAGEMAP_SCAN` (Linux 6.7).
    scans: bool,
}

impl PageMap {
    pub(super) fn open() -> Result<PageMap, SyscallFailure> {
        let path = c"/proc/self/pagemap".as_ptr().expose_provenance();
        let flags = kernel::bits(libc::O_RDONLY | libc::O_CLOEXEC);
        // SAFETY: the path is a C string.
        let file =
            unsafe { kernel::call(libc::SYS_openat, [kernel::bits(libc::AT_FDCWD), path, flags, 0, 0, 0]) }?;
        let mut map = PageMap { file, scans: true };
        map.scans = map.scan(&(0..0), 0).is_ok();
        Ok(map)
    }

    /// Calls `found` with each run of such pages in a range, in order, until it fails.
    pub(super) fn runs<E: From<SyscallFailure>>(
        &self,
        range: Range<usize>,
        mut found: impl FnMut(Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = range;
        while left.start < left.end {
            let (count, walked) = if self.scans { self.scan(&left, 0)? } else { self.read(&left)? };
            for run in runs_found(count) {
                found(run.start as usize..run.end as usize)?;
            }
            left.start = walked;
        }
        Ok(())
    }

    /// Whether the kernel remembers which pages of a range were written.
    pub(super) fn remembers(&self, range: &Range<usize>) -> bool {
        self.scans && self.scan(&(range.start..range.start + PAGE), CHECK_WPASYNC).is_ok()
    }

    /// As [`runs`](Self::runs) of a range of which it does: with whether the pages were written since the
    /// last time.
    pub(super) fn written<E: From<SyscallFailure>>(
        &self,
        range: Range<usize>,
        mut found: impl FnMut(Range<usize>, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = range;
        while left.start < left.end {
            let (count, walked) = self.scan(&left, WP_MATCHING | CHECK_WPASYNC)?;
            for run in runs_found(count) {
                found(run.start as usize..run.end as usize, run.categories & IS_WRITTEN != 0)?;
            }
            left.start = walked;
        }
        Ok(())
    }

    /// One call: how many runs it found, and how far it came.
    fn scan(&self, range: &Range<usize>, flags: u64) -> Result<(usize, usize), SyscallFailure> {
        let (at, room) = area::part(area::RUNS);
        // What is tracked has no file, and then the kernel need not look at the page itself.
        let no_pages_of = if flags & CHECK_WPASYNC == 0 { IS_FILE | IS_ZERO_PAGE } else { IS_ZERO_PAGE };
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            flags,
            start: range.start as u64,
            end: range.end as u64,
            walk_end: 0,
            vec: at.expose_provenance() as u64,
            vec_len: (room / size_of::<PageRegion>()) as u64,
            max_pages: 0,
            category_inverted: no_pages_of,
            category_mask: no_pages_of,
            category_anyof_mask: IS_PRESENT | IS_SWAPPED,
            return_mask: if flags == 0 { IS_PRESENT | IS_SWAPPED } else { IS_WRITTEN },
        };
        let what = [self.file, PAGEMAP_SCAN as usize, (&raw mut arg).expose_provenance(), 0, 0, 0];
        // SAFETY: the kernel writes into the structure, and at most `vec_len` runs into the scratch memory.
        let count = unsafe { kernel::call(libc::SYS_ioctl, what) }?;
        Ok((count, arg.reached(runs_found(count)) as usize))
    }

    /// The same where the kernel is older: one call for the words of some pages.
    fn read(&self, range: &Range<usize>) -> Result<(usize, usize), SyscallFailure> {
        let mut words = [0u64; 512];
        let pages = (range.len() / PAGE).min(words.len());
        let (into, from) = ((&raw mut words).expose_provenance(), range.start / PAGE * 8);
        // SAFETY: the words are this function's, and as many as asked for.
        let got = unsafe { kernel::call(libc::SYS_pread64, [self.file, into, pages * 8, from, 0, 0]) }? / 8;
        if got == 0 {
            return Err(SyscallFailure(libc::EIO));
        }
        let (at, _) = area::part(area::RUNS);
        let runs: *mut PageRegion = at.cast();
        let mut count = 0;
        for (page, word) in words.iter().take(got).enumerate() {
            if word & (PRESENT | SWAPPED) == 0 || word & FILE != 0 {
                continue;
            }
            let start = (range.start + page * PAGE) as u64;
            let run = PageRegion { start, end: start + PAGE as u64, categories: 0 };
            // SAFETY: there is room for 512 runs in the scratch memory.
            unsafe { runs.wrapping_add(count).write(run) };
            count += 1;
        }
        Ok((count, range.start + got * PAGE))
    }
}

impl Drop for PageMap {
    fn drop(&mut self) {
        // SAFETY: the descriptor was opened by `open`.
        let _ = unsafe { kernel::call(libc::SYS_close, [self.file, 0, 0, 0, 0, 0]) };
    }
}

/// The runs that the last call has left in the scratch memory.
fn runs_found(count: usize) -> &'static [PageRegion] {
    let (at, _) = area::part(area::RUNS);
    // SAFETY: so many runs were written there; the memory stays mapped, and is written by the next call only,
    // which comes when these were read.
    unsafe { std::slice::from_raw_parts(at.cast_const().cast(), count) }
}

#[cfg(test)]
mod tests {
    use super::super::{Tracking, maps};
    use super::*;
    use std::ptr;

    const PAGES: usize = 1 << 12;

    /// Private memory, which the kernel watches: where it begins. `None` where it cannot.
    fn watched() -> Option<*mut u8> {
        area::have_scratch().unwrap();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address.
        let at = unsafe { libc::mmap(ptr::null_mut(), PAGES * PAGE, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let range = at.expose_provenance()..at.expose_provenance() + PAGES * PAGE;
        let text = format!("{:x}-{:x} rw-p 00000000 00:00 0", range.start, range.end);
        let mapping = maps::parse(text.as_bytes()).next().unwrap();
        let tracking = Tracking::new(|fd| fd);
        let begun = tracking.begin(&mapping).is_ok() && PageMap::open().unwrap().remembers(&range);
        std::mem::forget(tracking);
        begun.then_some(at.cast())
    }

    #[test]
    fn each_page_is_found_once_however_many_runs_there_are() {
        let Some(begin) = watched() else {
            eprintln!("skipped: the kernel does not remember written pages (Linux 6.7, userfaultfd)");
            return;
        };
        let (first, map) = (begin.expose_provenance(), PageMap::open().unwrap());
        // Every page is there; then, turn by turn, every `step`-th one is written, and so a run of its own.
        // The last one always is: told of twice, it would be taken for unwritten.
        let written = |page: usize, step: usize| page.is_multiple_of(step) || page == PAGES - 1;
        for step in [1, 2, 3, 4, 7, 8, 9, 31] {
            for page in (0..PAGES).filter(|&page| written(page, step)) {
                // SAFETY: a byte of the mapping.
                unsafe { begin.wrapping_add(page * PAGE).write_volatile(1) };
            }
            let mut found = Vec::new();
            map.written::<SyscallFailure>(first..first + PAGES * PAGE, |run, was_written| {
                found.extend(run.step_by(PAGE).map(|at| ((at - first) / PAGE, was_written)));
                Ok(())
            })
            .unwrap();
            let expected: Vec<_> = (0..PAGES).map(|page| (page, written(page, step))).collect();
            assert!(found == expected, "step {step}: {} pages of {PAGES} are told of", found.len());
            let mut found = 0;
            map.runs::<SyscallFailure>(first..first + PAGES * PAGE, |run| {
                found += run.len() / PAGE;
                Ok(())
            })
            .unwrap();
            assert_eq!(found, PAGES);
        }
    }
}
