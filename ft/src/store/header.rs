//! The first page of a store: what it is, base records, marks. Rank and keeper have it mapped, in two
//! processes, so it consists of atomic words; a record of several words ends with a sum over them, and one
//! that is half written is none.

use super::geometry::{Geometry, PAGE};
use crate::{Base, Epoch, Incarnation, Mark};
use memmap2::MmapRaw;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"scashSTO");
const VERSION: u64 = 4;

/// Words: of the header, and where records begin.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const RANK_AT: usize = 2;
const SIZE_AT: usize = 3;
const SLOTS_AT: usize = 4;
const DURABLE_AT: usize = 5;
const JOB_AT: usize = 6;
const BASES_AT: usize = 64;
const MARKS_AT: usize = 192;
/// Words from one record to the next: each is in a sector of its own, so that a disk which loses power while
/// one is written leaves the others.
const STRIDE: usize = 64;

/// Bytes of the place of a mark.
pub(super) const MARK_LEN: u64 = STRIDE as u64 * 8;

/// Where in a store the place of mark 0 or 1 is.
pub(super) fn mark_at(number: u64) -> u64 {
    MARKS_AT as u64 * 8 + number * MARK_LEN
}

/// A mark with what it vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) mark: Mark,
    /// Bytes of the description that its index begins with.
    pub(crate) described: u64,
    /// Entries of its index.
    pub(crate) entries: u64,
    /// CRC-32 of description and entries.
    pub(crate) sum: u32,
    /// Bytes of standard output and error that belong to it.
    pub(crate) outputs: [u64; 2],
    /// The memory barrier at which it was taken, counted from the job's beginning.
    pub(crate) barrier: u64,
}

/// A mapped header.
#[derive(Debug)]
pub(crate) struct Header {
    words: *mut AtomicU64,
    /// Keeps the words where they are, if nobody else does.
    _page: Option<MmapRaw>,
}

// SAFETY: it is used through atomic words alone, which any thread may.
unsafe impl Send for Header {}

impl Header {
    /// # Panics
    /// If it is not a page.
    pub(crate) fn new(page: MmapRaw) -> Header {
        assert!(page.len() >= PAGE, "a header is a page");
        Header { words: page.as_mut_ptr().cast(), _page: Some(page) }
    }

    /// That at the beginning of a mapping.
    ///
    /// # Safety
    /// A page of a shared mapping is there for the life of the value.
    pub(crate) unsafe fn over(page: *mut u8) -> Header {
        Header { words: page.cast(), _page: None }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < PAGE / 8, "word {at} of a header");
        // SAFETY: an aligned word of the mapping, which lives as long as `self`; all who map it, use it as an
        // atomic word.
        unsafe { &*self.words.wrapping_add(at) }
    }

    /// Makes it the header of an empty store: in memory, or, of a job that has a number, on disk.
    pub(crate) fn set_up(&self, rank: u32, size: u32, geometry: Geometry, job: Option<u64>) {
        let words = [
            (RANK_AT, rank.into()),
            (SIZE_AT, size.into()),
            (SLOTS_AT, geometry.slots()),
            (DURABLE_AT, job.is_some().into()),
            (JOB_AT, job.unwrap_or(0)),
        ];
        for (at, word) in words.into_iter().chain([(VERSION_AT, VERSION)]) {
            self.word(at).store(word, Ordering::Relaxed);
        }
        self.set_base(Base::default());
        self.word(MAGIC_AT).store(MAGIC, Ordering::Release);
    }

    /// Whether it can be that of a file of `len` bytes; if not, why.
    pub(crate) fn check(&self, len: u64) -> Result<Geometry, String> {
        if self.word(MAGIC_AT).load(Ordering::Acquire) != MAGIC {
            return Err("it is no store of scash".to_owned());
        }
        let version = self.word(VERSION_AT).load(Ordering::Relaxed);
        if version != VERSION {
            return Err(format!("it is a store of version {version}, and this program knows {VERSION}"));
        }
        let slots = self.word(SLOTS_AT).load(Ordering::Relaxed);
        let geometry = Geometry::of(slots).ok_or_else(|| format!("it cannot have {slots} slots"))?;
        if len < geometry.len() {
            return Err(format!("it was cut short: it has {len} of {} bytes", geometry.len()));
        }
        Ok(geometry)
    }

    pub(crate) fn rank(&self) -> u32 {
        u32::try_from(self.word(RANK_AT).load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Ranks of the job.
    pub(crate) fn size(&self) -> u32 {
        u32::try_from(self.word(SIZE_AT).load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Of which job it is, if it is on disk.
    pub(crate) fn job(&self) -> u64 {
        self.word(JOB_AT).load(Ordering::Relaxed)
    }

    /// Whether the file is on disk, and is to outlive the machine's power.
    pub(crate) fn is_durable(&self) -> bool {
        self.word(DURABLE_AT).load(Ordering::Relaxed) != 0
    }

    pub(crate) fn base(&self) -> Base {
        let base = |number| {
            let [incarnation, epoch] = self.record(BASES_AT + number * STRIDE)?;
            Some(Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) })
        };
        let newer = [0, 1].into_iter().filter_map(base).max_by_key(|base| base.incarnation);
        newer.unwrap_or_default()
    }

    /// The one before stays until this one is whole.
    pub(crate) fn set_base(&self, base: Base) {
        let number = usize::from(base.incarnation.0 % 2 == 1);
        self.set_record(BASES_AT + number * STRIDE, [base.incarnation.0, base.epoch.0]);
    }

    pub(crate) fn mark(&self, number: u64) -> Option<Marked> {
        let words = self.record(MARKS_AT + usize::from(number == 1) * STRIDE)?;
        let [incarnation, epoch, described, entries, sum, out, err, barrier] = words;
        let mark = Mark { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) };
        let (sum, outputs) = (u32::try_from(sum).ok()?, [out, err]);
        Some(Marked { mark, described, entries, sum, outputs, barrier })
    }

    pub(crate) fn set_mark(&self, marked: &Marked) {
        let Marked { mark, described, entries, sum, outputs: [out, err], barrier } = *marked;
        let Mark { incarnation, epoch } = mark;
        let words = [incarnation.0, epoch.0, described, entries, sum.into(), out, err, barrier];
        self.set_record(MARKS_AT + usize::from(epoch.0 % 2 == 1) * STRIDE, words);
    }

    /// From now on there is no such mark.
    pub(crate) fn clear_mark(&self, number: u64) {
        let at = MARKS_AT + usize::from(number == 1) * STRIDE;
        (0..STRIDE).for_each(|i| self.word(at + i).store(0, Ordering::SeqCst));
    }

    /// The words of a record; `None` if it is not whole.
    fn record<const N: usize>(&self, at: usize) -> Option<[u64; N]> {
        let sum = self.word(at + N).load(Ordering::Acquire);
        let words = std::array::from_fn(|i| self.word(at + i).load(Ordering::Acquire));
        (sum == sum_of(&words)).then_some(words)
    }

    fn set_record<const N: usize>(&self, at: usize, words: [u64; N]) {
        self.word(at + N).store(!sum_of(&words), Ordering::SeqCst);
        for (i, word) in words.into_iter().enumerate() {
            self.word(at + i).store(word, Ordering::SeqCst);
        }
        self.word(at + N).store(sum_of(&words), Ordering::SeqCst);
    }
}

