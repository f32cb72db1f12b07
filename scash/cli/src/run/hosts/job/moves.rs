//! Ranks that move to other hosts while the job goes on: to a spare host when theirs is lost, back to theirs
//! when it has come back, and where the user wants them (`scash migrate`, `scash drain`). They move as ranks
//! come back: all are ended, their stores are copied to where they go, and all are started again. Those that
//! could stay move when a checkpoint has just been taken.

use super::Job;
use crate::run::hosts::link::AgentStage;
use crate::run::hosts::placement::{Relocations, Wishes};
use crate::run::recovery::Loss;
use scash_join::boot::{Exit, Layout};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// So long after a checkpoint ranks may move: they do again what they have done since.
const GOOD_TIME: Duration = Duration::from_secs(1);

/// Which ranks are to run elsewhere.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// From when they are started next.
    wanted: Relocations,
    /// What was wanted when it was decided where ranks go on: more may be asked for before they do.
    planned: Relocations,
    /// Ranks of `wanted` that could stay: they move when a checkpoint has been taken.
    asked: BTreeSet<u32>,
    /// Whether ranks of lost hosts go to spare ones.
    has_spares: bool,
    /// Those that have no ranks yet.
    spares: BTreeSet<u32>,
    /// Hosts that the user wants to switch off.
    drained: BTreeSet<u32>,
    /// Ranks that could not go on from a checkpoint at hosts that are there: by rank and host.
    refused: BTreeSet<(u32, u32)>,
    /// Ranks that others have adopted, and the host of each that was lost.
    adopted: BTreeMap<u32, u32>,
    /// Ranks that have moved since all ran the last time, and from where; but from drained hosts.
    came_from: Relocations,
    /// Until when those of `asked` may move, after a checkpoint.
    good_until: Option<Instant>,
    /// Ranks for which all are started again, and what was said of where they go.
    told: (BTreeSet<u32>, String),
}

impl Moves {
    /// Of a job that begins so. `has_spares`: hosts without ranks are there for those that are lost.
    pub(super) fn new(layout: &Layout, has_spares: bool) -> Moves {
        let spares = (0..layout.hosts()).filter(|host| has_spares && layout.first_of(*host).is_none());
        Moves { has_spares, spares: spares.collect(), ..Moves::default() }
    }

    /// Ranks that others have adopted, and the host of each.
    pub(super) fn adopted(&self) -> Vec<(u32, u32)> {
        self.adopted.iter().map(|(rank, host)| (*rank, *host)).collect()
    }

    /// Under another launcher ranks ran so, and these were adopted.
    pub(super) fn take_over(&mut self, layout: &Layout, adopted: &[(u32, u32)]) {
        let has_no_home = |host: &u32| adopted.iter().all(|(_, home)| home != host);
        self.spares = Moves::new(layout, self.has_spares).spares;
        self.spares.retain(has_no_home);
        self.adopted = adopted.iter().copied().collect();
    }

    pub(super) fn wanted(&self) -> &Relocations {
        &self.wanted
    }

