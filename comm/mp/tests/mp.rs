//! Message passing on each provider.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; ranks are few"
)]

mod common;

use common::{LIMIT, Make, Rank, SHM, bytes, on_each_provider, play};
use scash_comm::mem_exchange::MemExchange;
use scash_comm::{Error, Result};
use scash_mp::{
    ANY_SOURCE, ANY_TAG, Collective, Communicator, Element, Large, Op, Options, Reduction, Request,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

const ALL: [Large; 4] = [Large::Auto, Large::Get, Large::Push, Large::Rendezvous];

fn by(large: Large) -> Options {
    Options { large, ..Options::default() }
}

fn messages_of_every_length_arrive_by_every_protocol(make: Make) {
    for large in ALL {
        play(make, 2, by(large), move |rank| {
            let peer = 1 - rank.rank();
            for len in [0, 1, 8, 100, 4_095, 4_096, 4_097, 70_000, 262_144, 262_145, 3_000_000] {
                let mine = bytes(len, len);
                let mut theirs = vec![0; len + 1];
                if rank.rank() == 0 {
                    rank.send(peer, 5, &mine).unwrap();
                    let received = rank.receive_owned(Some(peer), Some(6)).unwrap();
                    assert!(received.bytes == mine && received.status.len == len, "{large:?} {len}");
                } else {
                    let status = rank.receive(Some(peer), Some(5), &mut theirs).unwrap();
                    assert_eq!((status.source, status.tag, status.len), (peer, 5, len));
                    assert!(theirs[..len] == mine, "{large:?} {len}");
                    rank.send(peer, 6, &theirs[..len]).unwrap();
                }
            }
            rank.meet();
        });
    }
}

fn a_long_message_arrives_while_its_receiver_does_not_call(make: Make) {
    const LEN: usize = 4 << 20;
    let has_arrived = AtomicBool::new(false);
    play(make, 2, Options::default(), move |rank| {
        for is_offered_first in [false, true] {
            let mine = bytes(7, LEN);
            if rank.rank() == 0 {
                rank.send(1, 0, &mine).unwrap();
                has_arrived.store(true, Ordering::Release);
            } else {
                let mut theirs = vec![0; LEN];
                if is_offered_first {
                    rank.wait_for_message(Some(0), None).unwrap();
                }
                // SAFETY: the memory is used by nobody else until the operation was waited for.
                let receive = unsafe { rank.start_receive(Some(0), None, theirs.as_mut_ptr(), LEN) }.unwrap();
                let start = Instant::now();
                while !has_arrived.swap(false, Ordering::Acquire) {
                    assert!(start.elapsed() < LIMIT, "nobody reads it");
                }
                assert_eq!(rank.wait(receive).unwrap().status.len, LEN);
                assert!(theirs == mine);
            }
            rank.meet();
        }
    });
}

fn messages_from_registered_memory_arrive(make: Make) {
    play(make, 3, Options { registered: 1 << 30, ..Options::default() }, |rank| {
        let mut mine = rank.allocate(3_000_000).unwrap();
        for (round, len) in [3_000_000, 4_097, 100_000].into_iter().enumerate() {
            mine[..len].copy_from_slice(&bytes(rank.rank() as usize + round, len));
            let mut theirs = rank.allocate(len).unwrap();
            let (to, from) = ((rank.rank() + 1) % 3, (rank.rank() + 2) % 3);
            rank.scope(|scope| {
                scope.send(to, 0, &mine[..len])?;
                scope.receive(Some(from), Some(0), &mut theirs)?;
                Ok(())
            })
            .unwrap();
            assert!(*theirs == bytes(from as usize + round, len));
        }
        rank.meet();
        assert!(rank.allocate(1 << 30).is_err(), "a part of it is taken");
    });
}

fn all_send_to_all_before_anybody_receives(make: Make) {
    for large in [Large::Auto, Large::Rendezvous] {
        play(make, 4, by(large), |rank| {
            for len in [16, 20_000, 400_000] {
                let mine = bytes(rank.rank() as usize, len);
                let mut theirs = vec![vec![0; len]; rank.size() as usize];
                rank.scope(|scope| {
                    for to in 0..rank.size() {
                        scope.send(to, 1, &mine)?;
                    }
                    for (from, into) in (0..).zip(&mut theirs) {
                        scope.receive(Some(from), Some(1), into)?;
                    }
                    Ok(())
                })
                .unwrap();
                for (from, theirs) in theirs.iter().enumerate() {
                    assert!(*theirs == bytes(from, len));
                }
            }
            rank.meet();
        });
    }
}

fn messages_of_a_rank_keep_their_order_whatever_their_length(make: Make) {
    play(make, 3, Options::default(), |rank| {
        const COUNT: usize = 120;
        let len = |number: usize| [8, 5_000, 40, 100_000, 700, 1_100_000][number % 6] + number;
        if rank.rank() > 0 {
            for number in 0..COUNT {
                rank.send(0, 3, &bytes(number, len(number))).unwrap();
            }
        } else {
            let mut next = [0; 3];
            for _ in 0..2 * COUNT {
                let received = rank.receive_owned(ANY_SOURCE, ANY_TAG).unwrap();
                let number = &mut next[received.status.source as usize];
                assert!(received.bytes == bytes(*number, len(*number)));
                *number += 1;
            }
            assert_eq!(next, [0, COUNT, COUNT]);
        }
        rank.meet();
    });
}

fn a_flood_that_nobody_receives_is_bounded_and_arrives_in_the_end(make: Make) {
    let options = Options { eager: 1 << 10, push: 16 << 10, window: 64 << 10, ..Options::default() };
    play(make, 2, options, |rank| {
        const COUNT: usize = 5_000;
        if rank.rank() == 0 {
            let flood: Vec<Vec<u8>> = (0..COUNT).map(|number| bytes(number, 1 + number % 1_000)).collect();
            rank.scope(|scope| {
                for message in &flood {
                    scope.send(1, 1, message)?;
                }
                // It is not behind all of those.
                scope.send(1, 2, b"urgent")?;
                rank.meet();
                Ok(())
            })
            .unwrap();
        } else {
            rank.meet();
            assert_eq!(rank.receive_owned(Some(0), Some(2)).unwrap().bytes, b"urgent");
            for number in 0..COUNT {
                assert!(
                    rank.receive_owned(Some(0), Some(1)).unwrap().bytes == bytes(number, 1 + number % 1_000)
                );
            }
        }
        rank.meet();
    });
}

fn a_long_message_arrives_while_its_receiver_computes(make: Make) {
    for large in ALL {
        play(make, 2, by(large), |rank| {
            const LEN: usize = 5_000_000;
            if rank.rank() == 0 {
                rank.meet();
                rank.send(1, 0, &bytes(1, LEN)).unwrap();
                rank.meet();
            } else {
                let mut theirs = vec![0; LEN];
                rank.scope(|scope| {
                    scope.receive(Some(0), Some(0), &mut theirs)?;
                    rank.meet();
                    // It makes no call until the other's send is over.
                    rank.meet();
                    Ok(())
                })
                .unwrap();
                assert!(theirs == bytes(1, LEN));
            }
        });
    }
}

fn operations_can_be_tested_probed_for_and_taken_back(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let peer = 1 - rank.rank();
        let never = rank.start_receive_owned(ANY_SOURCE, Some(99)).unwrap();
        let mut soon = rank.start_receive_owned(Some(peer), Some(1)).unwrap();
        rank.meet();
        assert_eq!(rank.test(&mut soon).unwrap(), None);
        assert_eq!(rank.probe(ANY_SOURCE, Some(2)).unwrap(), None);
        rank.meet();
        rank.send(peer, 1, b"one").unwrap();
        rank.send(peer, 2, b"two").unwrap();
        let received = loop {
            if let Some(received) = rank.test(&mut soon).unwrap() {
                break received;
            }
        };
        assert_eq!(received.bytes, b"one");
        let status = rank.wait_for_message(ANY_SOURCE, ANY_TAG).unwrap();
        assert_eq!((status.source, status.tag, status.len), (peer, 2, 3));
        assert_eq!(rank.probe(Some(peer), Some(2)).unwrap(), Some(status));
        assert_eq!(rank.receive_owned(ANY_SOURCE, ANY_TAG).unwrap().bytes, b"two");
        rank.cancel(never).unwrap();
        rank.meet();
        rank.send(peer, 99, b"three").unwrap();
        assert_eq!(
            rank.receive_owned(Some(peer), Some(99)).unwrap().bytes,
            b"three",
            "not by what was taken back"
        );
        rank.meet();
    });
}

