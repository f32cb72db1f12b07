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
        marks[(epoch % 2) as usize] =
            Some(MarkedEpoch { mark, barrier: 10 * epoch, output: [*epoch, u64::from(rank)], kept: [0; 2] });
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
    wishes: Wishes<'_>,
) -> Result<Continuation, Unrecoverable> {
    let lost = lost.iter().copied().collect();
    let found = KnownStores {
        states,
        lost: &lost,
        returned: &BTreeSet::new(),
        known: KnownRestart::Started(started),
        may_have_run: false,
        committed: Epoch(0),
        with_later: false,
    };
    course(found, layout, &CopyRule::of(copies), wishes)
}

fn of(
    started: Base,
    layout: &Layout,
    copies: u32,
    states: &States,
    lost: &[u32],
) -> Result<Continuation, Unrecoverable> {
    course_to(started, layout, copies, states, lost, Wishes::NONE)
}

fn to(wanted: &Relocations) -> Wishes<'_> {
    Wishes { wanted, ..Wishes::NONE }
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
    let held =
        |count, host| holders(&layout, &CopyRule { count, racks: racks.clone() }, host).collect::<Vec<_>>();
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
    let back = BTreeSet::new();
    let found = |known, all| KnownStores {
        states: all,
        lost: &lost,
        returned: &back,
        known,
        may_have_run: false,
        committed: Epoch(0),
        with_later: false,
    };
    let course = |known, all| course(found(known, all), &layout, &CopyRule::of(1), Wishes::NONE);
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
    let back = BTreeSet::new();
    let reaches = |lost: &[u32], states: &States, may_have_run: bool, committed: u64| {
        let lost = lost.iter().copied().collect();
        let (known, committed) = (KnownRestart::Begun(base(0, 0)), Epoch(committed));
        let found = KnownStores {
            states,
            lost: &lost,
            returned: &back,
            known,
            may_have_run,
            committed,
            with_later: false,
        };
        course(found, &layout, &CopyRule::of(1), Wishes::NONE).map(|course| course.plan.base)
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

/// It has no record of the last restart before the next one.
#[test]
fn a_copy_made_since_the_last_restart_may_lack_an_epoch_too() {
    let layout = Layout::new(&[1, 1]).unwrap();
    let mut all = states(&layout, 1, base(1, 4), &[5, 6]);
    all.insert((1, 0), StoreState { base: Base::default(), ..store(0, base(1, 4), &[5]) });
    let course = of(base(1, 4), &layout, 1, &all, &[]).unwrap();
    assert_eq!(course.plan.base, base(2, 5), "host 0 might be lost next");
    let all = carried_out(all, &course.plan);
    assert_eq!(of(base(2, 5), &course.layout, 1, &all, &[0]).unwrap().plan.base, base(3, 5));
}

/// How a launcher goes on that has begun a restart, or has found ranks that were started so, with one copy.
/// `lost`: hosts that are, and `back`: those that have come back with nothing.
fn goes_on(
    begun: Base,
    layout: &Layout,
    states: &States,
    [lost, back]: [&[u32]; 2],
    committed: u64,
) -> Result<Continuation, Unrecoverable> {
    let [lost, returned] = [lost, back].map(|hosts| hosts.iter().copied().collect());
    let found = KnownStores {
        states,
        lost: &lost,
        returned: &returned,
        known: KnownRestart::Begun(begun),
        may_have_run: committed > 0,
        committed: Epoch(committed),
        with_later: false,
    };
    course(found, layout, &CopyRule::of(1), Wishes::NONE)
}

/// All ranks had ended, and stores had been copied to a host that had come back, when another was lost.
#[test]
fn a_host_that_has_come_back_with_nothing_counts_with_what_was_copied_to_it() {
    let layout = Layout::new(&[1, 1, 1]).unwrap();
    let mut all = states(&layout, 1, base(3, 4), &[4, 5]);
    // Of rank 1, whose copy was on host 2; it has nothing of rank 0.
    let copied = StoreState { base: base(4, 5), ..store(1, base(3, 4), &[4, 5]) };
    all.extend([((1, 1), copied), ((1, 0), store(0, Base::default(), &[]))]);
    let course = |lost: &[u32]| goes_on(base(4, 5), &layout, &all, [lost, &[1]], 0);
    let found = course(&[2]).unwrap();
    assert_eq!((found.plan.base, found.layout.host_of(1)), (base(5, 5), 1));
    let why = course(&[0, 2]).unwrap_err();
    assert!(matches!(why, Unrecoverable::Lost { rank: 0, .. }), "{why}");
}

/// Host 1 is lost; the copy of rank 1 was on host 2, with the launcher, and was copied to the spare host 3.
#[test]
fn a_store_that_knows_of_the_first_restart_counts_for_the_next_launcher() {
    let layout = Layout::with_spares(&[1, 1, 1], 1).unwrap();
    let mut all = states(&layout, 1, base(0, 0), &[4, 5]);
    all.insert((3, 1), StoreState { base: base(1, 5), ..store(1, base(0, 0), &[4, 5]) });
    all.insert((0, 0), StoreState { base: base(1, 5), ..store(0, base(0, 0), &[4, 5]) });
    let found = goes_on(base(0, 0), &layout, &all, [&[1, 2], &[]], 5).unwrap();
    assert_eq!((found.plan.base, found.layout.host_of(1)), (base(2, 5), 3));
}

/// A cluster had split, and each part has gone on with the job. Host 1 is of the other part.
#[test]
fn a_store_of_another_course_does_not_count_if_ranks_can_go_on_without() {
    let layout = Layout::new(&[1, 1, 1]).unwrap().moved(|rank| if rank == 1 { 2 } else { rank }).unwrap();
    let mut all = states(&layout, 1, base(2, 10), &[34, 35]);
    for rank in 0..3 {
        all.insert((1, rank), StoreState { base: base(3, 20), ..store(rank, base(2, 10), &[40, 41]) });
    }
    let found = goes_on(base(2, 10), &layout, &all, [&[], &[]], 35).unwrap();
    assert_eq!(found.plan.base, base(3, 35));
}

/// Before its first checkpoint, a job has nothing that could have been copied.
#[test]
fn a_rank_whose_host_has_come_back_begins_anew_there_if_no_store_of_it_is_left() {
    let layout = Layout::new(&[1, 1]).unwrap();
    let all = states(&layout, 1, base(1, 0), &[]);
    let found = goes_on(base(1, 0), &layout, &all, [&[0], &[1]], 0).unwrap();
    assert_eq!((found.plan.base, ranks(&found.layout, 1)), (base(2, 0), vec![0, 1]));
}

/// Rank 0 has moved to host 0, and host 1, where it was, is the only other one that has it.
#[test]
fn a_store_that_knows_of_a_restart_which_the_next_launcher_does_not_know_of_counts() {
    let layout = Layout::new(&[1, 1, 1]).unwrap();
    let mut all = states(&layout, 1, base(1, 5), &[4, 5]);
    // The ring goes on to host 2, which has not got its copy yet.
    let moved = layout.moved(|rank| if rank == 1 { 0 } else { rank }).unwrap();
    let told = |rank| StoreState { base: base(2, 5), ..store(rank, base(1, 5), &[4, 5]) };
    all.extend([((1, 0), told(0)), ((1, 1), told(1))]);
    all.extend([0, 1].map(|rank| ((2, rank), store(rank, Base::default(), &[]))));
    let found = goes_on(base(1, 5), &moved, &all, [&[0], &[]], 5).unwrap();
    assert_eq!(found.plan.base, base(3, 5));
    assert_eq!([0, 1].map(|rank| found.layout.host_of(rank)), [1, 1]);
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
    let wanted = Relocations::from([(0, 1)]);
    let moved = course_to(base(3, 4), &layout, 1, &all, &[], to(&wanted)).unwrap();
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
    let moved = course_to(base(3, 4), &layout, 1, &all, &[], to(&wanted)).unwrap();
    assert_eq!([0, 1].map(|host| ranks(&moved.layout, host)), [vec![0, 2], vec![1]]);
    assert!(!moved.plan.steps.iter().any(|step| matches!(step, RecoveryAction::Copy { .. })));
    // Host 2 has none of anything.
    let layout = Layout::new(&[1, 1, 1]).unwrap();
    let all = states(&layout, 1, base(3, 4), &[4, 5]);
    let wanted = Relocations::from([(1, 0)]);
    let moved = course_to(base(3, 4), &layout, 1, &all, &[1], to(&wanted)).unwrap();
    let copies = moved.plan.steps.iter().filter(|step| matches!(step, RecoveryAction::Copy { .. }));
    let copies: Vec<RecoveryAction> = copies.copied().collect();
    let mark = Mark { incarnation: Incarnation(3), epoch: Epoch(5) };
    assert_eq!(copies, [RecoveryAction::Copy { rank: 1, from: 2, to: 0, mark }]);
    assert_eq!(ranks(&moved.layout, 0), [0, 1]);
    // One that is lost is wanted in vain.
    let wanted = Relocations::from([(0, 1)]);
    let moved = course_to(base(3, 4), &layout, 1, &all, &[1], to(&wanted)).unwrap();
    assert_eq!(ranks(&moved.layout, 0), [0]);
}

#[test]
fn a_host_where_ranks_cannot_go_on_gives_what_it_has_to_others() {
    // Host 3 is a spare one.
    let layout = Layout::with_spares(&[1, 1, 1], 1).unwrap();
    let all = states(&layout, 1, base(3, 4), &[4, 5]);
    let course = |lost: &[u32], unfit: &[u32]| {
        let refused = unfit.iter().flat_map(|host| (0..3).map(|rank| (rank, *host))).collect();
        let wishes = Wishes { refused: &refused, ..Wishes::NONE };
        course_to(base(3, 4), &layout, 1, &all, lost, wishes)
    };
    let copies = |course: &Continuation| {
        let copies = course.plan.steps.iter().filter_map(|step| match step {
            RecoveryAction::Copy { rank, from, to, .. } => Some((*rank, *from, *to)),
            _ => None,
        });
        copies.collect::<Vec<_>>()
    };
    let by_its_copy = course(&[], &[1]).unwrap();
    assert_eq!((ranks(&by_its_copy.layout, 2), copies(&by_its_copy)), (vec![1, 2], vec![]));
    let without_copies = course(&[2], &[1]).unwrap();
    assert_eq!(without_copies.plan.base, base(4, 5));
    assert_eq!(ranks(&without_copies.layout, 0), [0, 1, 2]);
    assert_eq!(copies(&without_copies), [(1, 1, 0)]);
    // No other one has ranks, and then there is none at all.
    let on_a_spare_one = course(&[0], &[1, 2]).unwrap();
    assert_eq!(ranks(&on_a_spare_one.layout, 3), [0, 1, 2]);
    assert_eq!(course(&[0, 3], &[1, 2]).unwrap_err(), Unrecoverable::Unfit { rank: 0 });
}

/// Hosts have different kernels, say.
#[test]
fn a_rank_that_could_not_go_on_elsewhere_goes_back_and_drives_nobody_away() {
    let layout = Layout::new(&[1, 1, 1]).unwrap();
    let all = states(&layout, 1, base(3, 4), &[4, 5]);
    let to_1 = Relocations::from([(0, 1), (2, 1)]);
    let moved = course_to(base(3, 4), &layout, 1, &all, &[], to(&to_1)).unwrap();
    let (all, layout) = (carried_out(all, &moved.plan), moved.layout);
    let came_from = Relocations::from([(0, 0), (2, 2)]);
    let course = |refused: &[(u32, u32)], lost: &[u32]| {
        let refused = refused.iter().copied().collect();
        let wishes = Wishes { came_from: &came_from, refused: &refused, ..Wishes::NONE };
        let course = course_to(base(4, 5), &layout, 1, &all, lost, wishes)?;
        Ok([0, 1, 2].map(|rank| course.layout.host_of(rank)))
    };
    assert_eq!(course(&[], &[]), Ok([1, 1, 1]));
    assert_eq!(course(&[(0, 1)], &[]), Ok([0, 1, 2]), "nor does rank 2 stay, which has come as well");
    assert_eq!(course(&[(0, 1)], &[2]), Ok([0, 1, 0]));
    assert_eq!(course(&[(0, 1), (0, 0)], &[2]), Err(Unrecoverable::Unfit { rank: 0 }));
}
