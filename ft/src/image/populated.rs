//! Which pages of private memory have bytes of their own: not those of a file that nobody wrote, and not
//! those that nobody touched.

use super::area;
use super::kernel::{self, SyscallFailure};
use crate::pagemap::{CHECK_WPASYNC, IS_WRITTEN, PAGEMAP_SCAN, PageRegion, ScanArg, WP_MATCHING};
use crate::store::PAGE;
use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO_PAGE: u64 = 1 << 5;
/// A guard page (`MADV_GUARD_INSTALL`, Linux 6.13), which nobody can read. Linux 6.18 tells them; others
/// were not tried.
const IS_GUARD: u64 = 1 << 8;

/// Bits of a word of `/proc/self/pagemap`.
const GUARD: u64 = 1 << 58;
const FILE: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;

/// What is asked for the pages of a range.
#[derive(Clone, Copy)]
enum Ask {
    /// Which have bytes of their own.
    Present,
    /// Which have bytes of their own, and were they written since this was asked last?
    PresentAndWritten,
}

/// The page map of this process.
pub(super) struct PageMap {
    file: usize,
    /// Whether the kernel has `PAGEMAP_SCAN` (Linux 6.7).
    scans: bool,
    /// What it is asked for, so that it leaves guard pages out, if it can.
    guards: u64,
    /// How long the kernel has looked.
    looked: Cell<Duration>,
}

impl PageMap {
    pub(super) fn open() -> Result<PageMap, SyscallFailure> {
        let path = c"/proc/self/pagemap".as_ptr().expose_provenance();
        let flags = kernel::bits(libc::O_RDONLY | libc::O_CLOEXEC);
        // SAFETY: the path is a C string.
        let file =
            unsafe { kernel::call(libc::SYS_openat, [kernel::bits(libc::AT_FDCWD), path, flags, 0, 0, 0]) }?;
        static CAN: OnceLock<(bool, u64)> = OnceLock::new();
        let mut map = PageMap { file, scans: true, guards: IS_GUARD, looked: Cell::default() };
        let can = CAN.get_or_init(|| {
            if map.can_scan() {
                return (true, IS_GUARD);
            }
            map.guards = 0;
            (map.can_scan(), 0)
        });
        (map.scans, map.guards) = *can;
        Ok(map)
    }

    /// Whether the kernel takes what it is asked.
    fn can_scan(&self) -> bool {
        self.scan(&(0..0), Ask::Present).is_ok()
    }

    /// How long the kernel has looked until now.
    pub(super) fn looked(&self) -> Duration {
        self.looked.get()
    }

    /// Notes how long a call took that began then.
    fn note(&self, began: Instant) {
        self.looked.set(self.looked.get() + began.elapsed());
    }

    /// Calls `found` with each run of such pages in a range, in order, until it fails.
    pub(super) fn runs<E: From<SyscallFailure>>(
        &self,
        range: Range<usize>,
        mut found: impl FnMut(Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = range;
        while left.start < left.end {
            let (count, walked) =
                if self.scans { self.scan(&left, Ask::Present)? } else { self.read(&left)? };
            for run in runs_found(count) {
                found(run.start as usize..run.end as usize)?;
            }
            left.start = walked;
        }
        Ok(())
    }

    /// As [`runs`](Self::runs), with whether the pages were written since this was asked last. Returns
    /// whether the kernel remembers that; if not, nothing was found.
    pub(super) fn written<E: From<SyscallFailure>>(
        &self,
        range: Range<usize>,
        mut found: impl FnMut(Range<usize>, bool) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut left = range;
        while self.scans && left.start < left.end {
            let (count, walked) = match self.scan(&left, Ask::PresentAndWritten) {
                Err(SyscallFailure(libc::EPERM)) => return Ok(false),
                scanned => scanned?,
            };
            for run in runs_found(count) {
                found(run.start as usize..run.end as usize, run.categories & IS_WRITTEN != 0)?;
            }
            left.start = walked;
        }
        Ok(self.scans)
    }

    /// One call: how many runs it found, and how far it came.
    fn scan(&self, range: &Range<usize>, ask: Ask) -> Result<(usize, usize), SyscallFailure> {
        let (at, room) = area::part(area::RUNS);
        // The kernel takes memory for as many runs as there could be.
        let most = (room / size_of::<PageRegion>()).min(range.len() / PAGE).max(1);
        // What is tracked has no file, and then the kernel need not look at the page itself. (A page that is
        // just being moved is called swapped.)
        let present = IS_PRESENT | IS_SWAPPED;
        let (flags, no_pages_of, told) = match ask {
            Ask::Present => (0, IS_FILE | IS_ZERO_PAGE, present),
            Ask::PresentAndWritten => (WP_MATCHING | CHECK_WPASYNC, IS_ZERO_PAGE, IS_WRITTEN),
        };
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            flags,
            start: range.start as u64,
            end: range.end as u64,
            walk_end: 0,
            vec: at.expose_provenance() as u64,
            vec_len: most as u64,
            max_pages: 0,
            category_inverted: no_pages_of | self.guards,
            category_mask: no_pages_of | self.guards,
            category_anyof_mask: present,
            return_mask: told,
        };
        let what = [self.file, PAGEMAP_SCAN as usize, (&raw mut arg).expose_provenance(), 0, 0, 0];
        let began = Instant::now();
        // SAFETY: the kernel writes into the structure, and at most `vec_len` runs into the scratch memory.
        let count = unsafe { kernel::call(libc::SYS_ioctl, what) };
        self.note(began);
        let count = count?;
        Ok((count, arg.reached(runs_found(count)) as usize))
    }

