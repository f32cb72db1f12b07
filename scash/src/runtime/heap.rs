//! The heap: objects that a single rank allocates at any time, and any rank frees.
//!
//! Each rank allocates in its own [part](scash_proto::part) of one reservation at the end of the region.
//! The words of a part, which say what is in use, lie behind the reservation at the part's owner, where no
//! pointer of the program leads.
//!
//! # Why an object's place can be used again
//! What rank B wrote in an object that it frees must not come to the object's page later, over what its
//! owner A has made of the place since; nor may A go on from an old copy of the page, for what it then
//! writes is told by what differs from that copy. The program orders all use of the object before its
//! freeing, and nothing orders the freeing before A's next allocation. So the calls do it themselves:
//!
//! 1. B brings what it wrote in the object to the homes of its pages, then clears the object's bit.
//! 2. A sees the bit clear, then brings its copies of the pages up to what the homes have.
//!
//! Where ranks share frames there are no copies, and the bit orders all. Where nothing orders memory
//! between two memory barriers, because the job has no locks and the like, a page may have no home before
//! the next one, so 1 is in vain: B then notes the interval beside the bit, and A leaves alone what was
//! freed in the interval that it is in. So it is with `SCASH_RACES`, too, which would take the new use of
//! a place for a race with the old one.
//!
//! # What checkpoints find
//! All threads are in the barrier, and no call is under way (`meets`). Words are saved by the part's
//! owner, with its frames; what an owner knows of its part is in its image.

mod boxes;

use super::{Runtime, lock};
use crate::config::{Config, RaceSetting};
use crate::error::{Error, Result};
use crate::fault::PAGE;
use crate::runtime::frames;
use crate::runtime::within;
use scash_comm::{Atomic, Rmw, give_way};
use scash_proto::part::{KIND, Kind, NoRoom, PAGES_A_PAGE, Part, Request, STAMP, WORDS, bit_of};
use scash_proto::{Pages, Rank};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bytes of an object that is not moved to be made smaller.
const NEVER_MOVED: usize = 64;

/// Where the heap and its words lie in the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The first page.
    first: u32,
    /// Pages of all parts, and of what is left.
    pages: u32,
    /// Pages of each rank's part.
    part: u32,
}

impl Layout {
    fn new(config: &Config, size: u32) -> Layout {
        let part = config.heap / size / PAGES_A_PAGE * PAGES_A_PAGE;
        Layout { first: config.region, pages: config.heap, part }
    }

    /// The pages, if there are any.
    pub(crate) fn pages(self) -> Option<Pages> {
        (self.pages > 0).then_some(Pages { first: self.first, count: self.pages })
    }

    /// The pages of the region with the words of a rank's part.
    pub(crate) fn words_of(self, rank: u32) -> Range<u32> {
        let first = self.first + self.pages + self.part / PAGES_A_PAGE * rank;
        first..first + self.part / PAGES_A_PAGE
    }

    /// The first page of a rank's part.
    fn first_of(self, rank: u32) -> u32 {
        self.first + self.part * rank
    }

    /// The offset in the region of one of the words of a page of the region.
    fn offset_of(self, page: u32, word: u64) -> u64 {
        let words = u64::from(self.first + self.pages) * PAGE as u64;
        words + (u64::from(page - self.first) * WORDS + word) * size_of::<u64>() as u64
    }
}

/// The heap as a rank has it.
pub(crate) struct RankHeap {
    layout: Layout,
    /// This rank's part. Held while an object is allocated, or freed by its owner.
    mine: Mutex<Part>,
    /// A thread of this rank is in a collective call.
    meets: AtomicBool,
    /// Threads of this rank that are at words of any part, without having locked its own.
    at_words: AtomicU32,
    /// Some thread has allocated.
    is_used: AtomicBool,
    fresh: Mutex<boxes::Fresh>,
}

impl RankHeap {
    pub(crate) fn new(config: &Config, rank: Rank, size: u32) -> RankHeap {
        let layout = Layout::new(config, size);
        debug_assert!(rank.0 < size, "{rank} of {size}");
        let [meets, is_used] = [const { AtomicBool::new(false) }; 2];
        let (mine, fresh) = (Mutex::new(Part::new(layout.part)), Mutex::default());
        RankHeap { layout, mine, meets, at_words: AtomicU32::new(0), is_used, fresh }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// A thread of this rank is in a collective call from now on, or is no more. Waits for the call on the
    /// heap that is under way. Every memory barrier comes by: where nobody allocates, it takes no lock.
    pub(crate) fn meets(&self, meets: bool) {
        self.meets.store(meets, Ordering::SeqCst);
        // Whoever is not seen here to allocate sees that somebody meets.
        if meets && self.is_used.load(Ordering::SeqCst) {
            drop(lock(&self.mine));
        }
        let mut turn = 0;
        while meets && self.at_words.load(Ordering::SeqCst) > 0 {
            give_way(turn);
            turn += 1;
        }
    }

    /// A thread comes to words of any part, until what is returned is dropped.
    ///
    /// # Errors
    /// Another thread of this rank is in a collective call.
    fn come_to_words(&self) -> Result<AtWords<'_>> {
        self.at_words.fetch_add(1, Ordering::SeqCst);
        let at_words = AtWords(self);
        self.refuse_in_meetings()?;
        Ok(at_words)
    }

