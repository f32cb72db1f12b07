//! One-sided operations on windows, on each provider.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; ranks are few"
)]

mod common;

use common::{Make, Rank, SHM, bytes, on_each_provider, play};
use scash_comm::mem_exchange::MemExchange;
use scash_comm::{Atomic, Error, Result, Rmw};
use scash_mp::{Communicator, Options, Strided, Window};

/// This rank's part of a window.
fn part(window: &Window, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    window.read(offset, &mut bytes).unwrap();
    bytes
}

fn what_is_put_is_in_place_and_can_be_got_from_anywhere(make: Make) {
    play(make, 3, Options::default(), |rank| {
        const LENS: [usize; 8] = [0, 1, 8, 100, 4_096, 4_097, 70_000, 3_000_000];
        let window = rank.window(3_100_000).unwrap();
        let (next, last) = ((rank.rank() + 1) % 3, (rank.rank() + 2) % 3);
        for (round, len) in LENS.into_iter().enumerate() {
            let (mine, seed) = (bytes(rank.rank() as usize + round, len), last as usize + round);
            rank.put(&window, next, 77, &mine).unwrap();
            rank.barrier().unwrap();
            assert!(part(&window, 77, len) == bytes(seed, len), "{len}");
            let mut got = vec![0; len + 1];
            rank.get(&window, next, 77, &mut got[..len]).unwrap();
            assert!(got[..len] == mine && got[len] == 0, "{len}");
            got.fill(0);
            rank.scope(|scope| scope.get(&window, rank.rank(), 77, &mut got[..len]).map(drop)).unwrap();
            assert!(got[..len] == bytes(seed, len), "{len}");
            rank.barrier().unwrap();
        }
        rank.close_window(window).unwrap();
    });
}

fn a_part_without_bytes_takes_no_place_from_a_window_that_has_some(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let (me, peer) = (rank.rank(), 1 - rank.rank());
        let window = rank.window(4_096).unwrap();
        window.write(0, &bytes(me as usize, 100)).unwrap();
        for len in [0, if me == 0 { 0 } else { 100 }] {
            let empty = rank.window(len).unwrap();
            let mut got = [0; 100];
            rank.scope(|scope| scope.get(&window, peer, 0, &mut got).map(drop)).unwrap();
            assert!(got[..] == bytes(peer as usize, 100));
            rank.close_window(empty).unwrap();
            got.fill(0);
            rank.scope(|scope| scope.get(&window, peer, 0, &mut got).map(drop)).unwrap();
            assert!(got[..] == bytes(peer as usize, 100));
        }
        rank.close_window(window).unwrap();
    });
}

fn blocks_go_where_their_strides_say_and_nowhere_else(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let (peer, window) = (1 - rank.rank(), rank.window(1 << 20).unwrap());
        let all = [
            Strided { count: 5, len: 3, here: 7, there: 11 },
            Strided { count: 1_000, len: 8, here: 8, there: 800 },
            Strided { count: 700, len: 100, here: 1_000, there: 100 },
            Strided { count: 300, len: 20, here: 20, there: 20 },
            Strided { count: 1, len: 50, here: 0, there: 0 },
            Strided { count: 0, len: 50, here: 50, there: 50 },
            // However many there are of nothing, that takes no time.
            Strided { count: 1 << 60, len: 0, here: 0, there: 8 },
        ];
        for (round, blocks) in all.into_iter().enumerate() {
            let Strided { count, len, here, there } = blocks;
            let fill = vec![round as u8; 1 << 20];
            window.write(0, &fill).unwrap();
            rank.barrier().unwrap();
            let mine = bytes(rank.rank() as usize, 1_000_000);
            let put = rank.start_put_strided(&window, peer, 10, &mine, blocks).unwrap();
            rank.wait(put).unwrap();
            rank.barrier().unwrap();
            let (theirs, mut expected) = (bytes(peer as usize, 1_000_000), fill);
            let count = if len == 0 { 0 } else { count };
            for block in 0..count {
                let from = &theirs[block * here..][..len];
                expected[10 + block * there..][..len].copy_from_slice(from);
            }
            assert!(part(&window, 0, 1 << 20) == expected, "{blocks:?}");
            let mut expected = vec![9; 1_000_000];
            (0..count).for_each(|block| {
                expected[block * here..][..len].copy_from_slice(&mine[block * here..][..len]);
            });
            let mut got = vec![9; 1_000_000];
            rank.get_strided(&window, peer, 10, &mut got, blocks).unwrap();
            assert!(got == expected, "{blocks:?}");
            let mut later = vec![9; 1_000_000];
            // SAFETY: the memory lives until the operation has been waited for.
            let get = unsafe { rank.start_get_strided(&window, peer, 10, later.as_mut_ptr(), blocks) };
            rank.wait(get.unwrap()).unwrap();
            assert!(later == expected, "{blocks:?}");
            rank.barrier().unwrap();
        }
        rank.close_window(window).unwrap();
    });
}

