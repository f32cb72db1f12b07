//! Who is killed when, and what is left then.

use super::{Life, Phase, Saver, Survival};
use crate::sim::deaths::{Mistake, Point};
use crate::sim::program::Program;
use crate::sim::rng::Rng;
use crate::sim::world::{Net, Result, World};
use scash_ft::commit::Input;
use scash_ft::recovery::Known;

/// Steps that survivors take at most until all are killed.
const LONGEST_DOOM: u32 = 2000;

/// What dies.
enum Death {
    Ranks(Vec<usize>),
    /// A host with its ranks and stores.
    Host(u32),
    /// The coordinator, and all ranks with it.
    Coordinator,
}

impl<P: Program> World<P> {
    /// Kills, and recovers. Returns whether no rank is to take a step now.
    pub(in crate::sim::world) fn fate(&mut self) -> Result<bool> {
        let now = self.report.steps;
        let nobody_steps = self.tasks.is_empty();
        let Some(survival) = &mut self.survival else { return Ok(false) };
        let is_due = survival.kills_left > 0 && survival.kill_at.is_some_and(|at| at <= now);
        if is_due && !matches!(survival.phase, Phase::Lost) {
            self.kill()?;
        }
        match self.survival().phase {
            Phase::Runs => return Ok(false),
            Phase::Doomed(at) if now < at && !nobody_steps => return Ok(false),
            Phase::Doomed(_) => {
                self.end_all();
                self.recover()?;
            }
            Phase::Recovers { .. } => {
                self.report.steps += 1;
                self.recovery_step()?;
            }
            Phase::Lost => {
                self.tasks.clear();
                self.ranks.iter_mut().for_each(|rank| rank.finished = true);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the next step is not a rank's.
    pub(in crate::sim::world) fn is_fated(&self) -> bool {
        self.survival.as_ref().is_some_and(|survival| {
            let now = self.report.steps;
            survival.kills_left > 0 && survival.kill_at.is_some_and(|at| at <= now)
                || matches!(survival.phase, Phase::Doomed(at) if at <= now)
        })
    }

    /// Ranks that cannot go on have lost somebody: they are killed now. `false` if nobody is dead.
    pub(in crate::sim::world) fn hastens(&mut self) -> bool {
        let now = self.report.steps;
        match self.survival.as_deref_mut() {
            Some(Survival { phase: Phase::Doomed(at), .. }) => {
                *at = now;
                true
            }
            _ => false,
        }
    }

    /// Something has happened after which a death may be of interest.
    pub(super) fn point(&mut self, point: Point) {
        let now = self.report.steps;
        let survival = self.survival();
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
        survival.counts.kills += 1;
        let breaks_off = recovers || returns && matches!(survival.phase, Phase::Runs);
        survival.counts.broken_off += u64::from(breaks_off);
        survival.draw_next(now);
        let death = survival.draw_death(&alive, recovers);
        let at_once = matches!(death, Death::Coordinator);
        self.carry_off(death);
        if recovers {
            return self.recover();
        }
        let survival = self.survival();
        survival.counts.kills_of_ranks += 1;
        if !matches!(survival.phase, Phase::Doomed(_)) {
            let longest = survival.rng.pick(&[0, 30, LONGEST_DOOM]);
            survival.phase = Phase::Doomed(now + u64::from(survival.rng.below(longest + 1)));
        }
        if at_once {
            survival.phase = Phase::Doomed(now);
        }
        Ok(())
    }

    /// Who has ended cannot die.
    fn is_mortal(&self, rank: usize) -> bool {
        !self.ranks[rank].finished && !self.is_dead(rank)
    }

    pub(in crate::sim::world) fn is_dead(&self, rank: usize) -> bool {
        matches!(self.ranks[rank].life, Life::Dead)
    }

    fn carry_off(&mut self, death: Death) {
        match death {
            Death::Ranks(ranks) => ranks.into_iter().for_each(|rank| self.end_rank(rank)),
            Death::Coordinator => {
                self.trace(|| "the coordinator dies".to_owned());
                let survival = self.survival();
                survival.known = Known::Nothing;
                survival.counts.coordinators += 1;
            }
            Death::Host(host) => self.end_host(host),
        }
    }

    fn end_rank(&mut self, rank: usize) {
        self.trace(|| format!("rank {rank} dies"));
        self.ranks[rank].life = Life::Dead;
    }

    fn end_host(&mut self, host: u32) {
        self.trace(|| format!("host {host} dies"));
        let survival = self.survival();
        survival.counts.hosts += 1;
        survival.gone.insert(host);
        survival.is_up[host as usize] = survival.deaths.spares;
        survival.stores.iter_mut().for_each(|stores| drop(stores.remove(&host)));
        for rank in 0..self.ranks.len() {
            let survival = self.survival();
            let holder = survival.holders[rank].iter().position(|at| *at == host);
            let notices = survival.rng.chance(50);
            match holder {
                Some(0) if !self.is_dead(rank) => self.end_rank(rank),
                Some(number) if notices && matches!(self.ranks[rank].life, Life::Saves(_)) => {
                    let holder = u8::try_from(number).unwrap_or(u8::MAX);
                    // It parks then.
                    let told = self.ranks[rank].saver.as_mut().map(|saver| saver.tell(Input::Failed(holder)));
                    assert!(matches!(told, Some(Ok(()))), "a holder may fail at any time");
                }
                _ => {}
            }
        }
    }

    /// All ranks are killed. Nothing more arrives anywhere: what ranks had under way has arrived, or not, or
    /// in part.
    pub(super) fn end_all(&mut self) {
        self.trace(|| "all ranks are killed".to_owned());
        let World { ranks, survival, .. } = self;
        let Some(Survival { rng, stores, holders, deaths, .. }) = survival.as_deref_mut() else { return };
        for (number, rank) in ranks.iter_mut().enumerate() {
            rank.life = Life::Dead;
            for (holder, write) in rank.saver.as_mut().map(Saver::under_way).unwrap_or_default() {
                let Some(store) = stores[number].get_mut(&holders[number][usize::from(holder)]) else {
                    continue;
                };
                match rng.below(3) {
                    0 => store.land(write),
                    1 => store.tear(write),
                    _ => {}
                }
            }
        }
        let ghosts = deaths.mistake == Some(Mistake::Ghosts);
        self.tasks.clear();
        if !ghosts {
            self.net = Net::default();
        }
        if !self.survival().is(Mistake::OldClaims) {
            self.claims.clear();
        }
    }
}

impl Survival {
    /// Whether all hosts may die that are gone, and this one.
    fn survives(&self, host: u32) -> bool {
        let dies = |other: &u32| *other == host || self.gone.contains(other);
        let is_last = !self.is_up.iter().zip(0..).any(|(up, other)| *up && other != host);
        !is_last && !self.holders.iter().any(|holders| holders.iter().all(dies))
    }

    fn draw_death(&mut self, alive: &[usize], recovers: bool) -> Death {
        let hosts = self.is_up.iter().zip(0u32..).filter(|(up, _)| **up).map(|(_, host)| host);
        // Mostly one that leaves something to go on from.
        let any = self.is_up.len() > 1 && self.rng.chance(5);
        let candidates: Vec<u32> = hosts.filter(|host| any || self.survives(*host)).collect();
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
}
