//! Ranks that die, and come back: what a job has beside its ranks.
//!
//! [`fate`]: who is killed when. [`saving`], [`saver`]: what a rank does between the protocol's `Stage` and
//! its answer, and when all have answered. [`store`]: what is written then. [`recovery`]: the coordinator.
//! [`revival`]: a rank that is started again. [`links`]: what is between hosts. [`hosts`]: who is lost, taken
//! for lost, and comes back. [`ghosts`]: ranks whose job goes on without them.
//!
//! What is kept of the run of the program at each checkpoint is a [`Cut`]: the oracle and the events that
//! have happened. When ranks come back to an epoch, the oracle does too, and they do again what they did: so
//! a byte of a discarded epoch, as well as a byte that a restart has lost, is read as a wrong one.

mod fate;
mod ghosts;
mod hosts;
mod links;
mod recovery;
mod revival;
mod saver;
mod saving;
mod store;

use super::{Happened, World};
use crate::deaths::{Deaths, Mistake, Survived};
use crate::program::Program;
use crate::rng::{Rng, mix};
use ghosts::Past;
use links::Links;
use revival::Return;
pub(super) use saver::Saver;
use saving::Copying;
use scash_ft::recovery::{KnownRestart, RecoveryAction, Survivor};
use scash_ft::{Base, Epoch};
use scash_proto::Node;
use scash_proto::races::Races;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use store::Store;

/// Where a rank is between life and death.
pub(super) enum Life {
    /// Nothing keeps it from going on.
    Goes,
    /// It takes a checkpoint, or ends one.
    Saves(Copying),
    /// It has missed a holder, and waits for its end.
    Parked,
    Dead,
    /// It was started again.
    Returns(Return),
}

/// What a rank saves of its process.
pub(super) struct Image {
    /// Of which cut it is a part.
    cut: u64,
    node: Node,
    races: Option<Races>,
}

/// What a restart goes back to: the program at a checkpoint.
#[derive(Clone)]
struct Cut {
    /// No two have the same.
    id: u64,
    epoch: Epoch,
    /// The interval that the checkpoint ends; of the beginning, the first one.
    interval: u32,
    oracle: Rc<Vec<u8>>,
    happened: Happened,
}

/// What the job does.
enum Phase {
    Runs,
    /// Somebody is lost. By host that has not said so, at which step it ends its ranks.
    Ending(BTreeMap<u32, u64>),
    /// The coordinator carries out its plan: the steps that are left, the next one last, and how far it is
    /// in that.
    Recovers {
        steps: Vec<RecoveryAction>,
        within: u8,
    },
    /// All stores of a rank are gone, or two hosts do not reach each other.
    Lost,
}

/// What a job has whose ranks may die.
pub(super) struct Survival {
    deaths: Deaths,
    rng: Rng,
    /// The hosts of the job. One that comes back has another number than before: the next one that has the
    /// same remainder.
    places: Vec<Option<u32>>,
    /// Hosts that have come back, and have no ranks yet.
    fresh: BTreeSet<u32>,
    links: Links,
    /// Incarnations before this one of which some ranks live.
    pasts: Vec<Past>,
    /// Of such an incarnation: the epoch from which others have gone on.
    limit: Option<Epoch>,
    /// The hosts that have a rank's store, by rank. The rank runs on the first.
    holders: Vec<Vec<u32>>,
    /// Hosts that have ended their ranks of this incarnation.
    ended: BTreeSet<u32>,
    /// What a coordinator sees that looks too soon, by rank.
    seen: Option<Vec<Vec<Survivor>>>,
    /// By rank and host.
    stores: Vec<BTreeMap<u32, Store>>,
    known: KnownRestart,
    base: Base,
    /// Hosts that died since the newest start.
    gone: BTreeSet<u32>,
    /// The newest epoch in which a rank has run on, and the one that is staged.
    committed: Cut,
    staged: Option<Cut>,
    cuts: u64,
    phase: Phase,
    kills_left: u32,
    kill_at: Option<u64>,
    pub(super) counts: Survived,
}

