//! What a rank learns from its own faults: how far to fetch ahead, and which copies are worth being kept up to date.

use super::{Node, Protocol};
use crate::Pages;
use crate::copyset::CopyMode;
use crate::page::{Access, flag};

/// A page fetched again within this many intervals is subscribed to. More than 2, because programs with two arrays that change roles
/// read each one in every second interval.
const REUSE_WITHIN: u8 = 4;
/// Intervals that a subscriber gives a page, once out of its view, to be read again.
const WATCH: u32 = 8;
/// Intervals until a subscribed page is looked at for the first time; doubles with each time that it proves to be read.
const FIRST_LOOK: u32 = 4;

/// Runs of at most this many pages count as short ones.
const SHORT: u32 = 16;

/// Where faults went last in one allocation.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The page behind the last fetch.
    next: u32,
    /// Pages of the run of consecutive fetches that ended there.
    run: u32,
    /// Pages of the last short run, and of the last long one.
    known: [u32; 2],
    /// Runs begun, to expect less from time to time.
    jumps: u32,
}

/// Fetch windows, learnt for each allocation (by its number, modulo a small table).
///
/// A run of consecutive faults is expected to be as long as the last short one before it. If it goes on, each fetch is as long as what the run
/// has had so far, yet ends where the last long run did. So blocks of k consecutive pages that are read as wholes come in one fetch each, also
/// between walks along many of them, and what is fetched behind a run's end is never more than what was read of it.
#[derive(Debug)]
pub(super) struct Streams {
    table: [Stream; 16],
    first: u32,
    most: u32,
}

impl Streams {
    pub(super) fn new(first: u32, most: u32) -> Self {
        let empty = Stream { next: u32::MAX, run: 0, known: [0; 2], jumps: 0 };
        Streams { table: [empty; 16], first, most }
    }

    /// How many pages to fetch, beginning at `page` of allocation number `allocation`.
    pub(super) fn window(&mut self, allocation: u64, page: u32) -> u32 {
        let (first, most) = (self.first, self.most);
        let s = &mut self.table[(allocation % 16) as usize];
        if page != s.next {
            s.jumps += 1;
            let ended = if s.jumps.is_multiple_of(64) { s.run / 2 } else { s.run };
            s.known[usize::from(ended > SHORT)] = ended;
            s.run = 0;
        }
        let [short, long] = s.known.map(|pages| pages.saturating_sub(s.run));
        if short > 0 {
            return short.min(most);
        }
        let doubled = s.run.clamp(first, most);
        if long > 0 { doubled.min(long) } else { doubled }
    }

    /// Notes what was fetched after all.
    pub(super) fn fetched(&mut self, allocation: u64, pages: Pages) {
        let s = &mut self.table[(allocation % 16) as usize];
        s.run = s.run.saturating_add(pages.count);
        s.next = pages.end();
    }
}

const SLOTS: u32 = 64;

/// Subscribed pages by the interval in which they are to be looked at (modulo 64).
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Vec<Vec<u32>>,
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel { slots: vec![Vec::new(); SLOTS as usize] }
    }
}

impl Wheel {
    fn schedule(&mut self, page: u32, interval: u32, after: u32) {
        let slot = interval.wrapping_add(after.clamp(1, SLOTS - 1)) % SLOTS;
        self.slots[slot as usize].push(page);
    }

    fn take(&mut self, interval: u32) -> Vec<u32> {
        std::mem::take(&mut self.slots[(interval % SLOTS) as usize])
    }
}

impl Node {
    fn protocol(&self, page: u32) -> Protocol {
        self.heap.find(page).map_or(Protocol::Adaptive, |a| a.options.protocol)
    }

    /// The mode in which this rank wants to be a sharer of a page.
    pub(super) fn wanted_mode(&self, page: u32) -> CopyMode {
        match self.protocol(page) {
            Protocol::Invalidate => CopyMode::Invalidate,
            Protocol::Update | Protocol::Adaptive => CopyMode::Update,
        }
    }

