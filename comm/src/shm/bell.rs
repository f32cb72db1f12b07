//! The bell: one word in a rank's inbox that says whether somebody there sleeps, so that senders know whom to
//! wake.
//!
//! While nobody sleeps, a sender reads the word and that is all: no system call, and no write that would take
//! the cache line from its owner. The word is the futex that sleepers wait on.
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0 | `ASLEEP` | a thread of the owner sleeps or is about to | set by the owner, cleared by who rings |
//! | 1 | `LEFT` | the owner's endpoint was dropped; never cleared | the owner |
//! | 2–31 | count | rings so far (wraps) | who rings |
//!
//! # Protocol
//! The owner, when it wants to sleep:
//! 1. `announce`: sets `ASLEEP`; a full fence follows.
//! 2. Looks once more at everything that it waits for: its rings, and what other threads of its process may
//!    have done.
//! 3. `FUTEX_WAIT` on the word as it was in step 1 (`ASLEEP` still set: nobody has rung since).
//!
//! A sender:
//! 4. Publishes its frame (a release store of the frame's header).
//! 5. A full fence.
//! 6. Reads the word. If `ASLEEP` is set, it swaps in (`ASLEEP` cleared, count + 1).
//! 7. The rank that made the swap wakes all that wait on the futex.
//!
//! **Why no wake-up is lost.** The fences of 1 and 5 are ordered. If 1 is first, step 6 sees `ASLEEP` and
//! rings; then either the owner is in its wait and is woken, or it is not yet and step 3 finds a changed
//! word. If 5 is first, step 2 sees the frame.
//!
//! **Where the owner sleeps in another provider** (`companion`), step 7 adds to an eventfd, and step 3 waits
//! for that. The announcement may then be as old as it likes: a ring is not a moment but a count, which stays
//! until the owner reads it, and only the thread that leads in the sleep does, before it looks at the rings
//! again.
//!
//! `ASLEEP` may stay set although nobody sleeps (a sleep ended by its time limit). That costs the next sender
//! one vain wake-up.

use super::sync::{AtomicU32, Ordering, fence};

const ASLEEP: u32 = 1;
const LEFT: u32 = 1 << 1;
const RUNG: u32 = 1 << 2;

/// A bell, in shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Bell<'a>(pub(crate) &'a AtomicU32);

impl Bell<'_> {
    /// Turn 1, unless it has been taken already: the word to wait for if `ASLEEP` was set before this call,
    /// that is, if the caller has had the time for step 2 since.
    pub(crate) fn announce(self) -> Option<u32> {
        // Read only, because a word with ASLEEP in it is step 1 done; the fence below orders step 2 after it.
        let mut word = self.0.load(Ordering::Relaxed);
        let announced = word & ASLEEP != 0;
        if !announced {
            word = self.0.fetch_or(ASLEEP, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst); // between steps 1 and 2
        announced.then_some(word)
    }

    /// Steps 5 and 6, after something was published for the owner; `true` asks for step 7.
    pub(crate) fn ring(self) -> bool {
        fence(Ordering::SeqCst); // step 5
        self.silence()
    }

    /// Turn 6.
    pub(crate) fn silence(self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & ASLEEP == 0 {
            return false;
        }
        self.silence_loudly(word)
    }

    #[cold]
    fn silence_loudly(self, mut word: u32) -> bool {
        while word & ASLEEP != 0 {
            let rung = (word & !ASLEEP).wrapping_add(RUNG);
            // Relaxed: the futex orders what the sleeper sees afterwards no better than its own acquire loads
            // do.
            match self.0.compare_exchange_weak(word, rung, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Whether a thread of the owner sleeps, or did a moment ago.
    pub(crate) fn is_asleep(self) -> bool {
        self.0.load(Ordering::Relaxed) & ASLEEP != 0
    }

    /// The owner leaves. Release: who sees it sees all that the owner published before.
    pub(crate) fn leave(self) {
        self.0.fetch_or(LEFT, Ordering::Release);
    }

    /// Whether the owner has left.
    pub(crate) fn has_left(self) -> bool {
        self.0.load(Ordering::Acquire) & LEFT != 0
    }
}
