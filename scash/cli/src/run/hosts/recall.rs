//! How all hosts come back to one epoch, as a value: what agents say goes in, what they are told comes out.
//!
//! ```text
//!             a rank is lost                 all have Ended, and a plan is made
//!   Running ────────────────────▶ Ending ─────────────────────────────────────▶ Writing ─┐ Rewind, to those
//!      ▲           Recall, to all   │ ▲                                           │ ▲    │ whose stores are
//!      │                            └─┘ Store, Ended                              │ └────┘ to be written
//!      └──────────────────────────────────────────────────────────────────────────┘
//!            all have Rewound, and all is written: Again, to all
//!
//!   Writing ──▶ Ending: a host is lost; Recall, to all
//! ```
//!
//! - Nothing is decided before every agent has said that its ranks have ended: until then something may
//!   still arrive at a store.
//! - No rank starts before every agent has written what the plan says: a rank that is lost again at once must
//!   find all stores in the same incarnation.
//! - An agent that is out of reach is waited for no longer: its ranks come back where copies of their stores
//!   are, if that is possible, and otherwise the job ends.
//! - If that happens while agents write, all are recalled once more: those that had been told to write do so
//!   first. Some stores know of the restart that came to nothing, which the next plan takes into account.
//! - Each agent tells of all stores of the job that it has, its own ranks' and copies.

use super::frames::Up;
use super::placement::{self, Continuation, CopyRule, KnownStores, States, Wishes};
use super::transfer::{Order, Transfers};
use crate::run::recovery::{Rewound, RewoundPlace, StoreState, rounds};
use scash_ft::recovery::{KnownRestart, RecoveryAction, Unrecoverable};
use scash_ft::{Base, Epoch};
use scash_join::boot::Layout;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What agents write at a time: by host, each with its ranks.
type Round = BTreeMap<u32, Vec<Rewound>>;

#[derive(Debug)]
enum State {
    /// Ranks run, or have ended by themselves.
    Running,
    /// Agents end their ranks, and say what the stores say of them.
    Ending {
        /// What ranks were started from, or were to be.
        known: KnownRestart,
        states: States,
        /// Hosts that have not said all.
        silent: BTreeSet<u32>,
        /// Hosts that have not said that they have written what they were told to before.
        writing: BTreeSet<u32>,
        /// Hosts that may still say something of stores that were to be copied.
        copying: BTreeSet<u32>,
    },
    /// Stores are copied that move, and agents write what the plan says.
    Writing {
        /// What they were told to write of restarts, or know from before.
        known: KnownRestart,
        transfers: Transfers,
        rounds: VecDeque<Round>,
        silent: BTreeSet<u32>,
    },
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Recall {
    hosts: u32,
    ranks: u32,
    state: State,
    /// Hosts that are out of reach.
    lost: BTreeSet<u32>,
    /// Hosts that have come back since ranks were recalled: what they had is gone.
    returned: BTreeSet<u32>,
    /// Whether another launcher, which is lost, may have begun restarts that this one does not know of.
    is_another: bool,
    /// What ranks were started from under that one, if this one has asked what became of them.
    found: Option<Base>,
    /// The newest epoch of which an agent knows that all ranks had it then.
    committed: Epoch,
}

impl Recall {
    /// Of so many hosts and ranks.
    pub(super) fn new(hosts: u32, ranks: u32) -> Recall {
        Recall {
            hosts,
            ranks,
            state: State::Running,
            lost: BTreeSet::new(),
            returned: BTreeSet::new(),
            is_another: false,
            found: None,
            committed: Epoch(0),
        }
    }

    /// Ranks were started by another launcher, which is lost, and are known to have had this epoch.
    pub(super) fn take_over(&mut self, committed: Epoch) {
        (self.is_another, self.committed) = (true, committed);
    }

    /// Ranks had this epoch, of which an agent knows that came later.
    pub(super) fn have_had(&mut self, committed: Epoch) {
        self.committed = self.committed.max(committed);
    }

