//! Whether ranks of a host push long messages is measured when they meet, on each provider. What is found
//! depends on the machine; what must hold of it does not.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; ranks are few"
)]

mod common;

use common::{Make, Rank, SHM, bytes, on_each_provider, play};
use scash_mp::{Communicator, Large, Options, Thresholds};
use std::thread;
use std::time::Duration;

const MEASURED: Options = Options {
    eager: 4 << 10,
    push: 256 << 10,
    large: Large::Auto,
    window: 1 << 20,
    registered: 1 << 30,
    held: 1 << 20,
    silence: Duration::from_secs(10),
    stall: Duration::ZERO,
    calibrate: true,
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

fn all_ranks_of_hosts_push_long_messages_or_all_read_them(make: Make) {
    for large in [Large::Auto, Large::Push, Large::Rendezvous] {
        let options = Options { large, ..MEASURED };
        play(make, 4, options, move |rank| {
            let thresholds = agreed(&rank, options, |rank| make.host(rank));
            for (to, Thresholds { eager, push }) in (0..).zip(&thresholds) {
                assert_eq!(*eager, options.eager);
                let may_be_read = large == Large::Auto && make.host(to) == make.host(rank.rank());
                assert!(*push == options.push || may_be_read && *push == options.eager, "{push}");
            }
            exchange(&rank, &thresholds);
            rank.meet();
        });
    }
}

fn in_a_small_window_nothing_is_measured(make: Make) {
    let options = Options { eager: 256, push: 300, window: 1 << 10, ..MEASURED };
    play(make, 3, options, move |rank| {
        let thresholds = agreed(&rank, options, |rank| make.host(rank));
        assert!(thresholds.iter().all(|to| (to.eager, to.push) == (256, 300)), "{thresholds:?}");
        exchange(&rank, &thresholds);
        rank.meet();
    });
}

fn where_nothing_is_to_be_measured_the_options_stand(make: Make) {
    play(make, 4, Options { calibrate: false, ..MEASURED }, move |rank| {
        for to in 0..4 {
            let own = Thresholds { eager: MEASURED.eager, push: MEASURED.push };
            assert_eq!(rank.thresholds(to).unwrap(), own);
        }
        let error = rank.thresholds(4).unwrap_err().to_string();
        assert!(error.contains("there is no rank 4"), "{error}");
        rank.meet();
    });
}

fn a_rank_alone_measures_nothing(make: Make) {
    play(make, 1, MEASURED, |rank| {
        let own = Thresholds { eager: MEASURED.eager, push: MEASURED.push };
        assert_eq!(rank.thresholds(0).unwrap(), own);
        rank.send(0, 0, b"to myself").unwrap();
        assert_eq!(rank.receive_owned(None, None).unwrap().bytes, b"to myself");
    });
}

on_each_provider! {
    all_ranks_of_hosts_push_long_messages_or_all_read_them
    in_a_small_window_nothing_is_measured
    where_nothing_is_to_be_measured_the_options_stand
    a_rank_alone_measures_nothing
}

#[test]
fn a_rank_may_have_options_of_its_own() {
    let start = |mut exchange| {
        thread::spawn(move || {
            let rank = scash_comm::Exchange::rank(&exchange);
            let large = if rank == 2 { Large::Get } else { Large::Auto };
            let endpoint = (SHM.endpoint)(&mut exchange).unwrap();
            let rank = Communicator::new(
                endpoint,
                &mut exchange,
                Options { large, calibrate: rank != 1, ..MEASURED },
            )
            .unwrap();
            let Thresholds { eager, push } = rank.thresholds(0).unwrap();
            assert_eq!(eager, MEASURED.eager);
            assert!(push == MEASURED.push || push == MEASURED.eager && rank.rank() != 1, "{push}");
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
