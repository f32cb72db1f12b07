//! A rank's part of the heap: objects of any size that one rank allocates by itself, and any rank frees.
//!
//! The heap is address space that ranks divide evenly, so an address tells whose part it lies in, and nobody
//! has to ask. Only the owner of a part allocates in it: so objects of different ranks share no page.
//!
//! ```text
//!   page   0                1                2        3 4 5 6 7          unused
//!   │ a a ─ a ─ ─ ─ a │ b b b b ─ ─ ─ ─ │ ─ ─ ─ ─ │ r r r r r r r r r │ ─ ─ ─ ─ ─ ─ ─ ─ │
//!     48 bytes each     1,024 bytes each    free       a run of pages
//! ```
//!
//! Objects of up to [`MOST_SMALL`] bytes lie in *slots*: a page has slots of one size. Larger ones have
//! *runs* of whole pages.
//!
//! # What ranks share
//! [`WORDS`] words for each page of the part, at its owner, which all ranks reach by atomic operations
//! only. No pointer of the program leads to them, so what it writes past its objects leaves them alone.
//!
//! | word | what | who changes it |
//! |---|---|---|
//! | [`KIND`] | what the page has: [`Kind`] | the owner, before it hands out the page's first object |
//! | [`STAMP`] | the last interval in which an object was freed that comes back with the next barrier | who frees |
//! | [`USED`] and three more | a bit for each 16 bytes: an object begins there | the owner sets, who frees clears |
//! | [`PARKED_IN`] | the last interval in which something was [parked](ParkedBits) | who parks or adopts |
//! | [`PARKED`] | a bit for each 64 bytes: an object that begins there is parked | who parks or adopts |
//!
//! A bit is all that says whether an object is there. To free is to clear it, so of several ranks that
//! free one object one succeeds, and the others are told. A bit of another word says that an object is
//! *parked* ([`ParkedBits`]): it has no owner, and whoever clears that becomes it. Any rank may set these.
//!
//! # What the owner knows
//! [`Part`] is private to the owner's process. Its list of free slots lags behind the words: what others free
//! it finds when it needs room, a few pages at a time (`SWEEP`), so the search costs each allocation little
//! and what is not found yet is a small part of the heap.
//!
//! **Invariant:** a slot that the owner thinks free has a clear bit; a page is in one list or none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

mod parked;
mod slots;
#[cfg(test)]
mod tests;

pub use parked::{LEAST_PARKED, ParkedBits, fresh_bits};
use slots::Slots;

/// Bytes of a page.
const PAGE: u64 = crate::PAGE_SIZE as u64;
/// Every object begins at a multiple of this, and is no shorter.
pub const GRAIN: u64 = 16;
/// The largest object that shares its page with others.
pub const MOST_SMALL: u64 = 2048;
/// Words of a page.
pub const WORDS: u64 = 8;
/// The same, as indices of words are.
const A_PAGE: usize = 8;
const _: () = assert!(A_PAGE as u64 == WORDS);
/// Pages whose words fill a page.
pub const PAGES_A_PAGE: u32 = 64;
const _: () = assert!(PAGES_A_PAGE as u64 * WORDS * 8 == PAGE);
/// The first of the words of a page.
pub const KIND: u64 = 0;
/// The second one.
pub const STAMP: u64 = 1;
/// The first of four words of bits.
pub const USED: u64 = 2;
/// The word behind these: twice the last interval in which something was parked that is for other ranks with
/// the next barrier, and 1 more while a rank parks or adopts something of the page.
pub const PARKED_IN: u64 = USED + 4;
/// The last word, which has a bit for each object that is parked.
pub const PARKED: u64 = PARKED_IN + 1;
const _: () = assert!(PARKED + 1 == WORDS);
/// Pages that are looked at for what others have freed, before another page is used.
const SWEEP: u32 = 16;

/// Sizes of slots. As many as fit lie in a page, from its beginning.
const SIZES: [u16; 21] =
    [16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 400, 512, 576, 672, 816, 1024, 1344, 2048];
const _: () = assert!(SIZES[SIZES.len() - 1] as u64 == MOST_SMALL);

/// What a page has, as its word says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing yet.
    Blank,
    /// Slots of so many bytes.
    Slots(u16),
    /// The beginning of a run of so many pages.
    Run(u32),
}

impl Kind {
    /// The word.
    pub fn encode(self) -> u64 {
        match self {
            Kind::Blank => 0,
            Kind::Slots(size) => u64::from(size),
            Kind::Run(pages) => u64::from(pages) << 16,
        }
    }

    /// What a word means.
    pub fn decode(word: u64) -> Kind {
        match (u16::try_from(word), u32::try_from(word >> 16)) {
            (Ok(0), _) => Kind::Blank,
            (Ok(size), _) => Kind::Slots(size),
            (Err(_), Ok(pages)) => Kind::Run(pages),
            (Err(_), Err(_)) => Kind::Blank,
        }
    }

    /// Where the object begins that has the byte at this place of the page, and how long it may be.
    pub fn object_at(self, place: u64) -> Option<(u64, u64)> {
        match self {
            Kind::Blank => None,
            Kind::Slots(size) => {
                let size = u64::from(size);
                let first = place - place % size;
                (first + size <= PAGE).then_some((first, size))
            }
            Kind::Run(pages) => Some((0, u64::from(pages) * PAGE)),
        }
    }
}

/// The word, of those of its page, and the bit for an object that begins at this place of a page.
pub fn bit_of(place: u64) -> (u64, u64) {
    let grain = place / GRAIN;
    (USED + grain / 64, 1 << (grain % 64))
}

