//! What simulated ranks do: intervals of memory accesses, each ended by a collective call.
//!
//! A program must be free of data races: in one interval a byte is written by at most one thread, and read
//! only by threads that may know its value (its writer, or anybody if nobody writes it); or locks and the
//! like bring all accesses to it in an order; or all are atomic operations. Then sequential consistency is
//! promised, and one flat memory is the oracle for every read.

use scash_proto::heap::Heap;
use scash_proto::node::{Collective, LEAST_OWN, ObjectKind, Outcome};
use scash_proto::wire::sync::{Request, Signal};
use scash_proto::{Access, AllocOptions, PAGE_SIZE, Pages, Protocol, Rank};
use std::num::NonZeroU32;

/// Some bytes of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The page.
    pub page: u32,
    /// Offset of the first byte.
    pub first: usize,
    /// Number of bytes, at least one.
    pub len: usize,
}

impl Span {
    /// A whole page.
    pub fn page(page: u32) -> Self {
        Span { page, first: 0, len: scash_proto::PAGE_SIZE }
    }

    /// The offsets within the page.
    pub fn range(self) -> std::ops::Range<usize> {
        self.first..self.first + self.len
    }
}

/// A word of memory, of 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The page.
    pub page: u32,
    /// Offset of the first byte, a multiple of `width`.
    pub first: usize,
    /// Number of bytes.
    pub width: usize,
}

impl Word {
    /// Its bytes.
    pub fn span(self) -> Span {
        Span { page: self.page, first: self.first, len: self.width }
    }
}

/// What an atomic operation makes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leaves it.
    Load,
    /// Adds to it.
    Add(u64),
    /// Replaces it.
    Swap(u64),
    /// Replaces it if its lowest bit is not set.
    SwapIfEven(u64),
}

impl Change {
    /// What comes after `before`.
    pub fn apply(self, before: u64) -> u64 {
        match self {
            Change::Load => before,
            Change::Add(n) => before.wrapping_add(n),
            Change::Swap(n) => n,
            Change::SwapIfEven(n) => {
                if before.is_multiple_of(2) {
                    n
                } else {
                    before
                }
            }
        }
    }
}

/// The least name of an object that one rank makes: no such number has all these bits.
pub const FIRST_NAME: u32 = LEAST_OWN | 7 << 28;

/// One access or call of an application thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads bytes, and compares them with the oracle.
    Read(Span),
    /// Writes bytes that depend on the number.
    Write(Span, u8),
    /// Writes the bytes that are there already: a store that must not disturb anybody.
    Rewrite(Span),
    /// Writes bytes that depend on the number, and some time later those that were there before: whoever
    /// looked meanwhile must not keep what it saw.
    Flicker(Span, u8),
    /// `Input::WriteBack`.
    WriteBack(Pages),
    /// `Input::ReadHome`.
    ReadHome(Pages),
    /// `Input::SetHome`.
    SetHome(Pages, Rank),
    /// `Input::SetProtocol`.
    SetProtocol(u32, Protocol),
    /// An atomic operation on a word that is not touched otherwise in this interval; what was there is
    /// compared with the oracle.
    Operate(Word, Change),
    /// The same by a plain load and a plain store: nobody else may touch the word meanwhile. What was there,
    /// if that matters, is told in the report.
    Plainly(Word, Change),
    /// Goes back by so many operations, unless the number that the thread's last [`Plainly`](Op::Plainly)
    /// or [`Operate`](Op::Operate) found is at least this.
    Until {
        /// The number.
        least: u64,
        /// How many operations it goes back.
        back: usize,
    },
    /// Comes to a reduction with the first number; the sum of all ranks' is the second. All ranks come to as
    /// many in an interval, by their first threads, and hold no lock then.
    Reduce(u64, u64),
    /// Takes a lock.
    Lock(u32),
    /// Takes a lock if it is free; if not, goes on behind the operation that would have given it back.
    TryLock(u32),
    /// Gives it back.
    Unlock(u32),
    /// Makes an object by this rank alone. From then on it has this name, of [`FIRST_NAME`] and above.
    MakeOwn(u32, ObjectKind),
    /// Destroys such an object.
    Unmake(u32),
    /// Waits for something of an object.
    Request(u32, Request),
    /// Lets others go on with an object.
    Signal(u32, Signal),
    /// From now on this event has happened. The lock that it is told with is held.
    Announce(u32),
    /// Waits until an event has happened: as long as it has not, for the signal of a condition. The lock is
    /// held.
    WaitFor {
        /// The condition.
        condition: u32,
        /// The lock.
        lock: u32,
        /// The event.
        event: u32,
    },
}

