//! A rank that is started again: as the runtime does it, it reads its image, makes a new rank of it, fills
//! its frames, waits until all others have done so, and goes on as if it had just saved itself.

use super::saving::Copying;
use super::store::{Content, Key, PARTS};
use super::{Image, Life, Saver, slots};
use crate::deaths::{Mistake, Point};
use crate::program::Program;
use crate::world::{Progress, Result, World, number};
use scash_ft::Epoch;
use scash_proto::diff::PageBytes;
use scash_proto::interpreter::Step;
use scash_proto::node::Outcome;
use scash_proto::{Input, PAGE_SIZE, Pages};
use std::rc::Rc;

/// How far a rank is that was started again.
pub(in crate::world) enum Return {
    Starts,
    /// It copies shared pages into its frames: these are left.
    Fills(Vec<(u32, Rc<PageBytes>)>),
    /// It waits for all others to have done so.
    Joins,
    /// It opens its pages.
    Opens,
}

impl<P: Program> World<P> {
    /// The step of a driver whose rank is not simply going on; `None` if it is.
    pub(in crate::world) fn step_life(&mut self, rank: usize) -> Result<Option<Progress>> {
        let progress = match std::mem::replace(&mut self.ranks[rank].life, Life::Goes) {
            Life::Goes => return Ok(None),
            Life::Saves(copying) => self.step_saving(rank, copying)?,
            Life::Returns(at) => self.step_return(rank, at)?,
            Life::Parked => {
                self.ranks[rank].life = Life::Parked;
                Progress::Blocked
            }
            Life::Dead => {
                self.ranks[rank].life = Life::Dead;
                Progress::Idle
            }
        };
        Ok(Some(progress))
    }

    /// Whether such a step would do something.
    pub(in crate::world) fn life_is_able(&self, rank: usize) -> Option<bool> {
        let me = &self.ranks[rank];
        match &me.life {
            Life::Goes => None,
            Life::Saves(Copying::Goes { .. }) => Some(true),
            Life::Saves(_) => Some(me.saver.as_ref()?.is_able(|holder| self.serves(rank, holder))),
            Life::Returns(Return::Starts) => Some(self.hears(rank)),
            Life::Returns(Return::Joins) => Some(self.all_have_joined()),
            Life::Returns(_) => Some(true),
            Life::Parked | Life::Dead => Some(false),
        }
    }

    /// Whether a rank takes messages: not before its memory is copied, nor before it is back.
    pub(in crate::world) fn takes_messages(&self, rank: usize) -> bool {
        matches!(self.ranks[rank].life, Life::Goes | Life::Saves(Copying::Over { .. }))
    }

    fn all_have_joined(&self) -> bool {
        use Return::{Fills, Starts};
        !self.ranks.iter().any(|rank| matches!(rank.life, Life::Returns(Starts | Fills(_)) | Life::Dead))
    }

    fn step_return(&mut self, rank: usize, at: Return) -> Result<Progress> {
        let next = match at {
            Return::Starts if !self.hears(rank) => {
                self.ranks[rank].life = Life::Returns(Return::Starts);
                return Ok(Progress::Blocked);
            }
            Return::Starts => {
                self.ranks[rank].coming = None;
                self.restore(rank)?
            }
            Return::Fills(mut left) => match left.pop() {
                Some((page, bytes)) => {
                    *self.frames(rank).bytes_mut(page) = *bytes;
                    Return::Fills(left)
                }
                None => Return::Joins,
            },
            Return::Joins => {
                if !self.all_have_joined() {
                    self.ranks[rank].life = Life::Returns(Return::Joins);
                    return Ok(Progress::Blocked);
                }
                if self.survival().base.epoch == Epoch(0) {
                    self.point(Point::Return);
                    self.begin_interval(rank);
                    return Ok(Progress::Moved);
                }
                self.ranks[rank].node.reborn();
                self.check_words(rank)?;
                Return::Opens
            }
            Return::Opens => return self.open(rank),
        };
        let is_last = matches!(next, Return::Joins) && self.all_have_joined();
        self.ranks[rank].life = Life::Returns(next);
        if is_last {
            self.check_restored()?;
        }
        self.point(Point::Return);
        Ok(Progress::Moved)
    }

