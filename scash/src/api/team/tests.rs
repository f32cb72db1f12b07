use super::*;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

const BARRIER: TeamCall = TeamCall::Collective(Collective::Barrier);

/// What each of some threads gets of its work in a team.
fn of_threads<T: Send>(threads: usize, work: impl Fn(&Team, usize) -> T + Sync) -> Vec<T> {
    let team = Team::new(3, threads);
    thread::scope(|scope| {
        let start = |thread| {
            let (team, work) = (&team, &work);
            scope.spawn(move || work(team, thread))
        };
        let started: Vec<_> = (0..threads).map(start).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn one_thread_makes_each_call_and_all_are_told_what_came_of_it() {
    let calls = AtomicUsize::new(0);
    let told = of_threads(3, |team, _| {
        let mut sum = 0;
        for round in 1..=200 {
            let run = || {
                calls.fetch_add(1, Ordering::Relaxed);
                Ok(Outcome::Reduced(vec![round]))
            };
            let Ok(Outcome::Reduced(values)) = team.meet(BARRIER, run) else { panic!("round {round}") };
            assert_eq!(calls.load(Ordering::Relaxed) as u64, round);
            sum += values[0];
        }
        sum
    });
    assert_eq!(told, [20_100; 3]);
}

#[test]
fn an_error_of_a_call_is_told_to_all_and_the_next_call_is_another_one() {
    let told = of_threads(2, |team, _| {
        let refused = team.meet(BARRIER, || Err(Error::Argument("no".to_owned())));
        let done = team.meet(BARRIER, || Ok(Outcome::Done));
        (refused.is_err(), done.is_ok())
    });
    assert_eq!(told, [(true, true); 2]);
}

#[test]
fn threads_that_make_different_calls_are_both_told_so() {
    let told = of_threads(2, |team, thread| {
        let call = [BARRIER, TeamCall::Collective(Collective::Free(7))][thread];
        let error = team.meet(call, || Ok(Outcome::Done)).unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        team.leave(thread, WorkEnd::Failed);
        error.to_string()
    });
    for error in told {
        assert!(error.contains("threads of rank 3") && error.contains("at page 7"), "{error}");
    }
}

#[test]
fn who_waits_for_a_thread_that_leaves_is_told_how_it_left() {
    for (end, how) in
        [(WorkEnd::Done, "done its work"), (WorkEnd::Failed, "failed"), (WorkEnd::Panicked, "panicked")]
    {
        let told = of_threads(3, |team, thread| {
            if thread == 1 {
                // Late enough that others sleep by now.
                thread::sleep(Duration::from_millis(20));
                team.leave(1, end);
                return None;
            }
            let error = team.meet(BARRIER, || Ok(Outcome::Done)).unwrap_err();
            team.leave(thread, WorkEnd::Failed);
            let first = team.first_to_fail().unwrap();
            assert_eq!(end == WorkEnd::Failed, first == 1);
            Some(error.to_string())
        });
        for error in told.into_iter().flatten() {
            assert!(error.contains("thread 1 of rank 3") && error.contains(how), "{error}");
        }
    }
}

#[test]
fn what_threads_bring_is_combined_in_their_order() {
    let values = [1e16, 1.0, -1e16];
    let told = of_threads(3, |team, thread| {
        let call = TeamCall::Reduce(Combine::Sum, NumberKind::F64, 1);
        let brought = vec![f64::to_bits(values[thread])];
        let run = |all: &[Vec<u64>]| Ok(Outcome::Reduced(combine(Combine::Sum, NumberKind::F64, all)));
        match team.meet_with(call, thread, brought, run) {
            Ok(Outcome::Reduced(sum)) => f64::from_bits(sum[0]),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(told, [1e16 + 1.0 - 1e16; 3]);
}
