//! The allocator of the region: which pages belong to which allocation.
//!
//! Every rank has its own heap and all make the same calls in the same order (allocation is collective), so
//! all come to the same addresses without a message. Nothing here may depend on anything but the calls: no
//! hash order, no clock, no randomness.
//!
//! The heap deals in whole pages. It puts off the reuse of freed pages for as long as it can, so that a
//! program that still uses freed memory faults on a page of no allocation and is told so, instead of writing
//! over its own new data. It looks for room
//!
//! 1. above every page that was ever used,
//! 2. then from where the last reused run ended, upwards (*next fit*),
//! 3. then everywhere.
//!
//! ```text
//!   0                                       unused               pages
//!   │ a a a ─ ─ b b ─ ─ ─ ─ c ─ ─ d d d d d │ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ │      a, b, c, d: allocations   ─: free
//!                   ↑ rover                 first: 1
//! ```
//!
//! The last pages of the region may be [reserved](Heap::reserve) before the first call: for what single ranks
//! allocate ([`part`](crate::part)). They are one allocation for as long as the job runs.
//!
//! **Invariant:** a page is in one free run or in one allocation, never in both, unless it is kept back
//! behind the reservation; free runs do not touch each other.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// The number of the reservation: no allocation comes to it.
pub const RESERVED: u64 = u64::MAX;

/// One allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation<O> {
    /// Its number in the order of allocation, from 0, or [`RESERVED`]. Numbers are not used again, page
    /// numbers are.
    pub id: u64,
    /// Its first page.
    pub first: u32,
    /// How many pages it has, at least one.
    pub pages: u32,
    /// How many bytes were asked for; the rest of the last page belongs to nobody else.
    pub bytes: u64,
    /// What was asked for besides: placement, protocol, block size.
    pub options: O,
}

impl<O> Allocation<O> {
    /// Its pages.
    pub fn range(&self) -> Range<u32> {
        self.first..self.first + self.pages
    }
}

/// The pages of the region and who has them. `O` is what an allocation remembers of its options.
#[derive(Clone, Debug)]
pub struct Heap<O> {
    /// Pages of the region.
    pages: u32,
    /// Free runs, first page → length, including the one that was never used. No run is empty, none touches
    /// the next.
    free: BTreeMap<u32, u32>,
    /// Allocations by first page.
    allocations: BTreeMap<u32, Allocation<O>>,
    /// No page from here on was ever allocated.
    unused: u32,
    /// Where the search among used pages goes on.
    rover: u32,
    next_id: u64,
}

impl<O> Heap<O> {
    /// A region of `pages` pages, all free.
    pub fn new(pages: u32) -> Self {
        let free = if pages > 0 { BTreeMap::from([(0, pages)]) } else { BTreeMap::new() };
        Self { pages, free, allocations: BTreeMap::new(), unused: 0, rover: 0, next_id: 0 }
    }

    /// Makes `pages` pages from `first` on an allocation that is never freed, and keeps back whatever is
    /// behind them. Before any call.
    ///
    /// # Panics
    /// If these are not pages of the region, or something was allocated.
    pub fn reserve(&mut self, first: u32, pages: u32, options: O) {
        let end = first.checked_add(pages).filter(|end| *end <= self.pages && pages > 0);
        assert!(end.is_some() && self.next_id == 0 && self.allocations.is_empty(), "pages {first}+{pages}");
        self.take(first..self.pages);
        let bytes = u64::from(pages) * crate::PAGE_SIZE as u64;
        self.allocations.insert(first, Allocation { id: RESERVED, first, pages, bytes, options });
    }

    /// Allocates room for `bytes` bytes (at least one page) that begins at a multiple of `align` pages.
    pub fn alloc(&mut self, bytes: u64, align: NonZeroU32, options: O) -> Result<&Allocation<O>, OutOfSpace> {
        let asked = bytes.div_ceil(crate::PAGE_SIZE as u64).max(1);
        let pages = u32::try_from(asked).map_err(|_| self.out_of_space(asked, align))?;
        let first = self.find_room(pages, align).ok_or_else(|| self.out_of_space(asked, align))?;
        let end = first + pages;
        self.take(first..end);
        if first < self.unused {
            self.rover = end;
        }
        self.unused = self.unused.max(end);
        let id = self.next_id;
        self.next_id += 1;
        Ok(self.allocations.entry(first).or_insert(Allocation { id, first, pages, bytes, options }))
    }

