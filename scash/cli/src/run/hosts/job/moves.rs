//! Ranks that move to other hosts while the job goes on: to a spare host when theirs is lost, and where the
//! user wants them (`scash migrate`, `scash drain`). They move as ranks come back: all are ended, their
//! stores are copied to where they go, and all are started again. Those that could stay move when a
//! checkpoint has just been taken.

use super::Job;
use super::survive::Survival;
use crate::run::hosts::link::Stage;
use crate::run::hosts::placement::Wanted;
use crate::run::recovery::Loss;
use scash_join::boot::{Exit, Layout};
use std::collections::BTreeSet;
use std::time::Instant;

/// Which ranks are to run elsewhere.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// From when they are started next.
    wanted: Wanted,
    /// Hosts that ranks of lost ones go to.
    spares: BTreeSet<u32>,
    /// Those of them that could stay: they move when a checkpoint has been taken.
    asked: BTreeSet<u32>,
}

impl Moves {
    /// Of a job that begins so. `has_spares`: hosts without ranks are there for those that are lost.
    pub(super) fn new(layout: &Layout, has_spares: bool) -> Moves {
        let spares = (0..layout.hosts()).filter(|host| has_spares && layout.first_of(*host).is_none());
        Moves { spares: spares.collect(), ..Moves::default() }
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Ranks are started where they are wanted.
    pub(super) fn are_done(&mut self) {
        self.wanted.clear();
        self.asked.clear();
    }

    /// A rank is to run there, from the next checkpoint on.
    fn want(&mut self, rank: u32, host: u32) {
        self.wanted.insert(rank, host);
        self.asked.insert(rank);
    }

    /// That host is to have no ranks any more, also if others are lost.
    fn drain(&mut self, layout: &Layout, host: u32, others: &BTreeSet<u32>) -> Wanted {
        self.spares.remove(&host);
        let mut counts: Vec<(usize, u32)> =
            others.iter().map(|other| (layout.ranks_of(*other).count(), *other)).collect();
        let mut to = Wanted::new();
        for rank in layout.ranks_of(host) {
            let Some(fewest) = counts.iter_mut().min() else { return to };
            fewest.0 += 1;
            to.insert(rank, fewest.1);
        }
        to
    }

    /// A host is out of reach: its ranks, and those that were on their way to it, go to a spare host if there
    /// is one left.
    fn replace(&mut self, layout: &Layout, host: u32, is_there: impl Fn(u32) -> bool) {
        self.spares.remove(&host);
        let on_the_way = self.wanted.iter().filter(|(_, to)| **to == host).map(|(rank, _)| *rank);
        let ranks: BTreeSet<u32> = layout.ranks_of(host).chain(on_the_way).collect();
        if ranks.is_empty() {
            return;
        }
        let spare = self.spares.iter().copied().find(|spare| is_there(*spare));
        for rank in ranks {
            match spare {
                Some(spare) => drop(self.wanted.insert(rank, spare)),
                None => drop(self.wanted.remove(&rank)),
            }
        }
        if let Some(spare) = spare {
            self.spares.remove(&spare);
        }
    }
}

impl Job<'_> {
    /// A host is out of reach: says where its ranks go.
    pub(super) fn replace(&mut self, host: u32) {
        let links = &self.links;
        let is_there = |spare: u32| links[spare as usize].stage == Stage::Running;
        if let Some(Survival { moves, .. }) = &mut self.survival {
            moves.replace(&self.layout, host, is_there);
        }
    }

