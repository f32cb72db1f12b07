//! Where ranks run and who holds copies of their stores, as a value: as the job begins, and after hosts were
//! lost.
//!
//! A rank's store is on its own host, and a copy of it on each of the next hosts in a ring, as many as the
//! user asks for (`--replicas`). A host that is lost takes its ranks' stores along, and they come back where
//! a copy is.

use crate::run::recovery::{HeldStores, StoreState};
use scash_ft::recovery::{KnownRestart, RankStores, RecoveryPlan, Survivor, Unrecoverable, hosts_with, plan};
use scash_ft::{Base, Epoch};
use scash_join::boot::Layout;
use std::collections::{BTreeMap, BTreeSet};

/// What each store says that a host has: by host and rank.
pub(super) type States = BTreeMap<(u32, u32), StoreState>;

/// Ranks that are to run elsewhere, and there.
pub(super) type Relocations = BTreeMap<u32, u32>;

/// How many copies there are of each store, and which hosts should not both hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CopyRule {
    /// Copies besides the store itself, each on another host.
    pub(super) count: u32,
    /// By host: its rack, whose hosts may all be lost at once; empty if the user has named none.
    pub(super) racks: Vec<u32>,
}

impl CopyRule {
    /// So many copies, wherever.
    #[cfg(test)]
    pub(super) fn of(count: u32) -> CopyRule {
        CopyRule { count, racks: Vec::new() }
    }

    fn rack(&self, host: u32) -> Option<u32> {
        self.racks.get(host as usize).copied()
    }
}

/// The hosts that hold copies of the stores of a host's ranks: the next ones that have ranks, and first those
/// of racks that have no copy yet.
pub(super) fn holders(layout: &Layout, rule: &CopyRule, host: u32) -> impl Iterator<Item = u32> + use<> {
    let hosts = layout.hosts();
    let others = (1..hosts).map(move |distance| (host + distance) % hosts);
    let mut others: Vec<u32> = others.filter(|other| layout.first_of(*other).is_some()).collect();
    let mut all = vec![host];
    while all.len() <= rule.count as usize && !others.is_empty() {
        let has_rack = |other: u32| all.iter().any(|one| rule.rack(*one) == rule.rack(other));
        let next = others.iter().position(|other| rule.racks.is_empty() || !has_rack(*other)).unwrap_or(0);
        all.push(others.remove(next));
    }
    all.into_iter().skip(1)
}

/// The copies that ranks of a host hold, which take turns.
pub(super) fn holdings(layout: &Layout, rule: &CopyRule, host: u32) -> Vec<HeldStores> {
    let here: Vec<u32> = layout.ranks_of(host).collect();
    let holds = |owner: &u32| holders(layout, rule, layout.host_of(*owner)).any(|holder| holder == host);
    let owners = (0..layout.size()).filter(holds);
    owners.zip(here.iter().cycle()).map(|(owner, holder)| HeldStores { owner, holder: *holder }).collect()
}

/// How the job goes on.
#[derive(Debug)]
pub(super) struct Continuation {
    pub(super) plan: RecoveryPlan,
    /// Where ranks run then.
    pub(super) layout: Layout,
    /// What the store says that each rank comes back from.
    pub(super) states: Vec<StoreState>,
}

/// What is known when all ranks have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownStores<'a> {
    /// What the stores say of all hosts that are not lost.
    pub(super) states: &'a States,
    pub(super) lost: &'a BTreeSet<u32>,
    /// Hosts that were lost and are there again, with nothing of what they had.
    pub(super) returned: &'a BTreeSet<u32>,
    /// Of restarts.
    pub(super) known: KnownRestart,
    /// Whether ranks may have been started from that, by another launcher, though it is not known.
    pub(super) may_have_run: bool,
    /// An epoch that all ranks are known to have had.
    pub(super) committed: Epoch,
}

