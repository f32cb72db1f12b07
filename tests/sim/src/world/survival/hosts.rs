//! Who reaches whom; hosts that are lost, taken for lost, end their ranks, and come back.

use super::links::{Event, Link};
use super::{Life, Phase, Return, Survival};
use crate::deaths::Mistake;
use crate::program::Program;
use crate::rng::Rng;
use crate::world::{Result, Task, World};
use scash_ft::commit::Input;

impl<P: Program> World<P> {
    /// Whether a rank reaches another one: that lives, and no link between them is cut.
    pub(in crate::world) fn reaches(&self, from: usize, to: usize) -> bool {
        let Some(survival) = &self.survival else { return true };
        !self.is_dead(to) && survival.links.is_whole(survival.link(from, to))
    }

    /// How many times slower a task is for the link that it needs.
    pub(in crate::world) fn slowness_of_link(&self, task: Task) -> u32 {
        let Some(survival) = &self.survival else { return 1 };
        if survival.deaths.network.is_none() {
            return 1;
        }
        let pair = match task {
            Task::Channel(from, to) => Some((from, to)),
            Task::Thread(rank, thread) => self.peer_of(rank, thread).map(|peer| (rank, peer)),
            Task::Driver(rank) => self.ranks[rank].puts.front().map(|&(to, ..)| (rank, to as usize)),
        };
        pair.map_or(1, |(from, to)| survival.links.slowness(survival.link(from, to)))
    }

    /// Whether a rank's host and the coordinator hear each other.
    pub(super) fn hears(&self, rank: usize) -> bool {
        let whole = |survival: &Survival| survival.hears(survival.holders[rank][0]);
        self.survival.as_deref().is_some_and(whole)
    }

    /// Whether what a rank writes arrives at a holder: on another host a rank serves it, which must live.
    pub(super) fn serves(&self, rank: usize, holder: u8) -> bool {
        let Some(survival) = &self.survival else { return false };
        let holders = &survival.holders[rank];
        let host = holders[usize::from(holder)];
        if !survival.stores[rank].contains_key(&host) {
            return false;
        }
        if holder == 0 || survival.is(Mistake::GhostsWrite) {
            return true;
        }
        let is_whole = survival.links.is_whole(survival.links.between(holders[0], host));
        let server = survival.server(rank, host);
        is_whole && !survival.ended.contains(&host) && server.is_none_or(|server| !self.is_dead(server))
    }

    /// The holders at which something of a rank may arrive in this step.
    pub(super) fn holders_that_answer(&mut self, rank: usize) -> Vec<bool> {
        let count = self.survival().holders[rank].len();
        let serve: Vec<bool> = (0..count).map(|holder| self.serves(rank, holder.to_le_bytes()[0])).collect();
        let survival = self.survival();
        let holders = &survival.holders[rank];
        let links = holders.iter().map(|host| survival.links.between(holders[0], *host));
        let slowness: Vec<u32> = links.map(|link| survival.links.slowness(link)).collect();
        let rng = &mut survival.rng;
        let is_now = |slowness: u32, rng: &mut Rng| slowness == 1 || rng.below(slowness) == 0;
        serve.into_iter().zip(slowness).map(|(serves, slowness)| serves && is_now(slowness, rng)).collect()
    }

    /// Carries out what is to happen now between hosts.
    pub(super) fn happen(&mut self) -> Result<()> {
        loop {
            let now = self.report.steps;
            let survival = self.survival();
            if matches!(survival.phase, Phase::Lost) {
                return Ok(());
            }
            let Some(event) = survival.links.due(now) else { return Ok(()) };
            match event {
                Event::Heal(links) => {
                    survival.links.heal(&links);
                    survival.counts.network.healed += 1;
                    self.trace(|| format!("links {links:?} heal"));
                }
                Event::Suspect(host) => self.suspect(host)?,
                Event::EndGhosts(host) => self.end_ghosts(host),
                Event::Return(host) => self.comes_back(host),
                Event::Move => self.go_home(),
            }
        }
    }

