//! The board of a host's ranks: three words in each one's inbox.
//!
//! A rank that has posted rings the bells of those who may sleep (steps 5 to 7 of the bell's protocol:
//! [`post`](Board::post) has the fence of step 5). What a sleeper waits for on the board is part of what it
//! looks at in step 2, [`ShmEndpoint::has_any`].

use super::endpoint::ShmEndpoint;
use super::futex;
use super::inbox::Inbox;
use crate::{Board, Coming, Mark};
use std::sync::atomic::{Ordering, fence};

impl Board for ShmEndpoint {
    fn ranks(&self) -> Vec<u32> {
        (0..self.peers.size()).collect()
    }

    fn post(&self, mark: Mark, count: u64) -> u64 {
        self.inbox.mark(mark).store(count, Ordering::Release);
        // Between this rank's word and its look at the others' words and bells.
        fence(Ordering::SeqCst);
        self.reached(mark)
    }

    fn reached(&self, mark: Mark) -> u64 {
        let mut all = self.peers.all().map(|inbox| inbox.mark(mark).load(Ordering::Acquire));
        match mark {
            Mark::Arrived => all.min(),
            Mark::Released => all.next(),
        }
        .unwrap_or(0)
    }

    fn wake(&self, place: usize) {
        if let Some(peer) = self.peers.all().nth(place) {
            Self::wake_posted(peer);
        }
    }

    fn expect(&self, mark: Mark, count: Option<u64>) {
        self.expected.set(mark, count);
    }

    fn noticed(&self) {
        if self.inbox.bell().ring() && self.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake_all(self.inbox.bell_word());
        }
    }

    fn come(&self, coming: Coming) {
        self.expected.set_coming(Some(coming).filter(|coming| coming.is_without_words()));
        self.inbox.coming().store(coming.word(), Ordering::Release);
        // As in `post`.
        fence(Ordering::SeqCst);
        if !coming.is_without_words() || self.decided().is_some() {
            // Who comes later sees this rank's word before it sleeps.
            let waits = |peer: &Inbox| {
                Coming::of_word(peer.coming().load(Ordering::Relaxed))
                    .is_some_and(|theirs| theirs.waits_in_call_of(coming))
            };
            self.peers.others().filter(|(_, peer)| waits(peer)).for_each(|(_, peer)| Self::wake_posted(peer));
        }
    }

    #[inline]
    fn agreed(&self) -> Option<bool> {
        let decided = self.decided()?;
        self.expected.set_coming(None);
        Some(decided)
    }
}

impl ShmEndpoint {
    /// As [`agreed`](Board::agreed); nothing is decided if nothing is awaited.
    #[inline]
    pub(super) fn decided(&self) -> Option<bool> {
        let coming = self.expected.coming()?;
        let words = self.peers.others().map(|(_, inbox)| inbox.coming().load(Ordering::Acquire));
        coming.agrees(words.map(Coming::of_word))
    }

    /// Steps 6 and 7 of the bell's protocol.
    fn wake_posted(peer: &Inbox) {
        if peer.bell().silence() {
            peer.wake_all();
        }
    }
}

#[cfg(test)]
mod tests;
