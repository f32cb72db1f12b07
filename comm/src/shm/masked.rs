//! Puts of very many small pieces: the bytes of each 64-byte line that a mask names.
//!
//! A number whose low bytes changed is a run of six or seven bytes, and a page of such numbers is 512 runs.
//! Listing them, and calling a copy for each, costs several times the copying. Here each piece is at most two
//! stores.
//!
//! **Invariant:** no byte outside of the masks is written, not even with the value that it has: a peer may be
//! writing it.

use super::copy::own_soon;
use super::endpoint::{MovedBytes, ShmEndpoint};
use crate::{Result, SegmentId};
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

/// Bytes that one mask stands for.
const LINE: usize = 64;
/// Bytes of a word within a line: eight bits of its mask.
const WORD: usize = 8;

impl ShmEndpoint {
    /// [`put_masked`](crate::Endpoint::put_masked).
    ///
    /// # Safety
    /// `64 * masks.len()` bytes at `src` are readable.
    pub(super) unsafe fn copy_out_masked(
        &self,
        to: u32,
        segment: SegmentId,
        offset: u64,
        src: *const u8,
        masks: &[u64],
    ) -> Result<()> {
        let dst = self.segments.find(to, segment)?.at(offset, masks.len() * LINE)?;
        self.wait_until_puttable(to)?;
        // As in `copy`: the compiler must not take the shared bytes for memory that nobody else changes.
        compiler_fence(Ordering::SeqCst);
        let lines = || masks.iter().enumerate().filter(|&(_, &mask)| mask != 0);
        // As a line takes many small stores, only two or three would be under way at once; asked for
        // beforehand, all are.
        for (line, _) in lines() {
            own_soon(dst.wrapping_add(line * LINE));
        }
        for (line, &mask) in lines() {
            let at = line * LINE;
            // SAFETY: the caller's promise for the source; the destination was checked above.
            unsafe { store_line(src.wrapping_add(at), dst.wrapping_add(at), mask) };
        }
        compiler_fence(Ordering::SeqCst);
        let bytes = masks.iter().map(|mask| mask.count_ones() as usize).sum();
        self.moved.add(MovedBytes::Puts(1), bytes);
        Ok(())
    }
}

/// Stores the bytes of a line that the mask names.
///
/// # Safety
/// Both sides have 64 bytes.
unsafe fn store_line(src: *const u8, dst: *mut u8, mask: u64) {
    if mask == u64::MAX {
        // SAFETY: the caller's promise. A rank that puts to itself has the same bytes on both sides, so
        // `copy`.
        unsafe { ptr::copy(src, dst, LINE) };
        return;
    }
    for word in 0..LINE / WORD {
        let at = word * WORD;
        let bits = mask.to_le_bytes()[word];
        // SAFETY: the word lies in the line.
        unsafe { store_word(src.wrapping_add(at), dst.wrapping_add(at), bits) };
    }
}

/// Stores the bytes of a word that the bits name: whole, or each run of bytes by two stores of 4 or 2 that
/// may overlap, or by one of 1.
///
/// # Safety
/// Both sides have 8 bytes.
#[inline]
unsafe fn store_word(src: *const u8, dst: *mut u8, bits: u8) {
    if bits == u8::MAX {
        // SAFETY: the caller's promise.
        unsafe { store::<WORD>(src, dst) };
        return;
    }
    let mut rest = u32::from(bits);
    while rest != 0 {
        let at = rest.trailing_zeros() as usize;
        let len = (!(rest >> at)).trailing_zeros() as usize;
        // Carries through the run's ones to the zero behind it.
        rest &= rest + (1 << at);
        let (src, dst) = (src.wrapping_add(at), dst.wrapping_add(at));
        match len {
            // SAFETY: the run, which lies in the word, has at least four bytes.
            4.. => unsafe { store_ends::<4>(src, dst, len) },
            // SAFETY: the run has at least two bytes.
            2.. => unsafe { store_ends::<2>(src, dst, len) },
            // SAFETY: the run has a byte.
            _ => unsafe { store::<1>(src, dst) },
        }
    }
}

/// Copies `len` bytes, `N` to `2 * N` of them, as the first `N` and the last `N`.
///
/// # Safety
/// Both sides have `len` bytes.
#[inline]
unsafe fn store_ends<const N: usize>(src: *const u8, dst: *mut u8, len: usize) {
    let last = len - N;
    // SAFETY: the caller's promise.
    unsafe { store::<N>(src, dst) };
    // SAFETY: as above.
    unsafe { store::<N>(src.wrapping_add(last), dst.wrapping_add(last)) };
}

/// Copies `N` bytes with one load and one store.
///
/// # Safety
/// Both sides have `N` bytes.
#[inline]
unsafe fn store<const N: usize>(src: *const u8, dst: *mut u8) {
    // SAFETY: the caller's promise; an array of bytes has no alignment.
    let bytes = unsafe { src.cast::<[u8; N]>().read() };
    // SAFETY: as above.
    unsafe { dst.cast::<[u8; N]>().write(bytes) };
}

#[cfg(test)]
mod tests {
    use super::store_line;

    #[test]
    fn exactly_the_bytes_of_the_mask_are_stored() {
        let src: [u8; 64] = std::array::from_fn(|i| u8::try_from(i).unwrap() + 100);
        let mut mask = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..10_000u32 {
            let masks = [mask, mask | mask << 1 | mask << 2, mask & mask >> 7, u64::MAX, 1 << (round % 64)];
            for m in masks {
                let mut dst = [7u8; 64];
                // SAFETY: both are 64 bytes.
                unsafe { store_line(src.as_ptr(), dst.as_mut_ptr(), m) };
                for i in 0..64 {
                    assert_eq!(dst[i], if m >> i & 1 == 1 { src[i] } else { 7 }, "byte {i} of mask {m:#x}");
                }
            }
            mask = mask.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
    }
}
