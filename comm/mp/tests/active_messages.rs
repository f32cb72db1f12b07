//! Active messages, on each provider.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; ranks are few"
)]

mod common;

use common::{Make, Rank, bytes, on_each_provider, play};
use scash_comm::{Error, Result};
use scash_mp::{Op, Options};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What came to a rank: from whom, and the bytes.
type Log = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

/// Registers a handler that writes down what comes.
fn logging(rank: &Rank, number: u16) -> Log {
    let log = Log::default();
    let theirs = Arc::clone(&log);
    rank.register_handler(number, move |caller, bytes| {
        theirs.lock().unwrap().push((caller.rank(), bytes.to_vec()));
    })
    .unwrap();
    log
}

fn handlers_run_once_and_in_order_while_the_receiver_computes(make: Make) {
    play(make, 3, Options::default(), |rank| {
        const COUNT: usize = 300;
        let len = |number: usize| [0, 8, 4_000, 100_000, 700][number % 5];
        let log = logging(&rank, 7);
        for to in 0..3 {
            for number in 0..COUNT {
                rank.call(to, 7, &bytes(number, len(number))).unwrap();
            }
        }
        rank.fence(None).unwrap();
        rank.meet();
        // No call of this rank is needed for that: all others have seen their fences.
        let log = log.lock().unwrap();
        for from in 0..3 {
            let theirs: Vec<_> = log.iter().filter(|(rank, _)| *rank == from).collect();
            assert_eq!(theirs.len(), COUNT);
            assert!(theirs.iter().enumerate().all(|(at, (_, got))| *got == bytes(at, len(at))));
        }
        rank.meet();
    });
}

fn a_helper_runs_handlers_while_no_thread_calls_in(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let count = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&count);
        rank.register_handler(1, move |_, _| _ = theirs.fetch_add(1, Ordering::Release)).unwrap();
        if rank.rank() == 0 {
            rank.call(1, 1, b"run").unwrap();
        } else {
            while count.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
        }
        rank.meet();
    });
}

fn a_thread_that_waits_does_not_run_all_handlers_before_it_goes_on(make: Make) {
    play(make, 2, Options::default(), |rank| {
        const COUNT: u64 = 100;
        let count = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&count);
        rank.register_handler(1, move |_, _| {
            thread::sleep(Duration::from_millis(5));
            theirs.fetch_add(1, Ordering::Release);
        })
        .unwrap();
        if rank.rank() == 0 {
            (0..COUNT).for_each(|_| rank.call(1, 1, b"run").unwrap());
            rank.send(1, 0, b"go on").unwrap();
        } else {
            // It comes behind all of them.
            let mut got = [0; 5];
            rank.receive(Some(0), Some(0), &mut got).unwrap();
            let ran = count.load(Ordering::Acquire);
            assert!(ran < COUNT, "all {ran} handlers ran before");
        }
        rank.fence(None).unwrap();
        rank.meet();
        assert_eq!(count.load(Ordering::Acquire), COUNT * u64::from(rank.rank()));
        rank.meet();
    });
}

fn handlers_that_answer_with_floods_do_not_wait_for_each_other(make: Make) {
    let options = Options { eager: 1 << 10, push: 4 << 10, window: 16 << 10, ..Options::default() };
    play(make, 3, options, |rank| {
        const COUNT: u64 = 200;
        const ANSWERS: u64 = 10;
        let answers = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&answers);
        rank.register_handler(2, move |_, _| _ = theirs.fetch_add(1, Ordering::Release)).unwrap();
        rank.register_handler(1, |caller, bytes| {
            (0..ANSWERS).for_each(|_| caller.reply(2, bytes).unwrap());
        })
        .unwrap();
        let long = bytes(0, 3_000);
        for _ in 0..COUNT {
            (0..3).for_each(|to| rank.call(to, 1, &long).unwrap());
        }
        while answers.load(Ordering::Acquire) < 3 * COUNT * ANSWERS {
            thread::yield_now();
        }
        rank.barrier().unwrap();
        assert_eq!(answers.load(Ordering::Acquire), 3 * COUNT * ANSWERS);
        rank.meet();
    });
}