    /// Links of a host are cut, or one between two.
    pub(super) fn cut(&mut self, links: Vec<Link>, host: Option<u32>) {
        let now = self.report.steps;
        self.trace(|| format!("links {links:?} are cut"));
        let survival = self.survival();
        survival.links.cut(&links);
        survival.counts.network.cuts += 1;
        let rng = &mut survival.rng;
        let never = if host.is_some() { 20 } else { 4 };
        let longest = rng.pick(&[300, 5_000]);
        let heals = (!rng.chance(never)).then(|| now + u64::from(rng.below(longest)));
        let timeout = survival.deaths.network.map_or(0, |network| 2 * network.timeout);
        let suspected = now + u64::from(rng.below(timeout + 1));
        if let Some(host) = host.filter(|_| heals.is_none_or(|at| at > suspected)) {
            survival.links.at(suspected, Event::Suspect(host));
        }
        if let Some(at) = heals {
            survival.links.at(at, Event::Heal(links.clone()));
        }
        if survival.is(Mistake::CutsLose) {
            for (from, to) in self.net.busy() {
                let survival = self.survival();
                if links.contains(&survival.link(from as usize, to as usize)) {
                    self.net.lose_newest_message(from, to);
                }
            }
        }
    }

    /// The coordinator takes a host for lost that lives.
    pub(super) fn suspect(&mut self, host: u32) -> Result<()> {
        let now = self.report.steps;
        // Once ranks are to end, those that had finished come back, too.
        let is_over =
            self.ranks.iter().all(|rank| rank.finished) && matches!(self.survival().phase, Phase::Runs);
        if is_over || !self.survival().is_here(host) {
            return Ok(());
        }
        self.trace(|| format!("host {host} is taken for lost"));
        let survival = self.survival();
        survival.counts.network.suspected += 1;
        let longest = survival.deaths.network.map_or(0, |network| 2 * network.ghosts);
        let until = now + u64::from(survival.rng.below(longest + 1));
        survival.links.at(until, Event::EndGhosts(host));
        // It is not told any more to start them.
        for rank in 0..self.ranks.len() {
            let is_there = self.survival().holders[rank][0] == host;
            if is_there && matches!(self.ranks[rank].life, Life::Returns(Return::Starts)) {
                self.ranks[rank].life = Life::Dead;
            }
        }
        self.do_without(host)
    }

    /// A host is not in the job any more.
    pub(super) fn do_without(&mut self, host: u32) -> Result<()> {
        let now = self.report.steps;
        let survival = self.survival();
        survival.leave(host, now);
        if survival.places.iter().all(Option::is_none) {
            return self.end_lost();
        }
        match &mut survival.phase {
            Phase::Runs if survival.holders.iter().any(|holders| holders.contains(&host)) => {
                self.begin_ending()
            }
            Phase::Ending(hosts) => drop(hosts.remove(&host)),
            Phase::Recovers { .. } => return self.recover(),
            Phase::Runs | Phase::Lost => {}
        }
        Ok(())
    }

    /// All ranks are to end: each host is told, and says so when that is done.
    pub(super) fn begin_ending(&mut self) {
        let now = self.report.steps;
        let survival = self.survival();
        let longest = survival.rng.pick(&[0, 30, super::fate::LONGEST_DOOM]);
        let at = now + u64::from(survival.rng.below(longest + 1));
        // Without a network of their own all hosts hear it at the same time.
        let apart = if survival.deaths.network.is_some() { survival.rng.pick(&[1, 30, 1_000]) } else { 1 };
        let hosts: Vec<u32> = survival.places.iter().flatten().copied().collect();
        let when = |host: u32| {
            let slowness = survival.links.slowness(survival.links.upward(host));
            (host, at + u64::from(survival.rng.below(apart * slowness)))
        };
        survival.phase = Phase::Ending(hosts.into_iter().map(when).collect());
        survival.seen = survival.is(Mistake::LooksTooSoon).then(|| survival.said());
    }