/// How ranks go on that ran as `layout` says. Those that are `wanted` elsewhere go there, wherever their
/// stores are.
///
/// # Errors
/// A rank has no store any more that it could come back from.
pub(super) fn course(
    found: KnownStores<'_>,
    layout: &Layout,
    rule: &CopyRule,
    wanted: &Relocations,
) -> Result<Continuation, Unrecoverable> {
    let KnownStores { states, lost, returned, known, may_have_run, committed } = found;
    let is_there = |host: &u32| !lost.contains(host) && !returned.contains(host);
    let regular = |rank: u32| {
        let host = layout.host_of(rank);
        std::iter::once(host).chain(holders(layout, rule, host)).filter(is_there).collect::<Vec<u32>>()
    };
    // And those that had the rank, or a copy, when ranks were started the last time: they get no more, but
    // have what all were started from. What others have is of former incarnations, and says nothing.
    let start = known.base().filter(|base| base.epoch > Epoch(0));
    let hosts_of = |rank: u32| {
        let mut all = regular(rank);
        let is_current = |host: &u32| {
            states.get(&(*host, rank)).zip(start).is_some_and(|(state, start)| state.base == start)
        };
        let former = (0..layout.hosts()).filter(|host| is_there(host) && is_current(host));
        let former: Vec<u32> = former.filter(|host| !all.contains(host)).collect();
        all.extend(former);
        all
    };
    let survivors = |rank: u32| {
        let of = |host: u32| states.get(&(host, rank)).map(|state| state.survivor(host));
        RankStores { survivors: hosts_of(rank).into_iter().filter_map(of).collect(), holders: Vec::new() }
    };
    let mut all: Vec<RankStores> = (0..layout.size()).map(survivors).collect();
    if let Some(base) = beginning(&all, known, may_have_run) {
        let hosts = layout.hosts();
        for (rank, stores) in (0..).zip(&mut all).filter(|(_, stores)| stores.survivors.is_empty()) {
            let home = layout.host_of(rank);
            let left = (1..hosts).map(|distance| (home + distance) % hosts).find(|host| !lost.contains(host));
            stores.survivors.extend(left.map(|host| Survivor { host, marks: [None; 2], base }));
        }
    }
    // Whoever has more is out of reach.
    let behind = |why| match why {
        Unrecoverable::Lost { rank, epoch } if epoch < committed => {
            Unrecoverable::Lost { rank, epoch: committed }
        }
        why => why,
    };
    let all = whole(all, known, &regular, committed).map_err(behind)?;
    let stores = |holders: &dyn Fn(u32) -> Vec<u32>| -> Vec<RankStores> {
        let with =
            |(rank, stores): (u32, &RankStores)| RankStores { holders: holders(rank), ..stores.clone() };
        (0..).zip(&all).map(with).collect()
    };
    let epoch = plan(&all, known)?.base.epoch;
    if epoch < committed {
        let with_more = hosts_with(&all, known, committed)?;
        let rank = (0..).zip(&with_more).find(|(_, hosts)| hosts.is_empty()).map_or(0, |(rank, _)| rank);
        return Err(Unrecoverable::Lost { rank, epoch: committed });
    }
    let with_epoch = hosts_with(&all, known, epoch)?;
    let with_epoch = |rank: u32| with_epoch[rank as usize].as_slice();
    if let Some(rank) = (0..layout.size()).find(|rank| with_epoch(*rank).is_empty()) {
        return Err(Unrecoverable::Lost { rank, epoch });
    }
    let wanted = |rank: u32| wanted.get(&rank).filter(|host| !lost.contains(host));
    let next = layout.moved(|rank| *wanted(rank).or(with_epoch(rank).first()).unwrap_or(&0));
    let next = next.ok_or(Unrecoverable::Lost { rank: 0, epoch })?;
    // New copies have nothing yet: they get all with the next checkpoint. Until then those count that have
    // it.
    let keeps = |rank: u32| {
        let host = next.host_of(rank);
        let has = |copy: &u32| epoch == Epoch(0) || with_epoch(rank).contains(copy);
        let mut all = vec![host];
        all.extend(holders(&next, rule, host).filter(has));
        let former: Vec<u32> = with_epoch(rank).iter().copied().filter(|host| !all.contains(host)).collect();
        all.extend(former);
        all
    };
    let plan = plan(&stores(&keeps), known)?;
    // If a rank goes elsewhere, of the store that is copied there.
    let states =
        (0..layout.size()).filter_map(|rank| states.get(&(*with_epoch(rank).first()?, rank)).copied());
    Ok(Continuation { plan, states: states.collect(), layout: next })
}

/// What ranks were started from, if that is the beginning and stores that are left know of no later epoch:
/// then nobody has run on from the beginning, of which nothing is stored, and a rank whose stores are all
/// lost begins anew like the others.
fn beginning(all: &[RankStores], known: KnownRestart, may_have_run: bool) -> Option<Base> {
    let base = known.base().filter(|base| base.epoch == Epoch(0))?;
    let stores = || all.iter().flat_map(|rank| &rank.survivors);
    let has_marked =
        |store: &Survivor| store.marks.iter().flatten().any(|mark| mark.incarnation == base.incarnation);
    // Ranks that were not started have not run on, whoever is left to say so.
    let is_not_started = known == KnownRestart::Begun(base) && !may_have_run;
    let is_told = is_not_started || stores().any(|store| store.base == base);
    (is_told && !stores().any(has_marked)).then_some(base)
}