    /// What is wanted as it is decided where ranks go on; without those that could stay, unless all is read
    /// that ranks have printed: these would wait for that, and all others with them.
    pub(super) fn plan(&mut self, all_is_read: bool) -> Wishes<'_> {
        self.planned.clone_from(&self.wanted);
        self.planned.retain(|rank, _| all_is_read || !self.asked.contains(rank));
        Wishes { wanted: &self.planned, ..self.without_wanted() }
    }

    /// Where ranks may go, wherever they are wanted.
    pub(super) fn without_wanted(&self) -> Wishes<'_> {
        Wishes { came_from: &self.came_from, refused: &self.refused, ..Wishes::NONE }
    }

    /// It is decided that ranks go on so. If all are started again for some that move: what was said of where
    /// these go, and what is to be said now, as more may have been asked for since.
    pub(super) fn retold(&mut self, next: &Layout, names: &[String]) -> Option<(String, String)> {
        let (ranks, before) = std::mem::take(&mut self.told);
        let now = told(&ranks, |rank| Some(next.host_of(rank)), names);
        (!ranks.is_empty() && now != before).then_some((before, now))
    }

    /// Ranks are started where they are wanted, or else where `next` says if they were where `before` says.
    pub(super) fn are_done(&mut self, before: &Layout, next: &Layout) {
        for rank in 0..next.size() {
            let (from, to) = (before.host_of(rank), next.host_of(rank));
            if from != to && !self.drained.contains(&from) {
                self.came_from.entry(rank).or_insert(from);
            }
            if self.wanted.get(&rank) == Some(&to) || self.adopted.get(&rank) == Some(&to) {
                self.adopted.remove(&rank);
            } else if from != to {
                // Whoever adopts it may be lost in its turn.
                self.adopted.entry(rank).or_insert(from);
            }
        }
        self.good_until = None;
        self.wanted.retain(|rank, to| self.planned.get(rank) != Some(to));
        self.asked.retain(|rank| self.wanted.contains_key(rank));
    }

    /// All ranks go on where they are.
    pub(super) fn go_on(&mut self) {
        self.came_from.clear();
    }

    /// Ranks that could stay where they are stay there.
    pub(super) fn call_off(&mut self) {
        for rank in std::mem::take(&mut self.asked) {
            self.wanted.remove(&rank);
        }
    }

    /// Ranks whose host is there again are to go back to it.
    pub(super) fn go_home(&mut self, is_there: impl Fn(u32) -> bool) {
        let is_home = |host: u32| is_there(host) && !self.drained.contains(&host) && self.is_fit(host);
        let all =
            self.adopted.iter().filter(|(rank, host)| is_home(**host) && !self.wanted.contains_key(rank));
        let all: Vec<(u32, u32)> = all.map(|(rank, host)| (*rank, *host)).collect();
        for (rank, host) in all {
            self.want(rank, host);
        }
    }

    /// A host is there again, or may have ranks again: if a spare one has its ranks now, or it was one, it is
    /// one from now on.
    pub(super) fn returned(&mut self, layout: &Layout, host: u32) {
        self.refused.retain(|(_, of)| *of != host);
        // Those that others have adopted for a host where they could not go on may go on at this one.
        for home in self.adopted.values_mut().filter(|home| self.refused.iter().any(|(_, of)| of == *home)) {
            *home = host;
        }
        let has_ranks = layout.first_of(host).is_some() || self.adopted.values().any(|home| *home == host);
        if self.has_spares && !has_ranks && !self.drained.contains(&host) {
            self.spares.insert(host);
        }
    }

    /// A rank is to run there, from the next checkpoint on.
    fn want(&mut self, rank: u32, host: u32) {
        self.drained.remove(&host);
        self.refused.retain(|(_, of)| *of != host);
        self.wanted.insert(rank, host);
        self.asked.insert(rank);
    }

    /// That host is to have no ranks any more: they go to the others, where there are fewest. Returns how
    /// many there are; none if there is no other host.
    fn drain(&mut self, layout: &Layout, host: u32, others: impl Iterator<Item = u32>) -> Option<usize> {
        let is_open = |other: u32| !self.drained.contains(&other) && self.is_fit(other);
        let others = others.filter(|other| *other != host && is_open(*other));
        let mut counts: Vec<(usize, u32)> =
            others.map(|other| (layout.ranks_of(other).count(), other)).collect();
        let on_the_way = self.wanted.iter().filter(|(_, to)| **to == host).map(|(rank, _)| *rank);
        let ranks: BTreeSet<u32> = layout.ranks_of(host).chain(on_the_way).collect();
        for rank in &ranks {
            let fewest = counts.iter_mut().min()?;
            fewest.0 += 1;
            let to = fewest.1;
            self.adopted.remove(rank);
            self.want(*rank, to);
        }
        self.spares.remove(&host);
        self.drained.insert(host);
        Some(ranks.len())
    }

    /// A host is out of reach: its ranks, and those that were on their way to it, go to a spare host if there
    /// is one left. If they wait for it, its ranks stay where they are, should it come back in time.
    fn replace(&mut self, layout: &Layout, host: u32, they_wait: bool, is_there: impl Fn(u32) -> bool) {
        self.spares.remove(&host);
        // These cannot stay.
        self.asked.retain(|rank| !layout.is_on(*rank, host));
        if they_wait {
            self.wanted.retain(|_, to| *to != host);
            self.wanted.extend(layout.ranks_of(host).map(|rank| (rank, host)));
            return;
        }
        let on_the_way = self.wanted.iter().filter(|(_, to)| **to == host).map(|(rank, _)| *rank);
        // Others that leave it are on their way already.
        let leaves = |rank: &u32| self.wanted.get(rank).is_some_and(|to| *to != host && is_there(*to));
        let stay = layout.ranks_of(host).filter(|rank| !leaves(rank));
        let ranks: BTreeSet<u32> = stay.chain(on_the_way).collect();
        if ranks.is_empty() {
            return;
        }
        let spare = self.take_spare(is_there);
        for rank in ranks {
            match spare {
                Some(spare) => drop(self.wanted.insert(rank, spare)),
                None => drop(self.wanted.remove(&rank)),
            }
        }
    }

    /// A spare host, which is none from now on.
    fn take_spare(&mut self, is_there: impl Fn(u32) -> bool) -> Option<u32> {
        let spare = self.spares.iter().copied().find(|spare| is_there(*spare))?;
        self.spares.remove(&spare);
        Some(spare)
    }

    /// Whether ranks may come to a host, as far as is known.
    fn is_fit(&self, host: u32) -> bool {
        self.refused_at(host).next().is_none()
    }

    /// Ranks that could not go on at a host.
    pub(super) fn refused_at(&self, host: u32) -> impl Iterator<Item = u32> {
        self.refused.iter().filter(move |(_, of)| *of == host).map(|(rank, _)| *rank)
    }

    /// A rank could not go on at a host, which is there. It goes back to where it has come from, or else to a
    /// spare host; and no other comes to this one until it was lost and is back, or the user wants that.
    fn refuse(&mut self, rank: u32, host: u32, is_there: impl Fn(u32) -> bool) {
        self.spares.remove(&host);
        self.wanted.retain(|_, to| *to != host);
        self.asked.retain(|rank| self.wanted.contains_key(rank));
        // Others that could not go on there go the same way.
        let other = self.refused_at(host).find_map(|other| self.wanted.get(&other).copied());
        self.refused.insert((rank, host));
        let may_go_back = self.came_from.get(&rank).is_some_and(|from| is_there(*from) && self.is_fit(*from));
        if !may_go_back && let Some(to) = other.or_else(|| self.take_spare(is_there)) {
            self.wanted.insert(rank, to);
        }
    }
}

