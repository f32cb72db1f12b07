//! Which ranks hold a copy of a page, and how each wants to hear of changes to it.
//!
//! The directory has one copyset for each page that somebody caches. Nearly all pages of nearly all programs
//! are cached by a handful of ranks (a stencil's boundary by one), a few by everybody. So up to [`INLINE`]
//! members live in the set itself, in the 24 bytes that a `Vec` alone would take; more of them move to the
//! heap, as a sorted list of chunks:
//!
//! ```text
//!   inline   mode bits, closed by a 1  │  up to five ranks in ascending order
//!   chunk    base, multiple of 32  │  bit i: rank base + i holds a copy  │  bit i: … and wants updates
//! ```
//!
//! A chunk takes 12 bytes whether it stands for one rank or for 32: a page that 1,000 ranks cache costs 400
//! bytes, one that six far-away ranks cache costs 72. There is no largest rank and no largest set.
//!
//! **Invariant:** the form depends on the history, the contents do not: sets with the same members and modes
//! are equal.

use std::fmt;
use std::num::NonZeroU8;

mod chunks;
#[cfg(test)]
mod tests;

use chunks::Chunks;

/// Members that a set holds without memory of its own.
pub const INLINE: usize = 5;

/// What a home does to a copy when the page changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CopyMode {
    /// The copy is declared invalid; its rank fetches the page when it is touched again.
    Invalidate,
    /// The copy is brought up to date.
    Update,
}

impl CopyMode {
    fn from_bit(update: bool) -> Self {
        if update { Self::Update } else { Self::Invalidate }
    }

    fn is_update(self) -> bool {
        self == Self::Update
    }
}

/// A set of ranks, each with its mode.
#[derive(Clone)]
pub struct Copyset(Repr);

// A directory of a million pages is 24 MB of copysets at most: 0.6 % of the memory they describe.
const _: () = assert!(size_of::<Copyset>() == 24);

#[derive(Clone)]
enum Repr {
    Inline(Inline),
    /// Boxed, so that the rare large set does not make the common small one larger.
    Chunks(Box<Chunks>),
}

impl Copyset {
    /// The empty set.
    pub const fn new() -> Self {
        Self(Repr::Inline(Inline::EMPTY))
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Inline(set) => set.len(),
            Repr::Chunks(set) => set.len(),
        }
    }

    /// Bytes that the set takes, on the heap too.
    pub fn bytes(&self) -> usize {
        let heap = match &self.0 {
            Repr::Inline(_) => 0,
            Repr::Chunks(set) => set.bytes(),
        };
        size_of::<Self>() + heap
    }

    /// True if nobody holds a copy.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if `rank` holds a copy.
    pub fn contains(&self, rank: u32) -> bool {
        self.get(rank).is_some()
    }

    /// The mode of `rank`'s copy, if it has one.
    pub fn get(&self, rank: u32) -> Option<CopyMode> {
        match &self.0 {
            Repr::Inline(set) => set.find(rank).ok().map(|at| set.mode(at)),
            Repr::Chunks(set) => set.get(rank),
        }
    }

    /// Adds `rank`, or changes its mode. Returns the mode it had if it was a member.
    pub fn insert(&mut self, rank: u32, mode: CopyMode) -> Option<CopyMode> {
        match &mut self.0 {
            Repr::Inline(set) => match set.find(rank) {
                Ok(at) => Some(set.set_mode(at, mode)),
                Err(_) if set.len() == INLINE => {
                    let mut chunks: Chunks = self.iter().collect();
                    chunks.insert(rank, mode);
                    self.0 = Repr::Chunks(Box::new(chunks));
                    None
                }
                Err(at) => {
                    set.insert_at(at, rank, mode);
                    None
                }
            },
            Repr::Chunks(set) => set.insert(rank, mode),
        }
    }

    /// Removes `rank`. Returns the mode it had if it was a member.
    ///
    /// A set that has lost more than half of what fits inline gives its heap memory back; not sooner, or a
    /// set that gains and loses one member in turn would allocate each time.
    pub fn remove(&mut self, rank: u32) -> Option<CopyMode> {
        match &mut self.0 {
            Repr::Inline(set) => set.find(rank).ok().map(|at| set.remove_at(at)),
            Repr::Chunks(set) => {
                let removed = set.remove(rank);
                if set.len() <= INLINE / 2 {
                    *self = self.iter().collect_inline();
                }
                removed
            }
        }
    }

    /// Removes all members and gives their memory back.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The members in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Repr::Inline(set) => IterRepr::Inline { set, next: 0 },
            Repr::Chunks(set) => IterRepr::Chunks(set.iter()),
        })
    }
}

