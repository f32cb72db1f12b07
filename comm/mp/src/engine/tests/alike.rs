//! Ranks that call different collective operations: none hangs, and who can see it has an error.

use super::collectives::{KINDS, Played};
use super::{Network, OPTIONS};
use crate::requests::RequestNumber;
use crate::span::{ReceiveBuffer, Source};
use proptest::prelude::*;
use scash_comm::Error;

const RANKS: usize = 4;
/// Ticks until even the last one is asked that waits for who is asked late.
const LONG: usize = 70;

/// A rank's part of an operation, and its memory.
struct Part {
    _input: Vec<u64>,
    output: Vec<u64>,
    number: RequestNumber,
    outcome: Option<Result<(), Error>>,
}

struct Scene {
    net: Network,
    /// By rank, and by operation.
    parts: Vec<Vec<Part>>,
}

impl Scene {
    fn new(hosts: &[u32], share_cores: bool) -> Self {
        Self {
            net: Network::on(hosts, share_cores, OPTIONS, false),
            parts: hosts.iter().map(|_| Vec::new()).collect(),
        }
    }

    fn begin(&mut self, at: usize, played: Played) {
        let (input, mut output) = played.begin(at);
        // SAFETY: the memory lives as long as the scene.
        let source = unsafe { Source::new(input.as_ptr().cast(), 8 * input.len()) };
        // SAFETY: as above.
        let place = unsafe { ReceiveBuffer::new(output.as_mut_ptr().cast(), 8 * output.len()) };
        let number = self.net.engines[at].start(&played.collective(), source, place).unwrap();
        self.parts[at].push(Part { _input: input, output, number, outcome: None });
        self.net.look_at_board(at);
    }

    /// Until nothing moves any more, and no tick helps.
    fn finish(&mut self) {
        for _ in 0..LONG {
            loop {
                let mut any = false;
                for (from, to) in (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to))) {
                    while self.net.deliver(from, to) || self.net.piece(from, to) {
                        any = true;
                    }
                }
                (0..RANKS).for_each(|at| self.net.look_at_board(at));
                if !any {
                    break;
                }
            }
            for at in 0..RANKS {
                self.net.engines[at].ask_alike();
                self.net.look_at_board(at);
            }
        }
        for (at, parts) in self.parts.iter_mut().enumerate() {
            for part in parts.iter_mut().filter(|part| part.outcome.is_none()) {
                part.outcome = self.net.engines[at].outcome(part.number).map(|outcome| outcome.map(drop));
            }
        }
    }

    /// All that was begun is over; how many ranks were told that something was wrong with it.
    fn failures(&self, operation: usize) -> usize {
        let is_failure = |(at, parts): (usize, &Vec<Part>)| match &parts[operation].outcome {
            None => panic!("rank {at} hangs in operation {operation}"),
            Some(Err(Error::Protocol { .. } | Error::TooLong { .. })) => true,
            Some(Err(error)) => panic!("rank {at} in operation {operation}: {error}"),
            Some(Ok(())) => false,
        };
        self.parts.iter().enumerate().filter(|part| is_failure(*part)).count()
    }
}

/// Ranks call one operation or the other, and all of them two more.
fn play(hosts: &[u32], share_cores: bool, calls: &[Played]) -> Scene {
    let mut scene = Scene::new(hosts, share_cores);
    (0..RANKS).for_each(|at| scene.begin(at, calls[at]));
    scene.finish();
    for number in [1, 2] {
        let played = Played { number, kind: 0, n: RANKS };
        (0..RANKS).for_each(|at| scene.begin(at, played));
        scene.finish();
    }
    scene
}

fn hosts() -> impl Iterator<Item = &'static [u32]> {
    let hosts: [&[u32]; 3] = [&[0, 0, 0, 0], &[0, 1, 2, 3], &[0, 0, 1, 1]];
    hosts.into_iter().skip(if cfg!(miri) { 2 } else { 0 })
}

/// Two kinds of operations. (Miri takes half a minute for each pair.)
fn pairs_of_kinds() -> impl Iterator<Item = (usize, usize)> {
    let (kinds, others) = if cfg!(miri) { (1, 2) } else { (KINDS, KINDS) };
    (0..kinds).flat_map(move |kind| (0..others).map(move |other| (kind, other)))
}

#[test]
fn ranks_that_call_operations_of_different_kinds_are_told_and_none_hangs() {
    for (hosts, share_cores) in hosts().flat_map(|hosts| [(hosts, false), (hosts, true)]) {
        for (kind, other) in pairs_of_kinds() {
            for stranger in 0..RANKS {
                let of = |at| Played { number: 0, kind: if at == stranger { other } else { kind }, n: RANKS };
                let scene = play(hosts, share_cores, &(0..RANKS).map(of).collect::<Vec<_>>());
                let failures = scene.failures(0) + scene.failures(1);
                assert_eq!(failures > 0, kind != other, "{hosts:?}: {kind} and, at {stranger}, {other}");
                assert_eq!(scene.failures(2), 0, "{hosts:?}: {kind} and, at {stranger}, {other}");
            }
        }
    }
}

#[test]
fn ranks_that_name_other_roots_or_lengths_are_told_and_none_hangs() {
    for hosts in hosts() {
        for (kind, stranger) in (1..if cfg!(miri) { 2 } else { KINDS })
            .flat_map(|kind| (0..RANKS).map(move |stranger| (kind, stranger)))
        {
            for other in 1..4 {
                let of = |at| Played { number: if at == stranger { other } else { 0 }, kind, n: RANKS };
                let scene = play(hosts, false, &(0..RANKS).map(of).collect::<Vec<_>>());
                let failures = scene.failures(0) + scene.failures(1);
                let differs = of(stranger).collective() != of((stranger + 1) % RANKS).collective();
                assert_eq!(failures > 0, differs, "{hosts:?}: {kind}, at {stranger} with {other}");
            }
        }
    }
}

#[test]
fn two_ranks_that_take_each_other_for_the_root_are_told_what_the_other_one_calls() {
    let of = |at: usize| Played { number: 1 - at.min(1), kind: 1, n: 4 };
    let scene = play(&[0, 1, 2, 3], false, &(0..RANKS).map(of).collect::<Vec<_>>());
    assert!(scene.failures(0) > 0);
    let told = scene.parts.iter().filter_map(|parts| parts[0].outcome.as_ref()?.as_ref().err());
    let told: Vec<String> = told.map(ToString::to_string).collect();
    assert!(told.iter().any(|text| text.contains("calls broadcast with other numbers")), "{told:?}");
}

proptest! {
    /// Whatever ranks call: an operation that all call alike gives what it should, unless the one before it
    /// was not alike.
    #[test]
    fn whatever_ranks_call_none_hangs(
        hosts in prop::collection::vec(0..3u32, RANKS), share_cores in any::<bool>(),
        calls in prop::collection::vec((0..KINDS, 0..4usize), RANKS),
    ) {
        let calls: Vec<Played> = calls.into_iter().map(|(kind, number)| Played { number, kind, n: RANKS }).collect();
        let first = calls[0].collective();
        let are_alike = calls.iter().all(|played| played.collective() == first);
        let scene = play(&hosts, share_cores, &calls);
        prop_assert_eq!(scene.failures(0) + scene.failures(1) == 0, are_alike);
        prop_assert_eq!(scene.failures(2), 0);
        // Operations of other numbers may be alike, and have other values.
        if are_alike && calls.iter().all(|played| played.number == calls[0].number) {
            for (at, parts) in scene.parts.iter().enumerate() {
                prop_assert_eq!(&parts[0].output, &calls[at].end(at));
            }
        }
    }
}