/// Where ranks go, for people.
fn told(ranks: &BTreeSet<u32>, host: impl Fn(u32) -> Option<u32>, names: &[String]) -> String {
    let one = |rank: &u32| Some(format!("rank {rank} moves to host {}", names[host(*rank)? as usize]));
    ranks.iter().filter_map(one).collect::<Vec<String>>().join(", ")
}

impl Job<'_> {
    /// A host is out of reach: says where its ranks go.
    pub(super) fn replace(&mut self, host: u32, they_wait: bool) {
        let links = &self.links;
        let is_there = |spare: u32| links[spare as usize].stage == AgentStage::Running;
        if let Some(survival) = &mut self.survival {
            survival.moves.replace(&self.layout, host, they_wait, is_there);
        }
    }

    /// A rank could not go on from its checkpoint at a host. That keeps what it has, and all come back once
    /// more, this one elsewhere.
    pub(super) fn go_on_elsewhere(&mut self, host: u32, rank: u32, exit: Exit) {
        let links = &self.links;
        let is_there = |other: u32| links[other as usize].stage == AgentStage::Running;
        let Some(survival) = &mut self.survival else { return };
        survival.moves.refuse(rank, host, is_there);
        let name = &links[host as usize].name;
        let why = format!("rank {rank} cannot go on from its checkpoint on host {name}");
        let loss = Loss { rank, exit, host: None, hint: "", with_host: Some(why) };
        let step = survival.recovery.lost_host(loss, Instant::now());
        // It cannot fail: only starting can.
        let _ = self.take_step(step);
    }

    /// All ranks have an epoch: a good time to move those that are to.
    pub(super) fn move_ranks(&mut self) {
        if let Some(survival) = &mut self.survival {
            survival.moves.good_until = Some(Instant::now() + GOOD_TIME);
        }
        self.move_ranks_if_all_is_read();
    }

    /// The same, once all is read that ranks have printed. All would stand still until then.
    pub(super) fn move_ranks_if_all_is_read(&mut self) {
        let (all_is_read, may_go_on) = (self.printers.are_idle(), self.supervisor.may_go_on());
        let Some(survival) = &mut self.survival else { return };
        let moves = &mut survival.moves;
        let is_good = moves.good_until.is_some_and(|until| Instant::now() < until);
        let come_back = survival.recall.is_under_way() || survival.recovery.awaits_joining();
        // A rank whose exit is not told of yet would be started again.
        if !is_good || !all_is_read || come_back || !self.held_back.is_empty() {
            return;
        }
        moves.good_until = None;
        let mut asked = std::mem::take(&mut moves.asked);
        asked.retain(|rank| moves.wanted.contains_key(rank));
        let Some(rank) = asked.first().filter(|_| may_go_on && !survival.is_finished) else { return };
        let rank = *rank;
        let host = |rank| moves.wanted.get(&rank).copied();
        let why = told(&asked, host, &self.hosts.names);
        moves.told = (asked, why.clone());
        let moved = Loss { rank, exit: Exit::Signal(9), host: None, hint: "", with_host: Some(why) };
        let step = survival.recovery.lost_host(moved, Instant::now());
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
        let moves = self.moves()?;
        moves.adopted.remove(&rank);
        moves.want(rank, to);
        Ok(format!("rank {rank} moves to host {host} with the next checkpoint"))
    }

    /// The user wants a host to have no ranks. Returns what to say.
    pub(super) fn drain(&mut self, host: &str) -> Result<String, String> {
        let from = self.host_that_is_there(host)?;
        let is_there = |other: &u32| self.links[*other as usize].stage == AgentStage::Running;
        let others: Vec<u32> = (0..self.layout.hosts()).filter(is_there).collect();
        let layout = self.layout.clone();
        let count = self.moves()?.drain(&layout, from, others.into_iter());
        match count {
            None => Err(format!("there is no other host for the ranks of {host}")),
            Some(0) => Ok(format!("host {host} has no ranks, and gets none")),
            Some(count) => Ok(format!("{count} ranks of host {host} move with the next checkpoint")),
        }
    }

    fn moves(&mut self) -> Result<&mut Moves, String> {
        let survival = self.survival.as_mut().filter(|survival| !survival.is_finished);
        let moves = survival.map(|survival| &mut survival.moves);
        moves.ok_or_else(|| "ranks of this job cannot move: start it with --replicas".to_owned())
    }

    /// The number of a host of that name.
    pub(super) fn host_of_name(&self, name: &str) -> Result<u32, String> {
        let number = (0..).zip(&self.hosts.names).find(|(_, known)| *known == name).map(|(number, _)| number);
        number.ok_or_else(|| {
            format!("this job has no host {name}: its hosts are {}", self.hosts.names.join(", "))
        })
    }

    fn host_that_is_there(&self, name: &str) -> Result<u32, String> {
        let number = self.host_of_name(name)?;
        match self.links[number as usize].stage {
            AgentStage::Running => Ok(number),
            AgentStage::Done | AgentStage::Gone => Err(format!("host {name} is lost")),
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
        moves.replace(&layout, 0, false, |_| true);
        assert_eq!(moves.wanted, Relocations::from([(0, 2), (1, 2)]));
        // That one is lost, too, before they have come.
        moves.replace(&layout, 2, false, |_| true);
        assert_eq!(moves.wanted, Relocations::from([(0, 3), (1, 3)]));
        moves.replace(&layout, 3, false, |_| true);
        assert_eq!(moves.wanted, Relocations::new(), "they are adopted");
    }

    #[test]
    fn under_another_launcher_hosts_are_spare_that_have_no_ranks_by_then() {
        let first = Layout::with_spares(&[1, 1], 1).unwrap();
        // Host 0 was lost and is back.
        let layout = first.moved(|rank| [2, 1][rank as usize]).unwrap();
        let mut moves = Moves::new(&first, true);
        moves.take_over(&layout, &[]);
        moves.replace(&layout, 1, false, |_| true);
        assert_eq!(moves.wanted, Relocations::from([(1, 0)]));
        let mut moves = Moves::new(&first, true);
        moves.take_over(&layout, &[(0, 0)]);
        moves.replace(&layout, 1, false, |_| true);
        assert_eq!(moves.wanted, Relocations::new(), "that one's ranks go back to it");
    }

    #[test]
    fn hosts_that_are_drained_one_after_the_other_get_no_ranks_of_each_other() {
        let layout = Layout::with_spares(&[2, 1, 1], 1).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.want(2, 0);
        assert_eq!(moves.drain(&layout, 0, 0..4), Some(3));
        assert_eq!(moves.wanted, Relocations::from([(0, 3), (1, 1), (2, 2)]));
        let next = layout.moved(|rank| [3, 1, 2, 2][rank as usize]).unwrap();
        moves.plan(true);
        moves.are_done(&layout, &next);
        let layout = next;
        assert_eq!(moves.drain(&layout, 2, 0..4), Some(2));
        assert_eq!(moves.wanted, Relocations::from([(2, 1), (3, 3)]));
        moves.plan(true);
        moves.are_done(&layout, &layout);
        assert_eq!(moves.drain(&layout, 0, 0..4), Some(0));
        assert_eq!(moves.drain(&layout, 1, 0..2), None, "all others are drained");
    }

    #[test]
    fn a_spare_host_that_is_not_there_gets_no_ranks_and_without_any_nobody_moves() {
        let layout = Layout::with_spares(&[2, 1], 1).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.replace(&layout, 0, false, |_| false);
        assert_eq!(moves.wanted, Relocations::new());
        let mut moves = Moves::new(&layout, false);
        moves.replace(&layout, 0, false, |_| true);
        assert_eq!(moves.wanted, Relocations::new());
    }

    #[test]
    fn what_is_said_of_ranks_that_move_is_where_they_are_started() {
        let layout = Layout::with_spares(&[1, 1, 1], 0).unwrap();
        let names = ["a", "b", "c"].map(String::from);
        let mut moves = Moves::new(&layout, false);
        let said =
            |host: u32| (BTreeSet::from([1]), format!("rank 1 moves to host {}", names[host as usize]));
        moves.told = said(2);
        let next = |host: u32| layout.moved(|rank| [0, host, 2][rank as usize]).unwrap();
        assert_eq!(moves.retold(&next(2), &names), None);
        moves.told = said(2);
        let (before, now) = moves.retold(&next(0), &names).unwrap();
        assert_eq!((before.as_str(), now.as_str()), ("rank 1 moves to host c", "rank 1 moves to host a"));
        assert_eq!(moves.retold(&next(1), &names), None, "no rank moves any more");
    }

    /// Where ranks are now that were where `layout` says.
    fn settled(moves: &mut Moves, layout: &Layout, hosts: &[u32]) -> Layout {
        let next = layout.moved(|rank| hosts[rank as usize]).unwrap();
        moves.plan(true);
        moves.are_done(layout, &next);
        next
    }

    #[test]
    fn adopted_ranks_go_back_to_their_host_when_it_is_there_unless_the_user_has_said_otherwise() {
        let layout = Layout::new(&[2, 2, 1]).unwrap();
        let mut moves = Moves::new(&layout, false);
        moves.replace(&layout, 1, false, |_| true);
        let layout = settled(&mut moves, &layout, &[0, 0, 2, 2, 2]);
        // Host 2, which has adopted them, is lost, too.
        moves.replace(&layout, 2, false, |_| true);
        let layout = settled(&mut moves, &layout, &[0, 0, 0, 0, 0]);
        moves.go_home(|_| false);
        assert_eq!(moves.wanted, Relocations::new());
        moves.want(1, 2);
        moves.go_home(|host| host == 1);
        assert_eq!(moves.wanted, Relocations::from([(1, 2), (2, 1), (3, 1)]));
        // It is lost once more before they have come.
        moves.replace(&layout, 1, false, |_| true);
        assert_eq!(moves.wanted, Relocations::from([(1, 2)]));
        moves.go_home(|host| host == 1);
        let layout = settled(&mut moves, &layout, &[0, 2, 1, 1, 0]);
        moves.go_home(|host| host == 1);
        assert_eq!(moves.wanted, Relocations::new(), "they are there");
        moves.drain(&layout, 2, 0..3).unwrap();
        moves.go_home(|_| true);
        assert_eq!(
            moves.wanted,
            Relocations::from([(1, 0)]),
            "rank 4 does not go back to a host that is drained"
        );
    }

    #[test]
    fn what_is_asked_for_while_ranks_move_is_done_with_the_next_checkpoint() {
        let layout = Layout::with_spares(&[2], 1).unwrap();
        let mut moves = Moves::new(&layout, false);
        moves.want(0, 1);
        assert_eq!(*moves.plan(true).wanted, Relocations::from([(0, 1)]));
        moves.want(1, 1);
        let layout = layout.moved(|rank| 1 - rank).inspect(|next| moves.are_done(&layout, next)).unwrap();
        assert_eq!((&moves.wanted, moves.asked.contains(&1)), (&Relocations::from([(1, 1)]), true));
        settled(&mut moves, &layout, &[1, 1]);
        assert_eq!((moves.wanted.len(), moves.asked.len()), (0, 0));
    }

    #[test]
    fn ranks_that_could_stay_do_not_move_with_others_while_nobody_reads() {
        let layout = Layout::with_spares(&[1, 1], 1).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.want(0, 2);
        assert!(moves.plan(false).wanted.is_empty());
        moves.are_done(&layout, &layout.clone());
        assert_eq!(*moves.plan(true).wanted, Relocations::from([(0, 2)]), "it is still wanted");
    }

    #[test]
    fn ranks_that_wait_for_their_host_stay_on_it_and_it_is_spare_again_if_another_has_them() {
        let layout = Layout::with_spares(&[1, 1], 1).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.want(0, 1);
        moves.replace(&layout, 1, true, |_| true);
        assert_eq!(moves.wanted, Relocations::from([(1, 1)]));
        let layout = settled(&mut moves, &layout, &[0, 1]);
        moves.replace(&layout, 1, false, |_| true);
        let layout = settled(&mut moves, &layout, &[0, 2]);
        moves.returned(&layout, 1);
        moves.go_home(|_| true);
        assert_eq!(moves.wanted, Relocations::new());
        moves.replace(&layout, 2, false, |_| true);
        assert_eq!(moves.wanted, Relocations::from([(1, 1)]), "host 1 is the spare one now");
    }

    #[test]
    fn to_a_host_where_a_rank_could_not_go_on_none_comes_until_it_is_back_or_the_user_wants_that() {
        let layout = Layout::with_spares(&[2, 1], 1).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.want(2, 0);
        moves.refuse(0, 0, |_| true);
        moves.refuse(1, 0, |_| true);
        let wanted = Relocations::from([(0, 2), (1, 2)]);
        assert_eq!(*moves.plan(false).wanted, wanted, "a spare one gets both, and rank 2 stays");
        let layout =
            layout.moved(|rank| [2, 2, 1][rank as usize]).inspect(|next| moves.are_done(&layout, next));
        let layout = layout.unwrap();
        moves.go_on();
        assert_eq!(moves.drain(&layout, 1, 0..2), None, "there is no other one");
        moves.want(2, 0);
        assert!(moves.is_fit(0));
        moves.refuse(2, 0, |_| true);
        moves.returned(&layout, 0);
        assert!(moves.is_fit(0) && moves.spares.contains(&0));
    }

    #[test]
    fn a_rank_goes_back_from_where_it_could_not_go_on_and_to_a_spare_host_if_it_cannot() {
        let layout = Layout::with_spares(&[1, 1], 2).unwrap();
        for (is_lost, wanted) in [(false, Relocations::new()), (true, Relocations::from([(1, 3)]))] {
            let mut moves = Moves::new(&layout, true);
            moves.want(1, 2);
            let there = settled(&mut moves, &layout, &[0, 2]);
            // Once more, as another rank was killed just then.
            settled(&mut moves, &there, &[0, 2]);
            moves.refuse(1, 2, |host| host != 1 || !is_lost);
            let wishes = moves.plan(true);
            assert_eq!((wishes.wanted, wishes.came_from), (&wanted, &Relocations::from([(1, 1)])));
        }
    }

    #[test]
    fn a_host_that_is_back_gets_ranks_that_were_adopted_for_one_where_they_could_not_go_on() {
        let layout = Layout::with_spares(&[1, 1], 1).unwrap();
        let mut moves = Moves::new(&layout, true);
        moves.replace(&layout, 1, false, |_| true);
        let layout = settled(&mut moves, &layout, &[0, 2]);
        moves.refuse(1, 2, |host| host != 1);
        let layout = settled(&mut moves, &layout, &[0, 0]);
        moves.go_on();
        moves.returned(&layout, 1);
        moves.go_home(|_| true);
        assert_eq!(moves.wanted, Relocations::from([(1, 1)]));
    }
}
