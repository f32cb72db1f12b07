//! The memory of this rank that peers may reach, by number.
//!
//! Every offset and length that a peer sends passes through [`Segments::piece`]: what it returns lies inside
//! a registered segment, and nothing else may be turned into an address. Reading takes no lock, since fault
//! handlers read.

use crate::{Atomic, Error, LocalSegment, Result, SegmentId};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Segments an endpoint can register. The DSM needs a handful.
const MAX_SEGMENTS: usize = 256;
/// What a segment's address is a multiple of at least, so that an aligned offset is an aligned address.
const ALIGNED: usize = 8;

/// One registered segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    base: *mut u8,
    len: usize,
}

// SAFETY: the pointer is only ever used for raw copies and system calls on memory that is shared by its
// nature; whoever registered it keeps it mapped while the endpoint lives.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// All registered segments, in order of registration.
pub struct Segments {
    slots: Box<[OnceLock<Segment>]>,
    used: AtomicUsize,
}

impl Default for Segments {
    /// No segment yet.
    fn default() -> Self {
        Self { slots: (0..MAX_SEGMENTS).map(|_| OnceLock::new()).collect(), used: AtomicUsize::new(0) }
    }
}

impl Segments {
    /// Adds the next segment.
    ///
    /// # Errors
    /// It begins in the middle of a word; there are too many.
    pub fn add(&self, mem: &LocalSegment) -> Result<SegmentId> {
        if !mem.base.addr().is_multiple_of(ALIGNED) {
            return Err(Error::Invalid(format!(
                "a segment at {:p}, in the middle of a word: register a mapping from its start",
                mem.base
            )));
        }
        let index = self.used.fetch_add(1, Ordering::Relaxed);
        let slot = self.slots.get(index).ok_or_else(|| {
            Error::Invalid(format!(
                "more than {MAX_SEGMENTS} segments registered: register fewer, larger ones"
            ))
        })?;
        // Nobody else has this index.
        let _ = slot.set(Segment { base: mem.base, len: mem.len });
        Ok(SegmentId(u32::try_from(index).expect("MAX_SEGMENTS fits")))
    }

    /// The address of `len` bytes at `offset` of a segment, if the whole piece lies inside.
    pub fn piece(&self, segment: u32, offset: u64, len: u64) -> Option<*mut u8> {
        let segment = self.slots.get(segment as usize)?.get()?;
        let end = offset.checked_add(len)?;
        if end > segment.len as u64 {
            return None;
        }
        let offset = usize::try_from(offset).ok()?;
        // SAFETY: `offset` is at most the segment's length, and the segment is one mapping (promise of
        // `register`).
        Some(unsafe { segment.base.add(offset) })
    }

    /// Like [`Self::piece`], for what the caller of an operation named. All ranks' segments are equally long,
    /// so what lies inside this rank's lies inside the peer's.
    ///
    /// # Errors
    /// It lies outside.
    pub fn check(&self, segment: SegmentId, offset: u64, len: usize) -> Result<*mut u8> {
        self.piece(segment.0, offset, len as u64).ok_or_else(|| self.outside(segment, offset, len))
    }

    /// The address of the word at `offset` that `op` is for: inside the segment, and aligned.
    ///
    /// # Errors
    /// It is not.
    pub fn word(&self, segment: SegmentId, offset: u64, op: Atomic) -> Result<*mut u8> {
        op.check_alignment(offset)?;
        self.check(segment, offset, op.width())
    }

    #[cold]
    fn outside(&self, segment: SegmentId, offset: u64, len: usize) -> Error {
        match self.slots.get(segment.0 as usize).and_then(OnceLock::get) {
            None => Error::Invalid(format!("there is no segment {}: register it first", segment.0)),
            Some(Segment { len: all, .. }) => Error::Invalid(format!(
                "{len} bytes at offset {offset} do not lie inside segment {} of {all} bytes",
                segment.0
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rmw;

    #[test]
    fn only_pieces_inside_a_segment_get_an_address() {
        let mut memory = [0u64; 13];
        let base = memory.as_mut_ptr().cast::<u8>();
        let segments = Segments::default();
        assert!(segments.piece(0, 0, 1).is_none());
        let id = segments.add(&LocalSegment { base, len: 100, fd: -1 }).unwrap();
        assert_eq!(segments.piece(id.0, 0, 100), Some(base));
        assert_eq!(segments.piece(id.0, 100, 0), Some(base.wrapping_add(100)));
        for (offset, len) in [(0, 101), (100, 1), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            assert_eq!(segments.piece(id.0, offset, len), None);
        }
        assert!(segments.piece(1, 0, 0).is_none());
        assert!(segments.piece(u32::MAX, 0, 0).is_none());
        let error = segments.check(id, 90, 11).unwrap_err().to_string();
        assert!(error.contains("segment 0 of 100 bytes"), "{error}");
    }

    #[test]
    fn a_word_is_aligned_and_inside() {
        let mut memory = [0u64; 13];
        let base = memory.as_mut_ptr().cast::<u8>();
        let segments = Segments::default();
        let error = segments.add(&LocalSegment { base: base.wrapping_add(4), len: 96, fd: -1 }).unwrap_err();
        assert!(error.to_string().contains("from its start"), "{error}");
        let id = segments.add(&LocalSegment { base, len: 100, fd: -1 }).unwrap();
        let word = |offset, op| segments.word(id, offset, op).ok();
        let (narrow, wide) = (Atomic::U32(Rmw::Load), Atomic::U64(Rmw::Load));
        assert_eq!(word(96, narrow), Some(base.wrapping_add(96)));
        assert_eq!(word(88, wide), Some(base.wrapping_add(88)));
        for (offset, op) in [(94, narrow), (100, narrow), (84, wide), (96, wide), (u64::MAX - 7, wide)] {
            assert_eq!(word(offset, op), None);
        }
    }

    #[test]
    fn registering_too_many_segments_is_an_error() {
        let segments = Segments::default();
        let none = LocalSegment { base: std::ptr::null_mut(), len: 0, fd: -1 };
        for _ in 0..MAX_SEGMENTS {
            segments.add(&none).unwrap();
        }
        assert!(segments.add(&none).is_err());
    }
}
