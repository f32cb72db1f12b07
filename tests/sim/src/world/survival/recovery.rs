//! The coordinator, which carries out the real plan. What it finds is compared with what was.

use super::store::{Saved, Store, Write};
use super::{Cut, Life, Past, Phase, Return, Survival};
use crate::deaths::{Mistake, Point};
use crate::program::Program;
use crate::world::{Result, Task, World};
use scash_ft::recovery::{RankStores, RecoveryAction, RecoveryPlan, Survivor, Unrecoverable, plan};
use scash_ft::{Base, Epoch, Mark};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

impl<P: Program> World<P> {
    /// A coordinator begins: it looks at the stores and makes a plan.
    pub(super) fn recover(&mut self) -> Result<()> {
        let (size, now) = (self.setup.size, self.report.steps);
        let survival = self.survival();
        survival.admit();
        let survey = survival.survey(size);
        match plan(&survey, survival.known) {
            Ok(plan) => {
                if let Some(what) = survival.wrong_epoch(plan.base.epoch) {
                    return Err(self.failure(&what));
                }
                survival.phase = Phase::Recovers { steps: survival.steps(&plan), within: 0 };
                if let Some(after) = survival.deaths.in_restart_after.take() {
                    survival.kill_at = Some(now + after);
                }
                self.trace(|| format!("the coordinator plans {plan:?}"));
                Ok(())
            }
            // It names the first rank without the epoch before the newest, which need not be the one whose
            // stores are gone.
            Err(Unrecoverable::Lost { .. }) if (0..size as usize).any(|rank| survival.may_be_lost(rank)) => {
                survival.phase = Phase::Lost;
                survival.counts.lost += 1;
                Ok(())
            }
            Err(error) => Err(self.failure(&format!("the coordinator gives up: {error}"))),
        }
    }

    /// The coordinator does a step, or a part of it.
    pub(super) fn recovery_step(&mut self) -> Result<()> {
        let survival = self.survival();
        let Phase::Recovers { steps, within } = &mut survival.phase else { return Ok(()) };
        let part = *within;
        let step = *steps.last().expect("the start is the last step");
        let ends = part == 2 || !matches!(step, RecoveryAction::Copy { .. });
        *within = if ends { 0 } else { part + 1 };
        survival.known.begin(&step);
        if ends {
            steps.pop();
        }
        self.trace(|| format!("the coordinator carries out part {part} of {step:?}"));
        match step {
            RecoveryAction::Copy { rank, from, to, mark } => {
                let copied = self.survival().copy(rank, from, to, mark, part);
                copied.map_err(|what| self.failure(&what))?;
            }
            RecoveryAction::WriteBase { rank, host, base } => {
                self.survival().store(rank as usize, host).base = base;
            }
            RecoveryAction::Start { base } => self.start_again(base)?,
        }
        self.point(Point::Recovery);
        Ok(())
    }

    /// All ranks are started.
    fn start_again(&mut self, base: Base) -> Result<()> {
        let size = self.setup.size;
        let survival = self.survival();
        // Ghosts may have gone on since the plan was made.
        if let Some(what) = survival.wrong_epoch(base.epoch) {
            return Err(self.failure(&what));
        }
        survival.counts.restarts += 1;
        let past = Past::of(survival, base.epoch);
        let is_it = |cut: &Cut| cut.epoch == base.epoch;
        let staged = survival.staged.take().filter(is_it);
        survival.counts.from_staged += u64::from(staged.is_some());
        let cut = staged.or_else(|| Some(survival.committed.clone()).filter(is_it));
        let Some(cut) = cut else { return self.end_lost() };
        survival.counts.from_the_beginning += u64::from(base.epoch == Epoch(0));
        survival.holders = survival.placement(size);
        survival.gone.clear();
        survival.ended.clear();
        (survival.base, survival.phase) = (base, Phase::Runs);
        survival.committed = cut.clone();
        if let Some(what) = (0..size as usize).find_map(|rank| survival.differs(rank, base.epoch)) {
            return Err(self.failure(&what));
        }
        self.leave_behind(past);
        (self.oracle, self.happened) = (cut.oracle.to_vec(), cut.happened.clone());
        self.begun.retain(|interval| *interval <= cut.interval && base.epoch != Epoch(0));
        for rank in 0..size as usize {
            let me = &mut self.ranks[rank];
            me.life = Life::Returns(Return::Starts);
            me.interval = cut.interval;
            self.schedule_driver(rank);
        }
        self.ghosts_walk();
        Ok(())
    }

    /// All stores of a rank are gone, and the coordinator takes what is left for a job that has just begun.
    pub(super) fn end_lost(&mut self) -> Result<()> {
        let survival = self.survival();
        survival.phase = Phase::Lost;
        survival.counts.lost += 1;
        Ok(())
    }

    /// What is still on its way arrives.
    fn ghosts_walk(&mut self) {
        for (from, to) in self.net.busy() {
            self.tasks.push(Task::Channel(from as usize, to as usize));
        }
    }
}

impl Survival {
    fn store(&mut self, rank: usize, host: u32) -> &mut Store {
        self.stores[rank].entry(host).or_default()
    }

    /// What the stores say of each rank that hosts of the job have.
    pub(super) fn said(&self) -> Vec<Vec<Survivor>> {
        let of = |stores: &BTreeMap<u32, Store>| {
            let here = stores.iter().filter(|(host, _)| self.is_here(**host));
            here.map(|(host, store)| store.survivor(*host)).collect()
        };
        self.stores.iter().map(of).collect()
    }

