//! Deaths, and the coordinator that carries out the real plan. What it finds is compared with what was.

use crate::store::{Index, Memory, Store, Write};
use crate::world::{Crash, Cut, Host, Phase, World, Wrong, new_rank};
use crate::{Mutant, Setup};
use scash_ft::recovery::{KnownRestart, RankStores, RecoveryAction, Survivor, Unrecoverable, plan};
use scash_ft::{Base, Epoch, Mark};

impl World {
    /// Marks on their way, each with rank and host, that may still arrive after something dies. What was on
    /// its way to a host that dies is of no account.
    pub(crate) fn marks_under_way(&self, what: Crash) -> Vec<(usize, usize, Write)> {
        let mut marks = self.under_way();
        marks.retain(|(_, host, write)| {
            matches!(write, Write::Mark(..)) && what != Crash::Host(u32::try_from(*host).unwrap())
        });
        marks
    }

    fn under_way(&self) -> Vec<(usize, usize, Write)> {
        let mut all = Vec::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            let to = |holder: u8| self.holders[number][usize::from(holder)] as usize;
            all.extend(rank.pending.iter().map(|(holder, write)| (number, to(*holder), *write)));
        }
        all
    }

    /// Something dies. All ranks are killed then; nothing more arrives. Ranks that went on between both would
    /// be no different from ranks that went on before.
    pub(crate) fn crash(&mut self, what: Crash, marks: u32, setup: &Setup) {
        let arriving = self.marks_under_way(what);
        for (rank, host, write) in self.under_way() {
            self.store(rank, host).tear(write);
        }
        for (bit, (rank, host, write)) in arriving.into_iter().enumerate() {
            if marks & (1 << bit) != 0 {
                self.store(rank, host).land(write);
            }
        }
        self.crashes_left -= 1;
        (self.ranks, self.verdict, self.interval) = (Vec::new(), None, 0);
        match what {
            Crash::Rank => {}
            Crash::Coordinator => self.known = KnownRestart::Nothing,
            Crash::Host(host) => {
                self.gone.push(host);
                self.stores.iter_mut().for_each(|stores| stores[host as usize] = None);
                self.hosts[host as usize] = if setup.spares { Host::Up } else { Host::Down };
            }
            Crash::Network(host) => {
                self.gone.push(host);
                self.hosts[host as usize] = Host::CutOff;
            }
        }
        self.gone.sort_unstable();
        self.gone.dedup();
    }

    fn store(&mut self, rank: usize, host: usize) -> &mut Store {
        self.stores[rank][host].get_or_insert_default()
    }

    /// A coordinator begins: it looks at the stores and makes a plan.
    pub(crate) fn recover(&mut self, back: bool, setup: &Setup) -> Result<(), Wrong> {
        for host in self.hosts.iter_mut().filter(|host| back && **host == Host::CutOff) {
            *host = Host::Up;
        }
        let known = if World::is(setup, Mutant::NothingKnown) { KnownRestart::Nothing } else { self.known };
        match plan(&self.survey(setup), known) {
            Ok(plan) => {
                self.check_epoch(plan.base.epoch)?;
                let mut steps = plan.steps;
                if World::is(setup, Mutant::NoCatchingUp) {
                    steps.retain(
                        |step| !matches!(step, RecoveryAction::WriteBase { base, .. } if *base != plan.base),
                    );
                }
                if World::is(setup, Mutant::BaseRecordsFirst) {
                    steps.sort_by_key(|step| {
                        (*step == RecoveryAction::Start { base: plan.base }, is_copy(step))
                    });
                }
                steps.reverse();
                self.phase = Phase::Recovering { steps, within: 0 };
                Ok(())
            }
            Err(Unrecoverable::Lost { rank, .. }) if self.may_be_lost(rank as usize) => {
                self.phase = Phase::Lost;
                Ok(())
            }
            Err(error) => Err(format!("the coordinator gives up: {error}")),
        }
    }

    /// Whether each host that held a store of the rank at the newest start has died since, or was cut off:
    /// one that is back has not got what was sent meanwhile.
    fn may_be_lost(&self, rank: usize) -> bool {
        self.holders[rank].iter().all(|host| self.gone.contains(host))
    }

    /// The epoch is the committed one, or the one that all ranks had staged. Where all stores of a rank are
    /// gone, nobody can know how far it was, and the job may begin anew.
    fn check_epoch(&self, epoch: Epoch) -> Result<(), Wrong> {
        let anew = epoch == Epoch(0) && (0..self.holders.len()).any(|rank| self.may_be_lost(rank));
        let staged = self.staged.as_ref().is_some_and(|cut| cut.epoch == epoch);
        if epoch == self.committed.epoch || staged || anew {
            return Ok(());
        }
        Err(format!("ranks go on from epoch {epoch}, though epoch {} is committed", self.committed.epoch))
    }

    fn survey(&self, setup: &Setup) -> Vec<RankStores> {
        let reachable = |(host, store): (usize, &Option<Store>)| {
            let store = store.as_ref().filter(|_| self.hosts[host] == Host::Up)?;
            Some(store.survivor(u32::try_from(host).unwrap()))
        };
        let survivors =
            |stores: &Vec<Option<Store>>| stores.iter().enumerate().filter_map(reachable).collect();
        let of = self.stores.iter().zip(self.placement(setup));
        let mut survey: Vec<RankStores> =
            of.map(|(stores, holders)| RankStores { survivors: survivors(stores), holders }).collect();
        match setup.mutant {
            Some(Mutant::Maximum) => take_the_maximum(&mut survey),
            Some(Mutant::AnyIncarnation) => take_any_incarnation(&mut survey),
            _ => {}
        }
        survey
    }

    /// The coordinator does a step, or a part of it.
    pub(crate) fn recovery_step(&mut self, setup: &Setup) -> Result<(), Wrong> {
        let Phase::Recovering { steps, within } = &mut self.phase else { return Ok(()) };
        let part = *within;
        let step = *steps.last().expect("the start is the last step");
        let ends = part == 2 || !is_copy(&step);
        *within = if ends { 0 } else { part + 1 };
        self.known.begin(&step);
        if ends {
            steps.pop();
        }
        match step {
            RecoveryAction::Copy { rank, from, to, mark } => {
                self.copy(rank as usize, from as usize, to as usize, mark, part)
            }
            RecoveryAction::WriteBase { rank, host, base } => {
                self.store(rank as usize, host as usize).base = base;
                Ok(())
            }
            RecoveryAction::Start { base } => self.start(base, setup),
        }
    }

    /// Parts of a copy: some bytes have arrived, all have, the mark has.
    fn copy(&mut self, rank: usize, from: usize, to: usize, mark: Mark, part: u8) -> Result<(), Wrong> {
        let source = self.store(rank, from).read(mark.epoch);
        let (index, memory) = source.ok_or_else(|| format!("a torn store of rank {rank} is copied"))?;
        let target = self.store(rank, to);
        let slots = index.into_iter().zip(memory).map(|(slot, content)| Write::Slot(slot, content));
        let writes = slots.chain([Write::Index(mark.epoch, index)]);
        match part {
            0 => writes.for_each(|write| target.tear(write)),
            1 => writes.for_each(|write| target.land(write)),
            _ => target.land(Write::Mark(mark.epoch, Some(mark))),
        }
        Ok(())
    }

    /// All ranks restore their images and run to their next barrier.
    fn start(&mut self, base: Base, setup: &Setup) -> Result<(), Wrong> {
        self.holders = self.placement(setup);
        let is_it = |cut: &Cut| cut.epoch == base.epoch;
        let beginning = || World::new(setup).committed;
        let staged = self.staged.take().filter(is_it);
        let cut = staged.or(Some(self.committed.clone()).filter(is_it)).unwrap_or_else(beginning);
        for rank in 0..setup.ranks {
            let restored = self.restore(rank, &cut)?;
            self.ranks.push(new_rank(rank, base, &self.holders[usize::from(rank)], restored));
        }
        (self.base, self.committed) = (base, cut);
        self.gone.clear();
        self.phase = Phase::Running;
        self.open(setup);
        Ok(())
    }

    /// What each holder has must be what the rank had.
    fn restore(&self, rank: u8, cut: &Cut) -> Result<Option<(Index, Memory)>, Wrong> {
        if cut.epoch == Epoch(0) {
            return Ok(None);
        }
        let stores = &self.stores[usize::from(rank)];
        let read = |host: &u32| stores[*host as usize].and_then(|store| store.read(cut.epoch));
        for host in &self.holders[usize::from(rank)] {
            let found = read(host).map(|(_, memory)| memory);
            let was = cut.memory[usize::from(rank)];
            if found != Some(was) {
                return Err(format!(
                    "rank {rank}'s store of epoch {} on host {host} has {found:?}, not {was:?}",
                    cut.epoch
                ));
            }
        }
        Ok(self.holders[usize::from(rank)].first().and_then(read))
    }
}

fn is_copy(step: &RecoveryAction) -> bool {
    matches!(step, RecoveryAction::Copy { .. })
}

/// A mutant: one rank's mark counts for all ranks.
fn take_the_maximum(survey: &mut [RankStores]) {
    let stores = || survey.iter().flat_map(|rank| &rank.survivors);
    let newest = stores().map(|store| store.base.incarnation).max();
    let marks = stores().flat_map(|store| store.marks).flatten();
    let Some(mark) = marks.filter(|mark| Some(mark.incarnation) == newest).max() else { return };
    let set = |store: &mut Survivor| store.marks[usize::from(!mark.epoch.0.is_multiple_of(2))] = Some(mark);
    survey.iter_mut().flat_map(|rank| &mut rank.survivors).for_each(set);
}

/// A mutant: a mark counts whatever its incarnation is.
fn take_any_incarnation(survey: &mut [RankStores]) {
    let stores = survey.iter().flat_map(|rank| &rank.survivors);
    let Some(newest) = stores.map(|store| store.base.incarnation).max() else { return };
    for store in survey.iter_mut().flat_map(|rank| &mut rank.survivors) {
        store.marks.iter_mut().flatten().for_each(|mark| mark.incarnation = newest);
    }
}