    /// The newest epoch that all ranks are known to have had.
    pub(super) fn committed(&self) -> Epoch {
        self.committed
    }

    /// All ranks are to end: agents are told to recall them. If they run, they were started from `base`.
    pub(super) fn begin(&mut self, base: Base) {
        let silent = (0..self.hosts).filter(|host| !self.lost.contains(host)).collect();
        let (known, writing, copying) = match std::mem::replace(&mut self.state, State::Running) {
            State::Writing { known, silent, transfers, .. } => {
                let copying = (0..self.hosts).filter(|host| transfers.concern(*host)).collect();
                (known, silent, copying)
            }
            _ if self.is_another => {
                self.found = Some(base);
                (KnownRestart::Begun(base), BTreeSet::new(), BTreeSet::new())
            }
            _ => (KnownRestart::Started(base), BTreeSet::new(), BTreeSet::new()),
        };
        self.state = State::Ending { known, states: States::new(), silent, writing, copying };
    }

    /// An agent says what a store says. The error says why no agent says that.
    pub(super) fn store(&mut self, host: u32, state: StoreState) -> Result<(), String> {
        let rank = state.rank;
        if rank >= self.ranks {
            return Err(format!("the store of rank {rank}, which there is not"));
        }
        let State::Ending { known, states, silent, writing, copying } = &mut self.state else {
            return Err(format!("the store of rank {rank}, which nobody has asked for"));
        };
        if writing.contains(&host) {
            return Err(format!("the store of rank {rank} before it has written it"));
        }
        if !silent.contains(&host) || states.contains_key(&(host, rank)) {
            return Err(format!("the store of rank {rank} a second time"));
        }
        // Copies that are not any more know of former ones only.
        if !self.is_another && Some(state.base.incarnation) > known.base().map(|base| base.incarnation) {
            let Base { incarnation, epoch } = state.base;
            return Err(format!("the store of rank {rank} of incarnation {incarnation} and epoch {epoch}"));
        }
        copying.remove(&host);
        states.insert((host, rank), state);
        Ok(())
    }

    /// An agent says something of a store that moves. Returns what another is told. If ranks were recalled
    /// meanwhile, it is of no use any more.
    pub(super) fn copied(&mut self, host: u32, up: Up) -> Result<Option<Order>, String> {
        match (&mut self.state, up) {
            (State::Ending { copying, .. }, _) if copying.contains(&host) => Ok(None),
            (State::Writing { transfers, .. }, Up::Piece(piece)) => transfers.piece(host, piece).map(Some),
            (State::Writing { transfers, .. }, Up::HasRead { rank, next }) => {
                transfers.has_read(host, rank, next).map(Some)
            }
            (State::Writing { transfers, .. }, Up::Stored(rank)) => {
                transfers.stored(host, rank).map(|()| None)
            }
            _ => Err("bytes of a store that nobody has asked for".to_owned()),
        }
    }

    /// An agent says that its ranks have ended, and that it has told of all their stores.
    pub(super) fn ended(&mut self, host: u32) -> Result<(), String> {
        let State::Ending { states, silent, .. } = &mut self.state else {
            return Err("the end of ranks that nobody has ended".to_owned());
        };
        if let Some(rank) = (0..self.ranks).find(|rank| !states.contains_key(&(host, *rank))) {
            return Err(format!("the end of its ranks, and nothing of the store of rank {rank}"));
        }
        if silent.remove(&host) { Ok(()) } else { Err("the end of its ranks a second time".to_owned()) }
    }

    /// An agent says that it has written what it was to write.
    pub(super) fn rewound(&mut self, host: u32) -> Result<(), String> {
        let was_silent = match &mut self.state {
            State::Ending { writing, .. } => writing.remove(&host),
            State::Writing { silent, .. } => silent.remove(&host),
            State::Running => false,
        };
        if was_silent { Ok(()) } else { Err("that it has written what nobody has asked for".to_owned()) }
    }