fn operations_go_on_while_the_other_rank_computes(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let window = rank.window(2_000_000).unwrap();
        window.write(0, &bytes(rank.rank() as usize, 1_000_000)).unwrap();
        rank.barrier().unwrap();
        if rank.rank() == 0 {
            let mut got = vec![0; 1_000_000];
            rank.scope(|scope| scope.get(&window, 1, 0, &mut got).map(drop)).unwrap();
            assert!(got == bytes(1, 1_000_000));
            let mut put = rank.start_put(&window, 1, 1_000_000, &got).unwrap();
            while rank.test(&mut put).unwrap().is_none() {}
        }
        rank.meet();
        if rank.rank() == 1 {
            assert!(part(&window, 1_000_000, 1_000_000) == bytes(1, 1_000_000), "with no call of this rank");
        }
        rank.meet();
        rank.close_window(window).unwrap();
    });
}

fn after_a_fence_what_was_put_and_forgotten_is_in_place(make: Make) {
    play(make, 4, Options::default(), |rank| {
        const LEN: usize = 1_000;
        let (me, window) = (rank.rank() as usize, rank.window(4 * 50 * LEN).unwrap());
        for to in 0..4 {
            for number in 0..50 {
                let (offset, mine) = ((me * 50 + number) * LEN, bytes(me + number, LEN));
                rank.put_and_forget(&window, to, offset, &mine).unwrap();
            }
        }
        rank.fence(Some(3)).unwrap();
        rank.fence(None).unwrap();
        rank.meet();
        for (from, number) in (0..4).flat_map(|from| (0..50).map(move |number| (from, number))) {
            assert!(part(&window, (from * 50 + number) * LEN, LEN) == bytes(from + number, LEN));
        }
        rank.meet();
        rank.close_window(window).unwrap();
    });
}

fn all_get_from_all_at_once(make: Make) {
    play(make, 4, Options::default(), |rank| {
        const LEN: usize = 1_500_000;
        let window = rank.window(LEN).unwrap();
        window.write(0, &bytes(rank.rank() as usize, LEN)).unwrap();
        rank.barrier().unwrap();
        let mut got = vec![vec![0; LEN]; 4];
        rank.scope(|scope| {
            for (from, into) in (0..).zip(&mut got) {
                scope.get(&window, from, 0, into)?;
            }
            Ok(())
        })
        .unwrap();
        assert!(got.iter().enumerate().all(|(from, got)| *got == bytes(from, LEN)));
        rank.close_window(window).unwrap();
    });
}

fn operations_on_a_word_of_all_ranks_each_take_effect_once(make: Make) {
    play(make, 4, Options::default(), |rank| {
        let window = rank.window(64).unwrap();
        window.write(0, &[0; 64]).unwrap();
        rank.barrier().unwrap();
        let add = |by| rank.atomic(&window, 2, 8, Atomic::U64(Rmw::Add(by))).unwrap();
        let seen: Vec<u64> = (0..100).map(|_| add(1)).collect();
        assert!(seen.is_sorted());
        rank.barrier().unwrap();
        assert_eq!(add(0), 400);
        rank.close_window(window).unwrap();
    });
}

fn windows_of_other_lengths_are_closed_and_their_memory_is_used_again(make: Make) {
    let options = Options { registered: 1 << 20, ..Options::default() };
    play(make, 3, options, |rank| {
        for round in 0..20 {
            let len = if rank.rank() == round % 3 { 900_000 } else { 0 };
            let window = rank.window(len).unwrap();
            assert_eq!((window.len(), window.len_at(round % 3), window.is_empty()), (len, 900_000, len == 0));
            rank.put_and_forget(&window, round % 3, rank.rank() as usize * 300_000, &[round as u8; 300_000])
                .unwrap();
            rank.close_window(window).unwrap();
        }
        let error = rank.window(if rank.rank() == 1 { 2 << 20 } else { 10 }).unwrap_err().to_string();
        let expected = if rank.rank() == 1 { "there are 1048576 in all" } else { "rank 1 has no room" };
        assert!(error.contains(expected), "{error}");
        assert_eq!(rank.allocate(1 << 20).unwrap().len(), 1 << 20, "all of it is free");
    });
}

