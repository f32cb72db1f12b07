//! Thresholds that are measured when ranks meet, on each provider. What they are depends on the machine and
//! the hour; what must hold of them does not.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; ranks are few"
)]

mod common;

use common::{Make, Rank, SHM, bytes, on_each_provider, play};
use scash_comm::Error;
use scash_mp::{Communicator, Large, Options, Thresholds, Tune};
use std::thread;
use std::time::Duration;

const TUNED: Options = Options {
    eager: 4 << 10,
    push: 256 << 10,
    large: Large::Auto,
    window: 1 << 20,
    registered: 1 << 30,
    held: 1 << 20,
    silence: Duration::from_secs(10),
    stall: Duration::ZERO,
    tune: Tune::ALL,
};

/// Checks that all ranks have the same for a class of peers, and that it makes sense; gives what this rank
/// has for each.
fn agreed(rank: &Rank, options: Options, host: impl Fn(u32) -> u32) -> Vec<Thresholds> {
    let size = rank.size();
    let mine: Vec<Thresholds> = (0..size).map(|to| rank.thresholds(to).unwrap()).collect();
    let numbers: Vec<u64> = mine.iter().flat_map(|to| [to.eager as u64, to.push as u64]).collect();
    let mut all = vec![0; numbers.len() * size as usize];
    rank.all_gather(&numbers, &mut all).unwrap();
    let mut classes = [None; 2];
    for (pair, of) in (0..).zip(all.chunks(2)) {
        let (from, to): (u32, u32) = (pair / size, pair % size);
        let class = &mut classes[usize::from(host(from) != host(to))];
        assert_eq!(*class.get_or_insert((of[0], of[1])), (of[0], of[1]), "of {from} for {to}");
        assert!(of.iter().all(|of| (256..=options.window as u64 / 2).contains(of)), "{of:?}");
    }
    mine
}

/// Messages of lengths around all thresholds come whole.
fn exchange(rank: &Rank, thresholds: &[Thresholds]) {
    let ends = thresholds.iter().flat_map(|to| [to.eager, to.push]);
    let lens: Vec<usize> = [0, 1, 300_000].into_iter().chain(ends.flat_map(|end| [end, end + 1])).collect();
    let (me, size) = (rank.rank(), rank.size());
    let (next, last) = ((me + 1) % size, (me + size - 1) % size);
    let mine: Vec<Vec<u8>> = lens.iter().map(|&len| bytes(me as usize, len)).collect();
    // Neighbours may have other lengths, as they lie on other hosts.
    let count = rank.size() as usize;
    let mut counts = vec![0u64; count];
    rank.all_gather(&[mine.len() as u64], &mut counts).unwrap();
    rank.scope(|scope| {
        for message in &mine {
            scope.send(next, 1, message)?;
        }
        for _ in 0..counts[last as usize] {
            let message = rank.receive_owned(None, None)?;
            assert_eq!(message.status.source, last);
            assert!(message.bytes == bytes(last as usize, message.bytes.len()));
        }
        Ok(())
    })
    .unwrap();
}

fn all_ranks_agree_on_thresholds_that_make_sense_and_messages_go_by_them(make: Make) {
    for large in [Large::Auto, Large::Push, Large::Rendezvous] {
        let options = Options { large, ..TUNED };
        play(make, 4, options, move |rank| {
            let thresholds = agreed(&rank, options, |rank| make.host(rank));
            exchange(&rank, &thresholds);
            rank.meet();
        });
    }
}

fn a_small_window_bounds_what_is_measured(make: Make) {
    let options = Options { eager: 256, push: 300, window: 1 << 10, ..TUNED };
    play(make, 3, options, move |rank| {
        let thresholds = agreed(&rank, options, |rank| make.host(rank));
        exchange(&rank, &thresholds);
        rank.meet();
    });
}

