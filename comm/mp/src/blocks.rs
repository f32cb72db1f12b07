//! Blocks of memory of one length, at one distance from each other: a column of a matrix, a face of a box.

use scash_comm::racing;
use std::fmt;

/// How blocks lie: they do not overlap, and no offset in them exceeds what an address can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    count: usize,
    /// Bytes of a block.
    len: usize,
    /// Bytes from the start of a block to the start of the next one.
    stride: usize,
}

impl Shape {
    /// `None`: they overlap, or no memory is as large.
    pub(super) fn new(count: usize, len: usize, stride: usize) -> Option<Self> {
        if count == 0 || len == 0 {
            return Some(Self { count: 0, len: 0, stride: 0 });
        }
        if count == 1 || stride == len {
            let len = len.checked_mul(count)?;
            return isize::try_from(len).is_ok().then_some(Self { count: 1, len, stride: len });
        }
        let shape = Self { count, len, stride };
        let span = stride.checked_mul(count - 1)?.checked_add(len)?;
        (stride > len && isize::try_from(span).is_ok()).then_some(shape)
    }

    /// Their number, length and distance, to be told to another rank.
    pub(super) fn numbers(self) -> [u64; 3] {
        [self.count, self.len, self.stride].map(|number| number as u64)
    }

    /// Bytes of all blocks.
    pub(super) fn total(self) -> usize {
        self.count * self.len
    }

    /// Bytes from the start of the first one to the end of the last one.
    pub(super) fn span(self) -> usize {
        self.count.saturating_sub(1) * self.stride + self.len
    }

    /// Where those of the bytes `from..from + len` lie, if all blocks are counted through: runs of offsets
    /// and lengths. What is beyond the end is left out.
    pub(super) fn runs(self, from: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let end = from.saturating_add(len).min(self.total());
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (block, inside) = (at / self.len, at % self.len);
            let len = (self.len - inside).min(end - at);
            at += len;
            Some((block * self.stride + inside, len))
        })
    }
}

/// Blocks of somebody's memory. Others may write it at any time, so bytes go in and out by raw pointers.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    at: *mut u8,
    shape: Shape,
}

// SAFETY: whoever made it vouches for the memory until the operation ends, whichever thread carries it out.
unsafe impl Send for Blocks {}

impl Blocks {
    /// # Safety
    /// The memory from `at` on is readable, as far as the blocks span, and writable if something is to be
    /// scattered there, for as long as this value or a copy of it is used.
    pub(super) unsafe fn new(at: *mut u8, shape: Shape) -> Self {
        Self { at, shape }
    }

    /// Bytes of all blocks.
    pub(super) fn total(self) -> usize {
        self.shape.total()
    }

    /// A copy of the bytes from `from` on, `len` of them at most.
    pub(super) fn gather(self, from: usize, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::with_capacity(len.min(self.total().saturating_sub(from)));
        for (offset, len) in self.shape.runs(from, len) {
            let (end, source) = (bytes.len(), self.at.wrapping_add(offset));
            let room = bytes.spare_capacity_mut().as_mut_ptr().cast::<u8>();
            // SAFETY: the maker vouches for the source; the runs are no longer than the capacity in all.
            unsafe { racing::copy(source, room, len) };
            // SAFETY: those bytes were just written.
            unsafe { bytes.set_len(end + len) };
        }
        bytes
    }

    /// Stores bytes from `from` on; those that do not fit are left out.
    pub(super) fn scatter(self, from: usize, bytes: &[u8]) {
        let mut rest = bytes;
        for (offset, len) in self.shape.runs(from, bytes.len()) {
            let (run, after) = rest.split_at(len);
            // SAFETY: the maker vouches for the memory, and that nobody else uses it, so the bytes are not in
            // it.
            unsafe { run.as_ptr().copy_to_nonoverlapping(self.at.wrapping_add(offset), len) };
            rest = after;
        }
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_gathered_in_pieces_and_scattered_in_others_is_the_same_blocks(
            count in 0..6usize, len in 0..7usize, gap in 0..5usize, piece in 1..9usize, other in 1..9usize,
        ) {
            let shape = Shape::new(count, len, len + gap).unwrap();
            let from: Vec<u8> = (1..=100).collect();
            let mut to = vec![0; 100];
            // SAFETY: the vector is longer than any of these shapes, and is not used meanwhile.
            let source = unsafe { Blocks::new(from.as_ptr().cast_mut(), shape) };
            // SAFETY: as above.
            let place = unsafe { Blocks::new(to.as_mut_ptr(), shape) };
            let all: Vec<u8> =
                (0..shape.total()).step_by(piece).flat_map(|at| source.gather(at, piece)).collect();
            prop_assert_eq!(all.len(), count * len);
            for (number, bytes) in all.chunks(other).enumerate() {
                place.scatter(number * other, bytes);
            }
            for (at, (from, to)) in from.into_iter().zip(to).enumerate() {
                let is_inside = len > 0 && at / (len + gap) < count && at % (len + gap) < len;
                prop_assert_eq!(to, if is_inside { from } else { 0 });
            }
        }
    }

    #[test]
    fn blocks_that_overlap_or_exceed_all_memory_are_none() {
        for (count, len, stride) in [
            (2, 8, 7),
            (2, 8, 0),
            (2, 1, usize::MAX),
            (usize::MAX, 2, 2),
            (usize::MAX, 1, 3),
            (1, usize::MAX, 0),
        ] {
            assert_eq!(Shape::new(count, len, stride), None);
        }
        assert_eq!(Shape::new(usize::MAX, 0, 0).unwrap().span(), 0);
        assert_eq!(Shape::new(3, 4, 10).unwrap().span(), 24);
        assert_eq!(Shape::new(3, 4, 4).unwrap().runs(0, 100).collect::<Vec<_>>(), [(0, 12)]);
    }
}