/// Never 0, so that a record of zeros is none.
fn sum_of(words: &[u64]) -> u64 {
    let mut crc = crc32fast::Hasher::new();
    words.iter().for_each(|word| crc.update(&word.to_le_bytes()));
    u64::from(crc.finalize()) | 1 << 32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use memmap2::MmapOptions;

    fn header() -> Header {
        let header = Header::new(MmapOptions::new().len(PAGE).map_anon().unwrap().into());
        header.set_up(0, 1, Geometry::of(1 << 14).unwrap(), None);
        header
    }

    fn base(incarnation: u64) -> Base {
        Base { incarnation: Incarnation(incarnation), epoch: Epoch(40 + incarnation) }
    }

    fn marked(epoch: u64) -> Marked {
        let mark = Mark { incarnation: Incarnation(3), epoch: Epoch(epoch) };
        Marked { mark, described: 5, entries: 6, sum: 7, outputs: [8, 9], barrier: 10 }
    }

    /// Changes a word, looks, and changes it back.
    fn with_torn<T>(header: &Header, at: usize, look: impl FnOnce() -> T) -> T {
        let is = header.word(at).load(Ordering::Relaxed);
        header.word(at).store(is ^ 2, Ordering::Relaxed);
        let seen = look();
        header.word(at).store(is, Ordering::Relaxed);
        seen
    }

    #[test]
    fn a_mark_of_which_a_word_has_not_arrived_is_none() {
        let header = header();
        assert_eq!([0, 1].map(|number| header.mark(number)), [None, None], "zeros are no record");
        header.set_mark(&marked(12));
        header.set_mark(&marked(13));
        for word in 0..9 {
            let at = MARKS_AT + STRIDE + word;
            let seen = with_torn(&header, at, || [0, 1].map(|number| header.mark(number)));
            assert_eq!(seen, [Some(marked(12)), None], "word {word}");
        }
        assert_eq!(header.mark(1), Some(marked(13)));
    }

    #[test]
    fn a_base_record_that_is_half_written_leaves_the_one_before() {
        let header = header();
        for incarnation in 1..6 {
            header.set_base(base(incarnation));
            assert_eq!(header.base(), base(incarnation));
            let begin = BASES_AT + usize::from(incarnation % 2 == 1) * STRIDE;
            let before = if incarnation == 1 { Base::default() } else { base(incarnation - 1) };
            for word in 0..3 {
                assert_eq!(with_torn(&header, begin + word, || header.base()), before, "word {word}");
            }
        }
    }
}
