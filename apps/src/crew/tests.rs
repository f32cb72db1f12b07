use std::sync::mpsc;
use std::time::Duration;

use super::*;

/// Runs a test that would hang for ever if a barrier went wrong.
pub(crate) fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        // Only a test that has taken too long has nobody who listens.
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

#[test]
fn parts_follow_one_another_and_differ_by_one_at_most() {
    for (len, count) in [(0, 1), (0, 3), (2, 5), (7, 3), (9, 3), (usize::MAX, 7)] {
        let mut end = 0;
        for who in WorkerNumber::all(count) {
            let part = who.part(len);
            assert!(part.start == end && part.len().abs_diff(len / count) <= 1, "{len}, {who:?}: {part:?}");
            end = part.end;
        }
        assert_eq!(end, len);
    }
}

#[test]
fn no_thread_leaves_a_barrier_before_all_have_arrived() {
    within_a_minute(|| {
        for count in [1, 2, 5] {
            let arrived = AtomicUsize::new(0);
            let rounds = 200;
            run_crew(&Sequential, count, false, |worker| {
                for round in 1..=rounds {
                    arrived.fetch_add(1, Ordering::Relaxed);
                    worker.barrier()?;
                    assert!(arrived.load(Ordering::Relaxed) >= round * worker.who().count);
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(arrived.into_inner(), rounds * count);
        }
    });
}

#[test]
fn results_come_in_the_order_of_the_workers() {
    let indices = run_crew(&Sequential, 4, false, |worker| Ok(worker.who().index)).unwrap();
    assert_eq!(indices, [0, 1, 2, 3]);
}

#[test]
fn nobody_waits_for_a_worker_that_failed() {
    within_a_minute(|| {
        let outcome = run_crew(&Sequential, 3, false, |worker| match worker.who().index {
            1 => Err(Error::TooLarge),
            _ => worker.barrier(),
        });
        assert!(matches!(outcome, Err(Error::TooLarge)));
    });
}

/// Ranks that meet once.
struct Once(AtomicUsize);

impl Job for Once {
    fn rank(&self) -> usize {
        1
    }

    fn ranks(&self) -> usize {
        3
    }

    fn barrier(&self, _alike: Option<[u64; 2]>) -> Result<()> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 { Ok(()) } else { Err(Error::TooLarge) }
    }

    fn cost(&self) -> CoherenceCost {
        CoherenceCost { faults: 7, ..CoherenceCost::default() }
    }
}

#[test]
fn the_ranks_meet_once_for_all_threads_of_a_rank_which_fail_together() {
    within_a_minute(|| {
        let outcomes = run_crew(&Once(AtomicUsize::new(0)), 2, false, |worker| {
            worker.barrier()?;
            Ok((worker.who(), worker.cost().faults))
        });
        let who = |index| WorkerNumber { index, count: 6 };
        assert_eq!(outcomes.unwrap(), [(who(2), 7), (who(3), 0)]);

        let failure = run_crew(&Once(AtomicUsize::new(1)), 2, false, |worker| worker.barrier());
        assert!(matches!(failure, Err(Error::TooLarge)));
    });
}

#[test]
#[should_panic(expected = "a bug in a worker")]
fn nobody_waits_for_a_worker_that_panicked() {
    within_a_minute(|| {
        let _ = run_crew(&Sequential, 3, false, |worker| match worker.who().index {
            1 => panic!("a bug in a worker"),
            _ => worker.barrier(),
        });
    });
}

#[test]
fn more_threads_than_processors_share_the_pinned_ones() {
    let processors = run_crew(&Sequential, 3, true, |_| allowed_processors()).unwrap();
    assert!(processors.iter().all(|allowed| allowed.len() == 1));
}
