//! Locks of the C library that know their owner by the number that the system has given to the thread:
//! mutexes that are recursive, error-checking, robust or with priority inheritance, and reader–writer locks
//! that a writer has. The threads of a process that comes back have other numbers. So whoever copies pages
//! looks for such locks in them, and when all threads have been started, and none has gone on, the locks get
//! the new numbers (docs/decisions/0082-locks-get-the-numbers-of-their-threads.md).
//!
//! A lock is known by all its words together (glibc's `struct __pthread_mutex_s` and
//! `struct __pthread_rwlock_arch_t`, whose layout programs are compiled with, so that it does not change).
//! What looks so and is none would have to have the number of a thread of this process between five other
//! fields that fit.

use super::area;
use super::steps::{Threads, fail};
use super::thread;
use super::threads::MOST;

/// A mutex: its state and how often its owner has it, its owner and how many use it, its kind.
const MUTEX_WORDS: usize = 3;
/// A reader–writer lock up to its owner: readers and waiting writers, two futexes, nothing, the writer that
/// has it and whether processes share it.
const RWLOCK_WORDS: usize = 4;

const RECURSIVE: u32 = 1;
const ERROR_CHECKING: u32 = 2;
const TYPE: u32 = 3;
const ROBUST: u32 = 16;
const INHERITS: u32 = 32;
const PROTECTS: u32 = 64;
/// All bits of a mutex's kind: those above, that processes share it, and whether it may be elided.
const KINDS: u32 = TYPE | ROBUST | INHERITS | PROTECTS | 128 | 256 | 512;
/// Bits of a state that has the owner's number, besides the number: that others wait, that the owner has
/// died.
const FLAGS: u32 = 3 << 30;
/// Bits of a state below the ceiling, if the mutex has one.
const BELOW_CEILING: u32 = (1 << 19) - 1;
/// Bits of a reader–writer lock's first word when a writer has it.
const WRITING: u32 = 3;

/// Marks in an address that the word before has the number, too.
const TWICE: usize = 1;

/// A search for locks of the threads of an image.
pub(super) struct LockSearch {
    threads: Threads,
    /// The least number of a thread, and how far above it the others are at most.
    least: u32,
    span: u32,
    /// Memory that lies one behind the other, as far as it was looked at, and its last word.
    first: usize,
    end: usize,
    before: u64,
    found: usize,
}

impl LockSearch {
    /// # Safety
    /// There are so many threads, and they stay where they are as long as the search is used. The scratch
    /// memory is mapped.
    #[inline(always)]
    pub(super) unsafe fn new(threads: Threads) -> LockSearch {
        let (mut least, mut most, mut i) = (u32::MAX, 0, 0);
        while i < threads.count {
            // SAFETY: as the caller promises.
            let number = unsafe { thread::number_of(threads.first.wrapping_add(i)) };
            least = if number < least { number } else { least };
            most = if number > most { number } else { most };
            i += 1;
        }
        let span = most.wrapping_sub(least);
        LockSearch { threads, least, span, first: 0, end: 0, before: 0, found: 0 }
    }

    /// Looks for locks in memory, in the order of addresses.
    ///
    /// # Safety
    /// There are so many bytes, a multiple of 8. Nobody changes them.
    #[inline(always)]
    pub(super) unsafe fn look(&mut self, from: usize, len: usize) {
        if from != self.end {
            (self.first, self.before) = (from, 0);
        }
        self.end = from + len;
        let (mut at, mut before) = (from, self.before);
        while at < self.end {
            // SAFETY: the caller's memory.
            let word = unsafe { read(at) };
            if self.may_own(before) && self.behind_first(at) + 1 >= MUTEX_WORDS {
                // SAFETY: so many words of memory are there.
                let marks = unsafe { is_mutex(before, word, at) };
                self.note(at - 8, marks);
            }
            if self.may_own(word) && self.behind_first(at) + 1 >= RWLOCK_WORDS {
                // SAFETY: likewise.
                let marks = unsafe { is_rwlock(at) };
                self.note(at, marks);
            }
            before = word;
            at += 8;
        }
        self.before = before;
    }

    /// How many words are between the first one and this one.
    #[inline(always)]
    fn behind_first(&self, at: usize) -> usize {
        (at - self.first) / 8
    }

    /// Whether a word begins with the number of one of the threads, and goes on with not more than there may
    /// be.
    #[inline(always)]
    fn may_own(&self, word: u64) -> bool {
        let (number, users) = (low(word), high(word));
        number.wrapping_sub(self.least) <= self.span
            && users as usize <= MOST + 1
            && self.place_of(number).is_some()
    }

