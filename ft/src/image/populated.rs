//! Which pages of private memory have bytes of their own: not those of a file that nobody wrote, and not
//! those that nobody touched.

use super::area;
use super::kernel::{self, SyscallFailure};
use super::maps::Mapping;
use crate::pagemap::{CHECK_WPASYNC, IS_WRITTEN, PAGEMAP_SCAN, PageRegion, ScanArg, WP_MATCHING};
use crate::store::PAGE;
use std::ops::Range;
use std::sync::OnceLock;

const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO_PAGE: u64 = 1 << 5;

/// Longer mappings of files are not watched: it takes page tables for all of them.
const MOST_OF_FILE: usize = 64 << 20;

/// Bits of a word of `/proc/self/pagemap`.
const FILE: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;

/// What is asked for the pages of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// Which have bytes of their own.
    Present,
    /// Which have bytes of their own, and were they written since this was asked last?
    PresentAndWritten { has_file: bool },
    /// Which were written since this was asked last, or were never there? Nothing is known then of the others.
    /// Linux has a way of its own for these words, and looks at no more than the entries of the page table.
    Written,
}

/// The page map of this process.
pub(super) struct PageMap {
    file: usize,
    /// Whether the kernel has `PAGEMAP_SCAN` (Linux 6.7).
    scans: bool,
    /// Whether pages may have been swapped out. The kernel calls swapped, too, what of a file was never there
    /// and is [asked for](Ask::Written).
    has_swap: bool,
}

