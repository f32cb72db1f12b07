//! Pages: those with slots, those that are free, and what others have freed of both.

#[cfg(test)]
use super::BTreeMap;
use super::{
    GRAIN, KIND, Kind, Look, NoRoom, PAGE, Part, Place, SIZES, STAMP, SWEEP, USED, bit_of, clear, word,
};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What the owner knows of a page's slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// The number of their size plus one; 0 if the page has none.
    class: u8,
    pub(super) listed: Listed,
    /// Slots that are free: as the words of the page have it for those in use.
    free: [u64; 4],
}

/// Whether a page is in the list of those with free slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Listed {
    #[default]
    No,
    /// In this place of it.
    At(u32),
}

impl Slots {
    fn class(&self) -> Option<usize> {
        usize::from(self.class).checked_sub(1)
    }

    fn count(&self) -> u32 {
        self.free.iter().map(|word| word.count_ones()).sum()
    }
}

/// How many slots of a size a page has.
fn capacity(class: usize) -> u32 {
    u32::try_from(PAGE / u64::from(SIZES[class])).unwrap_or(0)
}

/// The bits of all slots of a size.
fn all_slots(class: usize) -> [u64; 4] {
    let mut all = [0; 4];
    for slot in 0..u64::from(capacity(class)) {
        let (at, bit) = bit_of(slot * u64::from(SIZES[class]));
        all[index(at)] |= bit;
    }
    all
}

/// The place of one of the words of bits among them.
fn index(at: u64) -> usize {
    usize::try_from(at - USED).unwrap_or(usize::MAX)
}

impl Part {
    /// Takes a free slot of a page that is listed for this size.
    pub(super) fn take_slot(&mut self, class: usize, words: &[AtomicU64]) -> u64 {
        let &page = self.open[class].last().expect("a page was opened");
        let slots = &mut self.slots[page as usize];
        let at = slots.free.iter().position(|word| *word != 0).expect("a listed page has a free slot");
        let grain = slots.free[at].trailing_zeros();
        slots.free[at] &= slots.free[at] - 1;
        if slots.count() == 0 {
            self.unlist(page);
        }
        let was = word(words, page, USED + at as u64).fetch_or(1 << grain, SeqCst);
        debug_assert_eq!(was >> grain & 1, 0, "page {page}: a slot that is free is in use");
        u64::from(page) * PAGE + (at as u64 * 64 + u64::from(grain)) * GRAIN
    }

    /// The owner has freed a slot.
    pub(super) fn give_slot(&mut self, page: u32, place: u64) {
        let (at, bit) = bit_of(place);
        let slots = &mut self.slots[page as usize];
        let Some(class) = slots.class() else { return };
        slots.free[index(at)] |= bit;
        self.list(page, class);
        // The last page of a size stays: else a program that allocates and frees one object would change the
        // use of a page each time.
        if self.slots[page as usize].count() == capacity(class) && self.open[class].len() > 1 {
            self.unlist(page);
            self.release(page, 1);
        }
    }

    fn list(&mut self, page: u32, class: usize) {
        if self.slots[page as usize].listed == Listed::No {
            let at = u32::try_from(self.open[class].len()).unwrap_or(u32::MAX);
            self.slots[page as usize].listed = Listed::At(at);
            self.open[class].push(page);
        }
    }

    fn unlist(&mut self, page: u32) {
        let slots = &mut self.slots[page as usize];
        let (Some(class), Listed::At(at)) = (slots.class(), slots.listed) else { return };
        slots.listed = Listed::No;
        self.open[class].swap_remove(at as usize);
        if let Some(&moved) = self.open[class].get(at as usize) {
            self.slots[moved as usize].listed = Listed::At(at);
        }
    }

    /// Lists a page with free slots of a size: one of which others have freed something, or another one.
    pub(super) fn open_page(&mut self, class: usize, look: &mut Look<'_>) -> Result<(), NoRoom> {
        self.look_around(look, SWEEP);
        if !self.open[class].is_empty() {
            return Ok(());
        }
        let page = match self.find_pages(Place { pages: 1, align: 1, base: 0 }, look) {
            Ok(page) => page,
            // Everything was looked at, and something may have been found.
            Err(_) if !self.open[class].is_empty() => return Ok(()),
            Err(none) => return Err(none),
        };
        clear(look.words, page);
        word(look.words, page, KIND).store(Kind::Slots(SIZES[class]).encode(), SeqCst);
        let number = u8::try_from(class + 1).unwrap_or(u8::MAX);
        self.slots[page as usize] = Slots { class: number, listed: Listed::No, free: all_slots(class) };
        self.list(page, class);
        Ok(())
    }

    /// Finds pages that no object has, side by side, and takes them.
    pub(super) fn find_pages(&mut self, place: Place, look: &mut Look<'_>) -> Result<u32, NoRoom> {
        if let Some(first) = self.take_free(place) {
            return Ok(first);
        }
        self.look_around(look, SWEEP);
        let found = self.take_free(place).or_else(|| self.take_unused(place));
        found.or_else(|| self.take_after_full_look(place, look)).ok_or_else(|| NoRoom {
            pages: place.pages,
            part: self.pages,
            free: self.pages - self.used_pages(),
        })
    }

    fn take_after_full_look(&mut self, place: Place, look: &mut Look<'_>) -> Option<u32> {
        self.look_around(look, u32::MAX);
        self.take_free(place).or_else(|| self.take_unused(place))
    }