    /// Hosts that have heard it by now end their ranks. Whether all have.
    pub(super) fn hosts_end(&mut self) -> bool {
        let now = self.report.steps;
        let survival = self.survival();
        let Phase::Ending(hosts) = &survival.phase else { return false };
        let is_due = |(host, at): &(&u32, &u64)| **at <= now && survival.hears(**host);
        let due: Vec<u32> = hosts.iter().filter(is_due).map(|(host, _)| *host).collect();
        for host in due {
            self.end_ranks_of(host);
            if let Phase::Ending(hosts) = &mut self.survival().phase {
                hosts.remove(&host);
            }
        }
        matches!(&self.survival().phase, Phase::Ending(hosts) if hosts.is_empty())
    }

    /// A host's ranks end. Nothing arrives any more at stores that they served, and nothing of theirs
    /// anywhere: what was under way has arrived, or not, or in part.
    pub(super) fn end_ranks_of(&mut self, host: u32) {
        self.trace(|| format!("host {host} ends its ranks"));
        let survival = self.survival();
        let mut under_way = Vec::new();
        for (rank, holders) in survival.holders.iter().enumerate() {
            let is_concerned = |at: &u32| *at == host || holders[0] == host;
            let holders = (0u8..).zip(holders).filter(|(_, at)| is_concerned(at));
            under_way.extend(holders.map(|(holder, _)| (rank, holder)));
        }
        self.settle(under_way);
        self.survival().ended.insert(host);
        let own: Vec<bool> = self.survival().holders.iter().map(|holders| holders[0] == host).collect();
        let lost = self.net.busy().into_iter().filter(|&(from, to)| {
            let is_whole = self
                .survival
                .as_ref()
                .is_none_or(|survival| survival.links.is_whole(survival.link(from as usize, to as usize)));
            (own[from as usize] || own[to as usize]) && !is_whole
        });
        // What a process has sent leaves its host only while that can be reached.
        for (from, to) in lost.collect::<Vec<_>>() {
            self.net.lose(from, to);
        }
        for rank in (0..own.len()).filter(|rank| own[*rank]) {
            self.ranks[rank].life = Life::Dead;
        }
        self.miss(host);
    }

    /// What is under way from ranks to holders has arrived, or not, or in part.
    pub(super) fn settle(&mut self, under_way: Vec<(usize, u8)>) {
        for (rank, holder) in under_way {
            let serves = self.serves(rank, holder);
            let World { ranks, survival, .. } = self;
            let Some(Survival { rng, stores, holders, .. }) = survival.as_deref_mut() else { return };
            let writes = ranks[rank].saver.as_mut().map(|saver| saver.under_way(holder)).unwrap_or_default();
            let store = stores[rank].get_mut(&holders[rank][usize::from(holder)]).filter(|_| serves);
            let Some(store) = store else { continue };
            for write in writes {
                match rng.below(3) {
                    0 => store.land(write),
                    1 => store.tear(write),
                    _ => {}
                }
            }
        }
    }

    /// Ranks elsewhere that save themselves miss a holder, or not yet.
    pub(super) fn miss(&mut self, host: u32) {
        for rank in 0..self.ranks.len() {
            let survival = self.survival();
            let holder = survival.holders[rank].iter().position(|at| *at == host);
            let notices = survival.rng.chance(50);
            let saves = matches!(self.ranks[rank].life, Life::Saves(_));
            if let Some(number) = holder.filter(|number| *number > 0 && notices && saves) {
                let holder = u8::try_from(number).unwrap_or(u8::MAX);
                // It parks then.
                let told = self.ranks[rank].saver.as_mut().map(|saver| saver.tell(Input::Failed(holder)));
                assert!(matches!(told, Some(Ok(()))), "a holder may fail at any time");
            }
        }
    }

