//! Traces on their way, and cases to compare. (Whole jobs, with and without races, are for the simulator.)

use super::log::{Trace, WriteTraces};
use super::*;
use crate::node::{Collective, Config, Input, Output};

const HOME: Rank = Rank(0);

fn trace(rank: u32, number: u64, known: &[(u32, u64)], [old, new]: [u8; 2], met: Option<u8>) -> Trace {
    let mut page = [0; PAGE_SIZE];
    page[100] = 1;
    Trace {
        rank: Rank(rank),
        number,
        known: known.iter().map(|&(rank, number)| (Rank(rank), number)).collect(),
        site: String::new(),
        changes: Changes::between(&[0; PAGE_SIZE], &page),
        new: vec![new],
        old: vec![old],
        met: met.map(|met| vec![met]),
    }
}

fn filled(value: u8) -> PageBytes {
    [value; PAGE_SIZE]
}

/// The ranks that race for byte 100. What the home held at the beginning, and holds at the end, is the same
/// for all bytes.
fn races(traces: &[Trace], base: Option<u8>, after: Option<u8>, known: &KnownIntervals) -> Vec<[u32; 2]> {
    let (base, after) = (base.map(filled), after.map(filled));
    let case = PageWrites {
        home: HOME,
        known,
        base: base.as_ref(),
        after: after.as_ref(),
        complete: true,
        writes: traces.iter().map(|trace| Writes::of(trace, None)).collect(),
    };
    let found = case.compare_writes(7, String::new);
    assert!(found.iter().all(|race| (race.page, race.offset, race.len) == (7, 100, 1)));
    found.iter().map(|race| race.writers.each_ref().map(|writer| writer.rank.0)).collect()
}

#[test]
fn two_ranks_race_unless_one_has_heard_of_the_other_or_both_write_the_same() {
    let none = KnownIntervals::new();
    let first = trace(1, 3, &[], [0, 5], None);
    let compare = |second| races(&[first.clone(), second], None, None, &none);
    assert_eq!(compare(trace(2, 1, &[], [0, 6], None)), [[1, 2]]);
    assert_eq!(compare(trace(2, 1, &[(1, 2)], [0, 6], None)), [[1, 2]]);
    assert_eq!(compare(trace(2, 1, &[(1, 3)], [5, 6], None)), [[0u32; 2]; 0]);
    assert_eq!(compare(trace(2, 1, &[], [0, 5], None)), [[0u32; 2]; 0]);
    assert_eq!(compare(trace(1, 4, &[], [5, 6], None)), [[0u32; 2]; 0]);
}

#[test]
fn a_home_is_found_by_what_it_left_before_beside_or_after_the_write_of_another() {
    let none = KnownIntervals::new();
    let nobody = [[0u32; 2]; 0];
    let sent = [trace(1, 1, &[], [9, 5], None)];
    assert_eq!(races(&sent, Some(0), None, &none), [[0, 1]], "the copy had the home's byte already");
    assert_eq!(races(&sent, Some(9), Some(5), &none), nobody);
    assert_eq!(races(&sent, None, Some(6), &none), [[0, 1]], "the home wrote after the merge");
    assert_eq!(races(&sent, None, Some(6), &vec![(Rank(1), 1)]), nobody, "the home had heard of it");
    let put = |met| [trace(1, 1, &[], [9, 5], Some(met))];
    assert_eq!(races(&put(8), None, None, &none), [[0, 1]], "the home wrote between fetch and put");
    assert_eq!(races(&put(9), None, None, &none), nobody);
    let heard = [trace(1, 1, &[(0, 1)], [9, 5], None)];
    assert_eq!(races(&heard, Some(0), None, &none), nobody, "a lock came from the home");
}

#[test]
fn what_the_next_epoch_left_in_a_base_accuses_nobody() {
    let writes = [trace(1, 1, &[], [9, 5], None)];
    assert_eq!(races(&writes, Some(5), None, &KnownIntervals::new()), [[0u32; 2]; 0]);
}

fn node(rank: u32) -> Node {
    let mut node = Node::new(Config { races: true, ..Config::plain(Rank(rank), 2, 8) });
    let options = crate::AllocOptions { placement: crate::Placement::Rank(0), ..Default::default() };
    node.handle(Input::Arrive(Collective::Alloc(8 * PAGE_SIZE as u64, options))).unwrap();
    node.handle(Input::Flushed).unwrap();
    let token = std::iter::from_fn(|| node.poll_output()).find_map(|order| match order {
        Output::Token(_, token) => Some(token),
        _ => None,
    });
    node.handle(Input::Token(Rank(1 - rank), token.unwrap())).unwrap();
    node
}

fn said(room: usize, traces: usize) -> Vec<(Rank, Vec<u8>)> {
    let node = node(1);
    let frames = |_: u32, into: &mut PageBytes| into.fill(0);
    let mut races = Races::new(room);
    let (old, mut new) = (filled(0), filled(0));
    (0..PAGE_SIZE).step_by(8).for_each(|at| new[at] = 3);
    let changes = Changes::between(&old, &new);
    for page in 0..traces {
        let page = u32::try_from(page % 8).unwrap();
        races.note(
            &node,
            &Change { page, site: 17, old: &old, new: &new, changes: &changes, met: Some(&old) },
        );
    }
    races.send_writes(&node, &frames, |site| format!("site {site}"))
}

#[test]
fn a_testimony_comes_as_it_was_sent_and_no_part_of_it_is_taken_for_the_whole() {
    let said = said(1 << 20, 2);
    let [(to, bytes)] = &said[..] else { panic!("{} messages", said.len()) };
    assert_eq!(*to, HOME);
    let heard = WriteTraces::decode(Rank(1), 8, bytes).unwrap();
    assert!(!heard.lost && heard.traces.len() == 2);
    let (page, trace) = &heard.traces[1];
    assert_eq!((*page, trace.rank, trace.number, trace.site.as_str()), (1, Rank(1), 1, "site 17"));
    assert_eq!((trace.new.clone(), trace.old.clone()), (vec![3; 512], vec![0; 512]));
    assert!(WriteTraces::decode(Rank(1), 1, bytes).is_err(), "a page outside of the region");
    let whole = |n: usize| WriteTraces::decode(Rank(1), 8, &bytes[..n]).is_ok_and(|t| t.traces.len() == 2);
    let every = if cfg!(miri) { 97 } else { 1 };
    assert!((0..bytes.len()).step_by(every).all(|n| !whole(n)));
}

#[test]
fn what_there_is_no_room_for_is_told_to_be_lost() {
    let said = said(40_000, 100);
    assert!(!said.is_empty());
    for (_, bytes) in said {
        let heard = WriteTraces::decode(Rank(1), 8, &bytes).unwrap();
        assert!(heard.lost && heard.traces.len() < 100);
    }
}
