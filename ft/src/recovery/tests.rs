use super::*;
use crate::Incarnation;

fn mark(incarnation: u64, epoch: u64) -> Option<Mark> {
    Some(Mark { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) })
}

fn base(incarnation: u64, epoch: u64) -> Base {
    Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) }
}

/// A rank with one store, on host 0.
fn rank(base: Base, marks: [Option<Mark>; 2]) -> RankStores {
    RankStores { survivors: vec![Survivor { host: 0, marks, base }], holders: vec![0] }
}

fn found(ranks: &[RankStores]) -> Result<Base, Unrecoverable> {
    plan(ranks, KnownRestart::Nothing).map(|plan| plan.base)
}

#[test]
fn ranks_go_on_from_an_epoch_that_all_have_marked() {
    let ranks = [rank(base(0, 0), [mark(0, 4), mark(0, 3)]), rank(base(0, 0), [mark(0, 4), mark(0, 5)])];
    assert_eq!(found(&ranks), Ok(base(1, 4)));
    let ranks = [rank(base(0, 0), [mark(0, 4), mark(0, 5)]), rank(base(0, 0), [mark(0, 4), mark(0, 5)])];
    assert_eq!(found(&ranks), Ok(base(1, 5)));
}

#[test]
fn a_mark_of_another_incarnation_counts_for_nothing() {
    let ranks = [rank(base(1, 4), [mark(0, 4), mark(1, 5)]), rank(base(1, 4), [mark(0, 4), mark(0, 5)])];
    assert_eq!(found(&ranks), Ok(base(2, 4)));
}

#[test]
fn without_a_mark_the_job_begins_anew() {
    let plan = plan(
        &[rank(base(0, 0), [None; 2]), rank(base(0, 0), [None, mark(0, 1)])],
        KnownRestart::Started(base(0, 0)),
    )
    .unwrap();
    let bases = [0, 1].map(|rank| RecoveryAction::WriteBase { rank, host: 0, base: base(1, 0) });
    assert_eq!(plan.steps, [bases[0], bases[1], RecoveryAction::Start { base: base(1, 0) }]);
}

#[test]
fn a_rank_without_a_store_of_the_committed_epoch_is_lost() {
    let whole = || rank(base(0, 0), [mark(0, 4), mark(0, 5)]);
    let lost = Unrecoverable::Lost { rank: 1, epoch: Epoch(4) };
    let fresh = rank(base(0, 0), [None; 2]);
    assert_eq!(found(&[whole(), fresh]), Err(lost));
    assert_eq!(found(&[whole(), RankStores { survivors: vec![], holders: vec![0] }]), Err(lost));
    assert_eq!(lost.to_string(), "rank 1 is lost: no store that is left has its checkpoint of epoch 4");
    let lost = Unrecoverable::Lost { rank: 1, epoch: Epoch(0) };
    assert_eq!(lost.to_string(), "rank 1 is lost: no store that is left has a checkpoint of it");
}

#[test]
fn a_half_written_commit_is_completed_before_any_base_record_is_written() {
    let have = Survivor { host: 1, marks: [mark(0, 2), mark(0, 1)], base: base(0, 0) };
    let torn = Survivor { host: 0, marks: [None, mark(0, 1)], base: base(0, 0) };
    let ranks = [RankStores { survivors: vec![torn, have], holders: vec![0, 2] }];
    let copy = |to| RecoveryAction::Copy { rank: 0, from: 1, to, mark: mark(0, 2).unwrap() };
    let record = |host| RecoveryAction::WriteBase { rank: 0, host, base: base(1, 2) };
    let steps = [copy(0), copy(2), record(0), record(2), RecoveryAction::Start { base: base(1, 2) }];
    assert_eq!(plan(&ranks, KnownRestart::Started(base(0, 0))).unwrap().steps, steps);
}

#[test]
fn a_coordinator_that_finds_base_records_at_some_stores_first_writes_the_others() {
    let ranks = [rank(base(3, 4), [mark(2, 4), None]), rank(base(2, 3), [mark(2, 4), mark(1, 3)])];
    let plan = plan(&ranks, KnownRestart::Nothing).unwrap();
    let record = |rank, base| RecoveryAction::WriteBase { rank, host: 0, base };
    assert_eq!(plan.steps[..2], [record(1, base(3, 4)), record(0, base(4, 4))]);
    assert_eq!(plan.base, base(4, 4));
}