    /// Whether ranks were recalled, and are not started again yet.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.state, State::Running)
    }

    /// A host is out of reach.
    pub(super) fn lost(&mut self, host: u32) {
        self.lost.insert(host);
        self.returned.remove(&host);
        if let State::Ending { silent, .. } | State::Writing { silent, .. } = &mut self.state {
            silent.remove(&host);
        }
        if let State::Ending { writing, .. } = &mut self.state {
            writing.remove(&host);
        }
    }

    /// A host is there again, with an agent that has nothing. Returns whether that is to be told to recall
    /// its ranks, as others were. While agents write, no host comes back.
    pub(super) fn returned(&mut self, host: u32) -> bool {
        self.lost.remove(&host);
        let State::Ending { states, silent, .. } = &mut self.state else { return false };
        states.retain(|(of, _), _| *of != host);
        silent.insert(host);
        self.returned.insert(host);
        true
    }

    /// As [`returned`](Self::returned), with an agent that has kept what it had.
    pub(super) fn came(&mut self, host: u32) -> bool {
        let is_recalled = self.returned(host);
        self.returned.remove(&host);
        is_recalled
    }

    /// The launcher before is lost, and a host had come back under it before ranks were started again, or was
    /// to start some with that.
    pub(super) fn had_returned(&mut self, host: u32) {
        self.returned.insert(host);
    }

    /// Whether a host has come back since ranks were recalled: its agent has nothing of what it had printed.
    pub(super) fn has_returned(&self, host: u32) -> bool {
        self.returned.contains(&host)
    }

    /// Whether some agent has not said that its ranks have ended, though it was told to end them.
    pub(super) fn any_run(&self) -> bool {
        !self.silent().is_empty()
    }

    /// Hosts whose agents have not said so.
    pub(super) fn silent(&self) -> BTreeSet<u32> {
        if let State::Ending { silent, .. } = &self.state { silent.clone() } else { BTreeSet::new() }
    }

    /// Whether ranks were recalled that another launcher had started, and it is not decided how they go on.
    pub(super) fn is_undecided_after_another(&self) -> bool {
        self.is_another && matches!(self.state, State::Ending { .. })
    }

    /// Whether all could go on without these hosts that have not said all, by what the others have said.
    pub(super) fn can_do_without(
        &self,
        hosts: &BTreeSet<u32>,
        layout: &Layout,
        rule: &CopyRule,
        wishes: Wishes<'_>,
    ) -> bool {
        let State::Ending { known, states, .. } = &self.state else { return false };
        let lost: BTreeSet<u32> = self.lost.union(hosts).copied().collect();
        let found = self.known_stores(states, &lost, *known);
        let any_left = (0..self.hosts).any(|host| !lost.contains(&host));
        any_left && placement::course(found, layout, rule, wishes).is_ok()
    }

    /// Whether some rank has no store to go on from, by what hosts have said so far: one that is lost may
    /// have it.
    pub(super) fn lacks_a_store(&self, layout: &Layout, rule: &CopyRule, wishes: Wishes<'_>) -> bool {
        let State::Ending { known, states, silent, .. } = &self.state else { return false };
        let missing: BTreeSet<u32> = self.lost.union(silent).copied().collect();
        let found = self.known_stores(states, &missing, *known);
        let is_any_there = (0..self.hosts).any(|host| !missing.contains(&host));
        !is_any_there
            || matches!(placement::course(found, layout, rule, wishes), Err(Unrecoverable::Lost { .. }))
    }

    /// How all go on that ran as `layout` says, by what the stores say, once all ranks have ended.
    pub(super) fn course(
        &self,
        layout: &Layout,
        rule: &CopyRule,
        wishes: Wishes<'_>,
    ) -> Result<Continuation, Unrecoverable> {
        let none = States::new();
        let (states, known) = match &self.state {
            State::Ending { known, states, .. } => (states, *known),
            _ => (&none, KnownRestart::Nothing),
        };
        placement::course(self.known_stores(states, &self.lost, known), layout, rule, wishes)
    }