impl Op {
    /// What a thread must be allowed for it, if it is a plain access to memory.
    pub fn access(self) -> Option<(Access, Span)> {
        match self {
            Op::Read(span) => Some((Access::Read, span)),
            Op::Write(span, _) | Op::Rewrite(span) | Op::Flicker(span, _) => Some((Access::Write, span)),
            Op::Plainly(word, Change::Load) => Some((Access::Read, word.span())),
            Op::Plainly(word, _) => Some((Access::Write, word.span())),
            _ => None,
        }
    }
}

/// What all ranks do until they meet, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Operations by rank and thread. Each rank has at least one thread.
    pub work: Vec<Vec<Vec<Op>>>,
    /// The call that ends the interval.
    pub end: Collective,
    /// What every rank must be told then.
    pub outcome: Outcome,
    /// Pages that hold zeros from here on, because they were allocated just now.
    pub zeroed: Option<Pages>,
}

impl Interval {
    /// An interval in which `ranks` ranks, of one thread each, do nothing and come to the barrier.
    pub fn idle(ranks: u32) -> Self {
        Interval {
            work: vec![vec![Vec::new()]; ranks as usize],
            end: Collective::Barrier,
            outcome: Outcome::Done,
            zeroed: None,
        }
    }

    /// Adds an operation to the first thread of a rank.
    pub fn push(&mut self, rank: u32, op: Op) {
        self.work[rank as usize][0].push(op);
    }
}

/// A program: hands out interval after interval.
pub trait Program {
    /// The next interval, or `None` after the last.
    fn next(&mut self) -> Option<Interval>;
}

impl<F: FnMut() -> Option<Interval>> Program for F {
    fn next(&mut self) -> Option<Interval> {
        self()
    }
}

impl Program for std::vec::IntoIter<Interval> {
    fn next(&mut self) -> Option<Interval> {
        Iterator::next(self)
    }
}

/// A program that is written down interval by interval.
#[derive(Debug)]
pub struct Script {
    ranks: u32,
    heap: Heap<AllocOptions>,
    zeroed: Option<Pages>,
    /// Objects of synchronisation that were made.
    made: u32,
    intervals: Vec<Interval>,
}

impl Script {
    /// An empty program for so many ranks, and a region of so many pages.
    pub fn new(ranks: u32, pages: u32) -> Self {
        Script { ranks, heap: Heap::new(pages), zeroed: None, made: 0, intervals: Vec::new() }
    }

    /// Appends an interval: `fill` says what is done, and the memory barrier ends it.
    pub fn interval(&mut self, fill: impl FnOnce(&mut Interval)) {
        let mut interval = Interval { zeroed: self.zeroed.take(), ..Interval::idle(self.ranks) };
        fill(&mut interval);
        self.intervals.push(interval);
    }

    /// Appends the allocation of so many pages, and tells where they will be.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn alloc(&mut self, pages: u32, options: AllocOptions) -> Pages {
        let bytes = u64::from(pages) * PAGE_SIZE as u64;
        let align = NonZeroU32::new(options.block).unwrap_or(NonZeroU32::MIN);
        let a = self.heap.alloc(bytes, align, options).expect("a test's region holds what it allocates");
        let pages = Pages { first: a.first, count: a.pages };
        self.interval(|i| {
            i.end = Collective::Alloc(bytes, options);
            i.outcome = Outcome::Allocated(pages);
        });
        self.zeroed = Some(pages);
        pages
    }

    /// Appends the making of so many objects of synchronisation, and tells the number of the first.
    pub fn make(&mut self, kind: ObjectKind, count: u32) -> u32 {
        let first = self.made;
        self.made += count;
        self.interval(|i| {
            i.end = Collective::Make(kind, count);
            i.outcome = Outcome::Made(first);
        });
        first
    }

    /// Appends the end of such objects.
    pub fn destroy(&mut self, kind: ObjectKind, first: u32, count: u32) {
        self.interval(|i| i.end = Collective::Destroy { kind, first, count });
    }

    /// Appends the end of an allocation.
    ///
    /// # Panics
    /// If it is none.
    pub fn free(&mut self, area: Pages) {
        self.heap.free(area.first).expect("an allocation of this script");
        self.interval(|i| i.end = Collective::Free(area.first));
    }

    /// The same program on fewer ranks, each of which has so many of these ranks' work as its threads.
    pub fn on_threads(mut self, threads: u32) -> Self {
        self.ranks /= threads;
        for interval in &mut self.intervals {
            let mut work = std::mem::take(&mut interval.work).into_iter();
            let mut next = || work.by_ref().take(threads as usize).flatten().collect::<Vec<_>>();
            interval.work = (0..self.ranks).map(|_| next()).collect();
        }
        self
    }

    /// Number of intervals so far.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The program.
    pub fn into_program(self) -> std::vec::IntoIter<Interval> {
        self.intervals.into_iter()
    }
}