/// Without the marks of an epoch that some copy lacks, if ranks can do without: nobody has run on in it, and
/// no copy is made until ranks have gone on. If they went on from there, the loss of one more host could be
/// one too many. `regular` says where a rank's copies are made. An epoch that all ranks are known to have had
/// is not done without: then the copy is one of a host that has come back with nothing.
fn whole(
    all: Vec<RankStores>,
    known: KnownRestart,
    regular: &dyn Fn(u32) -> Vec<u32>,
    committed: Epoch,
) -> Result<Vec<RankStores>, Unrecoverable> {
    let epoch = plan(&all, known)?.base.epoch;
    let with_epoch = hosts_with(&all, known, epoch)?;
    let lacks = |(number, (rank, hosts)): (u32, (&RankStores, &Vec<u32>))| {
        let regular = regular(number);
        // Those that ranks were not started with may be of former incarnations, and say nothing.
        let mut current = rank.survivors.iter().filter(|store| Some(store.base) == known.base());
        current.any(|store| regular.contains(&store.host) && !hosts.contains(&store.host))
    };
    if epoch <= committed || !(0..).zip(all.iter().zip(&with_epoch)).any(lacks) {
        return Ok(all);
    }
    let mut without = all.clone();
    for store in without.iter_mut().flat_map(|rank| &mut rank.survivors) {
        store.marks = store.marks.map(|mark| mark.filter(|mark| mark.epoch != epoch));
    }
    let is_there = plan(&without, known).is_ok_and(|plan| plan.base.epoch.next() == epoch);
    Ok(if is_there { without } else { all })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::recovery::MarkedEpoch;
    use scash_ft::recovery::RecoveryAction;
    use scash_ft::{Incarnation, Mark};

    fn base(incarnation: u64, epoch: u64) -> Base {
        Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) }
    }

    /// A store that was started from `base` and has marked these epochs since.
    fn store(rank: u32, base: Base, epochs: &[u64]) -> StoreState {
        let mut marks = [None; 2];
        for epoch in epochs {
            let mark = Mark { incarnation: base.incarnation, epoch: Epoch(*epoch) };
            marks[(epoch % 2) as usize] = Some(MarkedEpoch {
                mark,
                barrier: 10 * epoch,
                output: [*epoch, u64::from(rank)],
                kept: [0; 2],
            });
        }
        StoreState { rank, base, marks }
    }

    /// All hosts have all stores; those that count have these epochs, and the others nothing.
    fn states(layout: &Layout, copies: u32, base: Base, epochs: &[u64]) -> States {
        let mut states = States::new();
        for rank in 0..layout.size() {
            let home = layout.host_of(rank);
            for host in 0..layout.hosts() {
                let counts =
                    host == home || holders(layout, &CopyRule::of(copies), home).any(|holder| holder == host);
                let epochs = if counts { epochs } else { &[] };
                let base = if counts { base } else { Base::default() };
                states.insert((host, rank), store(rank, base, epochs));
            }
        }
        states
    }

    fn course_to(
        started: Base,
        layout: &Layout,
        copies: u32,
        states: &States,
        lost: &[u32],
        wanted: &Relocations,
    ) -> Result<Continuation, Unrecoverable> {
        let lost = lost.iter().copied().collect();
        let found = KnownStores {
            states,
            lost: &lost,
            returned: &BTreeSet::new(),
            known: KnownRestart::Started(started),
            may_have_run: false,
            committed: Epoch(0),
        };
        course(found, layout, &CopyRule::of(copies), wanted)
    }

    fn of(
        started: Base,
        layout: &Layout,
        copies: u32,
        states: &States,
        lost: &[u32],
    ) -> Result<Continuation, Unrecoverable> {
        course_to(started, layout, copies, states, lost, &Relocations::new())
    }

    fn ranks(layout: &Layout, host: u32) -> Vec<u32> {
        layout.ranks_of(host).collect()
    }

    #[test]
    fn copies_lie_on_the_next_hosts_whose_ranks_take_turns() {
        let layout = Layout::new(&[2, 2, 1]).unwrap();
        assert_eq!(holders(&layout, &CopyRule::of(1), 0).collect::<Vec<_>>(), [1]);
        assert_eq!(holders(&layout, &CopyRule::of(2), 2).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(holders(&layout, &CopyRule::of(7), 1).collect::<Vec<_>>(), [2, 0]);
        let holding = |owner, holder| HeldStores { owner, holder };
        assert_eq!(holdings(&layout, &CopyRule::of(1), 1), [holding(0, 2), holding(1, 3)]);
        assert_eq!(
            holdings(&layout, &CopyRule::of(2), 2),
            [holding(0, 4), holding(1, 4), holding(2, 4), holding(3, 4)]
        );
        assert_eq!(holdings(&Layout::one_host(3), &CopyRule::of(1), 0), []);
    }

    #[test]
    fn copies_lie_in_other_racks_as_long_as_there_are_any() {
        let layout = Layout::new(&[1, 1, 1, 1, 1]).unwrap();
        // Hosts 0, 1 and 4 are in one rack.
        let racks = vec![7, 7, 8, 9, 7];
        let held = |count, host| {
            holders(&layout, &CopyRule { count, racks: racks.clone() }, host).collect::<Vec<_>>()
        };
        assert_eq!(held(1, 0), [2]);
        assert_eq!(held(2, 1), [2, 3]);
        assert_eq!(held(4, 4), [2, 3, 0, 1]);
        assert_eq!(held(2, 2), [3, 4]);
        assert_eq!(held(9, 3), [4, 2, 0, 1]);
    }

    #[test]
    fn ranks_of_a_lost_host_come_back_where_copies_are() {
        let layout = Layout::new(&[2, 2, 1]).unwrap();
        let all = states(&layout, 1, base(3, 4), &[4, 5]);
        let course = of(base(3, 4), &layout, 1, &all, &[1]).unwrap();
        assert_eq!(course.plan.base, base(4, 5));
        assert_eq!([0, 1, 2].map(|host| ranks(&course.layout, host)), [vec![0, 1], vec![], vec![2, 3, 4]]);
        assert_eq!(course.states[2].rank, 2);
        // Ranks 0 and 1 had their copies on the host that is gone; those of ranks 2 to 4 would be new ones.
        // That of rank 4 was on host 0, and is.
        let written = |step: &RecoveryAction| match step {
            RecoveryAction::WriteBase { rank, host, .. } => (*rank, *host),
            other => panic!("{other:?}"),
        };
        let steps = &course.plan.steps[..course.plan.steps.len() - 1];
        assert_eq!(
            steps.iter().map(written).collect::<Vec<_>>(),
            [(0, 0), (1, 0), (2, 2), (3, 2), (4, 2), (4, 0)]
        );
    }

    #[test]
    fn a_job_without_a_checkpoint_begins_anew_on_the_hosts_that_are_left() {
        let layout = Layout::new(&[1, 1]).unwrap();
        let all = states(&layout, 1, base(0, 0), &[]);
        let course = of(base(0, 0), &layout, 1, &all, &[0]).unwrap();
        assert_eq!((course.plan.base, ranks(&course.layout, 1)), (base(1, 0), vec![0, 1]));
    }

    #[test]
    fn ranks_whose_stores_are_all_lost_begin_anew_if_nobody_has_come_further() {
        let layout = Layout::new(&[1, 1, 1]).unwrap();
        let lost = BTreeSet::from([0, 1]);
        let (none, back) = (Relocations::new(), BTreeSet::new());
        let found = |known, all| KnownStores {
            states: all,
            lost: &lost,
            returned: &back,
            known,
            may_have_run: false,
            committed: Epoch(0),
        };
        let course = |known, all| course(found(known, all), &layout, &CopyRule::of(1), &none);
        // Host 2 was not to hold a copy of rank 0: what it has of it is of former times, or nothing.
        let nowhere = states(&layout, 1, base(4, 0), &[]);
        for known in [KnownRestart::Started(base(4, 0)), KnownRestart::Begun(base(4, 0))] {
            let anew = course(known, &nowhere).unwrap();
            assert_eq!((anew.plan.base, ranks(&anew.layout, 2)), (base(5, 0), vec![0, 1, 2]));
        }
        // Rank 0 may have run on from where rank 2 is.
        let further = course(KnownRestart::Started(base(4, 0)), &states(&layout, 1, base(4, 0), &[1]));
        assert_eq!(further.unwrap_err(), Unrecoverable::Lost { rank: 0, epoch: Epoch(0) });
        // Or nobody is left who had a store.
        let on_one = layout.moved(|_| 0).unwrap();
        assert!(of(base(4, 0), &on_one, 1, &nowhere, &[0]).is_err());
    }

    /// A spare host has no store; one that came back may have empty ones.
    #[test]
    fn a_launcher_that_reaches_no_store_of_another_ones_job_does_not_begin_anew() {
        let layout = Layout::new(&[1, 1, 1]).unwrap().moved(|rank| rank % 2).unwrap();
        let (nothing, empty) = (States::new(), states(&layout, 1, base(0, 0), &[]));
        let (none, back) = (Relocations::new(), BTreeSet::new());
        let reaches = |lost: &[u32], states: &States, may_have_run: bool, committed: u64| {
            let lost = lost.iter().copied().collect();
            let (known, committed) = (KnownRestart::Begun(base(0, 0)), Epoch(committed));
            let found = KnownStores { states, lost: &lost, returned: &back, known, may_have_run, committed };
            course(found, &layout, &CopyRule::of(1), &none).map(|course| course.plan.base)
        };
        let lost = |epoch| Err(Unrecoverable::Lost { rank: 0, epoch: Epoch(epoch) });
        assert_eq!(reaches(&[0, 1], &nothing, true, 0), lost(0));
        assert_eq!(reaches(&[0, 1], &nothing, true, 40), lost(40));
        assert_eq!(reaches(&[0, 1], &nothing, false, 0), Ok(base(1, 0)), "it has not started them");
        assert_eq!(reaches(&[0], &empty, true, 0), Ok(base(1, 0)), "who would have marks has none");
        assert_eq!(reaches(&[0], &empty, true, 40), lost(40));
        let whole = states(&layout, 1, base(0, 0), &[39, 40]);
        assert_eq!(reaches(&[0], &whole, true, 40), Ok(base(1, 40)));
        // Host 1 has come back with nothing while the other launcher was lost.
        let mut came_back = whole.clone();
        for rank in 0..3 {
            came_back.insert((1, rank), store(rank, base(0, 0), &[]));
        }
        assert_eq!(reaches(&[], &came_back, true, 40), Ok(base(1, 40)));
    }

    #[test]
    fn a_rank_whose_stores_are_all_lost_is_lost() {
        let layout = Layout::new(&[1, 1, 1]).unwrap();
        let all = states(&layout, 1, base(2, 3), &[3, 4]);
        let why = of(base(2, 3), &layout, 1, &all, &[0, 1]).unwrap_err();
        assert_eq!(why, Unrecoverable::Lost { rank: 0, epoch: Epoch(3) });
        assert!(of(base(2, 3), &layout, 2, &states(&layout, 2, base(2, 3), &[3, 4]), &[0, 1]).is_ok());
    }

    #[test]
    fn an_epoch_that_some_copy_has_not_is_not_gone_on_from() {
        let layout = Layout::new(&[1, 1]).unwrap();
        let mut all = states(&layout, 1, base(0, 0), &[6, 7]);
        all.insert((1, 0), store(0, base(0, 0), &[6]));
        let without = |lost: &[u32]| of(base(0, 0), &layout, 1, &all, lost).unwrap();
        assert_eq!(without(&[]).plan.base.epoch, Epoch(6), "its host might be lost next");
        assert_eq!(without(&[0]).plan.base.epoch, Epoch(6), "rank 0 was on its way to it");
        assert_eq!(without(&[1]).plan.base.epoch, Epoch(7), "nothing that is left lacks it");
    }

    #[test]
    fn an_epoch_that_some_copy_has_not_is_gone_on_from_if_there_is_no_other() {
        let layout = Layout::new(&[1, 1, 1]).unwrap();
        let mut all = states(&layout, 1, base(1, 6), &[7]);
        // Rank 0 has a new copy on host 1, which has got all of epoch 7; that of rank 1 on host 2 has not.
        let fresh = store(0, base(1, 6), &[7]);
        all.insert((1, 0), StoreState { base: Base::default(), ..fresh });
        all.insert((2, 1), store(1, base(1, 6), &[]));
        let without = |lost: &[u32]| of(base(1, 6), &layout, 1, &all, lost).unwrap();
        assert_eq!(without(&[]).plan.base.epoch, Epoch(6));
        assert_eq!(without(&[0]).plan.base.epoch, Epoch(7));
    }

    #[test]
    fn copies_of_former_incarnations_count_for_nothing() {
        let layout = Layout::new(&[1, 1, 1]).unwrap();
        let mut all = states(&layout, 1, base(5, 8), &[8, 9]);
        // Host 2 held a copy of rank 0 in former times.
        all.insert((2, 0), store(0, base(3, 8), &[8, 9]));
        let why = of(base(5, 8), &layout, 1, &all, &[0, 1]).unwrap_err();
        assert!(matches!(why, Unrecoverable::Lost { rank: 0, .. }), "{why}");
    }

    /// What stores say when all steps of a plan but the last one are carried out.
    fn carried_out(mut states: States, plan: &RecoveryPlan) -> States {
        for step in &plan.steps {
            match *step {
                RecoveryAction::Copy { rank, from, to, .. } => {
                    let copy = states[&(from, rank)];
                    states.insert((to, rank), copy);
                }
                RecoveryAction::WriteBase { rank, host, base } => {
                    states.get_mut(&(host, rank)).unwrap().base = base;
                }
                RecoveryAction::Start { .. } => {}
            }
        }
        states
    }

    #[test]
    fn until_the_next_checkpoint_a_rank_comes_back_from_where_it_was_before_it_moved() {
        let layout = Layout::new(&[1, 1, 1]).unwrap();
        let all = states(&layout, 1, base(3, 4), &[4, 5]);
        let moved = course_to(base(3, 4), &layout, 1, &all, &[], &Relocations::from([(0, 1)])).unwrap();
        let mut all = carried_out(all, &moved.plan);
        assert_eq!((moved.plan.base, ranks(&moved.layout, 1)), (base(4, 5), vec![0, 1]));
        // Its copies are on host 2 now, which has none yet.
        let again = of(base(4, 5), &moved.layout, 1, &all, &[1]).unwrap();
        assert_eq!((again.plan.base, again.layout.host_of(0)), (base(5, 5), 0));
        // With a checkpoint, host 2 has one; what host 0 has neither counts nor keeps others back.
        for (host, rank) in [(1, 0), (2, 0), (1, 1), (2, 1), (2, 2), (1, 2)] {
            all.insert((host, rank), store(rank, base(4, 5), &[5, 6]));
        }
        let again = of(base(4, 5), &moved.layout, 1, &all, &[]).unwrap();
        assert_eq!((again.plan.base, again.layout.host_of(0)), (base(5, 6), 1));
        let again = of(base(4, 5), &moved.layout, 1, &all, &[1]).unwrap();
        assert_eq!((again.plan.base, again.layout.host_of(0)), (base(5, 6), 2));
        let all = carried_out(all, &again.plan);
        let why = of(base(5, 6), &again.layout, 1, &all, &[1, 2]).unwrap_err();
        assert!(matches!(why, Unrecoverable::Lost { rank: 0, .. }), "{why}");
    }

    #[test]
    fn ranks_go_where_they_are_wanted_and_their_stores_are_copied_there_first() {
        let layout = Layout::new(&[2, 1]).unwrap().moved(|rank| rank / 2).unwrap();
        let all = states(&layout, 1, base(3, 4), &[4, 5]);
        // Host 1 has a copy of the store of rank 1, and host 0 of that of rank 2.
        let wanted = Relocations::from([(1, 1), (2, 0)]);
        let moved = course_to(base(3, 4), &layout, 1, &all, &[], &wanted).unwrap();
        assert_eq!([0, 1].map(|host| ranks(&moved.layout, host)), [vec![0, 2], vec![1]]);
        assert!(!moved.plan.steps.iter().any(|step| matches!(step, RecoveryAction::Copy { .. })));
        // Host 2 has none of anything.
        let layout = Layout::new(&[1, 1, 1]).unwrap();
        let all = states(&layout, 1, base(3, 4), &[4, 5]);
        let moved = course_to(base(3, 4), &layout, 1, &all, &[1], &Relocations::from([(1, 0)])).unwrap();
        let copies = moved.plan.steps.iter().filter(|step| matches!(step, RecoveryAction::Copy { .. }));
        let copies: Vec<RecoveryAction> = copies.copied().collect();
        let mark = Mark { incarnation: Incarnation(3), epoch: Epoch(5) };
        assert_eq!(copies, [RecoveryAction::Copy { rank: 1, from: 2, to: 0, mark }]);
        assert_eq!(ranks(&moved.layout, 0), [0, 1]);
        // One that is lost is wanted in vain.
        let moved = course_to(base(3, 4), &layout, 1, &all, &[1], &Relocations::from([(0, 1)])).unwrap();
        assert_eq!(ranks(&moved.layout, 0), [0]);
    }
}