    /// The shortest free run that holds what is looked for.
    fn take_free(&mut self, place: Place) -> Option<u32> {
        let mut fitting = self.by_length.range((place.pages, 0)..);
        let (first, len, at) = fitting.find_map(|&(len, first)| {
            let at = place.first_from(first)?;
            (at.checked_add(place.pages)? <= first + len).then_some((first, len, at))
        })?;
        self.remove_free(first, len);
        if at > first {
            self.insert_free(first, at - first);
        }
        let end = at + place.pages;
        if end < first + len {
            self.insert_free(end, first + len - end);
        }
        Some(at)
    }

    /// Pages that nobody has used, and free ones before them. What is skipped becomes free.
    fn take_unused(&mut self, place: Place) -> Option<u32> {
        let known = self.known();
        let before = self.free.last_key_value().map(|(&first, &len)| (first, len));
        let before = before.filter(|(first, len)| first + len == known);
        let start = before.map_or(known, |(first, _)| first);
        let at = place.first_from(start)?;
        let end = at.checked_add(place.pages).filter(|end| *end <= self.pages && *end >= known)?;
        self.slots.resize_with(end as usize, Slots::default);
        if let Some((first, len)) = before {
            self.remove_free(first, len);
        }
        if at > start {
            self.insert_free(start, at - start);
        }
        Some(at)
    }

    /// Pages have no object any more.
    pub(super) fn release(&mut self, first: u32, pages: u32) {
        let (mut first, mut pages) = (first, pages);
        self.slots[first as usize] = Slots::default();
        if let Some(&behind) = self.free.get(&(first + pages)) {
            self.remove_free(first + pages, behind);
            pages += behind;
        }
        if let Some((&before, &len)) = self.free.range(..first).next_back()
            && before + len == first
        {
            self.remove_free(before, len);
            (first, pages) = (before, pages + len);
        }
        self.insert_free(first, pages);
    }

    fn insert_free(&mut self, first: u32, pages: u32) {
        self.free.insert(first, pages);
        self.by_length.insert((pages, first));
    }

    fn remove_free(&mut self, first: u32, pages: u32) {
        self.free.remove(&first);
        self.by_length.remove(&(pages, first));
    }

    /// Looks at pages, as many at most, for what others have freed.
    pub(super) fn look_around(&mut self, look: &mut Look<'_>, most: u32) {
        for _ in 0..most.min(self.known()) {
            let page = if self.sweep < self.known() { self.sweep } else { 0 };
            // The other pages of a run say nothing.
            self.sweep = page + self.runs.get(&page).copied().unwrap_or(1);
            self.look_at(page, look);
        }
    }

    fn look_at(&mut self, page: u32, look: &mut Look<'_>) {
        let words = look.words;
        let run = self.runs.get(&page).copied();
        let class = self.slots[page as usize].class();
        if run.is_none() && class.is_none() {
            return;
        }
        // Before the stamp: who frees sets the stamp first.
        let used: [u64; 4] = [0, 1, 2, 3].map(|at| word(words, page, USED + at).load(SeqCst));
        if look.stamp.is_some() && look.stamp == Some(word(words, page, STAMP).load(SeqCst)) {
            return;
        }
        if let Some(pages) = run {
            if used[0] & 1 == 0 {
                self.runs.remove(&page);
                self.release(page, pages);
                look.stale.push(page..page + pages);
            }
            return;
        }
        let Some(class) = class else { return };
        let (all, slots) = (all_slots(class), &mut self.slots[page as usize]);
        let before = slots.count();
        for at in 0..4 {
            slots.free[at] |= all[at] & !used[at];
        }
        let found = slots.count();
        if found == before {
            return;
        }
        look.stale.push(page..page + 1);
        self.list(page, class);
        if found == capacity(class) && self.open[class].len() > 1 {
            self.unlist(page);
            self.release(page, 1);
        }
    }

    /// The rules that hold between any two calls; for tests.
    #[cfg(test)]
    pub(super) fn check(&self, words: &[AtomicU64]) {
        let mut owners: BTreeMap<u32, &str> = BTreeMap::new();
        let mut own = |pages: std::ops::Range<u32>, what| {
            for page in pages {
                assert_eq!(owners.insert(page, what), None, "page {page} twice, {what}");
            }
        };
        for (&first, &pages) in &self.free {
            own(first..first + pages, "free");
            assert!(self.by_length.contains(&(pages, first)) && !self.free.contains_key(&(first + pages)));
        }
        assert_eq!(self.free.len(), self.by_length.len());
        for (&first, &pages) in &self.runs {
            own(first..first + pages, "run");
        }
        for (page, slots) in (0..).zip(&self.slots) {
            let Some(class) = slots.class() else { continue };
            own(page..page + 1, "slots");
            let used: [u64; 4] = [0, 1, 2, 3].map(|at| word(words, page, USED + at).load(SeqCst));
            assert!((0..4).all(|at| used[at] & slots.free[at] == 0), "page {page}");
            match slots.listed {
                Listed::At(at) => {
                    assert_eq!((self.open[class][at as usize], slots.count() > 0), (page, true))
                }
                Listed::No => assert_eq!(slots.count(), 0, "page {page}"),
            }
        }
        assert_eq!(owners.len(), self.slots.len(), "a page is nobody's");
    }
}
