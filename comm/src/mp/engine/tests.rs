//! Engines on a network in memory: pairs keep their order, and everything else happens when it likes.

// Ranks, and numbers of messages, are small.
#![allow(clippy::cast_possible_truncation)]

use super::{Content, Engine, Order, Reach};
use crate::mp::matching::Pattern;
use crate::mp::requests::{Destination, Ended, Number, Outcome, Request};
use crate::mp::span::{Place, Source};
use crate::mp::wire::{FIRST_KIND, Head};
use crate::mp::{Large, Options, Status};
use crate::{Error, Result};
use proptest::prelude::*;
use std::collections::VecDeque;

const OPTIONS: Options = Options { eager: 64, push: 512, large: Large::Auto, window: 1536, registered: 0 };
const PIECE: usize = 100;

/// What is on its way from one rank to another.
type Letter = (u16, Vec<u8>);

struct Network {
    engines: Vec<Engine>,
    /// `letters[from][to]`
    letters: Vec<Vec<VecDeque<Letter>>>,
}

impl Network {
    /// Among `n` ranks, which can read each other's memory or not.
    fn new(n: usize, options: Options, reads: bool) -> Self {
        let reach = vec![Reach { all: reads, registered: false }; n];
        Network {
            engines: (0..n).map(|rank| Engine::new(rank as u32, options, &reach, &reach, 0..0)).collect(),
            letters: (0..n).map(|_| vec![VecDeque::new(); n]).collect(),
        }
    }

    fn send(&mut self, from: usize, to: usize, tag: u64, body: &[u8]) -> Option<Number> {
        // SAFETY: tests keep what they send to their end.
        let source = unsafe { Source::new(body.as_ptr(), body.len()) };
        let number = self.engines[from].send(to as u32, 0, tag, source).unwrap();
        self.carry_out(from);
        number
    }

    fn receive(
        &mut self,
        at: usize,
        source: Option<u32>,
        tag: Option<u64>,
        into: Destination,
    ) -> Result<Number> {
        let number = self.engines[at].receive(Pattern { context: 0, source, tag }, into);
        self.carry_out(at);
        number
    }

    fn carry_out(&mut self, at: usize) {
        while let Some(order) = self.engines[at].order() {
            match order {
                Order::Send { to, head, body } => {
                    let body = body.as_ref().map_or(&[][..], |(body, from, len)| body.piece(*from, *len));
                    let letter = (head.kind, [head.bytes(), body].concat());
                    self.letters[at][to as usize].push_back(letter);
                }
                Order::Read(receive) => {
                    let reading = self.engines[at].reading(receive).unwrap();
                    let theirs: *const u8 =
                        std::ptr::with_exposed_provenance(usize::try_from(reading.address).unwrap());
                    // SAFETY: ranks of these tests live in one process; the address is of what one of them sends.
                    unsafe {
                        std::ptr::copy_nonoverlapping(theirs, reading.place.start(), reading.place.len())
                    };
                    // SAFETY: the copy has filled the place.
                    unsafe { self.engines[at].was_read(receive, true) };
                }
            }
        }
    }

    /// One letter from `from` to `to` arrives; whether there was one.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some((kind, letter)) = self.letters[from][to].pop_front() else { return false };
        self.engines[to].arrived(from as u32, kind, &letter).unwrap();
        self.carry_out(to);
        true
    }

    fn piece(&mut self, from: usize, to: usize) -> bool {
        let moved = self.engines[from].next_piece(to as u32, PIECE);
        self.carry_out(from);
        moved
    }

    /// Until nothing moves any more.
    fn settle(&mut self) {
        let n = self.engines.len();
        let pairs: Vec<_> = (0..n).flat_map(|from| (0..n).map(move |to| (from, to))).collect();
        while pairs.iter().fold(false, |any, &(from, to)| self.deliver(from, to) | self.piece(from, to) | any)
        {
        }
    }

    fn outcome(&mut self, at: usize, number: Option<Number>) -> Option<Outcome> {
        match number {
            None => Some(Ok(Ended::default())),
            Some(number) => self.engines[at].outcome(number),
        }
    }
}

fn own() -> Destination {
    Destination::Own(Vec::new())
}

