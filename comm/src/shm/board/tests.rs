#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::mem_exchange::MemExchange;
use crate::shm::ShmOptions;
use std::thread;

fn endpoints(n: u32) -> Vec<ShmEndpoint> {
    let join = |mut exchange: MemExchange| {
        thread::spawn(move || ShmEndpoint::new(&mut exchange, &ShmOptions::default()).unwrap())
    };
    let joining: Vec<_> = MemExchange::ranks(n).into_iter().map(join).collect();
    joining.into_iter().map(|endpoint| endpoint.join().unwrap()).collect()
}

#[test]
fn all_have_reached_what_the_last_one_has_and_only_the_first_one_releases() {
    let ranks = endpoints(3);
    assert_eq!(ranks[1].ranks(), [0, 1, 2]);
    for (rank, count) in [(2, 7), (0, 5), (1, 6)] {
        assert_eq!(ranks[0].reached(Mark::Arrived), 0);
        ranks[rank].post(Mark::Arrived, count);
    }
    ranks[1].post(Mark::Released, 9);
    assert!(ranks.iter().all(|rank| (rank.reached(Mark::Arrived), rank.reached(Mark::Released)) == (5, 0)));
    ranks[0].post(Mark::Released, 4);
    assert!(ranks.iter().all(|rank| rank.reached(Mark::Released) == 4));
}

#[test]
fn what_is_expected_is_news_until_nothing_is() {
    let ranks = endpoints(2);
    ranks[0].post(Mark::Arrived, 3);
    ranks[0].expect(Mark::Arrived, Some(3));
    assert!(!ranks[0].has_any());
    ranks[1].post(Mark::Arrived, 2);
    assert!(!ranks[0].has_any());
    ranks[1].post(Mark::Arrived, 3);
    assert!(ranks[0].has_any());
    ranks[0].expect(Mark::Arrived, None);
    assert!(!ranks[0].has_any());
}

#[test]
fn who_is_about_to_sleep_is_rung_for_and_who_is_awake_is_not() {
    let ranks = endpoints(2);
    let is_rung = || ranks[1].inbox.bell().announce().is_none();
    assert!(is_rung(), "nobody has announced anything yet");
    assert!(!is_rung());
    ranks[0].post(Mark::Arrived, 1);
    assert!(!is_rung(), "to post is not to wake");
    ranks[0].wake(1);
    assert!(is_rung());
}

#[test]
fn the_last_one_to_come_is_told_as_well_and_what_is_told_is_no_news() {
    let ranks = endpoints(3);
    let coming = |call| Coming::without_words(call, 5);
    for rank in 0..3 {
        assert!(!ranks[0].has_any());
        ranks[rank].come(coming(1));
    }
    assert!(ranks[0].has_any());
    for rank in &ranks {
        assert_eq!((rank.agreed(), rank.agreed(), rank.has_any()), (Some(true), None, false));
    }
    ranks[1].come(coming(2));
    ranks[2].come(Coming::with_words(2));
    assert_eq!(
        (ranks[1].agreed(), ranks[2].agreed()),
        (Some(false), None),
        "who has words waits for nothing"
    );
}

#[test]
fn whoever_may_sleep_is_woken_by_the_last_one_and_by_who_has_words() {
    let ranks = endpoints(3);
    let is_rung = || ranks[1].inbox.bell().announce().is_none();
    for words in [false, true] {
        is_rung();
        let (second, call) = (usize::from(words), 1 + u64::from(words));
        ranks[1].come(Coming::without_words(call, 0));
        ranks[2 * second].come(if words { Coming::with_words(call) } else { Coming::without_words(call, 0) });
        assert_eq!(is_rung(), words, "one has still to come");
        ranks[2 - 2 * second].come(Coming::without_words(call, 0));
        assert!(words || is_rung());
    }
}
