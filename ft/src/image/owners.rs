//! Locks of the C library that know their owner by the number that the system has given to the thread:
//! mutexes that are recursive, error-checking or with priority inheritance, and reader–writer locks that a
//! writer has. The thread has another number when its process comes back, and would not be known as the
//! owner: a process is not saved in which a thread has one (docs/decisions/0082-locks-that-know-a-number.md).
//! Robust mutexes are found by the thread's list of them.
//!
//! The layout (glibc's `struct __pthread_mutex_s` and `struct __pthread_rwlock_arch_t`) is part of what
//! programs are compiled with, so it does not change. A lock that is taken has its owner written into it: it
//! is enough to look at pages that have changed.

use super::maps::Mapping;
use super::threads::MOST;
use crate::store::PAGE;
use std::ops::Range;

const WORD: usize = size_of::<u64>();
/// So many words of a page are looked at together.
const AT_ONCE: usize = 16;
/// State and how often its owner has it; the owner and how many use it; its kind and what spins; two places
/// in the list of robust ones.
const MUTEX: usize = 5;
/// Readers and writers that wait; two futexes; nothing; the writer that has it and whether processes share
/// it; nothing, twice; whom it prefers.
const RWLOCK: usize = 7;

/// Kinds of mutexes.
const RECURSIVE: u32 = 1;
const ERROR_CHECKING: u32 = 2;
const TYPE: u32 = 3;
const ROBUST: u32 = 16;
const INHERITS: u32 = 32;
const PROTECTS: u32 = 64;
/// That processes share it, and whether it may be elided.
const BESIDE: u32 = 128 | 256 | 512;
/// Of a state that has a number: that others wait, that the owner has died.
const FLAGS: u32 = 3 << 30;
/// Of a state with a ceiling: what is below it.
const BELOW_CEILING: u32 = (1 << 19) - 1;
/// Of a reader–writer lock's readers: that a writer has it.
const WRITING: u32 = 3;

/// Threads, by their numbers, that may have locks.
pub(super) struct Owners<'a> {
    numbers: ([u32; MOST + 1], usize),
    least: u32,
    most: u32,
    mappings: &'a [Mapping<'a>],
}

impl Default for Owners<'_> {
    fn default() -> Self {
        Owners::new(([0; MOST + 1], 0), &[])
    }
}