/// Repeats what may still go well with what was on its way when rank 2 left, until it is told that it has.
fn what_threads_read_of_a_window_while_others_write_it_is_old_or_new(make: Make) {
    const LEN: usize = 100_000;
    play(make, 2, Options::default(), |rank| {
        let (me, peer) = (rank.rank(), 1 - rank.rank());
        let window = rank.window(LEN).unwrap();
        window.write(0, &[1; LEN]).unwrap();
        rank.barrier().unwrap();
        std::thread::scope(|threads| {
            let put = |to| (0..20).for_each(|_| rank.put(&window, to, 0, &[2; LEN]).unwrap());
            threads.spawn(|| (0..100).for_each(|_| window.write(3, &[3; LEN - 3]).unwrap()));
            threads.spawn(move || put(me));
            threads.spawn(move || put(peer));
            for from in [me, peer] {
                let mut bytes = vec![0; LEN];
                for _ in 0..20 {
                    rank.get(&window, from, 0, &mut bytes).unwrap();
                    assert!(bytes.iter().all(|byte| (1..=3).contains(byte)));
                    window.read(1, &mut bytes[1..]).unwrap();
                    assert!(bytes.iter().all(|byte| (1..=3).contains(byte)));
                }
            }
        });
        rank.close_window(window).unwrap();
    });
}

fn until_told(mut work: impl FnMut() -> Result<()>) {
    loop {
        match work() {
            Ok(()) => {}
            Err(Error::Down { rank: 2, .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn who_works_with_a_rank_that_leaves_is_told_which(make: Make) {
    play(make, 3, Options::default(), |rank| {
        let window = rank.window(5_000_000).unwrap();
        rank.barrier().unwrap();
        if rank.rank() == 2 {
            let Rank { communicator, meeting } = rank;
            drop(communicator);
            meeting.wait();
            return;
        }
        let mut got = vec![0; 5_000_000];
        until_told(|| rank.scope(|scope| scope.get(&window, 2, 0, &mut got).map(drop)));
        until_told(|| rank.get(&window, 2, 0, &mut got));
        until_told(|| rank.put(&window, 2, 0, &got));
        until_told(|| rank.put_and_forget(&window, 2, 0, &got).and_then(|()| rank.fence(None)));
        until_told(|| rank.atomic(&window, 2, 0, Atomic::U64(Rmw::Load)).map(drop));
        // The others go on.
        let peer = 1 - rank.rank();
        rank.put(&window, peer, 0, b"still here").unwrap();
        rank.send(peer, 0, b"").unwrap();
        rank.receive_owned(Some(peer), None).unwrap();
        assert_eq!(part(&window, 0, 10), b"still here");
        assert!(matches!(rank.close_window(window), Err(Error::Down { rank: 2, .. })));
        rank.meet();
    });
}

fn what_is_outside_of_a_window_is_refused(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let peer = 1 - rank.rank();
        let window = rank.window(1_000).unwrap();
        let refused = |result: Result<()>, why: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        let blocks = |count, len, there| Strided { count, len, here: len, there };
        refused(rank.put(&window, 2, 0, b"?"), "there is no rank 2");
        refused(rank.put(&window, peer, 1_000, b"?"), "1 bytes at 1000 are not inside");
        refused(rank.get(&window, peer, usize::MAX, &mut [0; 4]), "not inside");
        refused(rank.get_strided(&window, peer, 1, &mut [0; 100], blocks(11, 5, 100)), "1005 bytes at 1");
        refused(rank.get_strided(&window, peer, 0, &mut [0; 10], blocks(3, 5, 5)), "blocks that span 15");
        refused(
            rank.put_strided_and_forget(&window, peer, 0, &[0; 100], blocks(2, 8, 7)),
            "must not overlap",
        );
        refused(rank.atomic(&window, peer, 4, Atomic::U64(Rmw::Load)).map(drop), "no word of 8 bytes");
        refused(rank.fence(Some(2)), "there is no rank 2");
        let other = Communicator::new(SHM.solo(), &mut MemExchange::ranks(1).remove(0), Options::default());
        refused(other.unwrap().put(&window, 0, 0, b"?"), "another communicator");
        rank.barrier().unwrap();
    });
    let options = Options { registered: 0, ..Options::default() };
    play(make, 1, options, |rank| {
        assert!(rank.window(1).unwrap_err().to_string().contains("no registered memory"));
    });
}

on_each_provider! {
    what_is_put_is_in_place_and_can_be_got_from_anywhere
    a_part_without_bytes_takes_no_place_from_a_window_that_has_some
    blocks_go_where_their_strides_say_and_nowhere_else
    operations_go_on_while_the_other_rank_computes
    after_a_fence_what_was_put_and_forgotten_is_in_place
    all_get_from_all_at_once
    operations_on_a_word_of_all_ranks_each_take_effect_once
    what_threads_read_of_a_window_while_others_write_it_is_old_or_new
    windows_of_other_lengths_are_closed_and_their_memory_is_used_again
    who_works_with_a_rank_that_leaves_is_told_which
    what_is_outside_of_a_window_is_refused
}