fn of_several_operations_the_one_that_is_over_is_returned(make: Make) {
    play(make, 3, Options::default(), |rank| {
        if rank.rank() == 0 {
            let mut receives: Vec<_> =
                (0..3).map(|from| rank.start_receive_owned(Some(from), ANY_TAG).unwrap()).collect();
            rank.meet();
            let (index, received) = rank.wait_any(&mut receives).unwrap();
            assert_eq!((index, &received.unwrap().bytes[..]), (2, &b"from 2"[..]));
            rank.meet();
            let (index, received) = rank.wait_any(&mut receives).unwrap();
            assert_eq!((index, &received.unwrap().bytes[..]), (1, &b"from 1"[..]));
            rank.send(0, 0, b"to myself").unwrap();
            assert_eq!(rank.wait_all(receives).unwrap()[0].bytes, b"to myself");
            assert!(rank.wait_any(&mut Vec::new()).is_none());
        } else {
            rank.meet();
            if rank.rank() == 1 {
                rank.meet();
                rank.send(0, 7, b"from 1").unwrap();
            } else {
                rank.send(0, 7, b"from 2").unwrap();
                rank.meet();
            }
        }
        rank.meet();
    });
}

fn operations_that_are_over_are_told_together_and_others_go_on(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let peer = 1 - rank.rank();
        let begin = |tag| rank.start_receive_owned(Some(peer), Some(tag)).unwrap();
        let mut receives: Vec<_> = (0..4).map(begin).collect();
        rank.meet();
        assert!(rank.test_any(&mut receives).is_none());
        assert!(rank.test_some(&mut receives).is_empty() && rank.test_all(&mut receives).is_none());
        rank.meet();
        // Messages of one pair keep their order: when the second is here, so is the first.
        rank.send(peer, 3, b"three").unwrap();
        rank.send(peer, 1, b"one").unwrap();
        rank.send(peer, 50, b"both are here").unwrap();
        rank.receive_owned(Some(peer), Some(50)).unwrap();
        let over = rank.wait_some(&mut receives).into_iter();
        let told: Vec<_> = over.map(|(at, received)| (at, received.unwrap().bytes)).collect();
        assert_eq!(told, [(1, b"one".to_vec()), (3, b"three".to_vec())]);
        assert!(rank.test_all(&mut receives).is_none() && receives.len() == 2);
        rank.meet();
        rank.send(peer, 2, b"two").unwrap();
        let (at, received) = loop {
            if let Some(over) = rank.test_any(&mut receives) {
                break over;
            }
        };
        assert_eq!((at, received.unwrap().bytes), (1, b"two".to_vec()));
        rank.meet();
        rank.send(peer, 0, b"nought").unwrap();
        receives.push(rank.start_receive_owned(Some(rank.rank()), ANY_TAG).unwrap());
        rank.send(rank.rank(), 8, b"mine").unwrap();
        let all = loop {
            if let Some(all) = rank.test_all(&mut receives) {
                break all;
            }
        };
        let bytes: Vec<_> = all.into_iter().map(|received| received.unwrap().bytes).collect();
        assert_eq!(bytes, [b"nought".to_vec(), b"mine".to_vec()]);
        assert!(receives.is_empty() && rank.wait_some(&mut receives).is_empty());
        assert!(rank.test_some(&mut receives).is_empty() && rank.test_any(&mut receives).is_none());
        assert_eq!(rank.test_all(&mut receives).map(|all| all.len()), Some(0));
        rank.meet();
    });
}