impl<'a> Owners<'a> {
    /// So many of the numbers are there. `mappings` are those of the process.
    pub(super) fn new(numbers: ([u32; MOST + 1], usize), mappings: &'a [Mapping<'a>]) -> Owners<'a> {
        let all = || numbers.0[..numbers.1].iter().copied();
        let (least, most) = (all().min().unwrap_or(1), all().max().unwrap_or(0));
        Owners { numbers, least, most, mappings }
    }

    /// Where a lock is that one of the threads has, if its owner is noted in this page.
    ///
    /// # Safety
    /// A page begins there that can be read, and so can all that the mappings say. Nobody changes them.
    pub(super) unsafe fn lock_in(&self, page: usize) -> Option<usize> {
        (page..page + PAGE).step_by(AT_ONCE * WORD).find_map(|first| {
            // SAFETY: they are words of the page.
            let words = unsafe { std::ptr::with_exposed_provenance::<[u64; AT_ONCE]>(first).read() };
            let is_near = |word: &u64| self.is_near(low(*word) & !FLAGS);
            // Nearly always none is. This is asked of all, which the machine does at once.
            if !words.iter().fold(false, |any, word| any | is_near(word)) {
                return None;
            }
            let near = words.iter().enumerate().filter(|(_, word)| is_near(word));
            // SAFETY: as the caller promises.
            near.map(|(i, _)| first + i * WORD).find_map(|at| unsafe { self.lock_around(at, page) })
        })
    }

    fn is_near(&self, number: u32) -> bool {
        (self.least <= number) & (number <= self.most)
    }

    fn is_one_of_them(&self, number: u32) -> bool {
        let (numbers, count) = &self.numbers;
        self.is_near(number) && numbers[..*count].contains(&number)
    }

    /// Where a lock is in which the word at `at` has its owner's number.
    ///
    /// # Safety
    /// As for [`lock_in`](Self::lock_in).
    unsafe fn lock_around(&self, at: usize, page: usize) -> Option<usize> {
        // SAFETY: as the caller promises.
        let mutex = |first| unsafe { self.words::<MUTEX>(first, page) };
        // SAFETY: as the caller promises.
        let rwlock = |first| unsafe { self.words::<RWLOCK>(first, page) };
        let [as_owner, as_state, as_writer] = [at.wrapping_sub(WORD), at, at.wrapping_sub(3 * WORD)];
        if mutex(as_owner).is_some_and(|words| self.is_mutex(&words)) {
            Some(as_owner)
        } else if mutex(as_state).is_some_and(|words| self.is_mutex_that_inherits(&words)) {
            Some(as_state)
        } else if rwlock(as_writer).is_some_and(|words| self.is_rwlock(&words)) {
            Some(as_writer)
        } else {
            None
        }
    }

    /// The words from there on, if all are in the page, or else can be read.
    ///
    /// # Safety
    /// As for [`lock_in`](Self::lock_in).
    unsafe fn words<const N: usize>(&self, first: usize, page: usize) -> Option<[u64; N]> {
        let all = first..first.checked_add(N * WORD)?;
        let is_there = page <= all.start && all.end <= page + PAGE || self.are_readable(&all);
        // SAFETY: as just found out.
        is_there.then(|| unsafe { std::ptr::with_exposed_provenance::<[u64; N]>(first).read() })
    }

    /// Whether these addresses, of two pages at the most, can be read.
    fn are_readable(&self, range: &Range<usize>) -> bool {
        [range.start, range.end - 1].iter().all(|&at| {
            let next = self.mappings.partition_point(|mapping| mapping.start <= at);
            next.checked_sub(1).is_some_and(|i| {
                let mapping = &self.mappings[i];
                at < mapping.end && mapping.is_readable() && !mapping.is_shared && !mapping.is_apart()
            })
        })
    }

    /// Whether it is a mutex that one of the threads has, and that looks at its owner.
    fn is_mutex(&self, words: &[u64; MUTEX]) -> bool {
        let [first, owner, ..] = *words;
        let Some(kind) = kind(words).filter(|kind| kind & !(TYPE | PROTECTS | BESIDE) == 0) else {
            return false;
        };
        let has_ceiling = kind & PROTECTS != 0;
        let state = if has_ceiling { low(first) & BELOW_CEILING } else { low(first) };
        let is_counted = match kind & TYPE {
            RECURSIVE => high(first) > 0,
            ERROR_CHECKING => high(first) == u32::from(has_ceiling),
            _ => false,
        };
        matches!(state, 1 | 2) && is_counted && high(owner) > 0 && self.is_one_of_them(low(owner))
    }

    /// Whether it is a mutex with priority inheritance that one of the threads has: the kernel gives it to
    /// one before that one notes itself as the owner.
    fn is_mutex_that_inherits(&self, words: &[u64; MUTEX]) -> bool {
        let [first, owner, ..] = *words;
        let is_one = kind(words).is_some_and(|kind| kind & !(TYPE | BESIDE) == INHERITS);
        let number = low(first) & !FLAGS;
        is_one && [0, number].contains(&low(owner)) && self.is_one_of_them(number)
    }

    /// Whether it is a reader–writer lock that one of the threads has to write.
    fn is_rwlock(&self, words: &[u64; RWLOCK]) -> bool {
        let [users, futexes, nothing, writer, also_nothing, nor_this, prefers] = *words;
        let is_futex = |word: u32| matches!(word, 1 | 3);
        low(users) & WRITING == WRITING
            && is_futex(low(futexes))
            && is_futex(high(futexes))
            && [nothing, also_nothing, nor_this] == [0; 3]
            && high(writer) <= 1
            && low(prefers) <= 2
            && self.is_one_of_them(low(writer))
    }
}

