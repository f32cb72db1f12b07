//! What objects of synchronisation are made of where they lie in memory that ranks share: a [`Record`] an
//! object, and a [`WaitSlot`] for each thread that waits, or has a reader–writer lock to read.
//!
//! All words are atomic, as threads of several processes are at them. A record is changed under its guard
//! only. A slot is its thread's own until it is in a queue; then it is changed under the guard of the queue's
//! object, or, out of a condition's queue and not yet in a lock's, by the thread that gives the signal.
//! Threads of the same rank look at slots without a guard, to tell what is used and awaited.

use scash_proto::node::{ObjectKind, OwnNumber};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// An object. All zeros is one that nobody has used.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct Record {
    /// The lock on all that follows ([`Parking::lock`](scash_comm::shm::Parking::lock)).
    pub(super) guard: AtomicU32,
    /// What the object is ([`encode_kind`]); 0 as long as nobody has used it. Of one that a single rank has
    /// made, its number.
    pub(super) kind: AtomicU32,
    /// The number that decides whom it lets go on ([`Request::next`]).
    pub(super) value: AtomicU64,
    /// The thread that has the lock, or has it to write ([`ThreadId`]).
    pub(super) owner: AtomicU64,
    /// Slots of those that wait, in the order in which they came: the first,
    pub(super) first: AtomicU32,
    /// and the last.
    pub(super) last: AtomicU32,
    /// Slots of those that have it to read: the first.
    pub(super) readers: AtomicU32,
}

/// Where a thread waits for an object, or is known to have it.
#[repr(C, align(64))]
#[derive(Default)]
pub(super) struct WaitSlot {
    /// Opened when the thread has got what it waits for ([`Parking::wait`](scash_comm::shm::Parking::wait)).
    pub(super) gate: AtomicU32,
    /// The slot behind this one.
    pub(super) next: AtomicU32,
    /// [`FREE`], [`WAITS`] or [`READS`].
    pub(super) role: AtomicU32,
    /// The number of the object.
    pub(super) object: AtomicU32,
    /// What it waits for ([`Request::encode`]); for a condition, also the lock that goes with it: one word,
    /// as who looks without a guard must not see one without the other.
    pub(super) request: AtomicU64,
    /// For how much of it.
    pub(super) least: AtomicU64,
    /// The thread.
    pub(super) who: AtomicU64,
}

/// Nobody's slot.
pub(super) const FREE: u32 = 0;
/// The slot of one that waits.
pub(super) const WAITS: u32 = 1;
/// The slot of one that reads.
pub(super) const READS: u32 = 2;

const _: () = assert!(size_of::<Record>() == 64 && size_of::<WaitSlot>() == 64);

/// A thread of a rank, as a number that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadId(pub(super) u64);

/// Bits of a thread's number within its rank.
const THREAD: u32 = 43;

impl ThreadId {
    pub(super) fn new(rank: u32, thread: u64) -> ThreadId {
        ThreadId(u64::from(rank) << THREAD | thread & ((1 << THREAD) - 1))
    }

    pub(super) fn rank(self) -> u32 {
        u32::try_from(self.0 >> THREAD).unwrap_or(u32::MAX)
    }

    pub(super) fn thread(self) -> u64 {
        self.0 & ((1 << THREAD) - 1)
    }
}

/// What an object is, in a record. Never 0.
pub(super) fn encode_kind(kind: ObjectKind) -> u32 {
    match kind {
        ObjectKind::Lock => 1,
        ObjectKind::RwLock => 2,
        ObjectKind::Semaphore(_) => 3,
        ObjectKind::Condition => 4,
        ObjectKind::Flag => 5,
    }
}

/// What the record of an object says if it is of that kind. Nothing is [`NO_OBJECT`].
#[inline]
pub(super) fn encode(number: u32, kind: ObjectKind) -> u32 {
    match OwnNumber::of(number).map(OwnNumber::kind) {
        None => encode_kind(kind),
        Some(found) if found.map(encode_kind) == Some(encode_kind(kind)) => number,
        Some(_) => NO_OBJECT,
    }
}

/// A number that no object has.
const NO_OBJECT: u32 = u32::MAX;

/// The number that an object of a kind has in the beginning.
fn first_value(kind: ObjectKind) -> u64 {
    if let ObjectKind::Semaphore(count) = kind { count.into() } else { 0 }
}