    /// Whether a copy that was just fetched is worth a subscription.
    pub(super) fn worth_keeping(&self, page: u32, protocol: Protocol) -> bool {
        let again = || {
            let last = self.table.get(page).fetched();
            last.is_some_and(|then| self.interval.to_le_bytes()[0].wrapping_sub(then) <= REUSE_WITHIN)
        };
        protocol != Protocol::Adaptive || again()
    }

    /// A page became subscribed: looks at it later, if its allocation adapts.
    pub(super) fn watch_later(&mut self, page: u32) {
        if self.protocol(page) == Protocol::Adaptive {
            self.wheel.schedule(page, self.interval, FIRST_LOOK);
        }
    }

    /// Looks at the subscribed pages whose turn it is: those that were taken out of view and not read since are left; others
    /// are taken out of view, or left alone for longer and longer.
    pub(super) fn look_at_subscriptions(&mut self, armed: &mut Vec<u32>) {
        for page in self.wheel.take(self.interval) {
            let mut word = self.table.get(page);
            if !word.has(flag::SUBSCRIBED) || self.protocol(page) != Protocol::Adaptive {
                continue;
            }
            let mut after = WATCH;
            if word.has(flag::ARMED) || word.access() == Access::None {
                word.clear(flag::ARMED | flag::SUBSCRIBED | flag::WATCHED);
                word.set_backoff(0);
                self.table.put(page, word);
                self.leave(page);
                continue;
            } else if word.access() == Access::Write || word.has(flag::DIRTY) {
                // Written here, so used: no need to look.
            } else if word.has(flag::WATCHED) {
                word.clear(flag::WATCHED);
                after = FIRST_LOOK << word.backoff().min(3);
                word.set_backoff(word.backoff() + 1);
            } else {
                word.set(flag::ARMED | flag::WATCHED);
                word.set_access(Access::None);
                armed.push(page);
            }
            self.table.put(page, word);
            self.wheel.schedule(page, self.interval, after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_eight_pages_comes_in_one_fetch_once_its_length_is_known() {
        let mut s = Streams::new(1, 64);
        let mut fetch = |page: u32, limit: u32| {
            let n = s.window(3, page).min(limit);
            s.fetched(3, Pages { first: page, count: n });
            n
        };
        let mut got = vec![];
        let mut page = 100;
        while page < 108 {
            got.push(fetch(page, 108 - page));
            page += got.last().unwrap();
        }
        assert_eq!(got, [1, 1, 2, 4]);
        assert_eq!(fetch(200, 8), 8);
        assert_eq!(fetch(300, 8), 8);
    }

    #[test]
    fn a_run_that_goes_on_past_a_short_one_doubles_up_to_the_end_of_the_last_long_one() {
        let mut s = Streams::new(1, 32);
        let mut walk = |first: u32, pages: u32| {
            let mut got = vec![];
            let mut page = first;
            while page < first + pages {
                let n = s.window(3, page);
                s.fetched(3, Pages { first: page, count: n });
                got.push(n);
                page += n;
            }
            got
        };
        assert_eq!(walk(0, 8), [1, 1, 2, 4]);
        assert_eq!(walk(100, 8), [8]);
        assert_eq!(walk(200, 100), [8, 8, 16, 32, 32, 32]);
        assert_eq!(walk(400, 8), [8], "a long run does not make blocks come with what lies behind them");
        assert_eq!(walk(500, 16), [8, 8]);
        assert_eq!(walk(600, 128), [16, 16, 32, 32, 32]);
    }

    #[test]
    fn a_look_is_never_further_away_than_the_wheel_is_round() {
        let mut w = Wheel::default();
        w.schedule(9, 10, 1000);
        assert_eq!(w.take(10 + 63), [9]);
        assert!(w.take(10 + 63).is_empty());
    }
}