fn an_operation_that_fails_is_told_with_its_index(make: Make) {
    play(make, 1, Options::default(), |rank| {
        let mut short = [0; 2];
        // SAFETY: the array lives until the operations are over.
        let fails = unsafe { rank.start_receive(Some(0), Some(1), short.as_mut_ptr(), 2) }.unwrap();
        let mut requests = vec![rank.start_receive_owned(Some(0), Some(2)).unwrap(), fails];
        rank.send(0, 1, b"too long").unwrap();
        let (at, outcome) = rank.wait_any(&mut requests).unwrap();
        assert_eq!(at, 1);
        assert!(matches!(outcome, Err(Error::TooLong { len: 8, room: 2 })), "{outcome:?}");
        rank.send(0, 2, b"well").unwrap();
        let over = rank.wait_some(&mut requests);
        assert!(over.len() == 1 && over[0].1.is_ok(), "{over:?}");
    });
}

fn a_number_that_names_no_operation_is_an_error_wherever_it_is_given(make: Make) {
    play(make, 1, Options::default(), |rank| {
        let number = rank.start_receive_owned(Some(0), ANY_TAG).unwrap().into_raw();
        assert!(rank.has(&Request::from_raw(number)));
        rank.cancel(Request::from_raw(number)).unwrap();
        for wrong in [number, 1, number ^ 1 << 40, u64::MAX] {
            let request = || Request::from_raw(wrong);
            let errors = [
                rank.wait(request()).unwrap_err(),
                rank.test(&mut request()).unwrap_err(),
                rank.wait_any(&mut vec![request()]).unwrap().1.unwrap_err(),
                rank.test_any(&mut vec![request()]).unwrap().1.unwrap_err(),
                rank.wait_some(&mut vec![request()]).remove(0).1.unwrap_err(),
                rank.test_all(&mut vec![request()]).unwrap().remove(0).unwrap_err(),
            ];
            assert!(!rank.has(&request()) && rank.cancel(request()).is_err());
            for error in errors {
                assert!(error.to_string().contains("there is no such operation"), "{error}");
            }
        }
        assert_eq!(rank.wait(Request::from_raw(0)).unwrap().status.len, 0);
    });
}