/// The value of a reader–writer lock that a thread has to write. Smaller ones count readers.
const WRITTEN: u64 = u64::MAX;

// Requests as words of a slot.
const LOCK: u64 = 1;
const READ: u64 = 2;
const WRITE: u64 = 3;
const TAKE: u64 = 4;
const AT_LEAST: u64 = 5;
const WAKEUP: u64 = 6;
const GONE: u64 = 7;
/// Where a lock's number begins in a request.
const WITH_LOCK: u32 = 32;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Lock,
    Read,
    Write,
    Take,
    AtLeast(u64),
    /// A condition's signal; and then the lock of that number.
    Wakeup(u32),
    /// Nothing any more: the lock that the thread was to get after a signal was destroyed.
    Gone,
}

impl Request {
    /// The value of an object of the right kind after it has granted this; `None` while it does not.
    ///
    /// | kind | value | grants |
    /// |---|---|---|
    /// | lock | 1 while a thread has it | `Lock` at 0 |
    /// | reader–writer lock | readers, or [`WRITTEN`] | `Read` below that, `Write` at 0 |
    /// | semaphore | its count | `Take` above 0 |
    /// | flag | its number | `AtLeast` what it is, or less |
    /// | condition | – | nothing: a signal moves the thread to the lock |
    pub(super) fn next(self, value: u64) -> Option<u64> {
        match self {
            Request::Lock => (value == 0).then_some(1),
            Request::Read => (value < WRITTEN - 1).then(|| value + 1),
            Request::Write => (value == 0).then_some(WRITTEN),
            Request::Take => value.checked_sub(1),
            Request::AtLeast(least) => (value >= least).then_some(value),
            Request::Wakeup(_) | Request::Gone => None,
        }
    }

    /// Whether the thread that it is granted to is alone then, and the object's owner.
    pub(super) fn owns(self) -> bool {
        matches!(self, Request::Lock | Request::Write)
    }

    pub(super) fn encode(self) -> (u64, u64) {
        match self {
            Request::Lock => (LOCK, 0),
            Request::Read => (READ, 0),
            Request::Write => (WRITE, 0),
            Request::Take => (TAKE, 0),
            Request::AtLeast(least) => (AT_LEAST, least),
            Request::Wakeup(lock) => (WAKEUP | u64::from(lock) << WITH_LOCK, 0),
            Request::Gone => (GONE, 0),
        }
    }
}

impl WaitSlot {
    pub(super) fn note(&self, object: u32, role: u32, who: ThreadId, request: Request) {
        let (request, least) = request.encode();
        self.object.store(object, Relaxed);
        self.who.store(who.0, Relaxed);
        self.least.store(least, Relaxed);
        self.next.store(0, Relaxed);
        // Release, for a thread of the rank that looks without the guard: with the request it sees the
        // object.
        self.request.store(request, Release);
        self.role.store(role, SeqCst);
    }

    pub(super) fn request(&self) -> Request {
        let request = self.request.load(Acquire);
        let least = self.least.load(Relaxed);
        match request & ((1 << WITH_LOCK) - 1) {
            LOCK => Request::Lock,
            READ => Request::Read,
            WRITE => Request::Write,
            TAKE => Request::Take,
            AT_LEAST => Request::AtLeast(least),
            GONE => Request::Gone,
            _ => Request::Wakeup(u32::try_from(request >> WITH_LOCK).unwrap_or(u32::MAX)),
        }
    }

    pub(super) fn who(&self) -> ThreadId {
        ThreadId(self.who.load(Relaxed))
    }
}

impl Record {
    /// Makes it an object that nobody has used.
    pub(super) fn begin(&self, number: u32, kind: ObjectKind) {
        self.value.store(first_value(kind), Relaxed);
        self.kind.store(encode(number, kind), Relaxed);
    }

    /// Makes it one that is not there. The guard stays taken.
    pub(super) fn end(&self) {
        self.kind.store(0, Relaxed);
        self.value.store(0, Relaxed);
        self.owner.store(0, Relaxed);
    }

    /// Makes it one that nobody has used.
    pub(super) fn clear(&self) {
        let Record { guard, kind, value, owner, first, last, readers } = self;
        [guard, kind, first, last, readers].into_iter().for_each(|word| word.store(0, Relaxed));
        [value, owner].into_iter().for_each(|word| word.store(0, Relaxed));
    }
}
