//! A rank's driver: has carried out what its node orders.

use super::{Progress, Result, World, number};
use crate::program::Program;
use scash_proto::node::{Collective, Outcome};
use scash_proto::{Access, Input, Rank, Sharing, interpreter};
use std::collections::VecDeque;

impl<P: Program> World<P> {
    /// Carries out one put or order.
    pub(super) fn step_driver(&mut self, rank: usize) -> Result<Progress> {
        if !self.ranks[rank].puts.is_empty() && !self.is_dead(rank) {
            return Ok(if self.land_own(rank)? { Progress::Moved } else { Progress::Blocked });
        }
        if let Some(progress) = self.step_life(rank)? {
            return Ok(progress);
        }
        let Some(order) = self.ranks[rank].node.poll_output() else {
            return if self.ends_without_barrier(rank)? || self.agree(rank)? {
                Ok(Progress::Moved)
            } else {
                self.step_close(rank)
            };
        };
        match self.carry_out(rank, order)? {
            interpreter::Step::Next => {}
            interpreter::Step::Done(outcome) => self.done(rank, &outcome)?,
            interpreter::Step::Stage if self.survival.is_some() => self.begin_saving(rank)?,
            interpreter::Step::Committed(counts) if self.survival.is_some() => {
                self.end_saving(rank, counts)?
            }
            step => return Err(self.failure(&format!("rank {rank} was told to {step:?} in a barrier"))),
        }
        Ok(Progress::Moved)
    }

    /// Lands the next of the puts that the rank carries out itself, if it may land now.
    pub(super) fn land_own(&mut self, rank: usize) -> Result<bool> {
        let puts = &self.ranks[rank].puts;
        let is_able = |to: usize, page| self.reaches(rank, to) && self.may_land(to, page);
        if self.is_dead(rank) || !puts.front().is_some_and(|&(to, page, _)| is_able(to as usize, page)) {
            return Ok(false);
        }
        if let Some((to, page, diff)) = self.ranks[rank].puts.pop_front() {
            self.land(rank, to as usize, page, &diff)?;
        }
        Ok(true)
    }

    /// Ends the call that all threads of the rank have come to, if it came to nothing: then it was no memory
    /// barrier, and there is no order for its end.
    fn ends_without_barrier(&mut self, rank: usize) -> Result<bool> {
        let me = &mut self.ranks[rank];
        if me.running > 0 {
            return Ok(false);
        }
        let Some(outcome) = me.node.take_reduced() else { return Ok(false) };
        self.done(rank, &outcome)?;
        Ok(true)
    }

    /// What a rank sees on the board that has come without words. (All words at once: what it would see of
    /// one of them before stays as it is until this rank has left the call.)
    fn seen_on_board(&self, rank: usize) -> Option<bool> {
        let others = (0..self.ranks.len()).filter(|&other| other != rank);
        self.ranks[rank].coming?.agrees(others.map(|other| self.ranks[other].coming))
    }

    /// Whether the driver of a rank could step, as far as the board has to do with it.
    pub(super) fn may_agree(&self, rank: usize) -> bool {
        let node = &self.ranks[rank].node;
        !node.waits_for_agreement() || node.has_orders() || self.seen_on_board(rank).is_some()
    }

    /// Looks at the board, if the rank waits for all to agree there: whether something is decided.
    fn agree(&mut self, rank: usize) -> Result<bool> {
        if !self.ranks[rank].node.waits_for_agreement() {
            return Ok(false);
        }
        let Some(all) = self.seen_on_board(rank) else { return Ok(false) };
        self.trace(|| format!("rank {rank} sees on the board: all have come without words: {all}"));
        self.report.agreed[usize::from(all)] += 1;
        self.tell(rank, Input::Agreed(all))?;
        Ok(true)
    }