    fn survey(&mut self, size: u32) -> Vec<RankStores> {
        let said = self.seen.take().unwrap_or_else(|| self.said());
        let of = said.into_iter().zip(self.placement(size));
        let mut survey: Vec<RankStores> =
            of.map(|(survivors, holders)| RankStores { survivors, holders }).collect();
        if self.is(Mistake::ReturnedIsWhole) {
            survey.iter_mut().for_each(|rank| take_for_whole(rank, self.deaths.hosts));
        }
        if self.is(Mistake::Maximum) {
            take_the_maximum(&mut survey);
        }
        if self.is(Mistake::AnyIncarnation) {
            take_any_incarnation(&mut survey);
        }
        survey
    }

    /// The steps of a plan, the first one last.
    fn steps(&self, plan: &RecoveryPlan) -> Vec<RecoveryAction> {
        let mut steps = plan.steps.clone();
        if self.is(Mistake::NoCatchingUp) {
            steps
                .retain(|step| !matches!(step, RecoveryAction::WriteBase { base, .. } if *base != plan.base));
        }
        if self.is(Mistake::BaseRecordsFirst) {
            let is_copy = |step: &RecoveryAction| matches!(step, RecoveryAction::Copy { .. });
            steps.sort_by_key(|step| (matches!(step, RecoveryAction::Start { .. }), is_copy(step)));
        }
        steps.reverse();
        steps
    }

    /// The epoch is the newest one in which a rank ran on, or the one that is staged. Where all stores of a
    /// rank are gone, nobody can know how far it was, and the job may begin anew.
    fn wrong_epoch(&self, epoch: Epoch) -> Option<String> {
        let anew = epoch == Epoch(0) && (0..self.holders.len()).any(|rank| self.may_be_lost(rank));
        let staged = self.staged.as_ref().is_some_and(|cut| cut.epoch == epoch);
        let is_right = epoch == self.committed.epoch || staged || anew;
        let committed = self.committed.epoch;
        (!is_right).then(|| format!("ranks go on from epoch {epoch}, though epoch {committed} is committed"))
    }

    /// Parts of a copy: some bytes have arrived, all have, the mark has.
    fn copy(
        &mut self,
        rank: u32,
        from: u32,
        to: u32,
        mark: Mark,
        part: u8,
    ) -> std::result::Result<(), String> {
        self.counts.copies += u64::from(part == 0);
        let source = self.store(rank as usize, from).read(mark.epoch);
        let saved = source.ok_or_else(|| format!("a torn store of rank {rank} is copied"))?;
        let target = self.store(rank as usize, to);
        let index =
            Write::Index(mark.epoch, Rc::new(saved.iter().map(|&(key, slot, _)| (key, slot)).collect()));
        let slots = saved.into_iter().map(|(_, slot, content)| Write::Slot(slot, content));
        let writes = slots.chain([index]);
        match part {
            0 => writes.for_each(|write| target.tear(write)),
            1 => writes.for_each(|write| target.land(write)),
            _ => target.land(Write::Mark(mark.epoch, Some(mark))),
        }
        Ok(())
    }

    /// What is wrong if not all holders of a rank have the same of an epoch.
    fn differs(&self, rank: usize, epoch: Epoch) -> Option<String> {
        if epoch == Epoch(0) {
            return None;
        }
        let mut all: Vec<Option<Saved>> = Vec::new();
        for host in &self.holders[rank] {
            all.push(self.stores[rank].get(host).and_then(|store| store.read(epoch)));
        }
        let is_one = all.iter().all(|saved| saved.is_some() && *saved == all[0]);
        (!is_one).then(|| format!("stores of rank {rank} do not have epoch {epoch}, from which it goes on"))
    }
}

/// A mistake: one rank's mark counts for all ranks.
fn take_the_maximum(survey: &mut [RankStores]) {
    let stores = || survey.iter().flat_map(|rank| &rank.survivors);
    let newest = stores().map(|store| store.base.incarnation).max();
    let marks: BTreeSet<Mark> = stores().flat_map(|store| store.marks).flatten().collect();
    let own = marks.into_iter().filter(|mark| Some(mark.incarnation) == newest);
    let Some(mark) = own.max_by_key(|mark| mark.epoch) else { return };
    let set = |store: &mut Survivor| store.marks[usize::from(!mark.epoch.0.is_multiple_of(2))] = Some(mark);
    survey.iter_mut().flat_map(|rank| &mut rank.survivors).for_each(set);
}

/// A mistake: a mark counts whatever its incarnation is.
fn take_any_incarnation(survey: &mut [RankStores]) {
    let stores = survey.iter().flat_map(|rank| &rank.survivors);
    let Some(newest) = stores.map(|store| store.base.incarnation).max() else { return };
    for store in survey.iter_mut().flat_map(|rank| &mut rank.survivors) {
        store.marks.iter_mut().flatten().for_each(|mark| mark.incarnation = newest);
    }
}

/// A mistake: hosts that came back have what others have.
fn take_for_whole(rank: &mut RankStores, hosts: u32) {
    let Some(one) = rank.survivors.first().copied() else { return };
    let is_known = |host: &u32| rank.survivors.iter().any(|store| store.host == *host);
    let lacking: Vec<u32> =
        rank.holders.iter().copied().filter(|host| *host >= hosts && !is_known(host)).collect();
    rank.survivors.extend(lacking.into_iter().map(|host| Survivor { host, ..one }));
}