    /// Which thread had this number.
    #[inline(always)]
    fn place_of(&self, number: u32) -> Option<usize> {
        let mut i = 0;
        while i < self.threads.count {
            // SAFETY: there are so many threads.
            if unsafe { thread::number_of(self.threads.first.wrapping_add(i)) } == number {
                return Some(i);
            }
            i += 1;
        }
        None
    }

    #[inline(always)]
    fn note(&mut self, at: usize, marks: Option<usize>) {
        if let Some(marks) = marks {
            let (list, room) = area::part(area::LOCKS);
            if self.found == room / 8 {
                fail();
            }
            let to = list.wrapping_add(self.found * 8).cast::<u64>();
            // SAFETY: there is room in the scratch memory, which nobody else uses.
            unsafe { to.write((at | marks) as u64) };
            self.found += 1;
        }
    }

    /// Writes into all locks that were found which number their owner has now.
    ///
    /// # Safety
    /// `numbers` has one for each thread. Nobody uses the locks.
    #[allow(clippy::multiple_unsafe_ops_per_block, reason = "one promise of the caller for all of it")]
    #[inline(always)]
    pub(super) unsafe fn hand_over(&self, numbers: *const u32) {
        let (list, _) = area::part(area::LOCKS);
        let mut i = 0;
        while i < self.found {
            // SAFETY: `note` has written so many addresses, of words that were there, and the caller promises
            // the rest.
            unsafe {
                let noted = list.wrapping_add(i * 8).cast::<u64>().read() as usize;
                let owner: *mut u32 = std::ptr::with_exposed_provenance_mut(noted & !TWICE);
                if let Some(place) = self.place_of(owner.read()) {
                    let number = numbers.wrapping_add(place).read();
                    owner.write(number);
                    if noted & TWICE != 0 {
                        let state = owner.wrapping_sub(2);
                        state.write(state.read() & FLAGS | number);
                    }
                }
            }
            i += 1;
        }
    }
}

#[inline(always)]
fn low(word: u64) -> u32 {
    word as u32
}

#[inline(always)]
fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// # Safety
/// There is a word.
#[inline(always)]
unsafe fn read(at: usize) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::with_exposed_provenance::<u64>(at).read() }
}

/// Whether `owner` is the second word of a mutex that looks at its owner's number, `kind` at address `at` the
/// third; and what is to be marked.
///
/// # Safety
/// The words before are there.
#[inline(always)]
unsafe fn is_mutex(owner: u64, kind: u64, at: usize) -> Option<usize> {
    // SAFETY: as the caller promises.
    let first = unsafe { read(at - 16) };
    let (state, times, kind) = (low(first), high(first), low(kind));
    let owner_counts = kind & (ROBUST | INHERITS) != 0 || matches!(kind & TYPE, RECURSIVE | ERROR_CHECKING);
    let has_number = kind & (ROBUST | INHERITS) != 0;
    let is_held = if has_number {
        state & !FLAGS == low(owner)
    } else if kind & PROTECTS != 0 {
        matches!(state & BELOW_CEILING, 1 | 2)
    } else {
        matches!(state, 1 | 2)
    };
    let is_counted = kind & TYPE != RECURSIVE || times > 0;
    let is_one = kind & !KINDS == 0 && owner_counts && is_held && is_counted && high(owner) > 0;
    if is_one { Some(if has_number { TWICE } else { 0 }) } else { None }
}