    /// All ranks have an epoch: a good time to move those that are to.
    pub(super) fn move_ranks(&mut self) {
        let may_go_on = self.supervisor.may_go_on();
        let Some(Survival { moves, recovery, is_finished, .. }) = &mut self.survival else { return };
        let mut asked = std::mem::take(&mut moves.asked);
        asked.retain(|rank| moves.wanted.contains_key(rank));
        let Some(rank) = asked.first().filter(|_| may_go_on && !*is_finished) else { return };
        let host = |rank: &u32| Some(&self.hosts.names[*moves.wanted.get(rank)? as usize]);
        let news = asked.iter().filter_map(|rank| Some(format!("rank {rank} moves to host {}", host(rank)?)));
        let why = news.collect::<Vec<String>>().join(", ");
        let moved = Loss { rank: *rank, exit: Exit::Signal(9), host: None, hint: "", with_host: Some(why) };
        let step = recovery.lost_host(moved, Instant::now());
        // It cannot fail: only starting can.
        let _ = self.take_step(step);
    }

    /// The user wants a rank elsewhere. Returns what to say.
    pub(super) fn migrate(&mut self, rank: &str, host: &str) -> Result<String, String> {
        let to = self.host_that_is_there(host)?;
        let ranks = self.plan.ranks;
        let rank = rank.parse().ok().filter(|rank| *rank < ranks);
        let rank = rank.ok_or_else(|| format!("this job has ranks 0 to {}", ranks - 1))?;
        if self.layout.is_on(rank, to) {
            return Err(format!("rank {rank} is on host {host}"));
        }
        self.moves()?.want(rank, to);
        Ok(format!("rank {rank} moves to host {host} with the next checkpoint"))
    }

    /// The user wants a host to have no ranks. Returns what to say.
    pub(super) fn drain(&mut self, host: &str) -> Result<String, String> {
        let from = self.host_that_is_there(host)?;
        let hosts = 0..self.layout.hosts();
        let others =
            hosts.filter(|other| *other != from && self.links[*other as usize].stage == Stage::Running);
        let others: BTreeSet<u32> = others.collect();
        if others.is_empty() {
            return Err(format!("there is no host but {host}"));
        }
        let layout = self.layout.clone();
        let to = self.moves()?.drain(&layout, from, &others);
        for (rank, to) in &to {
            self.moves()?.want(*rank, *to);
        }
        Ok(match to.len() {
            0 => format!("host {host} has no ranks"),
            count => format!("{count} ranks of host {host} move with the next checkpoint"),
        })
    }

    fn moves(&mut self) -> Result<&mut Moves, String> {
        let survival = self.survival.as_mut().filter(|survival| !survival.is_finished);
        let moves = survival.map(|survival| &mut survival.moves);
        moves.ok_or_else(|| "ranks of this job cannot move: start it with --replicas".to_owned())
    }

    fn host_that_is_there(&self, name: &str) -> Result<u32, String> {
        let number = (0..).zip(&self.hosts.names).find(|(_, known)| *known == name).map(|(number, _)| number);
        let number: u32 = number.ok_or_else(|| {
            format!("this job has no host {name}: its hosts are {}", self.hosts.names.join(", "))
        })?;
        match self.links[number as usize].stage {
            Stage::Running => Ok(number),
            Stage::Done | Stage::Gone => Err(format!("host {name} is lost")),
            _ => Err("the job is only being started".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_lost_host_go_to_a_spare_one_while_there_are_any() {
        let layout = Layout::with_spares(&[2, 1], 2).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.replace(&layout, 0, |_| true);
        assert_eq!(*moves.wanted(), Wanted::from([(0, 2), (1, 2)]));
        // That one is lost, too, before they have come.
        moves.replace(&layout, 2, |_| true);
        assert_eq!(*moves.wanted(), Wanted::from([(0, 3), (1, 3)]));
        moves.replace(&layout, 3, |_| true);
        assert_eq!(*moves.wanted(), Wanted::new(), "they are adopted");
    }

    #[test]
    fn a_spare_host_that_is_not_there_gets_no_ranks_and_without_any_nobody_moves() {
        let layout = Layout::with_spares(&[2, 1], 1).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.replace(&layout, 0, |_| false);
        assert_eq!(*moves.wanted(), Wanted::new());
        let mut moves = Moves::new(&layout, false);
        moves.replace(&layout, 0, |_| true);
        assert_eq!(*moves.wanted(), Wanted::new());
    }
}
