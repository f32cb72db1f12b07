//! Ghosts: ranks of a host that was taken for lost, whose job has gone on without them.
//!
//! They have what they had: their memory, the links among themselves, messages that were on their way to
//! them, and stores of their own hosts. All others of their incarnation are dead, and so are the processes
//! that took what ghosts put into stores of other hosts. Ranks of the next incarnation have another secret,
//! and do not hear them. A ghost takes its steps in its own [`Past`], with the oracle of the time when the
//! others were ended: what it reads must be right, and no epoch may be committed there that the others have
//! not gone on from.

use super::{Cut, Life, Survival};
use crate::deaths::Mistake;
use crate::net::Net;
use crate::program::Program;
use crate::world::{Failure, Happened, RankState, Result, Task, World, number};
use scash_ft::Epoch;
use scash_proto::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::swap;

/// An incarnation of which some ranks live on, or the one that runs now, while a ghost takes a step.
pub(super) struct Past {
    ranks: Vec<RankState>,
    net: Net,
    claims: BTreeMap<u32, Rank>,
    happened: Happened,
    oracle: Vec<u8>,
    tasks: Vec<Task>,
    begun: BTreeSet<u32>,
    holders: Vec<Vec<u32>>,
    ended: BTreeSet<u32>,
    committed: Cut,
    staged: Option<Cut>,
    limit: Option<Epoch>,
}

impl Past {
    /// What a job has besides its ranks when it goes on from an epoch without some of them.
    pub(super) fn of(survival: &Survival, others: Epoch) -> Past {
        Past {
            ranks: Vec::new(),
            net: Net::default(),
            claims: BTreeMap::new(),
            happened: Happened::default(),
            oracle: Vec::new(),
            tasks: Vec::new(),
            begun: BTreeSet::new(),
            holders: survival.holders.clone(),
            ended: survival.ended.clone(),
            committed: survival.committed.clone(),
            staged: survival.staged.clone(),
            limit: Some(others),
        }
    }

    /// The oldest interval in which one of its ranks is.
    pub(super) fn oldest_interval(&self) -> Option<u32> {
        self.alive().map(|rank| rank.interval).min()
    }

    fn alive(&self) -> impl Iterator<Item = &RankState> {
        self.ranks.iter().filter(|rank| !matches!(rank.life, Life::Dead))
    }
}

impl<P: Program> World<P> {
    /// All ranks are new ones. The old ones that live are ghosts from now on.
    pub(super) fn leave_behind(&mut self, mut past: Past) {
        let new = (0..self.setup.size).map(|rank| self.new_rank(rank)).collect();
        past.ranks = std::mem::replace(&mut self.ranks, new);
        past.tasks = std::mem::take(&mut self.tasks);
        past.begun = self.begun.clone();
        let (hears, keeps) = (self.survival().is(Mistake::Ghosts), self.survival().is(Mistake::OldClaims));
        if !hears {
            past.net = std::mem::take(&mut self.net);
        }
        if !keeps {
            past.claims = std::mem::take(&mut self.claims);
        }
        // A rank that goes on from its image, where it was, finds the frames that its process had.
        let survival = self.survival();
        let goes_on = survival.base.epoch != Epoch(0);
        let place = |holders: &[Vec<u32>], rank: usize| holders[rank].first().copied();
        let stays = |rank: usize| goes_on && place(&past.holders, rank) == place(&survival.holders, rank);
        let stay: Vec<bool> = (0..past.ranks.len()).map(stays).collect();
        for (rank, old) in past.ranks.iter_mut().enumerate() {
            if stay[rank] && matches!(old.life, Life::Dead) {
                self.ranks[rank].frames.inherit(&mut old.frames);
            }
        }
        past.happened = std::mem::take(&mut self.happened);
        past.oracle = std::mem::take(&mut self.oracle);
        let alive = past.alive().count() as u64;
        if alive > 0 {
            self.trace(|| format!("{alive} ranks live on without the others"));
            let survival = self.survival();
            survival.counts.network.ghosts += alive;
            survival.pasts.push(past);
        }
    }

    /// Another incarnation's ranks take steps now, or the newest one's again.
    fn swap_past(&mut self, past: &mut Past) {
        swap(&mut self.ranks, &mut past.ranks);
        swap(&mut self.net, &mut past.net);
        swap(&mut self.claims, &mut past.claims);
        swap(&mut self.happened, &mut past.happened);
        swap(&mut self.oracle, &mut past.oracle);
        swap(&mut self.tasks, &mut past.tasks);
        swap(&mut self.begun, &mut past.begun);
        let survival = self.survival();
        swap(&mut survival.holders, &mut past.holders);
        swap(&mut survival.ended, &mut past.ended);
        swap(&mut survival.committed, &mut past.committed);
        swap(&mut survival.staged, &mut past.staged);
        swap(&mut survival.limit, &mut past.limit);
    }

    /// A ghost takes a step, now and then.
    pub(super) fn ghosts_go_on(&mut self) -> Result<()> {
        let survival = self.survival();
        if survival.pasts.is_empty() || !survival.rng.chance(40) {
            return Ok(());
        }
        let at = survival.rng.below(number(survival.pasts.len())) as usize;
        let mut past = survival.pasts.swap_remove(at);
        self.swap_past(&mut past);
        self.any_task().map_err(|Failure(what)| Failure(format!("{what}  (among ghosts)\n")))?;
        self.survival().counts.network.ghosts_steps += 1;
        self.speak_to_the_dead(&mut past);
        self.swap_past(&mut past);
        self.survival().pasts.push(past);
        Ok(())
    }

    /// Any task takes a step.
    pub(super) fn any_task(&mut self) -> Result<()> {
        if self.tasks.is_empty() {
            return Ok(());
        }
        let at = self.rng.below(number(self.tasks.len())) as usize;
        self.step(at).map(drop)
    }

    /// What ghosts send to ranks that are dead is lost. Puts stay under way: they never land.
    fn speak_to_the_dead(&mut self, others: &mut Past) {
        let are_heard = self.survival().is(Mistake::GhostsAreHeard);
        for (from, to) in self.net.busy() {
            if !self.is_dead(to as usize) {
                continue;
            }
            let messages = self.net.lose_messages(from, to);
            self.survival().counts.network.refused += messages.len() as u64;
            for message in messages.into_iter().filter(|_| are_heard) {
                if others.net.send(from, to, message.kind, message.bytes) {
                    others.tasks.push(Task::Channel(from as usize, to as usize));
                }
            }
        }
    }

    /// The agent of a host that is not in the job any more ends its ranks, and its stores are gone.
    pub(super) fn end_ghosts(&mut self, host: u32) {
        self.end_ranks_of(host);
        for mut past in std::mem::take(&mut self.survival().pasts) {
            self.swap_past(&mut past);
            self.end_ranks_of(host);
            self.swap_past(&mut past);
            if past.alive().next().is_some() {
                self.survival().pasts.push(past);
            }
        }
        self.survival().stores.iter_mut().for_each(|stores| drop(stores.remove(&host)));
    }
}