/// The kind of a mutex that is not robust, if what is behind it is as it would be.
fn kind(&[_, _, kind, previous, next]: &[u64; MUTEX]) -> Option<u32> {
    let is_one = high(kind) == 0 && low(kind) & ROBUST == 0 && [previous, next] == [0; 2];
    is_one.then_some(low(kind))
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: [u32; 2] = [4711, 4720];

    /// Two pages, of which the first ends with so many of the words, and of which a part can be read.
    #[repr(C, align(4096))]
    struct Pages([u64; 2 * PAGE / WORD]);

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    fn mapping(start: usize, end: usize, protection: u32) -> Mapping<'static> {
        let (device, name) = (&b"00:00"[..], &b""[..]);
        Mapping { start, end, protection, is_shared: false, offset: 0, device, inode: 0, name }
    }

    /// The distance at which a lock is found from the beginning of these words, of which the first page ends
    /// with so many; whichever page is looked at. `protection` is that of the second page.
    fn found(words: &[u64], in_first: usize, protection: u32) -> [Option<usize>; 2] {
        let mut pages = Box::new(Pages([0; 2 * PAGE / WORD]));
        let first = PAGE / WORD - in_first;
        pages.0[first..first + words.len()].copy_from_slice(words);
        let begin = pages.0.as_ptr().expose_provenance();
        let middle = begin + PAGE;
        let mappings = [mapping(begin, middle, 1), mapping(middle, middle + PAGE, protection)];
        let mut numbers = [0; MOST + 1];
        numbers[..2].copy_from_slice(&THREADS);
        let owners = Owners::new((numbers, 2), &mappings);
        [begin, middle].map(|page| {
            // SAFETY: both pages can be read.
            let lock = unsafe { owners.lock_in(page) };
            lock.map(|lock| (lock - begin) / WORD - first)
        })
    }

    fn is_held(words: &[u64]) -> bool {
        found(words, words.len(), 1)[0] == Some(0)
    }

    fn recursive() -> [u64; MUTEX] {
        [pair(1, 3), pair(4720, 1), pair(RECURSIVE, 0), 0, 0]
    }

    fn written() -> [u64; RWLOCK] {
        [pair(WRITING, 0), pair(1, 3), 0, pair(4711, 0), 0, 0, 0]
    }

    #[test]
    fn locks_that_a_thread_has_are_found() {
        assert!(is_held(&recursive()) && is_held(&written()));
        for [state, owner, kind] in [
            [pair(2, 1), pair(4711, 2), pair(RECURSIVE | 512, 0)],
            [pair(1, 0), pair(4711, 1), pair(ERROR_CHECKING | 128, 0)],
            [pair(4711 | 1 << 31, 1), pair(4711, 1), pair(INHERITS, 0)],
            [pair(4720 | 1 << 31, 0), pair(0, 0), pair(INHERITS | RECURSIVE, 0)],
            [pair(9 << 19 | 1, 1), pair(4711, 1), pair(PROTECTS | RECURSIVE, 0)],
            [pair(9 << 19 | 2, 1), pair(4711, 1), pair(PROTECTS | ERROR_CHECKING, 0)],
        ] {
            assert!(is_held(&[state, owner, kind, 0, 0]), "{state:x} {owner:x} {kind:x}");
        }
        let waited_for = [pair(WRITING | 4 | 2 << 3, 1), pair(3, 3), 0, pair(4720, 1), 0, 0, 2];
        assert!(is_held(&waited_for));
    }

    /// It is found where its owner is noted: that page was written when the lock was taken.
    #[test]
    fn a_lock_that_lies_in_two_pages_is_found_if_both_can_be_read() {
        for in_first in 1..MUTEX {
            let expected = if in_first > 1 { [Some(0), None] } else { [None, Some(0)] };
            assert_eq!(found(&recursive(), in_first, 1), expected, "{in_first}");
            assert_eq!(found(&recursive(), in_first, 0), [None; 2], "{in_first}");
        }
        for in_first in 1..RWLOCK {
            let expected = if in_first > 3 { [Some(0), None] } else { [None, Some(0)] };
            assert_eq!(found(&written(), in_first, 1), expected, "{in_first}");
        }
    }

    #[test]
    fn what_only_looks_like_a_lock_is_none() {
        for (place, word) in [
            (0, pair(0, 1)),                  // nobody has it
            (0, pair(3, 1)),                  // no state
            (0, pair(1, 0)),                  // never taken
            (1, pair(4712, 1)),               // the number of no thread
            (1, pair(4720, 0)),               // used by nobody
            (2, pair(RECURSIVE | 4, 0)),      // no kind
            (2, pair(RECURSIVE | ROBUST, 0)), // one of those in a list
            (2, pair(RECURSIVE, 1)),          // a kind that does not spin
            (2, pair(ERROR_CHECKING, 0)),     // taken three times
            (2, 0),                           // a kind that does not look at numbers
            (3, 1),                           // in no list
            (4, 1),
        ] {
            let mut words = recursive();
            words[place] = word;
            assert!(!is_held(&words), "{place} {word:x}");
        }
        for (place, word) in [
            (0, pair(1, 0)),
            (1, pair(0, 1)),
            (1, pair(1, 2)),
            (2, 1),
            (3, pair(4712, 0)),
            (3, pair(4711, 2)),
            (4, 1),
            (5, 1),
            (6, 3),
        ] {
            let mut words = written();
            words[place] = word;
            assert!(!is_held(&words), "{place} {word:x}");
        }
        let inherits = [pair(4711, 1), pair(4720, 1), pair(INHERITS, 0), 0, 0];
        assert!(!is_held(&inherits), "its owner is not the one that the kernel knows");
    }
}