impl Survival {
    pub(super) fn new(seed: u64, size: u32, oracle: &[u8], deaths: Deaths) -> Self {
        // Whoever tries all steps is to see all deaths.
        let mut rng = Rng::part(seed ^ mix(deaths.first_at.unwrap_or(0)), 11);
        let oracle = Rc::new(oracle.to_vec());
        let beginning = Cut { id: 0, epoch: Epoch(0), interval: 0, oracle, happened: Happened::default() };
        let first = deaths.first_at.unwrap_or_else(|| 1 + rng.bits() % (2 * deaths.apart.max(1)));
        let mut this = Survival {
            places: (0..deaths.hosts).map(Some).collect(),
            fresh: BTreeSet::new(),
            links: Links::new(seed, deaths.hosts, deaths.network),
            pasts: Vec::new(),
            limit: None,
            ended: BTreeSet::new(),
            seen: None,
            holders: Vec::new(),
            stores: Vec::new(),
            known: KnownRestart::Started(Base::default()),
            base: Base::default(),
            gone: BTreeSet::new(),
            committed: beginning,
            staged: None,
            cuts: 0,
            phase: Phase::Runs,
            kills_left: deaths.kills,
            kill_at: (deaths.after == 0).then_some(first),
            counts: Survived::default(),
            rng,
            deaths,
        };
        this.holders = this.placement(size);
        let empty = |holders: &Vec<u32>| holders.iter().map(|host| (*host, Store::default())).collect();
        this.stores = this.holders.iter().map(empty).collect();
        this
    }

    pub(super) fn saver(&self, rank: usize, pages: u32) -> Saver {
        let holders = u32::try_from(self.holders[rank].len()).unwrap_or(u32::MAX);
        let saver = Saver::new(self.base, holders, slots(pages), Vec::new(), self.deaths.mistake);
        self.hurried(rank, saver.expect("an index without slots names none twice"))
    }

    /// A mistake: the rank does not wait for holders behind slow links.
    fn hurried(&self, rank: usize, mut saver: Saver) -> Saver {
        if self.is(Mistake::SlowIsLeftOut) {
            let own = self.holders[rank][0];
            let is_slow = |host: &u32| self.links.slowness(self.links.between(own, *host)) > 1;
            saver.left_out = self.holders[rank].iter().map(is_slow).collect();
        }
        saver
    }

    /// Where each rank's store belongs: on the rank's host and the next ones that are up.
    fn placement(&self, size: u32) -> Vec<Vec<u32>> {
        let hosts = self.deaths.hosts;
        let of = |rank: u32| {
            let first = rank * hosts / size;
            let ring = (0..hosts).map(move |next| (first + next) % hosts);
            let up = ring.filter_map(|place| self.places[place as usize]);
            let up = up.filter(|host| !self.fresh.contains(host));
            up.take(self.deaths.replicas as usize + 1).collect()
        };
        (0..size).map(of).collect()
    }

    /// The oldest interval that ranks may be in again, if they are in this one.
    pub(super) fn oldest_interval(&self, now: u32) -> u32 {
        if self.limit.is_some() {
            return 0;
        }
        let past = self.pasts.iter().filter_map(Past::oldest_interval).min();
        now.min(self.committed.interval).min(past.unwrap_or(now))
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.deaths.mistake == Some(mistake)
    }

    /// Whether all stores are gone that a rank had at the newest start.
    fn may_be_lost(&self, rank: usize) -> bool {
        self.holders[rank].iter().all(|host| self.gone.contains(host))
    }

    /// When somebody is killed next.
    fn draw_next(&mut self, now: u64) {
        if self.deaths.in_restart_after.is_some() {
            self.kill_at = None;
            return;
        }
        let after = match self.deaths.second_after.take() {
            Some(after) => after,
            // Often before all are back.
            None if self.rng.chance(40) => u64::from(self.rng.below(200)),
            None => self.rng.bits() % (2 * self.deaths.apart.max(1)),
        };
        self.kill_at = Some(now + after);
    }
}

/// Slots of a store: enough for two epochs that share nothing.
fn slots(pages: u32) -> u32 {
    2 * (pages + u32::from(store::PARTS))
}

impl<P: Program> World<P> {
    /// What ranks have whose deaths are survived.
    fn survival(&mut self) -> &mut Survival {
        self.survival.as_mut().expect("only jobs with deaths come here")
    }
}
