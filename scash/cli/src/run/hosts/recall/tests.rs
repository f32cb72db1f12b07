use super::*;
use crate::run::hosts::placement::Relocations;
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
fn a_rank_whose_host_is_back_brings_what_it_had_printed_from_a_copy() {
    let layout = Layout::new(&[1, 1]).unwrap();
    let mut recall = Recall::new(2, 2);
    recall.lost(1);
    recall.begin(base(0, 0));
    for rank in 0..2 {
        recall.store(0, store(rank, base(0, 0), [1, 2])).unwrap();
    }
    recall.ended(0).unwrap();
    assert!(recall.returned(1) && recall.has_returned(1));
    for rank in 0..2 {
        recall.store(1, StoreState { rank, base: Base::default(), marks: [None; 2] }).unwrap();
    }
    recall.ended(1).unwrap();
    let home = Relocations::from([(1, 1)]);
    let course = recall.course(&layout, &CopyRule::of(1), Wishes { wanted: &home, ..Wishes::NONE }).unwrap();
    recall.carry_out(&course, &layout).unwrap();
    while !recall.next_orders().is_empty() {}
    let State::Writing { rounds, .. } = &recall.state else { panic!("{:?}", recall.state) };
    let place = |host: u32, rank: u32| {
        let last = &rounds.back().unwrap()[&host];
        last.iter().find(|one| one.rank == rank).map(|one| one.place)
    };
    assert_eq!((place(0, 0), place(1, 1)), (Some(RewoundPlace::Stays), Some(RewoundPlace::Comes)));
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
    let course = recall.course(&layout(), &CopyRule::of(0), Wishes::NONE).unwrap();
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
    let first = recall.course(&layout, &CopyRule::of(1), Wishes::NONE).unwrap();
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
    let second = recall.course(&layout, &CopyRule::of(1), Wishes::NONE).unwrap();
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
    /// ranks have, with stores that say so. Nor does it matter that the launcher is lost then, with what it
    /// had told agents that had not heard it: another one begins with what they know.
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
            if what == 3 && host == 0 {
                recall = Recall::new(4, 6);
                recall.take_over(Epoch(7));
                (0..4).filter(|host| !told.contains_key(host)).for_each(|host| recall.lost(host));
                told.values_mut().for_each(VecDeque::clear);
                recall.begin(base(3, 7));
                recall_all(&mut told);
            } else if what == 2 && !told.contains_key(&host) && !recall.is_writing() {
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
                let next = recall.course(&layout, &CopyRule::of(copies), Wishes::NONE).unwrap();
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
        all in prop::collection::vec(
            (prop::array::uniform2(prop::option::of((0u64..4, any::<u64>()))), any::<[u64; 2]>()),
            6,
        )
    ) {
        let mut recall = recall();
        recall.begin(base(2, 3));
        for (number, (marks, output)) in (0..).zip(all) {
            let (host, rank) = (number / 3, number % 3);
            let marked = |(incarnation, epoch)| MarkedEpoch {
                mark: Mark { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) },
                barrier: epoch,
                output,
                kept: output,
            };
            let state = StoreState { rank, base: base(2, 3), marks: marks.map(|mark| mark.map(marked)) };
            recall.store(host, state).unwrap();
        }
        recall.ended(0).unwrap();
        recall.ended(1).unwrap();
        if let Ok(course) = recall.course(&layout(), &CopyRule::of(0), Wishes::NONE) {
            prop_assert_eq!(course.plan.base.incarnation, Incarnation(3));
            if recall.carry_out(&course, &layout()).is_ok() {
                let ranks = |round: Round| round.into_values().flatten().map(|one| one.rank).collect::<Vec<_>>();
                prop_assert_eq!(recall.next_round().map(ranks), Some(vec![0, 1, 2]));
            }
        }
    }
}