#[test]
fn stores_of_a_host_that_was_left_out_are_not_taken_for_the_newest() {
    let stale = rank(base(1, 0), [mark(1, 4), mark(1, 5)]);
    let only_stale = |known| plan(std::slice::from_ref(&stale), known).map(|plan| plan.base);
    let lost = Unrecoverable::Lost { rank: 0, epoch: Epoch(5) };
    assert_eq!(only_stale(KnownRestart::Started(base(2, 5))), Err(lost), "ranks ran on from 5");
    assert_eq!(only_stale(KnownRestart::Begun(base(2, 5))), Ok(base(3, 5)), "nobody ran on from 5");
    let mut ranks = [rank(base(2, 5), [mark(2, 6), mark(2, 7)])];
    ranks[0].survivors.push(Survivor { host: 1, ..stale.survivors[0] });
    ranks[0].holders.push(1);
    let copy = RecoveryAction::Copy { rank: 0, from: 0, to: 1, mark: mark(2, 7).unwrap() };
    assert_eq!(plan(&ranks, KnownRestart::Started(base(2, 5))).unwrap().steps[0], copy);
}

#[test]
fn a_rank_runs_only_where_its_store_has_the_epoch_of_this_run() {
    let survivor = |host, incarnation| Survivor {
        host,
        marks: [mark(incarnation, 4), mark(incarnation, 5)],
        base: base(incarnation, 3),
    };
    let survivors = vec![survivor(7, 0), survivor(8, 1)];
    let ranks = [RankStores { survivors, holders: vec![7, 8] }];
    let known = KnownRestart::Started(base(1, 3));
    assert_eq!(hosts_with(&ranks, known, Epoch(5)), Ok(vec![vec![8]]));
    assert_eq!(hosts_with(&ranks, known, Epoch(6)), Ok(vec![vec![]]));
}

#[test]
fn a_coordinator_knows_what_it_has_begun_and_started() {
    let mut known = KnownRestart::default();
    let record = |base| RecoveryAction::WriteBase { rank: 0, host: 0, base };
    known.begin(&record(base(1, 5)));
    assert_eq!(known, KnownRestart::Begun(base(1, 5)));
    known.begin(&RecoveryAction::Start { base: base(1, 5) });
    known.begin(&RecoveryAction::Copy { rank: 0, from: 0, to: 1, mark: mark(1, 6).unwrap() });
    known.begin(&record(base(1, 5)));
    assert_eq!(known, KnownRestart::Started(base(1, 5)));
    known.begin(&record(base(2, 6)));
    assert_eq!(known, KnownRestart::Begun(base(2, 6)));
}

#[test]
fn damaged_base_records_are_an_error() {
    let ranks = [rank(base(2, 4), [None; 2]), rank(base(2, 3), [None; 2])];
    let said = found(&ranks).unwrap_err().to_string();
    assert_eq!(said, "the stores are damaged: incarnation 2 began from epoch 4 by one, from 3 by another");
    let most = base(u64::MAX, u64::MAX);
    assert!(found(&[rank(most, [mark(u64::MAX, u64::MAX), None])]).is_ok(), "nothing overflows");
}

#[test]
fn ranks_that_come_no_further_are_not_restarted_for_ever() {
    let mut restarts = Restarts::new(2);
    assert_eq!([1, 2, 2].map(|epoch| restarts.restart(Epoch(epoch)).is_ok()), [true; 3]);
    let refused = restarts.restart(Epoch(2)).unwrap_err();
    assert_eq!(refused.to_string(), "ranks were started again 2 times from epoch 2, and came no further");
    assert!(restarts.restart(Epoch(3)).is_ok());
    assert_eq!(restarts.total(), 4);
    assert!(Restarts::new(0).restart(Epoch(9)).is_err());
    // An epoch that was lost again is no progress, nor is the same one once more.
    let mut restarts = Restarts::new(2);
    assert_eq!([5, 4, 5].map(|epoch| restarts.restart(Epoch(epoch)).is_ok()), [true, true, false]);
}
