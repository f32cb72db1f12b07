//! Data races: two ranks give one byte different values, and nothing orders one write before the other.
//!
//! 1. Where a rank compares a page with its twin, it **notes** what it finds (a trace: which bytes, what they
//!    were and what they are, in which interval). In a signal handler nothing may allocate, so traces go to a
//!    log that has room.
//! 2. Between the meetings of the memory barrier each rank **testifies**: it sends its traces to the homes of
//!    the pages.
//! 3. At the end of the barrier the home **compares** (`races/compare.rs`): it compares the traces of several
//!    ranks with each other, and each with what it knows of its own writes.
//!
//! A home has no twins of most of its pages, and no faults. What it wrote itself shows in other ways: in a
//! byte that another rank found different from what it knew (a merge or a put meets a value that should not
//! be there), and in the **base**, a copy of the page as the epoch began. Bases cost a copy of the page each,
//! so not all pages have them: those do that others have written lately, a few of the rest in turns, and for
//! nothing those that were all zeros.
//!
//! What cannot be seen: writes of the value that is there; two writes of one value; writes of two threads of
//! one rank; reads. What locks and other objects order is as coarse as the protocol's intervals are: a lock
//! that goes to another rank orders all that its last holder's rank wrote before.
//!
//! **Invariant:** programs without data races are never accused. Bytes that others brought to a copy (a
//! home's changes on its way into the barrier) can look like the copy's own writes; they are what the home
//! has, and such traces count for nothing.

mod compare;
mod log;
#[cfg(test)]
mod tests;

use crate::diff::{Changes, PageBytes};
use crate::wire::sync::KnownIntervals;
use crate::{Node, PAGE_SIZE, Rank};
use compare::{PageWrites, Writes};
pub use log::WriteTraces;
use log::{Log, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Home pages without a reason that get a base at each barrier, in turns.
const IN_TURNS: usize = 64;
/// Memory barriers for which a page keeps its base after another rank has written it.
const LATELY: u32 = 8;
/// Most such pages.
const MOST_LATELY: usize = 4096;

/// When a write was: in which interval of its rank, and what was known there of the other ranks' intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The interval's number.
    pub number: u64,
    /// The last interval of each other rank that came before.
    pub known: KnownIntervals,
}

/// What a comparison of a page with its twin has found.
#[derive(Debug)]
pub struct Change<'a> {
    /// The page.
    pub page: u32,
    /// What the writes came from, for the one who testifies; 0: not known.
    pub site: u64,
    /// Its twin.
    pub old: &'a PageBytes,
    /// The page.
    pub new: &'a PageBytes,
    /// Where these differ.
    pub changes: &'a Changes,
    /// What the home's frame held before the changes were put there; `None` if they were sent, or what they
    /// are put into is not known.
    pub met: Option<&'a PageBytes>,
}

/// One of the two that race.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    /// The rank.
    pub rank: Rank,
    /// Its own words for where it wrote; empty: not known.
    pub site: String,
}

/// Neighbouring bytes that two ranks wrote, with nothing between the writes that orders them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The page.
    pub page: u32,
    /// The first byte's place in it.
    pub offset: usize,
    /// How many bytes.
    pub len: usize,
    /// Who, by rank.
    pub writers: [Writer; 2],
}

/// Where the frames of a rank are read.
pub trait Frames {
    /// Copies a page's frame out.
    fn load(&self, page: u32, into: &mut PageBytes);
}

impl<F: Fn(u32, &mut PageBytes)> Frames for F {
    fn load(&self, page: u32, into: &mut PageBytes) {
        self(page, into);
    }
}

/// Copies of pages.
type FrameCopies = BTreeMap<u32, Box<PageBytes>>;

/// What one rank knows of writes since the last memory barrier.
#[derive(Clone, Debug)]
pub struct Races {
    /// What this rank has written away from home.
    log: Log,
    /// What ranks writes_sent about pages whose home is here.
    heard: BTreeMap<u32, Vec<Trace>>,
    /// Some rank does not tell all.
    incomplete: bool,
    /// Home pages before the diff of a rank was merged, by meeting. (What belongs to the next barrier can be
    /// there before this one ends.)
    before: BTreeMap<u32, Merges>,
    /// What these hold when all have come to the barrier.
    after: FrameCopies,
    /// Home pages as the epoch began.
    bases: FrameCopies,
    /// Home pages that were zeros as the epoch began, since nobody had touched them.
    zeros: BTreeSet<u32>,
    /// Pages that others have ever written.
    ever: BTreeSet<u32>,
    /// Home pages that others wrote lately, and the barriers for which that counts.
    lately: BTreeMap<u32, u32>,
    /// Where the turns of other pages go on.
    cursor: u32,
}

impl Races {
    /// At the beginning of a job. `room`: bytes of memory that are set aside for what is noted in signal
    /// handlers between two calls; they cost nothing until used.
    pub fn new(room: usize) -> Races {
        Races {
            log: Log::new(room),
            heard: BTreeMap::new(),
            incomplete: false,
            before: BTreeMap::new(),
            after: FrameCopies::new(),
            bases: FrameCopies::new(),
            zeros: BTreeSet::new(),
            ever: BTreeSet::new(),
            lately: BTreeMap::new(),
            cursor: 0,
        }
    }