/// Why there is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Pages that were needed.
    pub pages: u32,
    /// Pages of the part.
    pub part: u32,
    /// Those of them that no object has.
    pub free: u32,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, part, free } = self;
        write!(f, "this rank's part of the heap has no {pages} pages in one piece: {free} of {part} are free")
    }
}

/// What the owner of a part knows of it. Page numbers are those of the part.
#[derive(Debug)]
pub struct Part {
    /// Pages of the part.
    pages: u32,
    /// Pages that were ever used, and what slots they have.
    slots: Vec<Slots>,
    /// Runs of used pages that no object has: length by first page, and the same by length.
    free: BTreeMap<u32, u32>,
    by_length: BTreeSet<(u32, u32)>,
    /// Runs that objects have.
    runs: BTreeMap<u32, u32>,
    /// Pages with slots that are free as far as is known, for each size.
    open: [Vec<u32>; SIZES.len()],
    /// Where the next look for what others have freed begins.
    sweep: u32,
}

impl Part {
    /// A part of so many pages, all of them unused.
    pub fn new(pages: u32) -> Part {
        Part {
            pages,
            slots: Vec::new(),
            free: BTreeMap::new(),
            by_length: BTreeSet::new(),
            runs: BTreeMap::new(),
            open: [const { Vec::new() }; SIZES.len()],
            sweep: 0,
        }
    }

    /// Pages of the part.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Pages that objects have, or had as far as the owner knows.
    pub fn used_pages(&self) -> u32 {
        self.known() - self.free.values().sum::<u32>()
    }

    /// Allocates an object of so many bytes at a multiple of `align`, a power of two, where addresses begin
    /// `base` pages before the part. Returns its place in bytes.
    ///
    /// What was freed in the interval `stamp` is left alone. `stale` gets the pages of which others have
    /// freed something that may be used from now on: the owner has to see first what they wrote there.
    ///
    /// # Errors
    /// There is no room.
    pub fn alloc(
        &mut self,
        words: &[AtomicU64],
        request: Request,
        stamp: impl FnOnce() -> Option<u64>,
        stale: &mut Vec<Range<u32>>,
    ) -> Result<u64, NoRoom> {
        let Request { bytes, align, base } = request;
        match class_of(bytes, align) {
            Some(class) => {
                if self.open[class].is_empty() {
                    let mut look = Look { words, stamp: stamp(), stale };
                    self.open_page(class, &mut look)?;
                }
                Ok(self.take_slot(class, words))
            }
            None => {
                let pages = u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX);
                let mut look = Look { words, stamp: stamp(), stale };
                let place = Place { pages, align: align.div_ceil(PAGE), base };
                let first = self.find_pages(place, &mut look)?;
                self.runs.insert(first, pages);
                clear(words, first);
                word(words, first, KIND).store(Kind::Run(pages).encode(), SeqCst);
                word(words, first, USED).fetch_or(1, SeqCst);
                Ok(u64::from(first) * PAGE)
            }
        }
    }

    /// Frees the owner's object at this place. Whether one begins there.
    pub fn free(&mut self, words: &[AtomicU64], place: u64) -> bool {
        let (page, (at, bit)) = (page_of(place), bit_of(place % PAGE));
        if page >= self.known() || !is_object(words, place) {
            return false;
        }
        if word(words, page, at).fetch_and(!bit, SeqCst) & bit == 0 {
            return false;
        }
        if let Some(pages) = self.runs.remove(&page) {
            self.release(page, pages);
        } else {
            self.give_slot(page, place % PAGE);
        }
        true
    }

    fn known(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// How many bytes, at least 1.
    pub bytes: u64,
    /// Of what the address is to be a multiple: a power of two.
    pub align: u64,
    /// The number of the part's first page among all pages that there are addresses for.
    pub base: u64,
}

/// Pages that are looked for.
#[derive(Clone, Copy, Debug)]
struct Place {
    pages: u32,
    align: u64,
    base: u64,
}

impl Place {
    /// The first page at or above this one that would do.
    fn first_from(self, page: u32) -> Option<u32> {
        let at = self.base.checked_add(page.into())?.checked_next_multiple_of(self.align)?;
        u32::try_from(at - self.base).ok()
    }
}

/// A look for what others have freed.
struct Look<'a> {
    words: &'a [AtomicU64],
    stamp: Option<u64>,
    stale: &'a mut Vec<Range<u32>>,
}

/// The page that holds a place.
fn page_of(place: u64) -> u32 {
    u32::try_from(place / PAGE).unwrap_or(u32::MAX)
}

fn word(words: &[AtomicU64], page: u32, at: u64) -> &AtomicU64 {
    &words[page as usize * A_PAGE + usize::try_from(at).unwrap_or(usize::MAX)]
}

/// No object begins in a page that gets another use. Its [`PARKED_IN`] stays: a rank may have that lock.
fn clear(words: &[AtomicU64], page: u32) {
    (USED..USED + 4).chain([PARKED]).for_each(|at| word(words, page, at).store(0, SeqCst));
}

/// Whether an object that is in use can begin at this place.
fn is_object(words: &[AtomicU64], place: u64) -> bool {
    let kind = Kind::decode(word(words, page_of(place), KIND).load(SeqCst));
    kind.object_at(place % PAGE).is_some_and(|(first, _)| first == place % PAGE)
}

/// The size of slots for an object, by its number; none for one that needs pages.
fn class_of(bytes: u64, align: u64) -> Option<usize> {
    if align > MOST_SMALL {
        return None;
    }
    SIZES.iter().position(|&size| u64::from(size) >= bytes && u64::from(size).is_multiple_of(align))
}
