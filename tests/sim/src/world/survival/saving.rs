//! What a rank does between the protocol's `Stage` and its answer, and when all have answered.

use super::saver::Turn;
use super::store::{Content, Key, PARTS};
use super::{Cut, Image, Life};
use crate::deaths::Point;
use crate::program::Program;
use crate::world::{Progress, Result, World, number};
use scash_ft::commit::{Input, Output};
use scash_proto::wire::Kind;
use scash_proto::{Input as NodeInput, Rank};
use std::collections::VecDeque;
use std::rc::Rc;

/// How far the copy of a rank's memory is.
pub(in crate::world) enum Copying {
    /// It has not begun.
    NotYet,
    /// What is left of it.
    Goes { holder: u8, image: Rc<Image>, left: VecDeque<Key> },
    /// It is complete; or there was no room for it.
    Over { has_room: bool },
}

impl<P: Program> World<P> {
    /// A rank comes to a memory barrier.
    pub(in crate::world) fn perhaps_due(&mut self, rank: usize) -> Result<()> {
        let Some(survival) = &mut self.survival else { return Ok(()) };
        let often = survival.deaths.due;
        if survival.rng.chance(often) { self.tell(rank, NodeInput::CheckpointDue) } else { Ok(()) }
    }

    /// A rank is to save what it has.
    pub(in crate::world) fn begin_saving(&mut self, rank: usize) -> Result<()> {
        if let Some(what) = self.unrest(rank) {
            return Err(self.failure(&format!("rank {rank} is to be saved, and {what}")));
        }
        let (interval, epoch) = (self.ranks[rank].interval, self.saver(rank).mark().epoch);
        let World { survival, oracle, happened, .. } = self;
        let Some(survival) = survival else { return Ok(()) };
        let staged = survival.staged.get_or_insert_with(|| {
            // After a mistake: others run on from it already.
            if survival.committed.epoch == epoch {
                return survival.committed.clone();
            }
            survival.cuts += 1;
            let (oracle, happened) = (Rc::new(oracle.clone()), happened.clone());
            Cut { id: survival.cuts, epoch, interval, oracle, happened }
        });
        let is_one = (staged.epoch, staged.interval) == (epoch, interval);
        let can = survival.rng.below(1000) >= survival.deaths.left_out;
        if !is_one {
            return Err(self.failure(&format!("rank {rank} takes another checkpoint than others")));
        }
        self.ranks[rank].life = Life::Saves(Copying::NotYet);
        self.told(rank, |saver| saver.begin(can))?;
        self.point(Point::Stage);
        Ok(())
    }