    /// Notes what this rank has written in a page of another home. What was put is noted without allocation;
    /// should there be no room, it is lost, and the homes are told so.
    pub fn note(&mut self, node: &Node, change: &Change<'_>) {
        self.log.append(node.stamp(), change);
    }

    /// Sees to it that there is room for a while.
    pub fn make_room(&mut self) {
        self.log.make_room();
    }

    /// A rank's diff of a page whose home is here, which belongs to that meeting, is about to be merged.
    pub fn merging(&mut self, from: Rank, meeting: u32, page: u32, frames: &impl Frames) {
        self.before.entry(meeting).or_default().insert((page, from), copy(page, frames));
    }

    /// All have come to the barrier: what this rank has to say, by receiver. `words` says in words where a
    /// site is.
    pub fn send_writes(
        &mut self,
        node: &Node,
        frames: &impl Frames,
        words: impl FnMut(u64) -> String,
    ) -> Vec<(Rank, Vec<u8>)> {
        for &(page, _) in self.before.range(..node.meeting()).flat_map(|(_, pages)| pages.keys()) {
            self.after.entry(page).or_insert_with(|| copy(page, frames));
        }
        self.log.write_traces(node, words)
    }

    /// Takes what a rank has to say, once the node has accepted it.
    pub fn hear(&mut self, write_traces: WriteTraces) {
        self.incomplete |= write_traces.lost;
        for (page, trace) in write_traces.traces {
            self.heard.entry(page).or_default().push(trace);
        }
    }

    /// The barrier ends: finds the races of the epoch that is over, and begins the next one. `own` says in
    /// words where this rank wrote a page.
    pub fn compare_writes(
        &mut self,
        node: &Node,
        frames: &impl Frames,
        own: impl Fn(u32) -> String,
    ) -> Vec<Race> {
        const ZEROS: PageBytes = [0; PAGE_SIZE];
        let mut races = Vec::new();
        let heard = std::mem::take(&mut self.heard);
        let later = self.before.split_off(&node.meeting());
        let before = std::mem::replace(&mut self.before, later);
        for (&page, traces) in &heard {
            let zeros = node.was_zero(page) || self.zeros.contains(&page);
            let case = PageWrites {
                home: node.rank(),
                known: node.known_at_end(),
                base: if zeros { Some(&ZEROS) } else { get(&self.bases, page) },
                // Not if something was merged after that, in another meeting.
                after: get(&self.after, page).filter(|_| !before.values().skip(1).any(|m| has(m, page))),
                complete: !self.incomplete,
                writes: traces
                    .iter()
                    .map(|trace| Writes::of(trace, find(&before, page, trace.rank)))
                    .collect(),
            };
            races.extend(case.compare_writes(page, || own(page)));
        }
        // Not what was heard: some of that may be lost.
        self.ever.extend(before.values().flat_map(|merges| merges.keys()).map(|&(page, _)| page));
        self.begin_epoch(node, frames, heard.keys().copied());
        races
    }

    fn begin_epoch(&mut self, node: &Node, frames: &impl Frames, written: impl Iterator<Item = u32>) {
        self.incomplete = false;
        self.after.clear();
        self.lately.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
        for page in written.take(MOST_LATELY.saturating_sub(self.lately.len())) {
            self.lately.insert(page, LATELY);
        }
        let in_turns = node.pages_at_home(&mut self.cursor, IN_TURNS);
        // To read a frame that nobody has touched would take memory for it. (What others have merged may have
        // changed nothing, and left no trace.)
        let is_zero = |page: &u32| node.is_untouched(*page) && !self.ever.contains(page);
        let (zeros, mut pages): (Vec<u32>, Vec<u32>) = in_turns.into_iter().partition(is_zero);
        self.zeros = zeros.into_iter().collect();
        let is_here = |&page: &u32| node.home(page) == Some(node.rank());
        pages.extend(self.lately.keys().copied().filter(is_here));
        let mut free: Vec<Box<PageBytes>> = std::mem::take(&mut self.bases).into_values().collect();
        for page in pages {
            self.bases.entry(page).or_insert_with(|| match free.pop() {
                Some(mut bytes) => {
                    frames.load(page, &mut bytes);
                    bytes
                }
                None => copy(page, frames),
            });
        }
    }
}

/// Home pages before merges, of one meeting.
type Merges = BTreeMap<(u32, Rank), Box<PageBytes>>;

/// Whether there were any for a page.
fn has(merges: &Merges, page: u32) -> bool {
    merges.range((page, Rank(0))..).next().is_some_and(|(&(found, _), _)| found == page)
}

/// The page before the first merge for a rank.
fn find(before: &BTreeMap<u32, Merges>, page: u32, rank: Rank) -> Option<&PageBytes> {
    before.values().find_map(|merges| merges.get(&(page, rank))).map(|bytes| &**bytes)
}

fn get(copies: &FrameCopies, page: u32) -> Option<&PageBytes> {
    copies.get(&page).map(|bytes| &**bytes)
}

fn copy(page: u32, frames: &impl Frames) -> Box<PageBytes> {
    let mut bytes = Box::new([0; PAGE_SIZE]);
    frames.load(page, &mut bytes);
    bytes
}
