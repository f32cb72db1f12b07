use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::Error;
use crate::crew::tests::within_a_minute;
use crate::crew::{Sequential, run_crew};
use crate::memory::{Heap, Memory};

const LEN: usize = 100;

/// What a call panics with.
fn panics<T>(call: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else { panic!("it goes well") };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap()
}

#[test]
fn workers_write_what_they_own_and_read_what_nobody_does() {
    within_a_minute(|| {
        let mut array: Array<usize> = Heap.array(LEN).unwrap();
        let (own, read) = (Division::even(LEN, 4), Division::read_by_all(LEN, 4));
        run_crew(&Sequential, 4, false, |worker| {
            for round in 0..50 {
                worker.turn(&[array.to(&own)])?;
                array.mine(worker).fill(round * 10 + worker.who().index);
                worker.turn(&[array.to(&read)])?;
                let all = array.get(worker, 0..LEN);
                assert!((0..LEN).all(|at| all[at] == round * 10 + own.owner(at).unwrap()));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(array.whole()[LEN - 1], 493);
    });
}

#[test]
fn elements_are_used_by_their_owners_once_in_an_interval_and_after_a_turn() {
    let array: Array<usize> = Heap.array(LEN).unwrap();
    let own = Division::even(LEN, 1);
    run_crew(&Sequential, 1, false, |worker| {
        assert!(panics(|| array.mine(worker).len()).contains("before the first turn"));
        worker.turn(&[array.to(&own)])?;
        array.mine(worker).fill(1);
        assert!(panics(|| array.mine(worker).len()).contains("twice"));
        assert!(panics(|| array.get(worker, 0..1).len()).contains("have an owner"));
        worker.barrier()?;
        assert_eq!(array.mine(worker).len(), LEN);
        Ok(())
    })
    .unwrap();
    let mut array = array;
    assert!(panics(|| array.whole().len()).contains("have an owner"));
}

#[test]
fn workers_that_turn_to_different_owners_fail() {
    within_a_minute(|| {
        let array: Array<usize> = Heap.array(LEN).unwrap();
        let divisions = [Division::even(LEN, 2), Division::read_by_all(LEN, 2)];
        for (first, second) in [(Some(0), Some(1)), (Some(0), None)] {
            let outcome =
                run_crew(&Sequential, 2, false, |worker| match [first, second][worker.who().index] {
                    Some(division) => worker.turn(&[array.to(&divisions[division])]),
                    None => worker.barrier(),
                });
            assert!(matches!(outcome, Err(Error::Disagree)));
        }
        for wrong in [Division::even(LEN, 3), Division::even(LEN + 1, 2)] {
            let outcome = run_crew(&Sequential, 2, false, |worker| worker.turn(&[array.to(&wrong)]));
            assert!(matches!(outcome, Err(Error::Disagree)));
        }
    });
}

#[test]
fn a_crew_keeps_others_away_from_its_arrays_until_it_is_over() {
    let array: Array<usize> = Heap.array(LEN).unwrap();
    let own = Division::even(LEN, 1);
    for _ in 0..2 {
        run_crew(&Sequential, 1, false, |worker| {
            worker.turn(&[array.to(&own)])?;
            let mine = array.mine(worker);
            let other = || run_crew(&Sequential, 1, false, |other| Ok(array.mine(other).len()));
            assert!(panics(other).contains("two crews"));
            mine.fill(7);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn elements_with_locks_are_used_by_who_has_the_lock_or_by_owners() {
    within_a_minute(|| {
        let mut sums = Heap.locked::<usize>(3).unwrap();
        let (own, read) = (Division::even(3, 4), Division::read_by_all(3, 4));
        run_crew(&Sequential, 4, false, |worker| {
            worker.turn(&[sums.array().to(&own)])?;
            sums.array().mine(worker).fill(5);
            assert!(panics(|| sums.lock(worker, 0).is_ok()).contains("has an owner"));
            worker.turn(&[sums.to_holders()])?;
            for at in (0..3).cycle().take(300) {
                *sums.lock(worker, at)? += 1;
            }
            assert!(panics(|| sums.array().get(worker, 0..1).len()).contains("without their locks"));
            worker.turn(&[sums.array().to(&read)])
        })
        .unwrap();
        assert_eq!(sums.array_mut().whole(), [405; 3]);
    });
}