impl Default for Copyset {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Copyset {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl Eq for Copyset {}

impl fmt::Debug for Copyset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl Extend<(u32, CopyMode)> for Copyset {
    fn extend<I: IntoIterator<Item = (u32, CopyMode)>>(&mut self, members: I) {
        for (rank, mode) in members {
            self.insert(rank, mode);
        }
    }
}

impl FromIterator<(u32, CopyMode)> for Copyset {
    fn from_iter<I: IntoIterator<Item = (u32, CopyMode)>>(members: I) -> Self {
        let mut set = Self::new();
        set.extend(members);
        set
    }
}

impl<'a> IntoIterator for &'a Copyset {
    type Item = (u32, CopyMode);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Up to [`INLINE`] members in ascending order; the places behind the last are zero.
#[derive(Clone, Copy)]
struct Inline {
    /// Bit i is the mode of `ranks[i]`; a 1 above the last mode ends the list and so tells the number of
    /// members. This keeps the byte from being zero, which the compiler uses to tell the two forms of a set
    /// apart.
    modes: NonZeroU8,
    ranks: [u32; INLINE],
}

impl Inline {
    const EMPTY: Self = Self { modes: NonZeroU8::MIN, ranks: [0; INLINE] };

    fn len(&self) -> usize {
        self.modes.ilog2() as usize
    }

    /// Where `rank` is, or where it would be inserted.
    fn find(&self, rank: u32) -> Result<usize, usize> {
        let members = &self.ranks[..self.len()];
        let at = members.iter().take_while(|&&member| member < rank).count();
        if members.get(at) == Some(&rank) { Ok(at) } else { Err(at) }
    }

    fn mode(&self, at: usize) -> CopyMode {
        CopyMode::from_bit(self.modes.get() >> at & 1 == 1)
    }

    fn set_mode(&mut self, at: usize, mode: CopyMode) -> CopyMode {
        let before = self.mode(at);
        self.set_modes(self.modes.get() & !(1 << at) | u8::from(mode.is_update()) << at);
        before
    }

    fn set_modes(&mut self, modes: u8) {
        self.modes = NonZeroU8::new(modes).expect("the 1 above the last mode stays");
    }

    /// Precondition: there is room.
    fn insert_at(&mut self, at: usize, rank: u32, mode: CopyMode) {
        self.ranks.copy_within(at..INLINE - 1, at + 1);
        self.ranks[at] = rank;
        let (modes, below) = (self.modes.get(), (1 << at) - 1);
        self.set_modes(modes & below | (modes & !below) << 1);
        self.set_mode(at, mode);
    }

    fn remove_at(&mut self, at: usize) -> CopyMode {
        let mode = self.mode(at);
        self.ranks.copy_within(at + 1.., at);
        self.ranks[INLINE - 1] = 0;
        let (modes, below) = (self.modes.get(), (1 << at) - 1);
        self.set_modes(modes & below | modes >> 1 & !below);
        mode
    }
}

/// Iterator over the members of a [`Copyset`] in ascending order.
#[derive(Clone)]
pub struct Iter<'a>(IterRepr<'a>);

#[derive(Clone)]
enum IterRepr<'a> {
    Inline { set: &'a Inline, next: usize },
    Chunks(chunks::Iter<'a>),
}

impl Iter<'_> {
    /// The members as a set without heap memory. Precondition: they fit.
    fn collect_inline(self) -> Copyset {
        let mut inline = Inline::EMPTY;
        for (at, (rank, mode)) in self.enumerate() {
            inline.insert_at(at, rank, mode);
        }
        Copyset(Repr::Inline(inline))
    }
}

impl Iterator for Iter<'_> {
    type Item = (u32, CopyMode);

    fn next(&mut self) -> Option<(u32, CopyMode)> {
        match &mut self.0 {
            IterRepr::Inline { set, next } => {
                let at = *next;
                (at < set.len()).then(|| {
                    *next += 1;
                    (set.ranks[at], set.mode(at))
                })
            }
            IterRepr::Chunks(members) => members.next(),
        }
    }
}
