//! What the network brings to a rank.

use super::{Progress, Result, World, number};
use crate::program::Program;
use scash_proto::Rank;
use scash_proto::wire::{Kind, PageBatch};

impl<P: Program> World<P> {
    /// Whether the next put of a pair may land now.
    pub(super) fn may_land_next(&self, from: usize, to: usize) -> bool {
        let put = self.net.next_put(number(from), number(to)).filter(|_| self.reaches(from, to));
        put.is_some_and(|put| self.may_land(to, put.page))
    }

    /// Lands the next put of a pair, if it may land now.
    pub(super) fn land_next(&mut self, from: usize, to: usize) -> Result<bool> {
        if !self.may_land_next(from, to) {
            return Ok(false);
        }
        if let Some(put) = self.net.take_put(number(from), number(to)) {
            self.land(from, to, put.page, &put.diff)?;
        }
        Ok(true)
    }

    /// Whether the next message of a pair may arrive now. Updates wait for gets of their pages.
    pub(super) fn may_arrive(&self, from: usize, to: usize) -> bool {
        if !self.takes_messages(to) || !self.reaches(from, to) {
            return false;
        }
        let Some(message) = self.net.next_message(number(from), number(to)) else { return false };
        if message.kind != Kind::Update {
            return true;
        }
        let mut pages = PageBatch::read(&message.bytes).into_iter().flat_map(|(_, pages)| pages.flatten());
        pages.all(|(page, _)| self.may_land(to, page))
    }

    /// Delivers the next put or message of a pair.
    pub(super) fn step_channel(&mut self, from: usize, to: usize) -> Result<Progress> {
        // A renewal may have taken all that was on its way.
        if self.net.is_empty(number(from), number(to)) {
            return Ok(Progress::Idle);
        }
        let put = self.may_land_next(from, to);
        let message = self.may_arrive(from, to);
        if !put && !message {
            return Ok(Progress::Blocked);
        }
        if put && (!message || self.rng.chance(50)) {
            self.land_next(from, to)?;
        } else if let Some(message) = self.net.take_message(number(from), number(to)) {
            self.trace(|| format!("{:?} from rank {from} arrives at rank {to}", message.kind));
            self.receive(from, to, message.kind, &message.bytes)?;
        }
        Ok(if self.net.is_empty(number(from), number(to)) { Progress::Idle } else { Progress::Moved })
    }

    fn receive(&mut self, from: usize, to: usize, kind: Kind, bytes: &[u8]) -> Result<()> {
        self.take(to, Rank(number(from)), kind, bytes)?;
        self.schedule_driver(to);
        Ok(())
    }
}
