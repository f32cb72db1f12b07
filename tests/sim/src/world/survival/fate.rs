//! Who is killed when, and what is left then.

use super::links::Link;
use super::{Life, Phase, Survival};
use crate::deaths::Point;
use crate::program::Program;
use crate::rng::Rng;
use crate::world::{Result, World};
use scash_ft::recovery::{KnownRestart, RecoveryAction};

/// Steps that survivors take at most until hosts are told to end them.
pub(super) const LONGEST_DOOM: u32 = 2000;

/// What dies.
enum Death {
    Ranks(Vec<usize>),
    /// A host with its ranks and stores.
    Host(u32),
    /// The coordinator, and all ranks with it.
    Coordinator,
    /// Nothing: links are cut, all of a host, that to the coordinator, or one between two hosts.
    Links(Vec<Link>, Option<u32>),
    /// Nothing: the coordinator takes a host for lost.
    Trust(u32),
}

impl<P: Program> World<P> {
    /// Kills, and recovers. Returns whether no rank is to take a step now.
    pub(in crate::world) fn fate(&mut self) -> Result<bool> {
        let nobody_steps = self.tasks.is_empty();
        if self.survival.is_none() {
            return Ok(false);
        }
        self.happen()?;
        let now = self.report.steps;
        let survival = self.survival();
        let is_due = survival.kills_left > 0 && survival.kill_at.is_some_and(|at| at <= now);
        if is_due && !matches!(survival.phase, Phase::Lost) {
            self.kill()?;
        }
        self.ghosts_go_on()?;
        match self.survival().phase {
            Phase::Runs => return Ok(false),
            Phase::Ending(_) => {
                if self.hosts_end() {
                    self.recover()?;
                } else if nobody_steps {
                    self.hastens();
                } else {
                    return Ok(false);
                }
            }
            Phase::Recovers { .. } => {
                self.report.steps += 1;
                self.recovery_goes_on()?;
            }
            Phase::Lost => {
                self.tasks.clear();
                self.ranks.iter_mut().for_each(|rank| rank.finished = true);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The coordinator does a step, if it reaches the hosts that this needs; or a rank that lives on does.
    fn recovery_goes_on(&mut self) -> Result<()> {
        let ghosts = (0..self.ranks.len()).any(|rank| !self.is_dead(rank));
        if ghosts && self.survival().rng.chance(50) {
            return self.any_task();
        }
        let now = self.report.steps;
        let survival = self.survival();
        match survival.slowness_of_recovery() {
            Some(slowness) if survival.rng.below(slowness) == 0 => self.recovery_step(),
            Some(_) => Ok(()),
            None if survival.links.hasten(now) => Ok(()),
            None => Err(self.failure("the coordinator waits for a host that it will never reach")),
        }
    }

    /// Whether the next step is not a rank's.
    pub(in crate::world) fn is_fated(&self) -> bool {
        self.survival.as_ref().is_some_and(|survival| {
            let now = self.report.steps;
            survival.kills_left > 0 && survival.kill_at.is_some_and(|at| at <= now)
                || matches!(&survival.phase, Phase::Ending(hosts) if hosts.values().any(|at| *at <= now))
                || survival.links.is_due(now)
        })
    }

    /// Ranks cannot go on: what will happen happens now. If two hosts will never reach each other again, the
    /// job ends. `false` if there is no such reason.
    pub(in crate::world) fn hastens(&mut self) -> bool {
        let now = self.report.steps;
        let Some(survival) = self.survival.as_deref_mut() else { return false };
        let Survival { phase, links, .. } = survival;
        if let Phase::Ending(hosts) = phase {
            let mut any = hosts.is_empty();
            for (_, at) in hosts.iter_mut().filter(|(host, _)| links.is_whole(links.upward(**host))) {
                (*at, any) = (now.min(*at), true);
            }
            if any {
                return true;
            }
        }
        if links.hasten(now) {
            return true;
        }
        if links.any_cut() {
            survival.phase = Phase::Lost;
            survival.counts.network.cut_off += 1;
            return true;
        }
        false
    }

    /// Something has happened after which a death may be of interest.
    pub(super) fn point(&mut self, point: Point) {
        let now = self.report.steps;
        let survival = self.survival();
        if survival.limit.is_some() {
            return;
        }
        let Some((favourite, often)) = survival.deaths.at_point else { return };
        if favourite == point
            && survival.counts.committed >= survival.deaths.after
            && survival.rng.chance(often)
        {
            survival.kill_at = Some(now);
        }
    }

    /// Somebody dies.
    fn kill(&mut self) -> Result<()> {
        let now = self.report.steps;
        let alive: Vec<usize> = (0..self.ranks.len()).filter(|&rank| self.is_mortal(rank)).collect();
        let returns = self.ranks.iter().any(|rank| matches!(rank.life, Life::Returns(_)));
        let survival = self.survival();
        let recovers = matches!(survival.phase, Phase::Recovers { .. });
        if alive.is_empty() && !recovers {
            survival.draw_next(now);
            return Ok(());
        }
        survival.kills_left -= 1;
        let death = survival.draw_death(&alive, recovers);
        survival.draw_next(now);
        match death {
            Death::Links(links, host) => {
                self.cut(links, host);
                return Ok(());
            }
            Death::Trust(host) => return self.suspect(host),
            _ => {}
        }
        survival.counts.kills += 1;
        survival.counts.kills_of_ranks += u64::from(!recovers);
        let breaks_off = recovers || returns && matches!(survival.phase, Phase::Runs);
        survival.counts.broken_off += u64::from(breaks_off);
        let is_coordinator = matches!(death, Death::Coordinator);
        match death {
            Death::Ranks(ranks) => ranks.into_iter().for_each(|rank| self.end_rank(rank)),
            Death::Host(host) => return self.end_host(host),
            _ => self.end_coordinator(),
        }
        if recovers {
            return self.recover();
        }
        if !matches!(self.survival().phase, Phase::Ending(_)) {
            self.begin_ending();
        }
        if is_coordinator && let Phase::Ending(hosts) = &mut self.survival().phase {
            hosts.values_mut().for_each(|at| *at = now);
        }
        Ok(())
    }

    /// Who has ended cannot die.
    fn is_mortal(&self, rank: usize) -> bool {
        !self.ranks[rank].finished && !self.is_dead(rank)
    }

    pub(in crate::world) fn is_dead(&self, rank: usize) -> bool {
        matches!(self.ranks[rank].life, Life::Dead)
    }

    fn end_coordinator(&mut self) {
        self.trace(|| "the coordinator dies".to_owned());
        let survival = self.survival();
        survival.known = KnownRestart::Nothing;
        survival.counts.coordinators += 1;
    }

    fn end_rank(&mut self, rank: usize) {
        self.trace(|| format!("rank {rank} dies"));
        let survival = self.survival();
        let mut under_way = Vec::new();
        for (owner, holders) in survival.holders.iter().enumerate() {
            let ends = |(holder, host): &(u8, &u32)| {
                owner == rank || *holder > 0 && survival.server(owner, **host) == Some(rank)
            };
            let ending = (0u8..).zip(holders).filter(ends);
            under_way.extend(ending.map(|(holder, _)| (owner, holder)));
        }
        self.settle(under_way);
        self.ranks[rank].life = Life::Dead;
    }

    /// A host dies with its ranks and stores.
    fn end_host(&mut self, host: u32) -> Result<()> {
        self.trace(|| format!("host {host} dies"));
        self.end_ranks_of(host);
        let survival = self.survival();
        survival.counts.hosts += 1;
        survival.stores.iter_mut().for_each(|stores| drop(stores.remove(&host)));
        if !survival.deaths.spares {
            return self.do_without(host);
        }
        survival.gone.insert(host);
        match survival.phase {
            Phase::Recovers { .. } => return self.recover(),
            Phase::Ending(_) => {}
            _ => self.begin_ending(),
        }
        Ok(())
    }
}

impl Survival {
    /// Whether all hosts may die that are gone, and this one.
    fn survives(&self, host: u32) -> bool {
        let dies = |other: &u32| *other == host || self.gone.contains(other);
        let is_last = !self.places.iter().flatten().any(|other| *other != host);
        !is_last && !self.holders.iter().any(|holders| holders.iter().all(dies))
    }

    fn draw_death(&mut self, alive: &[usize], recovers: bool) -> Death {
        let hosts: Vec<u32> = self.places.iter().flatten().copied().collect();
        // Mostly one that leaves something to go on from.
        let any = self.places.len() > 1 && self.rng.chance(5);
        let candidates: Vec<u32> = hosts.iter().copied().filter(|host| any || self.survives(*host)).collect();
        if let Some(network) = self.deaths.network
            && self.rng.chance(network.cuts)
            && let Some(befalls) = self.draw_cut(&hosts, &candidates)
        {
            return befalls;
        }
        let host = |rng: &mut Rng| (!candidates.is_empty()).then(|| Death::Host(rng.pick(&candidates)));
        let one = |rng: &mut Rng| Death::Ranks(vec![rng.pick(alive)]);
        let rng = &mut self.rng;
        match rng.below(100) {
            0..50 if recovers => host(rng).unwrap_or(Death::Coordinator),
            _ if recovers => Death::Coordinator,
            0..40 => one(rng),
            40..60 => {
                let percent = rng.pick(&[20, 50, 100]);
                let some: Vec<usize> = alive.iter().copied().filter(|_| rng.chance(percent)).collect();
                if some.is_empty() { one(rng) } else { Death::Ranks(some) }
            }
            60..85 => host(rng).unwrap_or_else(|| Death::Ranks(alive.to_vec())),
            _ => Death::Coordinator,
        }
    }
    /// What befalls hosts or links, if there are any left for that.
    fn draw_cut(&mut self, hosts: &[u32], candidates: &[u32]) -> Option<Death> {
        let rng = &mut self.rng;
        if candidates.is_empty() || rng.chance(25) {
            let one = rng.pick(hosts);
            let others: Vec<u32> = hosts.iter().copied().filter(|other| *other != one).collect();
            let other = (!others.is_empty()).then(|| rng.pick(&others))?;
            return Some(Death::Links(vec![self.links.between(one, other)], None));
        }
        let host = rng.pick(candidates);
        if rng.chance(30) {
            return Some(Death::Trust(host));
        }
        let all = rng.chance(50);
        Some(Death::Links(self.links_of(host, all), Some(host)))
    }

    /// How many times slower a link is that the coordinator needs for its next step. None if one is cut.
    fn slowness_of_recovery(&self) -> Option<u32> {
        let Phase::Recovers { steps, .. } = &self.phase else { return Some(1) };
        let hosts = match steps.last()? {
            RecoveryAction::Copy { from, to, .. } => vec![*from, *to],
            RecoveryAction::WriteBase { host, .. } => vec![*host],
            RecoveryAction::Start { .. } => Vec::new(),
        };
        let hears = hosts.iter().all(|host| self.hears(*host));
        let slowness = hosts.iter().map(|host| self.links.slowness(self.links.upward(*host)));
        hears.then(|| slowness.max().unwrap_or(1))
    }
}