    /// Makes a rank of an image.
    fn restore(&mut self, rank: usize) -> Result<Return> {
        let pages = self.setup.pages;
        let survival = self.survival();
        let (base, cut) = (survival.base, survival.committed.id);
        let forgets = survival.is(Mistake::NewSearch);
        if base.epoch == Epoch(0) {
            let saver = survival.saver(rank, pages);
            self.ranks[rank].saver = Some(saver);
            return Ok(Return::Joins);
        }
        let store = survival.stores[rank].get(&survival.holders[rank][0]);
        let saved = store.and_then(|store| store.read(base.epoch));
        let Some(saved) = saved else {
            return Err(self.failure(&format!("rank {rank} reads a torn store of epoch {}", base.epoch)));
        };
        let holders = number(survival.holders[rank].len());
        let (mut images, mut shared) = (Vec::<Rc<Image>>::new(), Vec::new());
        for (key, _, content) in &saved {
            match (key, content) {
                (Key::Private(part), Content::Private(image, is)) if part == is => images.push(image.clone()),
                (Key::Shared(page), Content::Shared(bytes)) => shared.push((*page, bytes.clone())),
                _ => {
                    return Err(
                        self.failure(&format!("slots of rank {rank} hold other pages than they should"))
                    );
                }
            }
        }
        let whole = images.len() == usize::from(PARTS) && images.iter().all(|it| Rc::ptr_eq(it, &images[0]));
        if !whole || images[0].cut != cut {
            let cuts: Vec<u64> = images.iter().map(|image| image.cut).collect();
            let what = format!("rank {rank} comes back from pieces of the cuts {cuts:?} instead of {cut}");
            return Err(self.failure(&what));
        }
        let saver = Saver::new(base, holders, slots(pages), saved, survival.deaths.mistake);
        let saver = saver.map_err(|what| self.failure(&format!("rank {rank}: {what}")))?;
        let saver = self.survival().hurried(rank, saver);
        let me = &mut self.ranks[rank];
        me.node = images[0].node.clone();
        if !forgets {
            me.races = images[0].races.clone();
        }
        me.saver = Some(saver);
        if !self.survival().is(Mistake::OldFrames) {
            self.forget_newer(rank, &shared);
        }
        self.trace(|| format!("rank {rank} is restored"));
        Ok(Return::Fills(shared))
    }

    /// Pages that had contents in the process that is gone, and none at the checkpoint, are zeros again.
    fn forget_newer(&mut self, rank: usize, saved: &[(u32, Rc<PageBytes>)]) {
        let is_saved = |page| saved.iter().any(|(it, _)| *it == page);
        for page in 0..self.setup.pages {
            if !is_saved(page) && self.ranks[rank].node.refills(page) {
                self.frames(rank).discard(Pages::one(page));
            }
        }
    }

    /// Carries out what a node that comes back orders; and goes on when that is done.
    fn open(&mut self, rank: usize) -> Result<Progress> {
        let Some(order) = self.ranks[rank].node.poll_output() else {
            self.ranks[rank].resumes = true;
            self.tell(rank, Input::Staged)?;
            self.point(Point::Return);
            return Ok(Progress::Moved);
        };
        let step = self.carry_out(rank, order)?;
        self.ranks[rank].life = Life::Returns(Return::Opens);
        self.point(Point::Return);
        match step {
            Step::Next => Ok(Progress::Moved),
            step => Err(self.failure(&format!("rank {rank} was told to {step:?} as it came back"))),
        }
    }

    /// What all frames hold together is what was written, of all that the program can read.
    fn check_restored(&self) -> Result<()> {
        if self.setup.racy {
            // Nobody can say what bytes are that were raced for.
            return Ok(());
        }
        let node = &self.ranks[0].node;
        let ending = &self.interval(0).outcome;
        let is_new = |page: u32| matches!(ending, Outcome::Allocated(pages) if pages.iter().contains(&page));
        for page in node.allocations().flat_map(|run| run.iter()).filter(|&page| !is_new(page)) {
            let keeper = (0..self.ranks.len()).find(|&rank| self.ranks[rank].node.keeps(page)).unwrap_or(0);
            let have = self.ranks[self.keeper(keeper)].frames.bytes(page);
            let base = page as usize * PAGE_SIZE;
            if have[..] != self.oracle[base..base + PAGE_SIZE] {
                let what =
                    format!("page {page} is not what it was at the checkpoint that ranks come back to");
                return Err(self.failure_about(&what, keeper, page));
            }
        }
        Ok(())
    }
}