fn several_threads_of_a_rank_pass_messages_at_once(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let peer = 1 - rank.rank();
        thread::scope(|scope| {
            for thread in 0..3 {
                let rank = &rank;
                scope.spawn(move || {
                    for number in 0..200 {
                        let len = [8, 6_000, 300_000][number % 3];
                        let mine = bytes(number + thread, len);
                        let mut theirs = vec![0; len];
                        rank.scope(|scope| {
                            scope.receive(Some(peer), Some(thread as u64), &mut theirs)?;
                            scope.send(peer, thread as u64, &mine)?;
                            Ok(())
                        })
                        .unwrap();
                        assert!(mine == theirs);
                    }
                });
            }
        });
        rank.meet();
    });
}

fn who_waits_for_a_rank_that_leaves_is_told_which(make: Make) {
    play(make, 3, Options::default(), |rank| {
        if rank.rank() == 2 {
            return rank.meet();
        }
        let long = bytes(0, 1_100_000);
        let started = Instant::now();
        let error = rank.scope(|scope| {
            scope.send(2, 0, &long)?;
            rank.meet();
            Ok(())
        });
        assert!(matches!(error, Err(Error::Down { rank: 2, .. })), "{error:?}");
        for result in [rank.receive_owned(Some(2), ANY_TAG).map(drop), rank.send(2, 0, b"?")] {
            assert!(matches!(result, Err(Error::Down { rank: 2, .. })), "{result:?}");
        }
        assert!(started.elapsed() < LIMIT);
        // The others go on.
        let peer = 1 - rank.rank();
        rank.send(peer, 1, b"still here").unwrap();
        assert_eq!(rank.receive_owned(Some(peer), ANY_TAG).unwrap().bytes, b"still here");
    });
}

fn wrong_use_gets_a_clear_error(make: Make) {
    play(make, 1, Options::default(), |rank| {
        for error in [rank.send(1, 0, b"").unwrap_err(), rank.receive_owned(Some(7), ANY_TAG).unwrap_err()] {
            assert!(error.to_string().contains("the job has 1, counted from 0"), "{error}");
        }
        let other =
            Communicator::new(SHM.solo(), &mut MemExchange::ranks(1).remove(0), Options::default()).unwrap();
        let stray = other.start_receive_owned(ANY_SOURCE, ANY_TAG).unwrap();
        let error = rank.wait(stray).unwrap_err().to_string();
        assert!(error.contains("begun by another communicator"), "{error}");
        rank.send(0, 0, b"longer than that").unwrap();
        let error = rank.receive(ANY_SOURCE, ANY_TAG, &mut [0; 4]).unwrap_err();
        assert!(matches!(error, Error::TooLong { len: 16, room: 4 }), "{error}");
    });
    let options = Options { window: 1 << 10, ..Options::default() };
    let mut exchange = make.ranks(1).remove(0);
    let error =
        Communicator::new((make.endpoint)(&mut exchange).unwrap(), &mut exchange, options).unwrap_err();
    assert!(error.to_string().contains("let it be twice as large at least"), "{error}");
}