/// The `number`-th message of a rank: `len` bytes that no other message begins with.
fn message(from: usize, number: usize, len: usize) -> Vec<u8> {
    let name = [from as u8, number as u8, (number >> 8) as u8];
    name.into_iter().chain((0..).map(|i: usize| (i * 7 + number) as u8)).take(len.max(3)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Send { from: usize, to: usize, tag: u64, len: usize },
    Receive { at: usize, source: Option<u32>, tag: Option<u64> },
    Deliver(usize, usize),
    Piece(usize, usize),
}

const RANKS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let rank = || 0..RANKS;
    let len = prop_oneof![3..65usize, 65..513usize, 513..3000usize];
    let source = prop_oneof![Just(None), (0..RANKS as u32).prop_map(Some)];
    let tag = prop_oneof![Just(None), (0..3u64).prop_map(Some)];
    prop_oneof![
        3 => (rank(), rank(), 0..3u64, len).prop_map(|(from, to, tag, len)| Step::Send { from, to, tag, len }),
        3 => (rank(), source, tag).prop_map(|(at, source, tag)| Step::Receive { at, source, tag }),
        4 => (rank(), rank()).prop_map(|(from, to)| Step::Deliver(from, to)),
        2 => (rank(), rank()).prop_map(|(from, to)| Step::Piece(from, to)),
    ]
}

struct Sent {
    to: usize,
    tag: u64,
    bytes: Vec<u8>,
    request: Option<Number>,
}

struct Receive {
    source: Option<u32>,
    tag: Option<u64>,
    request: Number,
}

impl Receive {
    fn fits(&self, source: u32, tag: u64) -> bool {
        self.source.is_none_or(|mine| mine == source) && self.tag.is_none_or(|mine| mine == tag)
    }
}

/// A game and what is known of it.
struct Game {
    net: Network,
    sent: Vec<Vec<Sent>>,
    receives: Vec<Vec<Receive>>,
}

type Verdict = std::result::Result<(), TestCaseError>;