/// Whether the word is the one of a reader–writer lock that says which writer has it.
///
/// # Safety
/// The words before are there.
#[inline(always)]
unsafe fn is_rwlock(at: usize) -> Option<usize> {
    // SAFETY: as the caller promises.
    let words = unsafe { std::ptr::with_exposed_provenance::<[u64; RWLOCK_WORDS]>(at - 24).read() };
    let [users, futexes, nothing, owner] = words;
    let is_futex = |word: u32| word & !2 == 1;
    let is_one = low(users) & WRITING == WRITING
        && is_futex(low(futexes))
        && is_futex(high(futexes))
        && nothing == 0
        && high(owner) <= 1;
    if is_one { Some(0) } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::thread::Thread;
    use super::*;

    /// Threads of a process that was saved, and the numbers that they have now.
    const BEFORE: [u64; 2] = [4711, 4720];
    const NOW: [u32; 2] = [88, 99];

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    /// What becomes of the words, which are looked at in parts that end there.
    fn after(words: &[u64], ends: &[usize]) -> Vec<u64> {
        area::have_scratch().unwrap();
        let threads = BEFORE.map(Thread::numbered);
        let mut words = words.to_vec();
        let begin = words.as_mut_ptr().expose_provenance();
        // SAFETY: the threads, and the words, stay where they are.
        let mut locks = unsafe { LockSearch::new(Threads { first: threads.as_ptr(), count: 2, leader: 0 }) };
        let mut from = 0;
        for end in ends.iter().copied().chain([words.len()]) {
            // SAFETY: a part of the words.
            unsafe { locks.look(begin + from * 8, (end - from) * 8) };
            from = end;
        }
        // SAFETY: as many numbers as threads.
        unsafe { locks.hand_over(NOW.as_ptr()) };
        words
    }

    fn recursive() -> [u64; 5] {
        [pair(1, 3), pair(4720, 1), pair(RECURSIVE, 0), 0, 0]
    }

    fn written() -> [u64; 7] {
        [pair(WRITING, 0), pair(1, 3), 0, pair(4711, 0), 0, 0, 0]
    }

    #[test]
    fn locks_that_are_held_get_the_new_number_of_their_thread() {
        let held = [
            [pair(2, 1), pair(4711, 2), pair(RECURSIVE | 512, 0)],
            [pair(1, 0), pair(4711, 1), pair(ERROR_CHECKING, 7)],
            [pair(4711 | 1 << 31, 1), pair(4711, 1), pair(INHERITS, 0)],
            [pair(4711, 1), pair(4711, 1), pair(ROBUST | RECURSIVE, 0)],
            [pair(9 << 19 | 1, 1), pair(4711, 1), pair(PROTECTS | RECURSIVE, 0)],
        ];
        for words in held {
            let mut new = words;
            new[1] = pair(88, high(words[1]));
            if low(words[0]) & !FLAGS == 4711 {
                new[0] = pair(88 | low(words[0]) & FLAGS, high(words[0]));
            }
            assert_eq!(after(&words, &[]), new);
        }
        let mut new = written();
        new[3] = pair(88, 0);
        assert_eq!(after(&written(), &[]), new);
    }

    #[test]
    fn a_lock_that_lies_in_two_pages_is_found_wherever_they_meet() {
        let locks = [&recursive()[..], &written()].concat();
        for end in 1..locks.len() {
            let new = after(&locks, &[end]);
            assert_eq!((new[1], new[8]), (pair(99, 1), pair(88, 0)), "{end}");
        }
    }

    /// What is near is not the lock's if there is other memory between: the store has no pages of zeros.
    #[test]
    fn words_of_memory_that_lies_apart_are_no_lock() {
        area::have_scratch().unwrap();
        let threads = BEFORE.map(Thread::numbered);
        let words = [pair(1, 1), pair(4720, 1), 7, pair(INHERITS, 0), 0, 0];
        // SAFETY: the threads, and the words, stay where they are.
        let mut locks = unsafe { LockSearch::new(Threads { first: threads.as_ptr(), count: 2, leader: 0 }) };
        for part in [&words[..2], &words[3..]] {
            // SAFETY: so many words.
            unsafe { locks.look(part.as_ptr().expose_provenance(), size_of_val(part)) };
        }
        assert_eq!(locks.found, 0);
    }

    #[test]
    fn what_only_looks_like_a_lock_stays_as_it_is() {
        let near = |place: usize, word: u64| {
            let mut words = recursive();
            words[place] = word;
            words
        };
        for words in [
            near(0, pair(0, 1)),             // nobody has it
            near(0, pair(3, 1)),             // no state
            near(0, pair(1, 0)),             // never taken
            near(1, pair(4712, 1)),          // the number of no thread
            near(1, pair(4720, 0)),          // used by nobody
            near(1, pair(4720, 258)),        // used by more threads than there may be
            near(2, pair(RECURSIVE | 4, 0)), // no kind
            near(2, 0),                      // a kind that does not look at numbers
        ] {
            assert_eq!(after(&words, &[]), words);
        }
        for (place, word) in [(0, pair(1, 0)), (1, pair(0, 1)), (1, pair(1, 2)), (2, 1), (3, pair(4711, 2))] {
            let mut words = written();
            words[place] = word;
            assert_eq!(after(&words, &[]), words);
        }
    }
}
