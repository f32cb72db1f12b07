//! Written pages without faults: the kernel's `PAGEMAP_SCAN` (Linux 6.7) over ranges under asynchronous write
//! protection.
//!
//! The intuition: asynchronous protection is a dirty bit of one's own. The first write to a protected page
//! takes the protection away inside the kernel (0.7 µs, no signal), and a scan lists the pages that lost it
//! and puts it back, both in one call (10–40 ns a page).

use scash_comm::descriptors::out_of_the_way;
use scash_ft::pagemap::{CHECK_WPASYNC, IS_WRITTEN, PAGEMAP_SCAN, PageRegion, ScanArg, WP_MATCHING};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Runs that one call reports at most: 1.5 KiB of stack.
const BATCH: usize = 64;

/// This process's page map.
#[derive(Debug)]
pub(crate) struct Pagemap {
    file: File,
}

impl Pagemap {
    pub(crate) fn open() -> io::Result<Self> {
        let file = out_of_the_way(File::open("/proc/self/pagemap")?.into());
        Ok(Self { file: file.into() })
    }

    /// Asks the kernel whether it knows the scan at all, with a scan of nothing.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.scan(&(0..0), 0, &mut [PageRegion { start: 0, end: 0, categories: 0 }]).map(drop)
    }

    /// Calls `found` with each run of addresses in `range` that was written since it was protected, in order,
    /// and protects it again.
    pub(crate) fn take_written(
        &self,
        range: Range<u64>,
        mut found: impl FnMut(Range<u64>),
    ) -> io::Result<()> {
        let mut left = range;
        while left.start < left.end {
            let mut runs = [PageRegion { start: 0, end: 0, categories: 0 }; BATCH];
            let (count, walked) = self.scan(&left, WP_MATCHING | CHECK_WPASYNC, &mut runs)?;
            runs.iter().take(count).for_each(|run| found(run.start..run.end));
            left.start = walked;
        }
        Ok(())
    }

    /// One call: how many runs it found, and how far it came.
    fn scan(&self, range: &Range<u64>, flags: u64, runs: &mut [PageRegion]) -> io::Result<(usize, u64)> {
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            flags,
            start: range.start,
            end: range.end,
            walk_end: 0,
            vec: runs.as_mut_ptr() as u64,
            vec_len: runs.len() as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: IS_WRITTEN,
            category_anyof_mask: 0,
            return_mask: IS_WRITTEN,
        };
        // SAFETY: the number is made from the structure given; the kernel writes at most `vec_len` runs
        // behind `vec`.
        let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN as libc::Ioctl, &raw mut arg) };
        match usize::try_from(count) {
            Ok(count) => Ok((count, arg.reached(&runs[..count]))),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}
