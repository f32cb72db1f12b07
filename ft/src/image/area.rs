//! The addresses that images and stores use for themselves: the same in each process of a rank, in no image,
//! and in nobody's way. Linux gives out addresses from the top down, and shared memory begins above.

use super::kernel::{self, SyscallFailure};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the area begins.
const AREA: usize = 0x0800_0000_0000;
/// Where it ends: it has room for the longest store.
const AREA_END: usize = 0x0900_0000_0000;
/// Where the store of a rank is mapped.
pub const STORE_AT: usize = AREA + (1 << 30);

/// Parts of the scratch memory, by their distance from its beginning.
pub(super) const STACK: Range<usize> = 0..1 << 20;
pub(super) const MAPS: Range<usize> = 1 << 20..5 << 20;
pub(super) const RUNS: Range<usize> = 5 << 20..6 << 20;
/// What is kept over the moment at which a process becomes another one.
const WORDS: Range<usize> = 7 << 20..(7 << 20) + 4096;
pub(super) const STEPS: Range<usize> = 8 << 20..40 << 20;
pub(super) const BYTES: Range<usize> = 40 << 20..48 << 20;
pub(super) const THREADS: Range<usize> = 48 << 20..49 << 20;
/// What is read of the lines in `MAPS`.
pub(super) const MAPPINGS: Range<usize> = 49 << 20..56 << 20;
/// For each thread a stack of 32 KiB, until it has its own again.
pub(super) const STACKS: Range<usize> = 56 << 20..64 << 20;
const SCRATCH: usize = 64 << 20;

/// All addresses that are in no image.
pub(super) fn range() -> Range<usize> {
    AREA..AREA_END
}

/// A part of the scratch memory.
pub(super) fn part(part: Range<usize>) -> (*mut u8, usize) {
    (std::ptr::with_exposed_provenance_mut(AREA + part.start), part.len())
}

/// Maps the scratch memory, if this process, or the one that it has come back from, has not done so.
pub(super) fn have_scratch() -> Result<(), SyscallFailure> {
    static MAPPED: AtomicBool = AtomicBool::new(false);
    if !MAPPED.load(Ordering::Relaxed) {
        map_scratch()?;
        MAPPED.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Maps the scratch memory, zeroed, over what was there of it.
pub(super) fn map_scratch() -> Result<(), SyscallFailure> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let what = [AREA, SCRATCH, kernel::READ_WRITE, kernel::bits(flags), usize::MAX, 0];
    // SAFETY: the area is ours by convention, and nothing in the scratch memory outlives its next use.
    unsafe { kernel::call(libc::SYS_mmap, what) }.map(drop)
}

/// Keeps words for the process that this one becomes. The scratch memory is there.
pub(super) fn keep_words(words: [u64; 4]) {
    // SAFETY: the part is mapped, aligned, and nobody else's.
    unsafe { part(WORDS).0.cast::<[u64; 4]>().write(words) };
}

/// What the process has kept that has become this one.
pub(super) fn kept_words() -> [u64; 4] {
    // SAFETY: as above.
    unsafe { part(WORDS).0.cast::<[u64; 4]>().read() }
}