fn what_is_not_to_be_measured_is_what_the_options_say(make: Make) {
    let options = Options { eager: 77, push: 7_777, ..TUNED };
    for tune in [Tune { eager: true, ..Tune::NONE }, Tune { push: true, ..Tune::NONE }, Tune::default()] {
        play(make, 4, Options { tune, ..options }, move |rank| {
            for to in 0..4 {
                let Thresholds { eager, push } = rank.thresholds(to).unwrap();
                assert!(tune.eager || eager == 77, "{eager}");
                assert!(tune.push || push == 7_777, "{push}");
            }
            let error = rank.thresholds(4).unwrap_err().to_string();
            assert!(error.contains("there is no rank 4"), "{error}");
            rank.meet();
        });
    }
}

fn long_messages_are_pushed_or_all_are_read_as_the_processor_likes_it(make: Make) {
    let options = Options { tune: Tune::default(), ..TUNED };
    play(make, 4, options, move |rank| {
        let thresholds = agreed(&rank, options, |rank| make.host(rank));
        for Thresholds { eager, push } in &thresholds {
            assert_eq!(*eager, options.eager);
            assert!(*push == options.eager || *push == options.push, "{push}");
        }
        exchange(&rank, &thresholds);
        rank.meet();
    });
}

fn a_rank_alone_measures_nothing(make: Make) {
    play(make, 1, TUNED, |rank| {
        let own = Thresholds { eager: TUNED.eager, push: TUNED.push };
        assert_eq!(rank.thresholds(0).unwrap(), own);
        rank.send(0, 0, b"to myself").unwrap();
        assert_eq!(rank.receive_owned(None, None).unwrap().bytes, b"to myself");
    });
}

on_each_provider! {
    all_ranks_agree_on_thresholds_that_make_sense_and_messages_go_by_them
    a_small_window_bounds_what_is_measured
    what_is_not_to_be_measured_is_what_the_options_say
    long_messages_are_pushed_or_all_are_read_as_the_processor_likes_it
    a_rank_alone_measures_nothing
}

#[test]
fn a_rank_may_have_options_of_its_own_where_nobody_asks_for_measurements() {
    let start = |mut exchange| {
        thread::spawn(move || {
            let rank = scash_comm::Exchange::rank(&exchange);
            let large = if rank == 2 { Large::Get } else { Large::Auto };
            let tune = Tune { reads: rank != 1, ..Tune::NONE };
            let endpoint = (SHM.endpoint)(&mut exchange).unwrap();
            let rank = Communicator::new(endpoint, &mut exchange, Options { large, tune, ..TUNED }).unwrap();
            let Thresholds { eager, push } = rank.thresholds(0).unwrap();
            assert_eq!(eager, TUNED.eager);
            assert!(push == TUNED.push || push == TUNED.eager && rank.rank() != 1, "{push}");
            let mut all = [0u64; 3];
            rank.all_gather(&[u64::from(rank.rank())], &mut all).unwrap();
            assert_eq!(all, [0, 1, 2]);
            // They end when all have met.
            (rank, exchange)
        })
    };
    let ranks: Vec<_> = SHM.ranks(3).into_iter().map(start).collect();
    let met: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
    assert_eq!(met.len(), 3);
}

#[test]
fn ranks_that_want_other_things_measured_are_told_so() {
    let start = |mut exchange| {
        thread::spawn(move || {
            let endpoint = (SHM.endpoint)(&mut exchange).unwrap();
            let tune = Tune { eager: scash_comm::Exchange::rank(&exchange) == 1, ..Tune::ALL };
            Communicator::new(endpoint, &mut exchange, Options { tune, ..TUNED })
        })
    };
    let ranks: Vec<_> = SHM.ranks(3).into_iter().map(start).collect();
    for rank in ranks {
        let error = rank.join().unwrap().unwrap_err();
        assert!(matches!(&error, Error::Protocol { why, .. } if why.contains("SCASH_MP_TUNE")), "{error}");
    }
}