    /// A host that was lost is there again, with nothing of what it had.
    fn comes_back(&mut self, host: u32) {
        let now = self.report.steps;
        let survival = self.survival();
        let link = survival.links.upward(host);
        if !survival.links.is_whole(link) {
            if let Some(at) = survival.links.heals_at(link) {
                survival.links.at(at + 1, Event::Return(host));
            }
            return;
        }
        if matches!(survival.phase, Phase::Recovers { .. }) {
            // While agents write, no host comes back.
            survival.links.at(now + 50, Event::Return(host));
            return;
        }
        let new = host + survival.deaths.hosts;
        survival.places[(host % survival.deaths.hosts) as usize] = Some(new);
        survival.fresh.insert(new);
        survival.counts.network.returned += 1;
        if let Phase::Ending(hosts) = &mut survival.phase {
            hosts.insert(new, now + u64::from(survival.rng.below(30)));
            survival.counts.network.returned_in_a_recall += 1;
        }
        self.trace(|| format!("host {host} is there again, as host {new}"));
    }

    /// A checkpoint was committed: ranks go to hosts that have come back.
    fn go_home(&mut self) {
        let survival = self.survival();
        if survival.fresh.is_empty() || !matches!(survival.phase, Phase::Runs) {
            return;
        }
        survival.fresh.clear();
        survival.counts.network.went_home += 1;
        self.trace(|| "ranks are to go to hosts that have come back".to_owned());
        self.begin_ending();
    }
}

impl Survival {
    /// Whether a host is in the job.
    pub(super) fn is_here(&self, host: u32) -> bool {
        self.places.contains(&Some(host))
    }

    /// The link between two ranks' hosts.
    pub(super) fn link(&self, from: usize, to: usize) -> Link {
        self.links.between(self.holders[from][0], self.holders[to][0])
    }

    /// Whether a host and the coordinator hear each other.
    pub(super) fn hears(&self, host: u32) -> bool {
        self.links.is_whole(self.links.upward(host))
    }

    /// The rank that takes what another one writes to a host: ranks there take turns. A host without ranks
    /// has an agent for that.
    pub(super) fn server(&self, owner: usize, host: u32) -> Option<usize> {
        let here = || (0..self.holders.len()).filter(|rank| self.holders[*rank][0] == host);
        here().nth(owner % here().count().max(1))
    }

    /// A host is not in the job any more. It may come back.
    fn leave(&mut self, host: u32, now: u64) {
        let hosts = self.deaths.hosts;
        self.places[(host % hosts) as usize] = None;
        self.fresh.remove(&host);
        self.gone.insert(host);
        self.counts.network.lost_again += u64::from(host >= hosts);
        if let Some(network) = self.deaths.network
            && self.rng.chance(network.back)
        {
            let after = u64::from(self.rng.below(2 * network.back_after + 1));
            self.links.at(now + after, Event::Return(host));
        }
    }

    /// All ranks have ended. Hosts that have come back may have ranks from now on: that is as it comes,
    /// unless there are no others.
    pub(super) fn admit(&mut self) {
        let others = self.places.iter().flatten().any(|host| !self.fresh.contains(host));
        if !others || self.rng.chance(50) {
            self.fresh.clear();
        }
    }

    /// A checkpoint was committed.
    pub(super) fn has_committed(&mut self, now: u64) {
        self.counts.committed += 1;
        if self.counts.committed == self.deaths.after {
            self.draw_next(now);
        }
        if !self.fresh.is_empty() && !self.links.will_move() {
            let after = u64::from(self.rng.below(50));
            self.links.at(now + after, Event::Move);
        }
    }

    /// Links that are cut if a host is: all, or the one to the coordinator.
    pub(super) fn links_of(&self, host: u32, all: bool) -> Vec<Link> {
        let others =
            self.places.iter().zip(0..).filter(|(_, place)| all && *place != host % self.deaths.hosts);
        let others = others.map(|(_, place)| self.links.between(host, place));
        others.chain([self.links.upward(host)]).collect()
    }
}
