//! The windows: how puts and gets of a pair of ranks exclude each other without a lock.
//!
//! A get of S from H reads H's memory and stores into S's. If H, meanwhile, wrote something newer and put it
//! into the same place of S, the get could lay the old bytes over the new ones. So S says in a word of its
//! own inbox, one for each peer H, how many of its gets from H are under way, and H looks at that word before
//! it puts. Only H's puts to S ever wait, and only as long as S's copy takes (a window is held for 64 KiB at
//! most). No one waits for H: its death in the middle of anything leaves nothing behind.
//!
//! Several threads of S may keep the count above zero for ever between them, though each get is short.
//! Therefore gets are counted in two *phases*, and a waiting put turns new gets to the other phase: those it
//! must wait for then only become fewer.
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0–30 | count 0 | gets under way that came in phase 0 | S |
//! | 31–61 | count 1 | gets under way that came in phase 1 | S |
//! | 62 | – | always 0 | |
//! | 63 | phase | the phase that new gets are counted in | H |
//!
//! # Protocol
//! S, to get from H:
//! 1. Adds one to the count of the present phase.
//! 2. A full fence.
//! 3. Copies from H's memory into its own.
//! 4. Takes one from the count it added to (release).
//!
//! H, to put to S (its own memory holds the newer bytes already):
//! 5. A full fence.
//! 6. Reads the word (acquire) until each count was zero once, turning the phase when the other one's count
//!    is zero.
//! 7. Copies into S's memory.
//!
//! **Why it excludes.** The fences of 2 and 5 are ordered. If 2 is first, step 6 sees the get and waits for
//! its step 4; acquire and release put 3 before 7. If 5 is first, step 3 reads H's newer bytes, and storing
//! those is as good as the put.

use super::sync::{AtomicU64, Ordering, fence};

const PHASE: u64 = 1 << 63;
const COUNT: u64 = (1 << 31) - 1;
/// One get, in each phase.
const ONE: [u64; 2] = [1, 1 << 31];

/// S's word for H.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a>(pub(crate) &'a AtomicU64);

/// A get under way; dropping it is step 4.
pub(crate) struct Get<'a> {
    window: Window<'a>,
    one: u64,
}

/// What a put has seen so far of step 6.
#[derive(Default)]
pub(crate) struct PutWait {
    zero: [bool; 2],
}

impl<'a> Window<'a> {
    /// Steps 1 and 2, by S.
    pub(crate) fn enter(self) -> Get<'a> {
        let mut word = self.0.load(Ordering::Relaxed);
        let one = loop {
            let one = ONE[phase(word)];
            // Relaxed: the fence below orders this before the copy.
            match self.0.compare_exchange_weak(
                word,
                word.wrapping_add(one),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break one,
                Err(now) => word = now,
            }
        };
        fence(Ordering::SeqCst); // step 2
        Get { window: self, one }
    }

    /// Turn 5 and the first look of step 6, by H: `None` if the put may go on at once.
    pub(crate) fn wait(self) -> Option<PutWait> {
        fence(Ordering::SeqCst); // step 5
        let mut wait = PutWait::default();
        (!wait.is_over(self)).then_some(wait)
    }
}

impl PutWait {
    /// One look of step 6: whether the put may go on.
    pub(crate) fn is_over(&mut self, window: Window<'_>) -> bool {
        let word = window.0.load(Ordering::Acquire); // step 6, pairs with step 4
        for (phase, zero) in self.zero.iter_mut().enumerate() {
            *zero |= count(word, phase) == 0;
        }
        let (now, other) = (phase(word), 1 - phase(word));
        if !self.zero[now] && count(word, other) == 0 {
            // If this fails, a get came or went: the next look decides anew. Relaxed: the phase orders
            // nothing.
            let _ = window.0.compare_exchange_weak(word, word ^ PHASE, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.zero == [true, true]
    }
}

impl Drop for Get<'_> {
    fn drop(&mut self) {
        self.window.0.fetch_sub(self.one, Ordering::Release); // step 4
    }
}

fn phase(word: u64) -> usize {
    usize::from(word & PHASE != 0)
}

fn count(word: u64, phase: usize) -> u64 {
    word >> (31 * phase) & COUNT
}
