//! The form of a large copyset: a sorted list of chunks, each standing for 32 neighbouring ranks.

use super::CopyMode;

/// Ranks that one chunk stands for.
const SPAN: u32 = u32::BITS;

/// Some of the ranks `base..base + SPAN`.
///
/// Invariants: `base` is a multiple of `SPAN`; `members` is not zero; `update` is a subset of `members`.
#[derive(Clone, Copy)]
struct Chunk {
    base: u32,
    members: u32,
    update: u32,
}

impl Chunk {
    fn mode(&self, bit: u32) -> Option<CopyMode> {
        (self.members & bit != 0).then(|| CopyMode::from_bit(self.update & bit != 0))
    }

    fn set(&mut self, bit: u32, mode: CopyMode) {
        self.members |= bit;
        self.update = if mode.is_update() { self.update | bit } else { self.update & !bit };
    }
}

/// Invariants: the chunks' bases ascend; `len` is the number of members in all of them.
#[derive(Clone, Default)]
pub(super) struct Chunks {
    chunks: Vec<Chunk>,
    len: usize,
}

impl Chunks {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.chunks.len() * size_of::<Chunk>()
    }

    /// Where the chunk with `rank` is or would be, and `rank`'s bit in it.
    fn find(&self, rank: u32) -> (Result<usize, usize>, u32) {
        let (base, bit) = (rank / SPAN * SPAN, 1 << (rank % SPAN));
        (self.chunks.binary_search_by_key(&base, |chunk| chunk.base), bit)
    }

    pub(super) fn get(&self, rank: u32) -> Option<CopyMode> {
        let (at, bit) = self.find(rank);
        self.chunks[at.ok()?].mode(bit)
    }

    pub(super) fn insert(&mut self, rank: u32, mode: CopyMode) -> Option<CopyMode> {
        let (at, bit) = self.find(rank);
        let at = at.unwrap_or_else(|at| {
            self.chunks.insert(at, Chunk { base: rank / SPAN * SPAN, members: 0, update: 0 });
            at
        });
        let chunk = &mut self.chunks[at];
        let before = chunk.mode(bit);
        chunk.set(bit, mode);
        self.len += usize::from(before.is_none());
        before
    }

    pub(super) fn remove(&mut self, rank: u32) -> Option<CopyMode> {
        let (at, bit) = self.find(rank);
        let at = at.ok()?;
        let chunk = &mut self.chunks[at];
        let removed = chunk.mode(bit)?;
        chunk.members &= !bit;
        chunk.update &= !bit;
        if chunk.members == 0 {
            self.chunks.remove(at);
        }
        self.len -= 1;
        Some(removed)
    }

    pub(super) fn iter(&self) -> Iter<'_> {
        Iter { chunks: self.chunks.iter(), current: Chunk { base: 0, members: 0, update: 0 } }
    }
}

impl FromIterator<(u32, CopyMode)> for Chunks {
    fn from_iter<I: IntoIterator<Item = (u32, CopyMode)>>(members: I) -> Self {
        let mut set = Self::default();
        for (rank, mode) in members {
            set.insert(rank, mode);
        }
        set
    }
}

/// Iterator over the members in ascending order.
#[derive(Clone)]
pub(super) struct Iter<'a> {
    chunks: std::slice::Iter<'a, Chunk>,
    /// What is left of the chunk under way.
    current: Chunk,
}

impl Iterator for Iter<'_> {
    type Item = (u32, CopyMode);

    fn next(&mut self) -> Option<(u32, CopyMode)> {
        if self.current.members == 0 {
            self.current = *self.chunks.next()?;
        }
        let chunk = &mut self.current;
        let lowest = chunk.members.trailing_zeros();
        let mode = CopyMode::from_bit(chunk.update >> lowest & 1 == 1);
        chunk.members &= chunk.members - 1;
        Some((chunk.base + lowest, mode))
    }
}
