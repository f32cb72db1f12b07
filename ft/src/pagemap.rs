//! What the kernel is asked for the pages of a range, and what it answers: `PAGEMAP_SCAN`, from Linux 6.7 on.

#![allow(missing_docs, reason = "the fields are those of linux/fs.h, which says what they are")]

/// `struct page_region` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PageRegion {
    pub start: u64,
    pub end: u64,
    pub categories: u64,
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[repr(C)]
pub struct ScanArg {
    pub size: u64,
    pub flags: u64,
    pub start: u64,
    pub end: u64,
    pub walk_end: u64,
    pub vec: u64,
    pub vec_len: u64,
    pub max_pages: u64,
    pub category_inverted: u64,
    pub category_mask: u64,
    pub category_anyof_mask: u64,
    pub return_mask: u64,
}

impl ScanArg {
    /// How far a call came that left these runs: from there the next one goes on.
    ///
    /// `walk_end` alone is not believed. Linux notes it each time its own list of 512 runs is full, and goes
    /// on; the end of the range it notes only if the list was never full. Who went on from the noted place
    /// would be told of pages twice, the second time as unwritten.
    pub fn reached(&self, runs: &[PageRegion]) -> u64 {
        runs.last().map_or(self.walk_end, |run| run.end.max(self.walk_end))
    }
}

const _: () = assert!(size_of::<ScanArg>() == 96 && size_of::<PageRegion>() == 24);

/// The request of `ioctl`.
pub const PAGEMAP_SCAN: u32 = 0xC060_6610;
/// Protect again what is reported as written.
pub const WP_MATCHING: u64 = 1 << 0;
/// Refuse ranges of which the kernel does not remember writes, rather than report all of them.
pub const CHECK_WPASYNC: u64 = 1 << 1;
/// Category: written since it was protected.
pub const IS_WRITTEN: u64 = 1 << 1;