fn ranks_with_different_windows_are_told_so(make: Make) {
    let ranks = make.ranks(2).into_iter().zip([4 << 20, 8 << 20]).map(|(mut exchange, window)| {
        thread::spawn(move || {
            let options = Options { window, ..Options::default() };
            Communicator::new((make.endpoint)(&mut exchange).unwrap(), &mut exchange, options)
                .unwrap_err()
                .to_string()
        })
    });
    for error in ranks.collect::<Vec<_>>() {
        let error = error.join().unwrap();
        assert!(error.contains("start all ranks with the same options"), "{error}");
    }
}

fn collective_operations_give_what_they_promise(make: Make) {
    let protocols =
        [(1, Large::Auto), (2, Large::Rendezvous), (3, Large::Push), (4, Large::Get), (7, Large::Auto)];
    for (n, large) in protocols {
        play(make, n, by(large), move |rank| {
            let me = rank.rank();
            for count in [1, 5, 9_000] {
                let numbers =
                    |rank: u32| (0..count as u64).map(move |at| at * 3 + u64::from(rank)).collect::<Vec<_>>();
                let all: Vec<u64> = (0..n).flat_map(numbers).collect();
                let inputs: Vec<Vec<u64>> = (0..n).map(numbers).collect();
                let sums: Vec<u64> =
                    (0..count).map(|at| inputs.iter().map(|input| input[at]).sum()).collect();
                let (mine, mut result) = (numbers(me), vec![0; count]);
                rank.barrier().unwrap();
                rank.all_reduce(Op::Sum, &mine, &mut result).unwrap();
                assert!(result == sums);
                let mut at_root = if me == n - 1 { vec![0; count] } else { vec![] };
                rank.reduce(n - 1, Op::Max, &mine, &mut at_root).unwrap();
                assert!(me != n - 1 || at_root == numbers(n - 1));
                let mut data = if me == n / 2 { mine.clone() } else { vec![7; count] };
                rank.broadcast(n / 2, &mut data).unwrap();
                assert!(data == numbers(n / 2));
                let mut gathered = vec![0; count * n as usize];
                rank.all_gather(&mine, &mut gathered).unwrap();
                assert!(gathered == all);
                let mut at_root = if me == 0 { vec![0; count * n as usize] } else { vec![] };
                rank.gather(0, &mine, &mut at_root).unwrap();
                assert!(me != 0 || at_root == all);
                let mut part = vec![0; count];
                rank.reduce_scatter(Op::Sum, &sums.repeat(n as usize), &vec![count; n as usize], &mut part)
                    .unwrap();
                assert!(part.iter().zip(&sums).all(|(part, sum)| *part == sum * u64::from(n)));
                let mut turned = vec![0; count * n as usize];
                rank.all_to_all(&mine.repeat(n as usize), &mut turned).unwrap();
                assert!(turned == all);
                let lens: Vec<usize> = (0..n as usize).map(|rank| rank * count).collect();
                let mut some = vec![0; lens.iter().sum()];
                rank.all_gather_v(&vec![me; lens[me as usize]], &lens, &mut some).unwrap();
                assert!(
                    (0..n).all(|rank| some.iter().filter(|&&of| of == rank).count() == lens[rank as usize])
                );
            }
            rank.meet();
        });
    }
}

fn a_collective_operation_goes_on_while_its_ranks_compute(make: Make) {
    play(make, 4, Options::default(), |rank| {
        let (mine, mut sum) = ([1.5f64; 20_000], vec![0.0f64; 20_000]);
        let reduction = Reduction::new(Element::F64, Op::Sum).unwrap();
        let all = Collective::AllReduce { count: mine.len(), reduction };
        // SAFETY: both live until both operations have been waited for.
        let reduces = unsafe { rank.start(&all, mine.as_ptr().cast(), sum.as_mut_ptr().cast()) }.unwrap();
        // SAFETY: it has no memory.
        let mut barrier = unsafe { rank.start(&Collective::Barrier, [].as_ptr(), [].as_mut_ptr()) }.unwrap();
        // Who is last has nobody behind it to be helped by: all do nothing for the communicator until one has
        // seen the end.
        if rank.rank() == 0 {
            while rank.test(&mut barrier).unwrap().is_none() {
                thread::yield_now();
            }
            rank.meet();
        } else {
            rank.meet();
            rank.wait(barrier).unwrap();
        }
        rank.wait(reduces).unwrap();
        assert!(sum.iter().all(|&sum| sum == 6.0));
        rank.meet();
    });
}

