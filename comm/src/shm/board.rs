//! The board of a host's ranks: two words in each one's inbox.
//!
//! A rank that has posted rings the bells of those who may sleep (steps 5 to 7 of the bell's protocol:
//! [`post`](Board::post) has the fence of step 5). What a sleeper waits for on the board is part of what it
//! looks at in step 2, [`ShmEndpoint::has_any`].

use super::endpoint::ShmEndpoint;
use super::futex;
use crate::{Board, Mark};
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
        if let Some(peer) = self.peers.all().nth(place)
            && peer.bell().silence()
        {
            peer.wake_all();
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
}

#[cfg(test)]
mod tests;