    /// What is under way at a rank that is to save itself, although nothing may be.
    fn unrest(&self, rank: usize) -> Option<&'static str> {
        let me = &self.ranks[rank];
        // Its own may be, to ranks that wait for the messages behind them.
        let is_put_to = (0..self.ranks.len()).any(|from| !self.have_landed_at(from, Rank(number(rank))));
        let rules = [
            ("a put into its frames is under way", is_put_to),
            ("an interval is being closed", !me.closing.is_empty()),
            ("a thread has an answer that it has not taken", !me.answers.is_empty()),
            ("a page is being fetched", me.copying.iter().any(|&gets| gets > 0)),
            ("threads are running", me.running > 0),
        ];
        rules.iter().find(|rule| rule.1).map(|rule| rule.0)
    }

    pub(super) fn saver(&mut self, rank: usize) -> &mut super::Saver {
        self.ranks[rank].saver.as_mut().expect("a rank that can come back")
    }

    /// Tells a rank's commitment something that must fit.
    fn told(
        &mut self,
        rank: usize,
        tell: impl FnOnce(&mut super::Saver) -> std::result::Result<(), String>,
    ) -> Result<()> {
        tell(self.saver(rank)).map_err(|what| self.failure(&format!("rank {rank}: {what}")))
    }

    /// A step of a rank that takes a checkpoint, or ends one.
    pub(super) fn step_saving(&mut self, rank: usize, copying: Copying) -> Result<Progress> {
        let copying = match copying {
            Copying::Goes { holder, image, left } => self.copy_page(rank, holder, image, left)?,
            other => {
                self.ranks[rank].life = Life::Saves(other);
                return self.step_saver(rank);
            }
        };
        self.ranks[rank].life = Life::Saves(copying);
        self.point(Point::Page);
        Ok(Progress::Moved)
    }

    fn step_saver(&mut self, rank: usize) -> Result<Progress> {
        let there = self.holders_that_answer(rank);
        let World { ranks, survival, .. } = self;
        let (Some(saver), Some(survival)) = (&mut ranks[rank].saver, survival) else {
            return Ok(Progress::Idle);
        };
        let turn = saver.turn(&mut survival.rng, |holder| there[usize::from(holder)]);
        match turn.map_err(|what| self.failure(&format!("rank {rank}: {what}")))? {
            Turn::Waits => return Ok(Progress::Blocked),
            Turn::Went => {}
            Turn::Writes(holder) => self.begin_writing(rank, holder)?,
            Turn::Lands(holder, write) => {
                let survival = self.survival();
                let host = survival.holders[rank][usize::from(holder)];
                let [is_left_out, is_here] =
                    [!survival.is_here(survival.holders[rank][0]), survival.is_here(host)];
                survival.counts.network.wrote += u64::from(is_left_out && is_here);
                if let Some(store) = survival.stores[rank].get_mut(&host) {
                    store.land(write);
                }
            }
            Turn::Says(output) => {
                self.says(rank, output)?;
                self.point(Point::Staged);
            }
        }
        self.point(Point::Write);
        Ok(Progress::Moved)
    }

    /// A rank begins to copy what it has; or it has, and sends that to another holder.
    fn write_to(&mut self, rank: usize, holder: u8, has_room: bool) -> Result<()> {
        let survival = self.survival();
        let is_full = survival.rng.below(1000) < survival.deaths.left_out;
        self.trace(|| format!("rank {rank} writes to holder {holder}"));
        self.told(rank, |saver| saver.saved(holder, has_room && !is_full))
    }

    fn begin_writing(&mut self, rank: usize, holder: u8) -> Result<()> {
        if let Life::Saves(Copying::Over { has_room }) = self.ranks[rank].life {
            return self.write_to(rank, holder, has_room);
        }
        let cut = self.survival().staged.as_ref().map_or(0, |cut| cut.id);
        let keeper = self.keeper(rank);
        let me = &self.ranks[rank];
        let pages = me.node.allocations().flat_map(|run| run.iter());
        let kept = pages.filter(|&page| self.ranks[keeper].frames.is_there(page) && me.node.keeps(page));
        let left = (0..PARTS).map(Key::Private).chain(kept.map(Key::Shared)).collect();
        let image = Rc::new(Image { cut, node: me.node.clone(), races: me.races.clone() });
        self.trace(|| format!("rank {rank} takes its image"));
        self.ranks[rank].life = Life::Saves(Copying::Goes { holder, image, left });
        Ok(())
    }

    /// Copies one page, and sends all when that was the last.
    fn copy_page(
        &mut self,
        rank: usize,
        holder: u8,
        image: Rc<Image>,
        mut left: VecDeque<Key>,
    ) -> Result<Copying> {
        let Some(key) = left.pop_front() else {
            self.write_to(rank, holder, true)?;
            return Ok(Copying::Over { has_room: true });
        };
        let content = match key {
            Key::Private(part) => Content::Private(image.clone(), part),
            Key::Shared(page) => Content::Shared(Rc::new(*self.frames(rank).bytes(page))),
        };
        if self.saver(rank).save(key, content) {
            return Ok(Copying::Goes { holder, image, left });
        }
        self.write_to(rank, holder, false)?;
        Ok(Copying::Over { has_room: false })
    }

    /// What the commitment has decided.
    fn says(&mut self, rank: usize, output: Output) -> Result<()> {
        self.trace(|| format!("rank {rank}: {output:?}"));
        self.ranks[rank].life = Life::Goes;
        match output {
            Output::Staged => self.tell(rank, NodeInput::Staged),
            Output::NotStaged => self.tell(rank, NodeInput::NotStaged),
            Output::Park => {
                self.ranks[rank].life = Life::Parked;
                Ok(())
            }
            _ => {
                let (its, committed) = (self.saver(rank).committed(), self.survival().committed.epoch);
                let is_one = its == committed;
                if is_one {
                    Ok(())
                } else {
                    Err(self.failure(&format!("rank {rank} runs on in epoch {its}")))
                }
            }
        }
    }

    /// From which rank to which one a message goes. A mistake: a rank that has staged sends what it says in
    /// the last meeting to itself, as if it came from where it is to hear the same.
    pub(in crate::world) fn perhaps_leave_early(&self, from: usize, to: Rank, kind: Kind) -> (usize, Rank) {
        let leaves = self.ranks[from].saver.as_ref().is_some_and(super::Saver::leaves);
        if kind != Kind::Token || !leaves {
            return (from, to);
        }
        let size = self.ranks.len();
        ((2 * from + size - to.0 as usize) % size, Rank(number(from)))
    }

    /// All ranks have answered: whether the checkpoint counts.
    pub(in crate::world) fn end_saving(&mut self, rank: usize, counts: bool) -> Result<()> {
        self.trace(|| format!("rank {rank} knows whether the checkpoint counts: {counts}"));
        if std::mem::take(&mut self.ranks[rank].resumes) {
            self.point(Point::Committed);
            return if counts { Ok(()) } else { Err(self.failure("ranks came back to what does not count")) };
        }
        let (epoch, now) = (self.saver(rank).mark().epoch, self.report.steps);
        let survival = self.survival();
        if counts && survival.limit.is_some_and(|others| others < epoch) {
            return Err(self.failure(&format!("a ghost of rank {rank} commits epoch {epoch}, which is lost")));
        }
        let staged = survival.staged.take();
        match staged {
            Some(cut) if counts && cut.epoch == epoch => {
                survival.committed = cut;
                if survival.limit.is_none() {
                    survival.has_committed(now);
                }
            }
            Some(_) if !counts => survival.counts.left_out += 1,
            None if !counts || survival.committed.epoch == epoch => {}
            _ => return Err(self.failure(&format!("rank {rank} commits epoch {epoch}, and others do not"))),
        }
        self.told(rank, |saver| saver.tell(Input::Met { committed: counts }))?;
        self.ranks[rank].life = Life::Saves(Copying::Over { has_room: true });
        self.point(Point::Committed);
        Ok(())
    }
}
