//! Two words in memory that processes share: a [`Lock`], for as long as a few loads and stores take, and a
//! [`Gate`], at which one thread waits until another opens it.
//!
//! These are the words' rules, without the sleeping; [`parking`](super::parking) has that.

use super::sync::{AtomicU32, Ordering};

/// A lock.
///
/// | word | meaning |
/// |---|---|
/// | 0 | free |
/// | 1 | a thread has it |
/// | 2 | and others may sleep until it gives it back |
///
/// 1. A thread that finds 0 puts 1 there (acquire, pairs with 3), as long as it has not slept.
/// 2. A thread that will sleep, or has slept, swaps 2 in. If it was 0, the thread has the lock; otherwise it
///    sleeps as long as the word is 2.
/// 3. The thread that gives the lock back swaps 0 in (release), and wakes one thread if it was 2.
///
/// **Why no wake-up is lost.** The swaps of 2 and 3 are ordered. If 2 is first, 3 finds the 2 and wakes; a
/// sleeper that does not sleep yet finds another word than 2, or another thread's 2, whose 3 is still to
/// come. The thread that is woken goes through 2 again, so it leaves a 2 for others that sleep.
#[derive(Clone, Copy)]
pub(crate) struct Lock<'a>(pub(crate) &'a AtomicU32);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// What a thread that waits for a [`Lock`] sleeps at.
pub(crate) const WAITED_FOR: u32 = 2;

impl Lock<'_> {
    /// Step 1: whether the thread has the lock now.
    #[inline]
    pub(crate) fn take(self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether nobody has the lock at this moment.
    #[inline]
    pub(crate) fn is_free(self) -> bool {
        self.0.load(Ordering::Relaxed) == FREE
    }

    /// Step 2, until the thread has the lock. `sleep` sleeps as long as the word is [`WAITED_FOR`], or less.
    pub(crate) fn sleep_for<E>(self, mut sleep: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        while self.0.swap(WAITED_FOR, Ordering::Acquire) != FREE {
            sleep()?;
        }
        Ok(())
    }

    /// Step 3: whether a thread is to be woken.
    #[inline]
    pub(crate) fn give_back(self) -> bool {
        self.0.swap(FREE, Ordering::Release) == WAITED_FOR
    }
}

/// A gate for one thread.
///
/// | word | meaning |
/// |---|---|
/// | 0 | shut |
/// | 1 | shut, and the thread may sleep |
/// | 2 | open |
///
/// 1. The thread shuts the gate before anybody else knows of it.
/// 2. Before it sleeps it makes 1 of 0, and sleeps as long as the word is 1.
/// 3. Another thread swaps 2 in (release, pairs with 4), and wakes it if it was 1.
/// 4. The thread finds 2 (acquire): it sees all that the other one wrote before.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a>(pub(crate) &'a AtomicU32);

const SHUT: u32 = 0;
/// What a thread sleeps at that waits at a [`Gate`].
pub(crate) const ASLEEP: u32 = 1;
const OPEN: u32 = 2;

impl Gate<'_> {
    /// Step 1.
    pub(crate) fn shut(self) {
        self.0.store(SHUT, Ordering::Relaxed);
    }

    /// Step 2: whether the gate is shut still, and the thread is to sleep.
    pub(crate) fn announce(self) -> bool {
        let before = self.0.compare_exchange(SHUT, ASLEEP, Ordering::Acquire, Ordering::Acquire);
        before.unwrap_or_else(|word| word) != OPEN
    }

    /// Step 3: whether the thread is to be woken.
    #[inline]
    pub(crate) fn open(self) -> bool {
        self.0.swap(OPEN, Ordering::Release) == ASLEEP
    }

    /// Step 4.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.0.load(Ordering::Acquire) == OPEN
    }
}