impl Game {
    fn new(large: Large, reads: bool) -> Self {
        Game {
            net: Network::new(RANKS, Options { large, ..OPTIONS }, reads),
            sent: (0..RANKS).map(|_| Vec::new()).collect(),
            receives: (0..RANKS).map(|_| Vec::new()).collect(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Send { from, to, tag, len } => {
                let bytes = message(from, self.sent[from].len(), len);
                let request = self.net.send(from, to, tag, &bytes);
                self.sent[from].push(Sent { to, tag, bytes, request });
            }
            Step::Receive { at, source, tag } => {
                let request = self.net.receive(at, source, tag, own()).unwrap();
                self.receives[at].push(Receive { source, tag, request });
            }
            Step::Deliver(from, to) => _ = self.net.deliver(from, to),
            Step::Piece(from, to) => _ = self.net.piece(from, to),
        }
    }

    /// Number of messages to a rank.
    fn sent_to(&self, at: usize) -> usize {
        self.sent.iter().flatten().filter(|sent| sent.to == at).count()
    }

    /// What nobody has asked for yet is asked for now.
    fn ask_for_the_rest(&mut self) {
        self.net.settle();
        for at in 0..RANKS {
            (0..self.sent_to(at)).for_each(|_| self.take(Step::Receive { at, source: None, tag: None }));
        }
        self.net.settle();
    }

    /// Each message to `at` was received once, by a receive that it fits, whole and in order; other receives can be taken back.
    fn check_received(&mut self, at: usize) -> Verdict {
        let (sent, receives) = (&self.sent, &self.receives[at]);
        // Source and number of each message, and which receive has got it.
        let mut got: Vec<(u32, usize, usize)> = Vec::new();
        for (order, receive) in receives.iter().enumerate() {
            let Some(outcome) = self.net.outcome(at, Some(receive.request)) else {
                prop_assert!(self.net.engines[at].cancel(receive.request));
                continue;
            };
            let ended = outcome.unwrap();
            let Status { source, tag, len } = ended.status;
            prop_assert!(receive.fits(source, tag));
            let number = usize::from(ended.bytes[1]) | usize::from(ended.bytes[2]) << 8;
            let message = &sent[source as usize][number];
            prop_assert_eq!((message.to, message.tag), (at, tag));
            prop_assert_eq!(&message.bytes, &ended.bytes);
            prop_assert_eq!(len, ended.bytes.len());
            // An earlier receive must not have been left with a later message where both fit both.
            for &(_, later, earlier) in got.iter().filter(|&&(theirs, ..)| theirs == source) {
                let could_be_swapped = receives[earlier].fits(source, tag)
                    && receive.fits(source, sent[source as usize][later].tag);
                prop_assert!(later < number || !could_be_swapped, "a message was overtaken");
            }
            got.push((source, number, order));
        }
        got.sort_unstable();
        got.dedup_by_key(|&mut (source, number, _)| (source, number));
        prop_assert_eq!(got.len(), self.sent_to(at), "all messages are received, each once");
        Ok(())
    }

    /// All sends are over, and the engines have forgotten everything.
    fn check_rest(&mut self) -> Verdict {
        for (from, sent) in self.sent.iter().enumerate() {
            for sent in sent {
                prop_assert!(
                    matches!(self.net.outcome(from, sent.request), Some(Ok(_))),
                    "all sends are over"
                );
            }
        }
        for engine in &mut self.net.engines {
            prop_assert!(
                engine.landings.is_empty() && engine.unexpected.len() == 0 && engine.expected.len() == 0
            );
            prop_assert!(engine.requests.iter_mut().next().is_none());
        }
        for (from, to) in (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to))) {
            let (credit, debt) =
                (self.net.engines[from].peers[to].credit, self.net.engines[to].peers[from].debt);
            prop_assert_eq!(credit + debt, OPTIONS.window, "what is lent is owed");
            prop_assert!(debt < OPTIONS.window / 2, "what was received is given back");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_message_is_received_once_whole_and_in_order(
        steps in prop::collection::vec(step(), 0..250),
        large in prop_oneof![Just(Large::Auto), Just(Large::Get), Just(Large::Push), Just(Large::Rendezvous)],
        reads in any::<bool>(),
    ) {
        let mut game = Game::new(large, reads);
        steps.into_iter().for_each(|step| game.take(step));
        game.ask_for_the_rest();
        (0..RANKS).try_for_each(|at| game.check_received(at))?;
        game.check_rest()?;
    }

    #[test]
    fn whatever_a_peer_says_is_taken_or_refused(
        letters in prop::collection::vec((0..12u16, prop::collection::vec(any::<u8>(), 0..50)), 0..60),
        zeros in any::<bool>(),
    ) {
        let mut net = Network::new(2, OPTIONS, false);
        let body = [7; 600];
        net.send(0, 1, 1, &body);
        net.receive(0, None, None, own()).unwrap();
        for (number, mut letter) in letters {
            if zeros {
                // Small numbers more often name something.
                letter.iter_mut().for_each(|byte| *byte &= 1);
            }
            match net.engines[0].arrived(1, FIRST_KIND + number, &letter) {
                Ok(()) | Err(Error::Protocol { rank: 1, .. }) => {}
                Err(error) => prop_assert!(false, "{}", error),
            }
            while net.engines[0].order().is_some() {}
            while net.engines[0].next_piece(1, PIECE) {
                while net.engines[0].order().is_some() {}
            }
        }
        net.engines[0].down(1);
        prop_assert!(net.engines[0].requests.iter_mut().all(|request| matches!(request, Request::Over(_))));
    }
}

#[test]
fn past_the_window_even_short_messages_are_only_offered_and_none_is_held_back() {
    let mut net = Network::new(2, OPTIONS, false);
    let flood: Vec<Vec<u8>> = (0..100).map(|number| message(0, number, 40)).collect();
    let sends: Vec<_> = flood.iter().map(|bytes| net.send(0, 1, 1, bytes)).collect();
    let urgent = message(0, 100, 40);
    let urgent = (net.send(0, 1, 2, &urgent), urgent);
    net.settle();
    let kept: usize = (net.engines[1].unexpected.iter())
        .map(|(_, arrival)| if let Content::Here(bytes) = &arrival.content { bytes.len() } else { 0 })
        .sum();
    assert!(kept <= OPTIONS.window, "{kept}");
    assert!(sends.iter().any(Option::is_some), "some wait for their receives");
    let receive = net.receive(1, Some(0), Some(2), own()).unwrap();
    net.settle();
    assert_eq!(
        net.outcome(1, Some(receive)).unwrap().unwrap().bytes,
        urgent.1,
        "it overtakes what has another tag"
    );
    assert!(net.outcome(0, urgent.0).unwrap().is_ok());
    for bytes in &flood {
        let receive = net.receive(1, None, None, own()).unwrap();
        net.settle();
        assert_eq!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes, *bytes);
    }
    assert!(sends.into_iter().all(|send| net.outcome(0, send).unwrap().is_ok()));
}

#[test]
fn a_pushed_message_that_nobody_expects_lands_in_the_memory_that_is_handed_over() {
    let mut net = Network::new(2, OPTIONS, false);
    let bytes = message(0, 1, 500);
    let send = net.send(0, 1, 9, &bytes);
    assert!(net.piece(0, 1) && net.deliver(0, 1) && net.deliver(0, 1));
    assert_eq!(net.engines[1].probe(Pattern { context: 0, source: None, tag: None }).unwrap().len, 500);
    net.settle();
    assert!(net.outcome(0, send).unwrap().is_ok(), "without a receive");
    let (_, arrival) = net.engines[1].unexpected.iter().next().unwrap();
    let Content::Here(landed) = &arrival.content else { panic!("it has landed") };
    let address = landed.as_ptr();
    let receive = net.receive(1, Some(0), Some(9), own()).unwrap();
    let ended = net.outcome(1, Some(receive)).unwrap().unwrap();
    assert_eq!((ended.bytes.as_ptr(), &ended.bytes), (address, &bytes));
}

