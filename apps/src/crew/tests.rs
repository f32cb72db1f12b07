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
fn no_thread_leaves_a_barrier_before_all_have_arrived() {
    within_a_minute(|| {
        for count in [1, 2, 5] {
            let arrived = AtomicUsize::new(0);
            let rounds = 200;
            run_threads(count, false, |worker| {
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
    let indices = run_threads(4, false, |worker| Ok(worker.who().index)).unwrap();
    assert_eq!(indices, [0, 1, 2, 3]);
}

#[test]
fn nobody_waits_for_a_worker_that_failed() {
    within_a_minute(|| {
        let outcome = run_threads(3, false, |worker| match worker.who().index {
            1 => Err(Error::TooLarge),
            _ => worker.barrier(),
        });
        assert!(matches!(outcome, Err(Error::TooLarge)));
    });
}

#[test]
#[should_panic(expected = "a bug in a worker")]
fn nobody_waits_for_a_worker_that_panicked() {
    within_a_minute(|| {
        let _ = run_threads(3, false, |worker| match worker.who().index {
            1 => panic!("a bug in a worker"),
            _ => worker.barrier(),
        });
    });
}

#[test]
fn more_threads_than_processors_share_the_pinned_ones() {
    let processors = run_threads(3, true, |_| allowed_processors()).unwrap();
    assert!(processors.iter().all(|allowed| allowed.len() == 1));
}