fn a_collective_operation_without_a_rank_that_is_gone_fails_at_all(make: Make) {
    play(make, 4, Options::default(), |rank| {
        rank.barrier().unwrap();
        if rank.rank() == 3 {
            let Rank { communicator, meeting } = rank;
            drop(communicator);
            meeting.wait();
            return;
        }
        let (mine, mut all) = (vec![1u8; 100_000], vec![0u8; 400_000]);
        let results = [
            rank.all_gather(&mine, &mut all),
            rank.barrier(),
            rank.all_reduce(Op::Sum, &mine, &mut all[..100_000]),
        ];
        // Who has no business with it in one of them may be through with that one.
        assert!(
            results.iter().any(|result| matches!(result, Err(Error::Down { rank: 3, .. }))),
            "{results:?}"
        );
        assert!(results.into_iter().all(|result| matches!(result, Ok(()) | Err(Error::Down { .. }))));
        rank.send(rank.rank(), 0, b"still here").unwrap();
        assert_eq!(rank.receive_owned(ANY_SOURCE, ANY_TAG).unwrap().bytes, b"still here");
        rank.meet();
    });
}

fn who_is_through_with_a_barrier_may_leave(make: Make) {
    for _ in 0..20 {
        play(make, 5, Options::default(), |rank| {
            rank.barrier().unwrap();
            drop(rank);
        });
    }
}

fn ranks_that_disagree_on_an_operation_are_all_told(make: Make) {
    play(make, 4, Options::default(), |rank| {
        let count = if rank.rank() == 1 { 300 } else { 200 };
        let (mine, mut sum) = (vec![1u32; count], vec![0u32; count]);
        let result = rank.all_reduce(Op::Sum, &mine, &mut sum);
        assert!(result.is_err() || rank.rank() == 1, "{result:?}");
        rank.meet();
    });
}

fn numbers_that_do_not_fit_are_refused(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let refused = |result: Result<()>, why: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(rank.all_reduce(Op::Xor, &[1.0f32], &mut [0.0]), "only integers have bits");
        refused(rank.all_reduce(Op::Sum, &[1, 2], &mut [0]), "1 elements where there should be 2");
        refused(rank.broadcast(2, &mut [0u8]), "there is no rank 2");
        refused(rank.all_to_all(&[1], &mut [1]), "cannot be shared equally");
        refused(rank.all_gather_v(&[1], &[1], &mut [1]), "there must be one for each");
        rank.meet();
    });
}

on_each_provider! {
    messages_of_every_length_arrive_by_every_protocol
    a_long_message_arrives_while_its_receiver_does_not_call
    messages_from_registered_memory_arrive
    all_send_to_all_before_anybody_receives
    messages_of_a_rank_keep_their_order_whatever_their_length
    a_flood_that_nobody_receives_is_bounded_and_arrives_in_the_end
    a_long_message_arrives_while_its_receiver_computes
    operations_can_be_tested_probed_for_and_taken_back
    of_several_operations_the_one_that_is_over_is_returned
    operations_that_are_over_are_told_together_and_others_go_on
    an_operation_that_fails_is_told_with_its_index
    a_number_that_names_no_operation_is_an_error_wherever_it_is_given
    several_threads_of_a_rank_pass_messages_at_once
    who_waits_for_a_rank_that_leaves_is_told_which
    wrong_use_gets_a_clear_error
    ranks_with_different_windows_are_told_so
    collective_operations_give_what_they_promise
    a_collective_operation_goes_on_while_its_ranks_compute
    a_collective_operation_without_a_rank_that_is_gone_fails_at_all
    who_is_through_with_a_barrier_may_leave
    ranks_that_disagree_on_an_operation_are_all_told
    numbers_that_do_not_fit_are_refused
}