#[test]
fn a_message_that_is_too_long_for_its_receive_fails_it_and_not_its_send() {
    for (large, reads) in [(Large::Auto, true), (Large::Push, false), (Large::Rendezvous, false)] {
        for len in [50, 400, 2000] {
            for is_early in [true, false] {
                let mut net = Network::new(2, Options { large, ..OPTIONS }, reads);
                let (bytes, mut room) = (message(0, 1, len), [0u8; 20]);
                // SAFETY: the room lives to the end of the test and is not used meanwhile.
                let place = || Destination::Place(unsafe { Place::new(room.as_ptr().cast_mut(), 10) });
                let early = is_early.then(|| net.receive(1, None, None, place()).unwrap());
                let send = net.send(0, 1, 0, &bytes);
                net.settle();
                let receive = early.unwrap_or_else(|| net.receive(1, None, None, place()).unwrap());
                net.settle();
                let outcome = net.outcome(1, Some(receive)).unwrap();
                assert!(
                    matches!(outcome, Err(Error::TooLong { len: theirs, room: 10 }) if theirs == len),
                    "{outcome:?}"
                );
                assert!(net.outcome(0, send).unwrap().is_ok());
                room[0] = 1;
                assert_eq!(room[10..], [0; 10], "nothing is written behind the room");
            }
        }
    }
}

#[test]
fn who_waits_for_a_rank_that_is_gone_is_told() {
    let mut net = Network::new(3, OPTIONS, false);
    let bytes = message(0, 1, 2000);
    let send = net.send(0, 1, 0, &bytes);
    let from_it = net.receive(0, Some(1), None, own()).unwrap();
    let from_any = net.receive(0, None, None, own()).unwrap();
    let from_other = net.receive(0, Some(2), None, own()).unwrap();
    net.engines[0].down(1);
    for number in [send, Some(from_it), Some(from_any)] {
        assert!(matches!(net.outcome(0, number), Some(Err(Error::Down { rank: 1, .. }))));
    }
    assert!(net.outcome(0, Some(from_other)).is_none());
    assert!(matches!(net.receive(0, Some(1), None, own()), Err(Error::Down { rank: 1, .. })));
    let later = net.receive(0, None, None, own()).unwrap();
    net.engines[0].down(1);
    assert!(
        net.outcome(0, Some(later)).is_none(),
        "others may still send, and it was posted when that was known"
    );
}

#[test]
fn who_breaks_the_protocol_is_not_listened_to_any_more() {
    let mut net = Network::new(2, OPTIONS, false);
    let bytes = message(1, 0, 30);
    net.send(1, 0, 0, &bytes);
    assert!(net.engines[0].arrived(1, FIRST_KIND, &[]).is_err());
    net.engines[0].refuse(1);
    net.settle();
    assert_eq!(net.engines[0].probe(Pattern { context: 0, source: None, tag: None }), None);
}

#[test]
fn what_a_rank_has_said_before_it_went_can_still_be_received() {
    let mut net = Network::new(2, OPTIONS, false);
    let (short, long) = (message(1, 0, 30), message(1, 1, 2000));
    net.send(1, 0, 0, &short);
    net.send(1, 0, 0, &long);
    net.settle();
    net.engines[0].down(1);
    let receive = net.receive(0, Some(1), None, own()).unwrap();
    assert_eq!(net.outcome(0, Some(receive)).unwrap().unwrap().bytes, short);
    assert!(net.receive(0, Some(1), None, own()).is_err(), "the long one has gone with it");
}

#[test]
fn where_a_memory_cannot_be_read_after_all_the_bytes_are_asked_for() {
    let mut net = Network::new(2, OPTIONS, true);
    let bytes = message(0, 1, 2000);
    let receive = net.engines[1].receive(Pattern { context: 0, source: None, tag: None }, own()).unwrap();
    let send = net.send(0, 1, 0, &bytes);
    let (kind, letter) = net.letters[0][1].pop_front().unwrap();
    assert!(matches!(Head::decode(kind, &letter), Some((Head::Offer { address, .. }, _)) if address != 0));
    net.engines[1].arrived(0, kind, &letter).unwrap();
    let Some(Order::Read(number)) = net.engines[1].order() else { panic!("a reading is ordered") };
    // SAFETY: it is said not to be done.
    unsafe { net.engines[1].was_read(number, false) };
    net.carry_out(1);
    net.settle();
    assert_eq!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes, bytes);
    assert!(net.outcome(0, send).unwrap().is_ok());
}