    /// Closes an interval, if all has landed that this waits for.
    fn step_close(&mut self, rank: usize) -> Result<Progress> {
        match self.may_close(rank) {
            None if self.ranks[rank].node.waits_for_agreement() => return Ok(Progress::Blocked),
            None => {
                self.ranks[rank].scheduled = false;
                return Ok(Progress::Idle);
            }
            Some(false) => return Ok(Progress::Blocked),
            Some(true) => {}
        }
        let behind = self.ranks[rank].closing.front().copied().flatten();
        let behind = behind.is_some_and(|next| !self.have_landed_at(rank, next));
        let me = &mut self.ranks[rank];
        me.closing.pop_front();
        if me.closing.is_empty() {
            me.closing_waits_for.clear();
        }
        self.tell(rank, Input::Closed { behind })?;
        Ok(Progress::Moved)
    }

    /// Bytes that were put arrive in a frame.
    pub(super) fn land(&mut self, from: usize, to: usize, page: u32, diff: &[u8]) -> Result<()> {
        self.trace(|| format!("the put of rank {from} into page {page} of rank {to} lands"));
        let merged = self.frames(to).merge(page, diff);
        merged.map_err(|e| self.failure(&format!("the driver's own diff: {e}")))
    }

    /// Lands all that a rank has put into another one's frames.
    pub(super) fn land_all(&mut self, rank: usize, at: Rank) -> Result<()> {
        let (home, mut later) = (at.0 as usize, VecDeque::new());
        while let Some((to, page, diff)) = self.ranks[rank].puts.pop_front() {
            if to == at.0 {
                self.land(rank, home, page, &diff)?;
            } else {
                later.push_back((to, page, diff));
            }
        }
        self.ranks[rank].puts = later;
        while let Some(put) = self.net.take_put(number(rank), at.0) {
            self.land(rank, home, put.page, &put.diff)?;
        }
        Ok(())
    }

    /// Frames that ranks share are given back when no rank has them in view.
    pub(super) fn check_closed(&self, pages: scash_proto::Pages) -> Result<()> {
        if self.setup.sharing == Sharing::Off {
            return Ok(());
        }
        let open =
            |rank: &usize| pages.iter().any(|page| self.ranks[*rank].frames.rights(page) != Access::None);
        match (0..self.ranks.len()).find(open) {
            Some(rank) => {
                Err(self.failure_about("frames are given back that a rank has in view", rank, pages.first))
            }
            None => Ok(()),
        }
    }

    /// A rank with a limit holds no more pages of other homes than it says, and a broadcast's at most beyond
    /// the limit.
    fn check_cache(&self, rank: usize) -> Result<()> {
        let me = &self.ranks[rank];
        // Who lies may bring a rank bytes of any page.
        if self.setup.cache == 0 || self.setup.lies > 0 {
            return Ok(());
        }
        let others = |&page: &u32| me.frames.is_there(page) && me.node.home(page) != Some(Rank(number(rank)));
        let held: Vec<u32> = (0..self.setup.pages).filter(others).collect();
        if held.len() <= me.node.cached() as usize {
            return Ok(());
        }
        let words: Vec<String> =
            held.iter().map(|&p| format!("  page {p}: {}\n", me.node.describe(p))).collect();
        let said = me.node.cached();
        Err(self.failure(&format!(
            "rank {rank} holds cached pages {held:?}, and says {said}\n{}",
            words.concat()
        )))
    }

    /// A rank leaves the barrier.
    pub(super) fn done(&mut self, rank: usize, outcome: &Outcome) -> Result<()> {
        let left = self.ranks[rank].interval;
        let expected = &self.interval(rank).outcome;
        if outcome != expected {
            return Err(self.failure(&format!("rank {rank} was told {outcome:?} instead of {expected:?}")));
        }
        let destroyed =
            outcome == &Outcome::Done && matches!(self.interval(rank).end, Collective::Destroy { .. });
        self.report.destroyed += u64::from(destroyed);
        self.report.in_use += u64::from(matches!(outcome, Outcome::InUse(_)));
        self.check_rights(rank, scash_proto::Pages { first: 0, count: self.setup.pages })?;
        self.check_cache(rank)?;
        self.count(rank, left);
        self.ranks[rank].interval += 1;
        self.forget_intervals();
        self.begin_interval(rank);
        Ok(())
    }
}