impl PageMap {
    pub(super) fn open() -> Result<PageMap, SyscallFailure> {
        let path = c"/proc/self/pagemap".as_ptr().expose_provenance();
        let flags = kernel::bits(libc::O_RDONLY | libc::O_CLOEXEC);
        // SAFETY: the path is a C string.
        let file =
            unsafe { kernel::call(libc::SYS_openat, [kernel::bits(libc::AT_FDCWD), path, flags, 0, 0, 0]) }?;
        static SCANS: OnceLock<bool> = OnceLock::new();
        let mut map = PageMap { file, scans: true, has_swap: has_swap() };
        map.scans = *SCANS.get_or_init(|| map.scan(&(0..0), Ask::Present).is_ok());
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
            let (count, walked) =
                if self.scans { self.scan(&left, Ask::Present)? } else { self.read(&left)? };
            for run in runs_found(count) {
                found(run.start as usize..run.end as usize)?;
            }
            left.start = walked;
        }
        Ok(())
    }

    /// Whether mappings of this file, or of none, can be watched.
    pub(super) fn can_watch(&self, mapping: &Mapping<'_>) -> bool {
        // Where a page of its own goes away, the kernel leaves a word that it calls swapped.
        !mapping.has_file() || !self.has_swap && mapping.range().len() <= MOST_OF_FILE
    }

    /// As [`runs`](Self::runs), with whether the pages were written since this was asked last. Returns whether
    /// the kernel remembers that; if not, nothing was found.
    pub(super) fn written<E: From<SyscallFailure>>(
        &self,
        mapping: &Mapping<'_>,
        mut found: impl FnMut(Range<usize>, bool) -> Result<(), E>,
    ) -> Result<bool, E> {
        let ask = Ask::PresentAndWritten { has_file: mapping.has_file() };
        self.watched(mapping.range(), ask, |run| {
            found(run.start as usize..run.end as usize, run.categories & IS_WRITTEN != 0)
        })
    }

    /// Whether any page of a range was written since this was asked last, or may have been. `None` if the
    /// kernel does not remember that.
    pub(super) fn any_written(&self, range: &Range<usize>) -> Result<Option<bool>, SyscallFailure> {
        let mut any = false;
        let is_watched = self.watched(range.clone(), Ask::Written, |_| {
            any = true;
            Ok::<_, SyscallFailure>(())
        })?;
        Ok(is_watched.then_some(any))
    }

    fn watched<E: From<SyscallFailure>>(
        &self,
        range: Range<usize>,
        ask: Ask,
        mut found: impl FnMut(&PageRegion) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut left = range;
        while self.scans && left.start < left.end {
            let (count, walked) = match self.scan(&left, ask) {
                Err(SyscallFailure(libc::EPERM)) => return Ok(false),
                scanned => scanned?,
            };
            runs_found(count).iter().try_for_each(&mut found)?;
            left.start = walked;
        }
        Ok(self.scans)
    }

    /// One call: how many runs it found, and how far it came.
    fn scan(&self, range: &Range<usize>, ask: Ask) -> Result<(usize, usize), SyscallFailure> {
        let (at, room) = area::part(area::RUNS);
        // The kernel takes memory for as many runs as there could be.
        let most = (room / size_of::<PageRegion>()).min(range.len() / PAGE).max(1);
        let present = if self.has_swap { IS_PRESENT | IS_SWAPPED } else { IS_PRESENT };
        let watched = WP_MATCHING | CHECK_WPASYNC;
        // Flags; categories that a page must not have; that it must have; of which it must have one; that are
        // told. Where no file lies under it, the kernel need not look at the page itself.
        let (flags, without, with, any_of, told) = match ask {
            Ask::Present => (0, IS_FILE | IS_ZERO_PAGE, 0, present, present),
            Ask::PresentAndWritten { has_file: true } => {
                (watched, IS_FILE | IS_ZERO_PAGE, 0, present, IS_WRITTEN)
            }
            Ask::PresentAndWritten { has_file: false } => (watched, IS_ZERO_PAGE, 0, present, IS_WRITTEN),
            Ask::Written => (watched, 0, IS_WRITTEN, 0, IS_WRITTEN),
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
            category_inverted: without,
            category_mask: with | without,
            category_anyof_mask: any_of,
            return_mask: told,
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

fn has_swap() -> bool {
    // SAFETY: plain data, of which all zeros are a value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure.
    let done =
        unsafe { kernel::call(libc::SYS_sysinfo, [(&raw mut info).expose_provenance(), 0, 0, 0, 0, 0]) };
    done.is_err() || info.totalswap > 0
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
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::ptr;

    const PAGES: usize = 1 << 12;

    /// Private memory of a file, or of none, which the kernel watches: where it begins, and the mapping.
    /// `None` where it cannot.
    fn watched(file: Option<&File>) -> Option<(*mut u8, Mapping<'static>)> {
        area::have_scratch().unwrap();
        let (protection, flags, fd) = match file {
            Some(file) => (libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd()),
            None => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: the kernel chooses the address.
        let at = unsafe { libc::mmap(ptr::null_mut(), PAGES * PAGE, protection, flags, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let at: *mut u8 = at.cast();
        let (start, end) = (at.expose_provenance(), at.wrapping_add(PAGES * PAGE).expose_provenance());
        let text = format!("{start:x}-{end:x} rw-p 00000000 00:00 {}", i32::from(file.is_some()));
        let mapping = maps::parse(text.leak().as_bytes()).next().unwrap();
        let (tracking, map) = (Tracking::new(|fd| fd), PageMap::open().unwrap());
        let begun = map.can_watch(&mapping) && tracking.begin(&mapping).is_ok();
        std::mem::forget(tracking);
        if begun && map.written::<SyscallFailure>(&mapping, |_, _| Ok(())) == Ok(true) {
            return Some((at, mapping));
        }
        eprintln!("skipped: the kernel does not remember written pages (Linux 6.7, userfaultfd, no swap)");
        None
    }

    /// A page of its own instead of that of the file.
    fn write(page: *mut u8) {
        for protection in [libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ] {
            // SAFETY: a page of the mapping.
            assert_eq!(unsafe { libc::mprotect(page.cast(), PAGE, protection) }, 0);
            if protection & libc::PROT_WRITE != 0 {
                // SAFETY: likewise.
                unsafe { page.write_volatile(1) };
            }
        }
    }

    #[test]
    fn of_a_file_those_pages_are_found_that_were_written_though_others_are_not_there() {
        let file = tempfile::tempfile().unwrap();
        file.set_len((PAGES * PAGE) as u64).unwrap();
        let Some((begin, mapping)) = watched(Some(&file)) else { return };
        let (range, map) = (mapping.range(), PageMap::open().unwrap());
        let runs = || {
            let mut all = Vec::new();
            map.runs::<SyscallFailure>(range.clone(), |run| {
                all.push((run.start - range.start) / PAGE..(run.end - range.start) / PAGE);
                Ok(())
            })
            .unwrap();
            all
        };
        let written = || {
            let mut all = Vec::new();
            map.written::<SyscallFailure>(&mapping, |run, was_written| {
                all.extend(run.step_by(PAGE).map(|at| ((at - range.start) / PAGE, was_written)));
                Ok(())
            })
            .unwrap();
            all
        };
        let read = |page: usize| {
            // SAFETY: a byte of the mapping.
            assert_eq!(unsafe { begin.wrapping_add(page * PAGE).read_volatile() }, 0);
        };
        (0..PAGES / 2).for_each(read);
        assert!(runs().is_empty() && map.any_written(&range).unwrap().unwrap(), "nobody has asked before");
        (0..PAGES).for_each(read);
        assert!(!map.any_written(&range).unwrap().unwrap() && runs().is_empty());
        for page in [3, PAGES - 2] {
            write(begin.wrapping_add(page * PAGE));
        }
        assert!(map.any_written(&range).unwrap().unwrap());
        assert_eq!(runs(), [3..4, PAGES - 2..PAGES - 1]);
        assert_eq!(written(), [(3, false), (PAGES - 2, false)]);
        write(begin.wrapping_add(3 * PAGE));
        assert_eq!(written(), [(3, true), (PAGES - 2, false)]);
        let page = begin.wrapping_add(3 * PAGE);
        // SAFETY: a page of the mapping, which is that of the file again.
        assert_eq!(unsafe { libc::madvise(page.cast(), PAGE, libc::MADV_DONTNEED) }, 0);
        assert_eq!(written(), [(PAGES - 2, false)]);
        read(3);
        assert_eq!(written(), [(PAGES - 2, false)]);
    }

    #[test]
    fn each_page_is_found_once_however_many_runs_there_are() {
        let Some((begin, mapping)) = watched(None) else { return };
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
            map.written::<SyscallFailure>(&mapping, |run, was_written| {
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