    /// This rank's part, for a call on the heap.
    ///
    /// # Errors
    /// Another thread of this rank is in a collective call.
    fn enter(&self) -> Result<MutexGuard<'_, Part>> {
        if !self.is_used.load(Ordering::SeqCst) {
            self.is_used.store(true, Ordering::SeqCst);
        }
        let part = lock(&self.mine);
        self.refuse_in_meetings()?;
        Ok(part)
    }

    /// An error while another thread of this rank is in a collective call.
    fn refuse_in_meetings(&self) -> Result<()> {
        if !self.meets.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(Error::Argument(
            "the heap is used while another thread of this rank is in a collective call: let that return first"
                .to_owned(),
        ))
    }
}

/// See [`RankHeap::come_to_words`].
struct AtWords<'a>(&'a RankHeap);

impl Drop for AtWords<'_> {
    fn drop(&mut self) {
        self.0.at_words.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How much of the heap a rank uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapUse {
    /// Pages of this rank's part.
    pub part: u32,
    /// Those of them that objects have, or had as far as this rank knows: what others have freed it finds
    /// when it needs room.
    pub used: u32,
}

/// An object, or a place where there may be one.
#[derive(Clone, Copy)]
struct Place {
    address: *const u8,
    /// The page of the region.
    page: u32,
    /// The byte in it.
    byte: u64,
    /// Whose part it lies in.
    owner: u32,
}

impl Runtime {
    /// Allocates an object of so many bytes, on this rank alone, at any time but in collective calls. Its
    /// address, a multiple of 16, is good on every rank. Its bytes have no particular values. Objects of
    /// different ranks share no page; where ranks do not share frames, a page's home is the rank that touches
    /// it first. An object of 0 bytes has an address that no other has.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`]: no room in this rank's part of the heap (`SCASH_HEAP`). Another thread of this
    /// rank is in a collective call; a rank is gone.
    pub fn malloc(&self, bytes: usize) -> Result<*mut u8> {
        self.memalign(1, bytes)
    }

    /// As [`malloc`](Self::malloc), at a multiple of `align`.
    ///
    /// # Errors
    /// As there, and if `align` is no power of two.
    pub fn memalign(&self, align: usize, bytes: usize) -> Result<*mut u8> {
        if !align.is_power_of_two() {
            return Err(Error::Argument(format!(
                "an alignment of {align}: it has to be a power of two, as 64 is"
            )));
        }
        let layout = self.heap.layout;
        let base = layout.first_of(self.rank);
        let first = (self.address(base).addr() / PAGE) as u64;
        let request = Request { bytes: bytes.max(1) as u64, align: align as u64, base: first };
        self.guarded(|| {
            let mut stale = Vec::new();
            let mut part = self.heap.enter()?;
            let place = part.alloc(self.my_words(), request, || self.interval(), &mut stale);
            if !self.shares_frames() {
                // Before another thread gets what others have freed there, also if there is no room.
                for run in stale {
                    self.read_home(self.address(base + run.start), run.len() * PAGE)?;
                }
            }
            let place = place.map_err(|none| self.no_room(bytes, none))?;
            Ok(self.address(base).wrapping_add(usize::try_from(place).unwrap_or(usize::MAX)))
        })
    }

    /// Allocates `count` objects of so many bytes side by side, all zeros. This rank writes them, so it
    /// becomes the home of their pages.
    ///
    /// # Errors
    /// As for [`malloc`](Self::malloc), and if there are no so large numbers.
    pub fn calloc(&self, count: usize, bytes: usize) -> Result<*mut u8> {
        let all = count.checked_mul(bytes).ok_or_else(|| {
            Error::Argument(format!("{count} objects of {bytes} bytes: no address space has as many bytes"))
        })?;
        let at = self.malloc(all)?;
        // SAFETY: an object of so many bytes that nobody else knows of.
        unsafe { at.write_bytes(0, all) };
        Ok(at)
    }

    /// An object of so many bytes that begins with those of another one, as many as fit. The other one is
    /// gone, unless it is the same. Without another one (null) this is [`malloc`](Self::malloc). The
    /// object is moved to this rank's part, if it does not fit where it is.
    ///
    /// # Errors
    /// As for [`malloc`](Self::malloc) and [`free_object`](Self::free_object). The other object is there
    /// then.
    pub fn realloc(&self, address: *mut u8, bytes: usize) -> Result<*mut u8> {
        if address.is_null() {
            return self.malloc(bytes);
        }
        let size = self.object_size(address)?;
        // One that would leave most of its room unused is moved.
        if bytes <= size && (size <= NEVER_MOVED || bytes > size / 2) {
            return Ok(address);
        }
        let new = self.malloc(bytes)?;
        // SAFETY: two objects of at least so many bytes. The first one is the caller's, and nobody else knows
        // of the other.
        unsafe { std::ptr::copy_nonoverlapping(address.cast_const(), new, size.min(bytes)) };
        self.free_object(address).inspect_err(|_| drop(self.free_object(new)))?;
        Ok(new)
    }

    /// Frees an object, which any rank has allocated. All use of it comes before, in the order that locks,
    /// flags, semaphores and memory barriers make.
    ///
    /// In a job without any of these but barriers, and with `SCASH_RACES`, what another rank than the owner
    /// frees can be allocated again after the next memory barrier, else at once.
    ///
    /// # Errors
    /// No object of the heap begins there: it was freed before, say. Another thread of this rank is in a
    /// collective call; a rank is gone.
    pub fn free_object(&self, address: *const u8) -> Result<()> {
        self.guarded(|| {
            let place = self.place_of(address)?;
            if place.owner == self.rank {
                let mut part = self.heap.enter()?;
                let at = (place.page - self.heap.layout.first_of(self.rank)) as usize * PAGE;
                if part.free(self.my_words(), at as u64 + place.byte) {
                    return Ok(());
                }
                drop(part);
                return Err(self.no_object(place));
            }
            let _at_words = self.heap.come_to_words()?;
            let size = self.room_at(place)?;
            if !self.shares_frames() {
                self.see_off(place, size)?;
            }
            let (word, bit) = bit_of(place.byte);
            let was = self.on_word(place, word, Rmw::And(!bit))?;
            if was & bit == 0 { Err(self.no_object(place)) } else { Ok(()) }
        })
    }

    /// Whether an address lies in the heap: where objects are, or could be.
    pub fn is_in_heap(&self, address: *const u8) -> bool {
        let (page, layout) = (self.context.region.page_of(address as usize), self.heap.layout);
        page.is_some_and(|page| (layout.first..layout.first + layout.pages).contains(&page))
    }

    /// How many bytes an object can have without being moved: at least as many as were asked for.
    ///
    /// # Errors
    /// As for [`free_object`](Self::free_object).
    pub fn object_size(&self, address: *const u8) -> Result<usize> {
        self.guarded(|| {
            let _at_words = self.heap.come_to_words()?;
            let size = self.size_at(self.place_of(address)?)?;
            Ok(usize::try_from(size).unwrap_or(usize::MAX))
        })
    }

    /// How much of its part of the heap this rank uses.
    pub fn heap_use(&self) -> HeapUse {
        let part = lock(&self.heap.mine);
        HeapUse { part: part.pages(), used: part.used_pages() }
    }

    /// What another rank wrote in an object must be at home before its place is used again; or, where that
    /// cannot be, the owner must know when it was freed.
    fn see_off(&self, place: Place, size: u64) -> Result<()> {
        match self.interval() {
            None => self.write_back(place.address, usize::try_from(size).unwrap_or(usize::MAX)),
            Some(interval) => self.on_word(place, STAMP, Rmw::Swap(interval)).map(drop),
        }
    }

    /// The interval, where what was freed in it must not be used again before the next barrier.
    fn interval(&self) -> Option<u64> {
        self.interval_where(self.config.races != RaceSetting::Off)
    }

    /// The interval, where what was written in it is at home with the next barrier only.
    fn interval_of_barriers(&self) -> Option<u64> {
        self.interval_where(false)
    }

    fn interval_where(&self, homes_do_not_matter: bool) -> Option<u64> {
        if self.shares_frames() {
            return None;
        }
        let core = lock(&self.core);
        let waits = homes_do_not_matter || !core.node.has_homes_at_once();
        waits.then(|| u64::from(core.node.epoch()) + 1)
    }

    /// The words of this rank's part.
    fn my_words(&self) -> &[AtomicU64] {
        let pages = self.heap.layout.words_of(self.rank);
        if pages.is_empty() {
            return &[];
        }
        let first = frames::frame(&self.context.region, pages.start).cast::<AtomicU64>();
        // SAFETY: pages of the runtime view, which is mapped as long as the runtime has this context, and is
        // replaced only while no other thread runs. They are reached by atomic operations only.
        unsafe { std::slice::from_raw_parts(first, pages.len() * PAGE / size_of::<u64>()) }
    }

    /// Executes an operation on one of the words of a place's page, at its owner.
    fn on_word(&self, place: Place, word: u64, op: Rmw<u64>) -> Result<u64> {
        let at = if self.shares_frames() { self.rank } else { place.owner };
        let offset = self.heap.layout.offset_of(place.page, word);
        let _inside = within::enter_for(&*self.context.endpoint, at);
        Ok(self.context.endpoint.atomic(at, self.context.segment, offset, Atomic::U64(op))?)
    }

    /// Where an object would be that begins at an address.
    fn place_of(&self, address: *const u8) -> Result<Place> {
        let layout = self.heap.layout;
        let page = self.context.region.page_of(address as usize).filter(|_| self.is_in_heap(address));
        let page = page.filter(|page| layout.part > 0 && (page - layout.first) / layout.part < self.size);
        let page = page.ok_or_else(|| {
            Error::Argument(format!(
                "{address:p} is not in the heap: give an address that dsm_malloc returned and dsm_free did not take"
            ))
        })?;
        let owner = (page - layout.first) / layout.part;
        Ok(Place { address, page, byte: (address as usize % PAGE) as u64, owner })
    }

    /// How many bytes the object has room for that begins at a place.
    fn size_at(&self, place: Place) -> Result<u64> {
        let size = self.room_at(place)?;
        let (word, bit) = bit_of(place.byte);
        if self.on_word(place, word, Rmw::Load)? & bit == 0 { Err(self.no_object(place)) } else { Ok(size) }
    }

    /// How many bytes an object has room for that could begin at a place.
    fn room_at(&self, place: Place) -> Result<u64> {
        let kind = Kind::decode(self.on_word(place, KIND, Rmw::Load)?);
        let object = kind.object_at(place.byte).filter(|(first, _)| *first == place.byte);
        object.map(|(_, size)| size).ok_or_else(|| self.no_object(place))
    }

    /// No object that is in use begins at a place.
    fn no_object(&self, place: Place) -> Error {
        let address = place.address;
        let within = || {
            let kind = Kind::decode(self.on_word(place, KIND, Rmw::Load).ok()?);
            let (first, _) = kind.object_at(place.byte).filter(|(first, _)| *first != place.byte)?;
            let (word, bit) = bit_of(first);
            let is_used = self.on_word(place, word, Rmw::Load).ok()? & bit != 0;
            is_used.then(|| address.wrapping_sub(usize::try_from(place.byte - first).unwrap_or(0)))
        };
        Error::Argument(match within() {
            Some(first) => format!(
                "{address:p} lies inside the object at {first:p}: give the address that dsm_malloc returned"
            ),
            None => format!(
                "no object of the heap begins at {address:p}: was it freed before? give an address that dsm_malloc returned \
                 and dsm_free did not take"
            ),
        })
    }

    fn no_room(&self, bytes: usize, none: NoRoom) -> Error {
        let mib = (u64::from(self.heap.layout.pages) * PAGE as u64) >> 20;
        Error::OutOfSpace(format!(
            "{bytes} bytes of the heap asked for: {none}; free what is no longer used, or raise SCASH_HEAP (now {mib} MiB, \
             of which each of {} ranks has an equal part)",
            self.size
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn words_of_each_part_fill_pages_of_their_own_behind_the_heap() {
        for (heap, size) in [(1 << 20, 3), (256, 2), (4096, 1), (129, 2), (63, 1)] {
            let part = heap / size / PAGES_A_PAGE * PAGES_A_PAGE;
            let layout = Layout { first: 1000, pages: heap, part };
            let mut end = 1000 + heap;
            for rank in 0..size {
                let words = layout.words_of(rank);
                assert_eq!((words.start, words.len()), (end, (part / PAGES_A_PAGE) as usize));
                end = words.end;
                let (first, last) = (layout.first_of(rank), layout.first_of(rank) + part);
                if part > 0 {
                    assert_eq!(layout.offset_of(first, 0), u64::from(words.start) * PAGE as u64);
                    let last = layout.offset_of(last - 1, WORDS - 1);
                    assert_eq!(last + 8, u64::from(words.end) * PAGE as u64);
                }
            }
            assert!(end <= 1000 + heap + heap.div_ceil(PAGES_A_PAGE), "{heap} pages of {size} ranks");
        }
    }

    #[test]
    fn a_rank_comes_to_a_collective_call_when_no_thread_of_it_is_at_words_of_the_heap() {
        let heap = RankHeap::new(&Config::read(|_| None).unwrap(), Rank(0), 2);
        std::thread::scope(|scope| {
            let at_words = heap.come_to_words().unwrap();
            let meets = scope.spawn(|| heap.meets(true));
            while !heap.meets.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!meets.is_finished());
            drop(at_words);
        });
        assert!(heap.come_to_words().is_err(), "the rank meets");
    }
}
