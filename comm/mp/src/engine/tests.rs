//! Engines on a network in memory: pairs keep their order, and everything else happens when it likes.

// Ranks, and numbers of messages, are small.
#![allow(clippy::cast_possible_truncation)]

mod active;
mod alike;
mod collectives;
mod delivery;
mod drain;
mod game;
mod meetings;
mod mortal;
mod parts;
mod reads;
mod silence;
mod withdrawals;

use super::account::COST;
use super::{Content, Engine, HandlerCall, Order, ReadAccess, Reading, SILENT_TICKS};
use crate::barrier::Groups;
use crate::matching::Pattern;
use crate::requests::{Completion, Destination, Outcome, Request, RequestNumber};
use crate::span::{ReceiveBuffer, Source};
use crate::wire::{FIRST_KIND, MessageHead};
use crate::{Large, Options};
use delivery::arrive_in_parts;
use proptest::prelude::*;
use scash_comm::{Error, Mark, Result};
use std::collections::VecDeque;
use std::time::Duration;

const OPTIONS: Options = Options {
    eager: 64,
    push: 512,
    large: Large::Auto,
    window: 1536,
    registered: 0,
    held: 1024,
    calibrate: false,
    silence: Duration::ZERO,
    stall: Duration::ZERO,
};
const PIECE: usize = 100;
/// Bytes of a long message that are read at a time.
const READ_PIECE: usize = 1 << 20;

/// What is on its way from one rank to another.
type Letter = (u16, Vec<u8>);
/// The kind of the letter that is the last one of a rank: the news that it is gone.
const GONE: u16 = 0;

/// What became of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lives,
    /// It does nothing, its memory can be read, and nothing tells.
    Stopped,
    Dead,
}

struct Network {
    engines: Vec<Engine>,
    /// `letters[from][to]`
    letters: Vec<Vec<VecDeque<Letter>>>,
    /// Active messages that were handled, by rank.
    handled: Vec<Vec<HandlerCall>>,
    /// What each has posted, and who shares memory with whom.
    posted: Vec<[u64; 2]>,
    groups: Vec<Groups>,
    /// What handlers were not allowed to send, by rank: to whom, and the bytes.
    refused: Vec<Vec<(usize, Vec<u8>)>>,
    fates: Vec<Fate>,
}

/// A handler that does nothing, and one that sends what it gets to the first.
const KEEP: u16 = 0;
const ECHO: u16 = 1;

impl Network {
    /// Among `n` ranks, which can read each other's memory or not.
    fn new(n: usize, options: Options, reads: bool) -> Self {
        let apart: Vec<u32> = (0..n as u32).collect();
        Self::on(&apart, false, options, reads)
    }

    /// Of ranks that share boards with those of the same host, and compete for cores with others or not.
    fn on(hosts: &[u32], share_cores: bool, options: Options, reads: bool) -> Self {
        let n = hosts.len();
        let groups: Vec<Groups> = (0..n).map(|rank| Groups::on(hosts, rank as u32, share_cores)).collect();
        let reach = vec![ReadAccess { all: reads, registered: false }; n];
        let engine = |rank: usize| {
            let mut engine = Engine::new(rank as u32, options, &reach, &reach, 0..0, groups[rank].clone());
            assert!(engine.set_handler(KEEP, true) && engine.set_handler(ECHO, true));
            engine
        };
        Network {
            engines: (0..n).map(engine).collect(),
            letters: (0..n).map(|_| vec![VecDeque::new(); n]).collect(),
            handled: (0..n).map(|_| Vec::new()).collect(),
            posted: vec![[0; 2]; n],
            groups,
            refused: (0..n).map(|_| Vec::new()).collect(),
            fates: vec![Fate::Lives; n],
        }
    }

    fn send(&mut self, from: usize, to: usize, tag: u64, body: &[u8]) -> Option<RequestNumber> {
        // SAFETY: tests keep what they send to their end.
        let source = unsafe { Source::new(body.as_ptr(), body.len()) };
        let number = self.engines[from].send(to as u32, 0, tag, source, false).unwrap();
        self.carry_out(from);
        number
    }