    /// Whether a launcher that is lost, or an agent, knew that all ranks had this epoch.
    pub(super) fn is_committed(&self, epoch: Epoch) -> bool {
        epoch > Epoch(0) && epoch <= self.committed
    }

    fn known_stores<'a>(
        &'a self,
        states: &'a States,
        lost: &'a BTreeSet<u32>,
        known: KnownRestart,
    ) -> KnownStores<'a> {
        // What this launcher has begun was not started yet.
        let may_have_run = self.found.is_some() && known.base() == self.found;
        let (returned, committed) = (&self.returned, self.committed);
        KnownStores { states, lost, returned, known, may_have_run, committed, with_later: false }
    }

    /// All ranks go on so, which ran as `before` says. In the last round ranks get their places; the rounds
    /// before write what stores are to know of former restarts.
    pub(super) fn carry_out(&mut self, course: &Continuation, before: &Layout) -> Result<(), String> {
        let place = |host: u32, rank: u32| {
            if !course.layout.is_on(rank, host) {
                RewoundPlace::Elsewhere
            } else if before.is_on(rank, host) && !self.returned.contains(&host) {
                RewoundPlace::Stays
            } else {
                RewoundPlace::Comes
            }
        };
        let placed = |(host, one): (u32, Rewound)| {
            let is_last = one.base == course.plan.base;
            let place = if is_last { place(host, one.rank) } else { RewoundPlace::Elsewhere };
            (host, Rewound { place, ..one })
        };
        let rounds = rounds(&course.plan, &course.states)?;
        let rounds = rounds.into_iter().map(|round| by_host(round.into_iter().map(placed))).collect();
        let transfers = Transfers::of(&course.plan);
        let known = if let State::Ending { known, .. } = self.state { known } else { KnownRestart::Nothing };
        self.state = State::Writing { known, transfers, rounds, silent: BTreeSet::new() };
        Ok(())
    }

    /// Whether a plan is being carried out.
    pub(super) fn is_writing(&self) -> bool {
        matches!(self.state, State::Writing { .. })
    }

    /// What agents are told now of stores that move.
    pub(super) fn next_orders(&mut self) -> Vec<Order> {
        if let State::Writing { transfers, .. } = &mut self.state { transfers.turn() } else { Vec::new() }
    }

    /// What agents are to write now, if all is copied and written that they were told before: by host.
    pub(super) fn next_round(&mut self) -> Option<Round> {
        let State::Writing { known, transfers, rounds, silent } = &mut self.state else { return None };
        if !silent.is_empty() || !transfers.are_over() {
            return None;
        }
        let round = rounds.pop_front()?;
        for (host, one) in round.iter().flat_map(|(host, all)| all.iter().map(move |one| (*host, one))) {
            known.begin(&RecoveryAction::WriteBase { rank: one.rank, host, base: one.base });
        }
        *silent = round.keys().copied().collect();
        Some(round)
    }

    /// Whether all is written, so that ranks can be started.
    pub(super) fn is_written(&self) -> bool {
        matches!(&self.state, State::Writing { transfers, rounds, silent, .. }
            if transfers.are_over() && rounds.is_empty() && silent.is_empty())
    }

    /// Ranks are started again, or never will be.
    pub(super) fn over(&mut self) {
        self.returned.clear();
        (self.is_another, self.found) = (false, None);
        self.state = State::Running;
    }
}

fn by_host(round: impl Iterator<Item = (u32, Rewound)>) -> Round {
    let mut hosts = Round::new();
    for (host, rewound) in round {
        hosts.entry(host).or_default().push(rewound);
    }
    hosts
}

#[cfg(test)]
mod tests;
