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
use super::placement::{self, Continuation, CopyRule, KnownStores, Relocations, States};
use super::transfer::{Order, Transfers};
use crate::run::recovery::{Rewound, RewoundPlace, StoreState, rounds};
use scash_ft::Base;
use scash_ft::recovery::{KnownRestart, RecoveryAction, Unrecoverable};
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
        }
    }

    /// Ranks were started by another launcher, which is lost.
    pub(super) fn take_over(&mut self) {
        self.is_another = true;
    }

    /// All ranks are to end: agents are told to recall them. If they run, they were started from `base`.
    pub(super) fn begin(&mut self, base: Base) {
        let silent = (0..self.hosts).filter(|host| !self.lost.contains(host)).collect();
        let (known, writing, copying) = match std::mem::replace(&mut self.state, State::Running) {
            State::Writing { known, silent, transfers, .. } => {
                let copying = (0..self.hosts).filter(|host| transfers.concern(*host)).collect();
                (known, silent, copying)
            }
            _ if self.is_another => (KnownRestart::Begun(base), BTreeSet::new(), BTreeSet::new()),
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

    /// Whether some agent has not said that its ranks have ended, though it was told to end them.
    pub(super) fn any_run(&self) -> bool {
        matches!(&self.state, State::Ending { silent, .. } if !silent.is_empty())
    }

    /// How all go on that ran as `layout` says, by what the stores say, once all ranks have ended.
    pub(super) fn course(
        &self,
        layout: &Layout,
        rule: &CopyRule,
        wanted: &Relocations,
    ) -> Result<Continuation, Unrecoverable> {
        let none = States::new();
        let (states, known) = match &self.state {
            State::Ending { known, states, .. } => (states, *known),
            _ => (&none, KnownRestart::Nothing),
        };
        let found = KnownStores { states, lost: &self.lost, returned: &self.returned, known };
        placement::course(found, layout, rule, wanted)
    }

    /// All ranks go on so, which ran as `before` says. In the last round ranks get their places; the rounds
    /// before write what stores are to know of former restarts.
    pub(super) fn carry_out(&mut self, course: &Continuation, before: &Layout) -> Result<(), String> {
        let place = |host: u32, rank: u32| {
            if !course.layout.is_on(rank, host) {
                RewoundPlace::Elsewhere
            } else if before.is_on(rank, host) {
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
        self.is_another = false;
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
mod tests {
    use super::*;
    use crate::run::recovery::MarkedEpoch;
    use proptest::prelude::*;
    use scash_ft::{Epoch, Incarnation, Mark};

    fn base(incarnation: u64, epoch: u64) -> Base {
        Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) }
    }

    /// The store of a rank that was started from `base`, and has marked these epochs since.
    fn store(rank: u32, base: Base, epochs: [u64; 2]) -> StoreState {
        let marked = |epoch: u64| {
            let mark = Mark { incarnation: base.incarnation, epoch: Epoch(epoch) };
            (epoch > 0).then_some(MarkedEpoch {
                mark,
                barrier: 10 * epoch,
                output: [epoch, u64::from(rank)],
                kept: [epoch, u64::from(rank)],
            })
        };
        StoreState { rank, base, marks: epochs.map(marked) }
    }

    /// Two hosts, of two ranks and of one.
    fn layout() -> Layout {
        Layout::new(&[2, 1]).unwrap()
    }

    fn recall() -> Recall {
        Recall::new(2, 3)
    }

    /// An agent tells of all stores, of which those of its ranks have these epochs.
    fn tell(recall: &mut Recall, host: u32, base: Base, epochs: [[u64; 2]; 3]) {
        for (rank, epochs) in (0..).zip(epochs) {
            let epochs = if layout().is_on(rank, host) { epochs } else { [0, 0] };
            recall.store(host, store(rank, base, epochs)).unwrap();
        }
        recall.ended(host).unwrap();
    }

    #[test]
    fn ranks_start_when_all_agents_have_ended_theirs_and_have_written_what_they_are_to_write() {
        let mut recall = recall();
        assert!(!recall.any_run());
        recall.begin(base(0, 0));
        let epochs = [[2, 3], [2, 1], [2, 3]];
        tell(&mut recall, 1, base(0, 0), epochs);
        assert!(recall.any_run());
        tell(&mut recall, 0, base(0, 0), epochs);
        assert!(!recall.any_run());
        let course = recall.course(&layout(), &CopyRule::of(0), &Relocations::new()).unwrap();
        assert_eq!(course.plan.base, base(1, 2), "rank 1 has not marked epoch 3");
        recall.carry_out(&course, &layout()).unwrap();
        let round = recall.next_round().unwrap();
        let rewound = |rank: u32| {
            let (output, place) = ([2, u64::from(rank)], RewoundPlace::Stays);
            Rewound { rank, base: base(1, 2), output, shown: output, place }
        };
        assert_eq!(round[&0], [rewound(0), rewound(1)]);
        assert_eq!(round[&1], [rewound(2)]);
        recall.rewound(1).unwrap();
        assert!(!recall.is_written() && recall.next_round().is_none());
        recall.rewound(0).unwrap();
        assert!(recall.is_written() && recall.next_round().is_none());
        recall.over();
        assert!(!recall.is_writing());
    }

    #[test]
    fn a_host_that_is_lost_is_waited_for_no_longer() {
        let mut recall = recall();
        recall.begin(base(0, 0));
        tell(&mut recall, 1, base(0, 0), [[0, 0]; 3]);
        recall.lost(0);
        assert!(!recall.any_run());
        recall.begin(base(1, 0));
        tell(&mut recall, 1, base(1, 0), [[0, 0]; 3]);
        assert!(!recall.any_run(), "nor the next time");
    }

    #[test]
    fn what_no_agent_says_is_refused_with_what_is_wrong() {
        let refused = |result: Result<(), String>, words: &str| {
            let why = result.unwrap_err();
            assert!(why.contains(words), "{why}");
        };
        let (mut recall, now) = (recall(), base(1, 4));
        refused(recall.store(0, store(0, now, [4, 0])), "nobody has asked for");
        refused(recall.ended(0), "nobody has ended");
        refused(recall.rewound(0), "nobody has asked for");
        recall.begin(now);
        refused(recall.store(1, store(9, now, [4, 0])), "which there is not");
        refused(recall.store(0, store(0, base(2, 4), [4, 0])), "of incarnation 2");
        recall.store(0, store(0, now, [4, 0])).unwrap();
        refused(recall.store(0, store(0, now, [4, 0])), "a second time");
        refused(recall.ended(0), "nothing of the store of rank 1");
        refused(recall.rewound(0), "nobody has asked for");
        recall.store(0, store(1, now, [4, 0])).unwrap();
        recall.store(0, store(2, now, [0, 0])).unwrap();
        recall.ended(0).unwrap();
        refused(recall.ended(0), "a second time");
        refused(recall.store(0, store(1, now, [4, 0])), "a second time");
    }

    #[test]
    fn a_host_that_is_lost_while_agents_write_has_all_recalled_when_the_others_have_written() {
        let mut recall = Recall::new(3, 3);
        let layout = Layout::new(&[1, 1, 1]).unwrap();
        let mut agents = Agents::new(&layout, 1, base(4, 6));
        recall.begin(base(4, 6));
        for host in 0..3 {
            agents.tell(&mut recall, host);
        }
        let first = recall.course(&layout, &CopyRule::of(1), &Relocations::new()).unwrap();
        recall.carry_out(&first, &layout).unwrap();
        let round = recall.next_round().unwrap();
        agents.write(0, &round[&0]);
        recall.lost(2);
        recall.begin(first.plan.base);
        assert!(recall.store(0, agents.0[&(0, 0)]).unwrap_err().contains("before it has written it"));
        recall.rewound(0).unwrap();
        agents.tell(&mut recall, 0);
        agents.write(1, &round[&1]);
        recall.rewound(1).unwrap();
        agents.tell(&mut recall, 1);
        let second = recall.course(&layout, &CopyRule::of(1), &Relocations::new()).unwrap();
        assert_eq!(second.plan.base, base(6, 7));
        assert_eq!(second.layout.host_of(2), 0);
        recall.carry_out(&second, &layout).unwrap();
        let places = |round: Round| round.into_values().flatten().map(|one| one.place).collect::<Vec<_>>();
        use RewoundPlace::{Comes, Elsewhere, Stays};
        // Rank 2 goes on where its copy is.
        assert_eq!(places(recall.next_round().unwrap()), [Stays, Comes, Elsewhere, Stays]);
        assert!(recall.next_round().is_none());
    }

    /// What the stores of all agents say, by host and rank.
    struct Agents(BTreeMap<(u32, u32), StoreState>);

    impl Agents {
        /// Ranks went on from `from` and have all come one epoch further.
        fn new(layout: &Layout, copies: u32, from: Base) -> Agents {
            let ranks = 0..layout.size();
            let pairs = (0..layout.hosts()).flat_map(|host| ranks.clone().map(move |rank| (host, rank)));
            let state = |(host, rank): (u32, u32)| {
                let home = layout.host_of(rank);
                let has = host == home
                    || placement::holders(layout, &CopyRule::of(copies), home).any(|copy| copy == host);
                let all = if has {
                    store(rank, from, [from.epoch.0, from.epoch.0 + 1])
                } else {
                    store(rank, base(0, 0), [0, 0])
                };
                ((host, rank), all)
            };
            Agents(pairs.map(state).collect())
        }

        /// A host comes back with nothing.
        fn forget(&mut self, host: u32) {
            for (place, state) in &mut self.0 {
                if place.0 == host {
                    *state = store(place.1, base(0, 0), [0, 0]);
                }
            }
        }

        fn tell(&self, recall: &mut Recall, host: u32) {
            self.0.range((host, 0)..(host + 1, 0)).for_each(|(_, state)| recall.store(host, *state).unwrap());
            recall.ended(host).unwrap();
        }

        fn write(&mut self, host: u32, all: &[Rewound]) {
            for one in all {
                self.0.get_mut(&(host, one.rank)).unwrap().base = one.base;
            }
        }
    }

    /// What the launcher has told an agent that it has not taken yet.
    #[derive(Clone, Debug)]
    enum Told {
        Recall,
        Write(Vec<Rewound>),
    }

    proptest! {
        /// Whenever hosts are lost, as many as there are copies, and whichever marks of the newest epoch have
        /// not come, also if some come back with nothing: the others come to a start from an epoch that all
        /// ranks have, with stores that say so.
        #[test]
        fn hosts_may_be_lost_and_come_back_at_any_moment_of_a_recall(
            copies in 1u32..3,
            missing in prop::collection::vec((0u32..4, 0u32..6), 0..3),
            moves in prop::collection::vec((0u32..4, 0u32..9), 400)
        ) {
            let layout = Layout::new(&[2, 1, 2, 1]).unwrap();
            let mut agents = Agents::new(&layout, copies, base(3, 7));
            for place in missing {
                agents.0.get_mut(&place).unwrap().marks[1] = None;
            }
            let mut recall = Recall::new(4, 6);
            let mut told: BTreeMap<u32, VecDeque<Told>> = (0..4).map(|host| (host, VecDeque::new())).collect();
            let recall_all = |told: &mut BTreeMap<u32, VecDeque<Told>>| {
                told.values_mut().for_each(|queue| queue.push_back(Told::Recall));
            };
            recall.begin(base(3, 7));
            recall_all(&mut told);
            let mut course: Option<Continuation> = None;
            let mut empty = BTreeSet::new();
            for (host, what) in moves {
                let may_be_lost = empty.contains(&host) || empty.len() < copies as usize;
                if what == 2 && !told.contains_key(&host) && !recall.is_writing() {
                    agents.forget(host);
                    prop_assert!(recall.returned(host));
                    told.insert(host, VecDeque::from([Told::Recall]));
                } else if what == 0 && may_be_lost && told.remove(&host).is_some() {
                    empty.insert(host);
                    let was_writing = recall.is_writing();
                    recall.lost(host);
                    if was_writing {
                        recall.begin(course.as_ref().unwrap().plan.base);
                        recall_all(&mut told);
                    }
                } else if let Some(queue) = told.get_mut(&host) {
                    match queue.pop_front() {
                        None => {}
                        Some(Told::Recall) => agents.tell(&mut recall, host),
                        Some(Told::Write(all)) => {
                            agents.write(host, &all);
                            recall.rewound(host).unwrap();
                        }
                    }
                }
                if recall.is_written() {
                    break;
                }
                if !recall.is_writing() && !recall.any_run() {
                    let next = recall.course(&layout, &CopyRule::of(copies), &Relocations::new()).unwrap();
                    recall.carry_out(&next, &layout).unwrap();
                    course = Some(next);
                }
                // The launcher may wait for something before it has agents write.
                let round = if what == 1 { None } else { recall.next_round() };
                for (host, all) in round.into_iter().flatten() {
                    told.get_mut(&host).unwrap().push_back(Told::Write(all));
                }
            }
            prop_assume!(recall.is_written());
            let Continuation { plan, layout: next, .. } = course.unwrap();
            prop_assert!([Epoch(7), Epoch(8)].contains(&plan.base.epoch));
            for rank in 0..6 {
                let home = next.host_of(rank);
                prop_assert!(told.contains_key(&home), "rank {} is on host {}, which is lost", rank, home);
                let state = agents.0[&(home, rank)];
                prop_assert_eq!(state.base, plan.base);
                prop_assert!(state.at(plan.base.epoch).is_some());
            }
        }

        /// A plan is one that ranks can go on from, or there is none: whatever agents say of their stores.
        #[test]
        fn whatever_stores_say_there_is_a_plan_of_theirs_or_none(
            all in prop::collection::vec((prop::array::uniform2(prop::option::of((0u64..4, any::<u64>()))), any::<[u64; 2]>()), 6)
        ) {
            let mut recall = recall();
            recall.begin(base(2, 3));
            for (number, (marks, output)) in (0..).zip(all) {
                let (host, rank) = (number / 3, number % 3);
                let marked = |(incarnation, epoch)| MarkedEpoch {
                    mark: Mark { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) }, barrier: epoch, output, kept: output,
                };
                let state = StoreState { rank, base: base(2, 3), marks: marks.map(|mark| mark.map(marked)) };
                recall.store(host, state).unwrap();
            }
            recall.ended(0).unwrap();
            recall.ended(1).unwrap();
            if let Ok(course) = recall.course(&layout(), &CopyRule::of(0), &Relocations::new()) {
                prop_assert_eq!(course.plan.base.incarnation, Incarnation(3));
                if recall.carry_out(&course, &layout()).is_ok() {
                    let ranks = |round: Round| round.into_values().flatten().map(|one| one.rank).collect::<Vec<_>>();
                    prop_assert_eq!(recall.next_round().map(ranks), Some(vec![0, 1, 2]));
                }
            }
        }
    }
}