    /// The same where the way there is not free.
    fn send_piecewise(&mut self, from: usize, to: usize, tag: u64, body: &[u8]) -> Option<RequestNumber> {
        // SAFETY: tests keep what they send to their end.
        let source = unsafe { Source::new(body.as_ptr(), body.len()) };
        let number = self.engines[from].send_piecewise(to as u32, 0, tag, source, false).unwrap();
        self.carry_out(from);
        Some(number)
    }

    /// Sends an active message; `false`: too much waits to leave.
    fn call(&mut self, from: usize, to: usize, handler: u16, body: &[u8]) -> Result<bool> {
        // SAFETY: the orders are carried out below.
        let source = unsafe { Source::new(body.as_ptr(), body.len()) };
        let sent = self.engines[from].active(to as u32, handler, source);
        self.carry_out(from);
        match sent {
            Ok(()) => Ok(true),
            Err(Error::Full { rank, .. }) if rank as usize == to => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A rank dies. Of what it has said to each other one, so many letters arrive, and then the news.
    fn kill(&mut self, rank: usize, arrive: &[usize]) {
        self.fates[rank] = Fate::Dead;
        self.letters.iter_mut().for_each(|letters| letters[rank].clear());
        for (letters, arrive) in self.letters[rank].iter_mut().zip(arrive) {
            letters.truncate(arrive % (letters.len() + 1));
            letters.push_back((GONE, Vec::new()));
        }
    }

    /// A tick at each living rank. What is lost is given up.
    fn tick(&mut self) {
        for at in 0..self.engines.len() {
            if self.fates[at] == Fate::Lives {
                for lost in self.engines[at].tick(|_| None) {
                    self.engines[at].down(lost);
                }
                self.carry_out(at);
            }
        }
    }

    /// Until nothing moves any more, and nobody is waited for in vain.
    fn settle_for_long(&mut self) {
        for _ in 0..SILENT_TICKS + 3 {
            self.settle();
            self.tick();
        }
        self.settle();
    }

    /// The next handler of a rank runs; whether there was one.
    fn run(&mut self, at: usize) -> bool {
        if self.fates[at] != Fate::Lives {
            return false;
        }
        let call = self.engines[at].next_call();
        if let Some(call) = &call {
            let from = call.from as usize;
            // Who is gone gets no answer.
            if call.handler == ECHO && matches!(self.call(at, from, KEEP, &call.bytes), Ok(false)) {
                self.refused[at].push((from, call.bytes.clone()));
            }
            let HandlerCall { from, handler, bytes } = call;
            self.handled[at].push(HandlerCall { from: *from, handler: *handler, bytes: bytes.clone() });
        }
        let ran = call.is_some();
        call.into_iter().for_each(|call| self.engines[at].was_called(call));
        self.carry_out(at);
        ran
    }

    fn receive(
        &mut self,
        at: usize,
        source: Option<u32>,
        tag: Option<u64>,
        into: Destination,
    ) -> Result<RequestNumber> {
        let number = self.engines[at].receive(Pattern { context: 0, source, tag }, into);
        self.carry_out(at);
        number
    }

    fn carry_out(&mut self, at: usize) {
        loop {
            self.carry_out_orders(at);
            self.engines[at].advance();
            if !self.engines[at].has_orders() {
                return;
            }
        }
    }

    /// A rank looks at what those have posted that it shares memory with, and goes on.
    fn look_at_board(&mut self, at: usize) {
        loop {
            self.carry_out(at);
            for mark in Mark::ALL {
                let mine = self.groups[at].mine().iter();
                let mut posted = mine.map(|&rank| self.posted[rank as usize][mark as usize]);
                let reached = if mark == Mark::Arrived { posted.min() } else { posted.next() };
                self.engines[at].saw(mark, reached.unwrap());
            }
            self.engines[at].advance();
            if !self.engines[at].has_orders() {
                return;
            }
        }
    }

    fn carry_out_orders(&mut self, at: usize) {
        while let Some(order) = self.engines[at].order() {
            match order {
                Order::Send { to, head, body } => {
                    let letter = (head.kind, [head.bytes(), body.bytes()].concat());
                    if self.fates[to as usize] != Fate::Dead {
                        self.letters[at][to as usize].push_back(letter);
                    }
                }
                Order::Post(mark, count) => {
                    let word = &mut self.posted[at][mark as usize];
                    assert!(*word < count, "words count up");
                    *word = count;
                }
                Order::Drop(bytes) => drop(bytes),
                Order::Read(receive) => self.read(at, receive),
            }
        }
    }

    /// Reads the rest of a message.
    fn read(&mut self, at: usize, receive: RequestNumber) {
        if let Some(reading) = self.engines[at].reading(receive) {
            self.read_there(at, receive, reading);
        }
    }

    /// Reads a piece of a long message, as a helper does; whether there was one.
    fn read_aside(&mut self, at: usize) -> bool {
        let Some((receive, reading)) = self.engines[at].claim(READ_PIECE) else { return false };
        self.read_there(at, receive, reading);
        self.carry_out(at);
        true
    }

    fn read_there(&mut self, at: usize, receive: RequestNumber, reading: Reading) {
        let len = reading.place.len();
        if self.fates[reading.from as usize] == Fate::Dead {
            // SAFETY: nothing is said to be done.
            return unsafe { self.engines[at].was_read(receive, None) };
        }
        let theirs: *const u8 = std::ptr::with_exposed_provenance(usize::try_from(reading.address).unwrap());
        // SAFETY: ranks of these tests live in one process; the address is of what one of them sends.
        unsafe { std::ptr::copy_nonoverlapping(theirs, reading.place.start(), len) };
        // SAFETY: the copy has filled the place.
        unsafe { self.engines[at].was_read(receive, Some(len)) };
    }

    fn piece(&mut self, from: usize, to: usize) -> bool {
        let moved =
            self.fates[from] == Fate::Lives && self.engines[from].next_piece(to as u32, PIECE).is_some();
        self.carry_out(from);
        moved
    }

    /// Until nothing moves any more.
    fn settle(&mut self) {
        let n = self.engines.len();
        let pairs: Vec<_> = (0..n).flat_map(|from| (0..n).map(move |to| (from, to))).collect();
        let step = |net: &mut Self, &(from, to): &(usize, usize)| {
            net.deliver(from, to) | net.piece(from, to) | net.run(to) | net.read_aside(to)
        };
        while pairs.iter().fold(false, |any, pair| step(self, pair) | any) {}
    }

    fn outcome(&mut self, at: usize, number: Option<RequestNumber>) -> Option<Outcome> {
        match number {
            None => Some(Ok(Completion::default())),
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
    let body: Vec<u8> = (0..256).map(|i: usize| (i * 7 + number) as u8).collect();
    let mut all = [&name[..], &body.repeat(len.div_ceil(body.len()))].concat();
    all.truncate(len.max(name.len()));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 400 }))]