    /// The same where the kernel is older: one call for the words of some pages.
    fn read(&self, range: &Range<usize>) -> Result<(usize, usize), SyscallFailure> {
        let mut words = [0u64; 512];
        let pages = (range.len() / PAGE).min(words.len());
        let (into, from) = ((&raw mut words).expose_provenance(), range.start / PAGE * 8);
        let began = Instant::now();
        // SAFETY: the words are this function's, and as many as asked for.
        let got = unsafe { kernel::call(libc::SYS_pread64, [self.file, into, pages * 8, from, 0, 0]) };
        self.note(began);
        let got = got? / 8;
        if got == 0 {
            return Err(SyscallFailure(libc::EIO));
        }
        let (at, _) = area::part(area::RUNS);
        let runs: *mut PageRegion = at.cast();
        let mut count = 0;
        for (page, word) in words.iter().take(got).enumerate() {
            if word & (PRESENT | SWAPPED) == 0 || word & (FILE | GUARD) != 0 {
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

    /// Private memory.
    fn mapped() -> Range<usize> {
        area::have_scratch().unwrap();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address.
        let at = unsafe { libc::mmap(ptr::null_mut(), PAGES * PAGE, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: the mapping was just made. With huge pages, others would be there than were written.
        unsafe { libc::madvise(at, PAGES * PAGE, libc::MADV_NOHUGEPAGE) };
        at.expose_provenance()..at.expose_provenance() + PAGES * PAGE
    }

    /// The same, which the kernel watches: its addresses. `None` where it cannot.
    fn watched() -> Option<Range<usize>> {
        let range = mapped();
        let text = format!("{:x}-{:x} rw-p 00000000 00:00 0", range.start, range.end);
        let mapping = maps::parse(text.as_bytes()).next().unwrap();
        let tracking = Tracking::new(|fd| fd);
        let begun = tracking.begin(&mapping).is_ok();
        std::mem::forget(tracking);
        (begun && written(&range).is_some()).then_some(range)
    }

    /// Which pages of a range are there, and whether they were written since this was asked last. `None` if
    /// the kernel does not remember that.
    fn written(range: &Range<usize>) -> Option<Vec<(usize, bool)>> {
        let mut found = Vec::new();
        let each = |run: Range<usize>, was_written| {
            found.extend(run.step_by(PAGE).map(|at| ((at - range.start) / PAGE, was_written)));
            Ok::<_, SyscallFailure>(())
        };
        let is_watched = PageMap::open().unwrap().written(range.clone(), each).unwrap();
        is_watched.then_some(found)
    }

    #[test]
    fn each_page_is_found_once_however_many_runs_there_are() {
        let Some(range) = watched() else {
            eprintln!("skipped: the kernel does not remember written pages (Linux 6.7, userfaultfd)");
            return;
        };
        let begin: *mut u8 = ptr::with_exposed_provenance_mut(range.start);
        // Every page is there; then, turn by turn, every `step`-th one is written, and so a run of its own.
        // The last one always is: told of twice, it would be taken for unwritten.
        let is_written = |page: usize, step: usize| page.is_multiple_of(step) || page == PAGES - 1;
        for step in [1, 2, 3, 4, 7, 8, 9, 31] {
            for page in (0..PAGES).filter(|&page| is_written(page, step)) {
                // SAFETY: a byte of the mapping.
                unsafe { begin.wrapping_add(page * PAGE).write_volatile(1) };
            }
            let found = written(&range).unwrap();
            let expected: Vec<_> = (0..PAGES).map(|page| (page, is_written(page, step))).collect();
            assert!(found == expected, "step {step}: {} pages of {PAGES} are told of", found.len());
            let mut found = 0;
            let count = |run: Range<usize>| {
                found += run.len() / PAGE;
                Ok::<_, SyscallFailure>(())
            };
            PageMap::open().unwrap().runs(range.clone(), count).unwrap();
            assert_eq!(found, PAGES);
        }
    }

    #[test]
    fn a_kernel_without_scans_tells_of_the_same_pages() {
        let range = mapped();
        let begin: *mut u8 = ptr::with_exposed_provenance_mut(range.start);
        let is_there =
            |page: usize| page.is_multiple_of(3) || (1000..1700).contains(&page) || page == PAGES - 1;
        for page in (0..PAGES).filter(|&page| is_there(page)) {
            // SAFETY: a byte of the mapping.
            unsafe { begin.wrapping_add(page * PAGE).write_volatile(1) };
        }
        for scans in [PageMap::open().unwrap().scans, false] {
            let mut map = PageMap::open().unwrap();
            map.scans = scans;
            let mut found = Vec::new();
            let each = |run: Range<usize>| {
                found.extend(run.step_by(PAGE).map(|at| (at - range.start) / PAGE));
                Ok::<_, SyscallFailure>(())
            };
            map.runs(range.clone(), each).unwrap();
            assert_eq!(
                found,
                (0..PAGES).filter(|&page| is_there(page)).collect::<Vec<_>>(),
                "scans: {scans}"
            );
            assert!(scans || !map.written(range.clone(), |_, _| Ok::<_, SyscallFailure>(())).unwrap());
        }
    }
}