    /// Frees the allocation that begins at page `first`, and returns its record.
    pub fn free(&mut self, first: u32) -> Result<Allocation<O>, NotAllocated> {
        let Some(freed) = self.allocations.remove(&first) else {
            return Err(NotAllocated { page: first, inside: self.find(first).map(|a| a.first) });
        };
        let mut run = freed.range();
        if let Some(len) = self.free.remove(&run.end) {
            run.end += len;
        }
        if let Some((&below, len)) = self.free.range_mut(..first).next_back()
            && below + *len == first
        {
            *len = run.end - below;
        } else {
            self.free.insert(first, run.end - first);
        }
        Ok(freed)
    }

    /// The allocation that `page` belongs to. Does not allocate: a fault handler may ask.
    pub fn find(&self, page: u32) -> Option<&Allocation<O>> {
        let (_, allocation) = self.allocations.range(..=page).next_back()?;
        allocation.range().contains(&page).then_some(allocation)
    }

    /// As [`find`](Self::find), to change the options.
    pub fn find_mut(&mut self, page: u32) -> Option<&mut Allocation<O>> {
        let (_, allocation) = self.allocations.range_mut(..=page).next_back()?;
        allocation.range().contains(&page).then_some(allocation)
    }

    /// All allocations by ascending page.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Allocation<O>> {
        self.allocations.values()
    }

    /// Pages of the region.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Pages that belong to no allocation.
    pub fn free_pages(&self) -> u32 {
        self.free.values().sum()
    }

    /// The first page from which on no page was ever allocated.
    pub fn unused_from(&self) -> u32 {
        self.unused
    }

    /// The first page of a free run of `pages` pages, in the order of preference that the module describes.
    fn find_room(&self, pages: u32, align: NonZeroU32) -> Option<u32> {
        [self.unused, self.rover, 0].into_iter().find_map(|from| self.first_fit(from, pages, align))
    }

    /// The lowest fitting place at or above `from`.
    fn first_fit(&self, from: u32, pages: u32, align: NonZeroU32) -> Option<u32> {
        let around = self.free.range(..from).next_back();
        around.into_iter().chain(self.free.range(from..)).find_map(|(&first, &len)| {
            let place = first.max(from).checked_next_multiple_of(align.get())?;
            (place.checked_add(pages)? <= first + len).then_some(place)
        })
    }

    /// Takes pages out of the free run that holds them.
    fn take(&mut self, taken: Range<u32>) {
        let holder = self.free.range_mut(..=taken.start).next_back();
        let (&first, len) = holder.expect("find_room returns pages of a free run");
        let end = first + *len;
        *len = taken.start - first;
        if *len == 0 {
            self.free.remove(&first);
        }
        if taken.end < end {
            self.free.insert(taken.end, end - taken.end);
        }
    }

    fn out_of_space(&self, asked: u64, align: NonZeroU32) -> OutOfSpace {
        let largest_free = self.free.values().copied().max().unwrap_or(0);
        OutOfSpace { asked, align: align.get(), largest_free, free: self.free_pages() }
    }
}

/// No free run is long enough. All numbers are pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSpace {
    /// How many were asked for.
    pub asked: u64,
    /// Of what number the first had to be a multiple.
    pub align: u32,
    /// The length of the longest free run.
    pub largest_free: u32,
    /// How many are free in all.
    pub free: u32,
}

impl fmt::Display for OutOfSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, align, largest_free, free } = self;
        write!(f, "no room for {asked} pages of shared memory")?;
        if *align > 1 {
            write!(f, " at a multiple of {align}")?;
        }
        write!(f, ": {free} are free, at most {largest_free} in one piece; free what is no longer used, ")?;
        write!(f, "or start the job with a larger region")
    }
}

impl std::error::Error for OutOfSpace {}

/// A page at which no allocation begins was to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAllocated {
    /// The page.
    pub page: u32,
    /// The first page of the allocation that the page lies in, if it lies in one.
    pub inside: Option<u32>,
}

impl fmt::Display for NotAllocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page;
        match self.inside {
            Some(first) => write!(
                f,
                "page {page} is inside the allocation that begins at page {first}: free it by the address that its allocation returned"
            ),
            None => write!(f, "page {page} belongs to no allocation: was it freed before?"),
        }
    }
}

impl std::error::Error for NotAllocated {}