    #[test]
    fn whatever_a_peer_says_is_taken_or_refused(
        letters in prop::collection::vec((0..23u16, prop::collection::vec(any::<u8>(), 0..50)), 0..60),
        zeros in any::<bool>(),
    ) {
        let mut net = Network::new(2, OPTIONS, false);
        let body = [7; 600];
        // SAFETY: the body lives to the end of the test, and is only read.
        net.engines[0].open_window(0, unsafe { ReceiveBuffer::new(body.as_ptr().cast_mut(), body.len()) });
        net.send(0, 1, 1, &body);
        let unwanted = vec![7; 2000];
        let unwanted = net.send(0, 1, 1, &unwanted).unwrap();
        prop_assert!(net.engines[0].withdraw(unwanted));
        net.receive(0, None, None, own()).unwrap();
        for (number, mut letter) in letters {
            if zeros {
                // Small numbers more often name something.
                letter.iter_mut().for_each(|byte| *byte &= 1);
            }
            let kind = FIRST_KIND + number;
            for arrived in [
                arrive_in_parts(&mut net.engines[0], 1, (kind, &letter), &body[..usize::from(number)]),
                net.engines[0].arrived(1, kind, &letter),
            ] {
                match arrived {
                    Ok(()) | Err(Error::Protocol { rank: 1, .. }) => {}
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
            while let Some(call) = net.engines[0].next_call() {
                prop_assert!(call.handler == KEEP || call.handler == ECHO);
                net.engines[0].was_called(call);
            }
            while net.engines[0].order().is_some() {}
            while net.engines[0].next_piece(1, PIECE).is_some() {
                while net.engines[0].order().is_some() {}
            }
        }
        net.engines[0].down(1);
        let is_over = |request: &mut Request| matches!(request, Request::Over(_) | Request::Withdrawn);
        prop_assert!(net.engines[0].requests.iter_mut().all(is_over));
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
fn what_travels_through_shared_memory_is_pushed_though_it_could_be_read_unless_it_is_longer_than_that() {
    for (large, len, is_pushed) in
        [(Large::Auto, 400, true), (Large::Auto, 600, false), (Large::Get, 400, false)]
    {
        let mut net = Network::on(&[0, 0, 1], false, Options { large, ..OPTIONS }, true);
        let bytes = message(0, 0, len);
        let mut pushed = |to: usize| {
            net.send(0, to, 0, &bytes);
            let (kind, letter) = net.letters[0][to].pop_front().unwrap();
            matches!(MessageHead::decode(kind, &letter), Some((MessageHead::Push { .. }, _)))
        };
        assert_eq!([pushed(1), pushed(2)], [is_pushed, false], "{large:?}, {len} bytes");
    }
}

#[test]
fn a_short_message_whose_way_is_not_free_waits_for_no_receive_whatever_could_be_read() {
    for (hosts, reads) in [([0, 0], true), ([0, 1], true), ([0, 1], false)] {
        let mut net = Network::on(&hosts, false, OPTIONS, reads);
        let bytes = message(0, 0, OPTIONS.eager);
        assert!(net.engines[0].pushes(1, bytes.len()));
        let send = net.send_piecewise(0, 1, 0, &bytes);
        net.settle();
        assert!(net.outcome(0, send).unwrap().is_ok(), "{hosts:?}, {reads}");
    }
}

#[test]
fn what_is_to_be_got_and_cannot_be_read_is_asked_for() {
    for (large, is_pushed) in [(Large::Auto, true), (Large::Get, false), (Large::Rendezvous, false)] {
        let mut net = Network::new(2, Options { large, ..OPTIONS }, false);
        let bytes = message(0, 0, 400);
        net.send(0, 1, 0, &bytes);
        let (kind, letter) = net.letters[0][1].pop_front().unwrap();
        let pushed = matches!(MessageHead::decode(kind, &letter), Some((MessageHead::Push { .. }, _)));
        assert_eq!(pushed, is_pushed, "{large:?}");
    }
}

#[test]
fn a_message_that_is_too_long_for_its_receive_fails_it_and_not_its_send() {
    for (large, reads) in [(Large::Auto, true), (Large::Push, false), (Large::Rendezvous, false)] {
        for len in [11, 50, 400, 2000] {
            for is_early in [true, false] {
                let mut net = Network::new(2, Options { large, ..OPTIONS }, reads);
                let (bytes, mut room) = (message(0, 1, len), [0u8; 20]);
                // SAFETY: the room lives to the end of the test and is not used meanwhile.
                let place = || Destination::Room(unsafe { ReceiveBuffer::new(room.as_ptr().cast_mut(), 10) });
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
    assert!(
        matches!(MessageHead::decode(kind, &letter), Some((MessageHead::Offer { address, .. }, _)) if address != 0)
    );
    net.engines[1].arrived(0, kind, &letter).unwrap();
    let Some(Order::Read(number)) = net.engines[1].order() else { panic!("a reading is ordered") };
    // SAFETY: it is said not to be done.
    unsafe { net.engines[1].was_read(number, None) };
    net.carry_out(1);
    net.settle();
    assert_eq!(net.outcome(1, Some(receive)).unwrap().unwrap().bytes, bytes);
    assert!(net.outcome(0, send).unwrap().is_ok());
}

#[test]
fn two_offers_under_one_number_break_the_protocol() {
    let mut net = Network::new(2, OPTIONS, false);
    let mut offers = |tag: u64| {
        let head = MessageHead::Offer { context: 0, tag, len: 600, send: 1 << 32, address: 0, waits: false }
            .encode();
        net.engines[0].arrived(1, head.kind, head.bytes())
    };
    assert!(offers(1).is_ok());
    assert!(matches!(offers(2), Err(Error::Protocol { rank: 1, .. })));
}