fn what_handlers_send_past_the_bound_fails_and_all_else_arrives(make: Make) {
    let options =
        Options { eager: 1 << 10, push: 4 << 10, window: 16 << 10, held: 20_000, ..Options::default() };
    play(make, 3, options, |rank| {
        let (answers, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (got, lost) = (Arc::clone(&answers), Arc::clone(&refused));
        rank.register_handler(2, move |_, _| _ = got.fetch_add(1, Ordering::Release)).unwrap();
        rank.register_handler(1, move |caller, bytes| {
            for _ in 0..10 {
                match caller.reply(2, bytes) {
                    Ok(()) => {}
                    Err(Error::Full { rank, held, bound: 20_000 }) if rank == caller.rank() && held > 0 => {
                        lost.fetch_add(1, Ordering::Release);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .unwrap();
        let long = bytes(0, 3_000);
        for _ in 0..100 {
            (0..3).for_each(|to| rank.call(to, 1, &long).unwrap());
        }
        rank.fence(None).unwrap(); // all questions were handled,
        rank.meet();
        rank.fence(None).unwrap(); // and what was answered was, too.
        rank.meet();
        let mine = [answers.load(Ordering::Acquire) + refused.load(Ordering::Acquire)];
        let mut all = [0];
        rank.all_reduce(Op::Sum, &mine, &mut all).unwrap();
        assert_eq!(all[0], 3 * 3 * 100 * 10);
        rank.meet();
    });
}

fn messages_that_nobody_receives_do_not_hold_active_ones_back(make: Make) {
    let options = Options { eager: 1 << 10, push: 4 << 10, window: 16 << 10, ..Options::default() };
    play(make, 2, options, |rank| {
        let (peer, log) = (1 - rank.rank(), logging(&rank, 0));
        let flood = bytes(1, 900);
        rank.scope(|scope| {
            for _ in 0..100 {
                scope.send(peer, 0, &flood)?;
            }
            rank.call(peer, 0, b"past them")?;
            rank.fence(Some(peer))?;
            rank.meet();
            assert_eq!(*log.lock().unwrap(), [(peer, b"past them".to_vec())]);
            for _ in 0..100 {
                rank.receive_owned(Some(peer), Some(0))?;
            }
            Ok(())
        })
        .unwrap();
        rank.meet();
    });
}

fn a_token_goes_round_by_handlers_alone(make: Make) {
    play(make, 4, Options::default(), |rank| {
        let laps = Arc::new(AtomicU64::new(0));
        let (theirs, next) = (Arc::clone(&laps), (rank.rank() + 1) % 4);
        rank.register_handler(9, move |caller, bytes| {
            let left = bytes[0];
            theirs.fetch_add(1, Ordering::Release);
            if left > 0 {
                caller.call(next, 9, &[left - 1]).unwrap();
            }
        })
        .unwrap();
        if rank.rank() == 0 {
            rank.call(1, 9, &[99]).unwrap();
        }
        while laps.load(Ordering::Acquire) < 25 {
            thread::yield_now();
        }
        rank.meet();
        assert_eq!(laps.load(Ordering::Acquire), 25);
        rank.meet();
    });
}

fn who_calls_a_rank_that_leaves_is_told_which(make: Make) {
    play(make, 3, Options::default(), |rank| {
        let log = logging(&rank, 0);
        rank.barrier().unwrap();
        if rank.rank() == 2 {
            let Rank { communicator, meeting } = rank;
            drop(communicator);
            meeting.wait();
            return;
        }
        let until_told = |work: &dyn Fn() -> Result<()>| loop {
            match work() {
                Ok(()) => {}
                Err(Error::Down { rank: 2, .. }) => return,
                Err(error) => panic!("{error}"),
            }
        };
        until_told(&|| rank.call(2, 0, &[0; 1_000]));
        until_told(&|| rank.call(2, 0, b"?").and_then(|()| rank.fence(Some(2))));
        let peer = 1 - rank.rank();
        rank.call(peer, 0, b"still here").unwrap();
        while log.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        rank.meet();
    });
}

fn wrong_use_gets_a_clear_error(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let log = logging(&rank, 5);
        let refused = |result: Result<()>, why: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(rank.call(0, 6, b"?"), "there is no handler 6");
        refused(rank.call(2, 5, b"?"), "there is no rank 2");
        refused(rank.call(1, 5, &vec![0; 1_100_000]), "1048576 at most");
        refused(rank.register_handler(5, |_, _| ()), "rank 0 has a handler of that number already");
        let mine = 10 + rank.rank() as u16;
        refused(rank.register_handler(mine, |_, _| ()), "registers 1");
        refused(rank.call(0, mine, b"?"), "there is no handler");
        rank.register_handler(10, |_, _| ()).unwrap();
        rank.barrier().unwrap();
        assert!(log.lock().unwrap().is_empty());
    });
}

on_each_provider! {
    handlers_run_once_and_in_order_while_the_receiver_computes
    a_helper_runs_handlers_while_no_thread_calls_in
    a_thread_that_waits_does_not_run_all_handlers_before_it_goes_on
    handlers_that_answer_with_floods_do_not_wait_for_each_other
    what_handlers_send_past_the_bound_fails_and_all_else_arrives
    messages_that_nobody_receives_do_not_hold_active_ones_back
    a_token_goes_round_by_handlers_alone
    who_calls_a_rank_that_leaves_is_told_which
    wrong_use_gets_a_clear_error
}
