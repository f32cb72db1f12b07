//! Games: random steps of applications and of the network, and what must hold whatever they are.

use super::{ECHO, HandlerCall, KEEP, Network, OPTIONS, message, own};
use crate::blocks::{Blocks, Shape};
use crate::requests::RequestNumber;
use crate::span::ReceiveBuffer;
use crate::{Large, Options, Status};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Move {
    Send {
        from: usize,
        to: usize,
        tag: u64,
        len: usize,
        how: How,
    },
    /// The send of a rank that is that far from its first one, modulo their number.
    Withdraw(usize, usize),
    Receive {
        at: usize,
        source: Option<u32>,
        tag: Option<u64>,
    },
    /// So many blocks of a length, with a gap between them.
    Get {
        at: usize,
        from: usize,
        blocks: (usize, usize, usize),
    },
    Mark(usize, usize),
    Call {
        from: usize,
        to: usize,
        handler: u16,
        len: usize,
    },
    Run(usize),
    Deliver(usize, usize),
    Piece(usize, usize),
}

/// How a message is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// As others, and its end is asked for.
    Asked,
    Forgotten,
    /// As where the way is not free.
    Piecewise,
}

pub(super) const RANKS: usize = 3;
/// A window of each rank: where it is in registered memory, and its length.
const WINDOW: usize = 4096;
const LEN: usize = 600;

pub(super) fn step() -> impl Strategy<Value = Move> {
    let rank = || 0..RANKS;
    let len = prop_oneof![3..65usize, 65..513usize, 513..3000usize];
    let source = prop_oneof![Just(None), (0..RANKS as u32).prop_map(Some)];
    let how = prop_oneof![Just(How::Asked), Just(How::Forgotten), Just(How::Piecewise)];
    let tag = prop_oneof![Just(None), (0..3u64).prop_map(Some)];
    prop_oneof![
        3 => (rank(), rank(), 0..3u64, len, how)
            .prop_map(|(from, to, tag, len, how)| Move::Send { from, to, tag, len, how }),
        1 => (rank(), 0..100usize).prop_map(|(from, at)| Move::Withdraw(from, at)),
        3 => (rank(), source, tag).prop_map(|(at, source, tag)| Move::Receive { at, source, tag }),
        1 => (rank(), rank(), (1..9usize, 1..60usize, 0..9usize))
            .prop_map(|(at, from, blocks)| Move::Get { at, from, blocks }),
        1 => (rank(), rank()).prop_map(|(at, to)| Move::Mark(at, to)),
        2 => (rank(), rank(), KEEP..=ECHO, 3..513usize)
            .prop_map(|(from, to, handler, len)| Move::Call { from, to, handler, len }),
        1 => rank().prop_map(Move::Run),
        4 => (rank(), rank()).prop_map(|(from, to)| Move::Deliver(from, to)),
        2 => (rank(), rank()).prop_map(|(from, to)| Move::Piece(from, to)),
    ]
}

struct Sent {
    to: usize,
    tag: u64,
    bytes: Vec<u8>,
    request: Option<RequestNumber>,
    /// It was tried to take it back,
    is_unwanted: bool,
    /// and that was not too late.
    is_withdrawn: bool,
}

struct Receive {
    source: Option<u32>,
    tag: Option<u64>,
    request: RequestNumber,
}

impl Receive {
    fn fits(&self, source: u32, tag: u64) -> bool {
        self.source.is_none_or(|mine| mine == source) && self.tag.is_none_or(|mine| mine == tag)
    }
}

struct Get {
    from: usize,
    shape: Shape,
    into: Vec<u8>,
    request: RequestNumber,
}

/// A game and what is known of it.
pub(super) struct Game {
    pub(super) net: Network,
    windows: Vec<Vec<u8>>,
    gets: Vec<Vec<Get>>,
    marks: Vec<(usize, RequestNumber)>,
    /// Active messages sent by ranks: to whom, and which.
    calls: Vec<Vec<(usize, HandlerCall)>>,
    sent: Vec<Vec<Sent>>,
    receives: Vec<Vec<Receive>>,
}

pub(super) type Verdict = std::result::Result<(), TestCaseError>;

impl Game {
    pub(super) fn new(large: Large, reads: bool, is_near: bool) -> Self {
        let hosts: Vec<u32> = (0..RANKS as u32).map(|rank| if is_near { 0 } else { rank }).collect();
        let mut net = Network::on(&hosts, false, Options { large, ..OPTIONS }, reads);
        let windows: Vec<_> = (0..RANKS).map(|rank| message(rank, 0, LEN)).collect();
        for (engine, window) in net.engines.iter_mut().zip(&windows) {
            // SAFETY: the window lives as long as the game, and is only read.
            engine.open_window(WINDOW, unsafe { ReceiveBuffer::new(window.as_ptr().cast_mut(), LEN) });
        }
        Game {
            net,
            windows,
            gets: (0..RANKS).map(|_| Vec::new()).collect(),
            marks: Vec::new(),
            calls: (0..RANKS).map(|_| Vec::new()).collect(),
            sent: (0..RANKS).map(|_| Vec::new()).collect(),
            receives: (0..RANKS).map(|_| Vec::new()).collect(),
        }
    }

    pub(super) fn take(&mut self, step: Move) {
        match step {
            Move::Send { from, to, tag, len, how } => {
                let bytes = message(from, self.sent[from].len(), len);
                let request = match how {
                    How::Forgotten => {
                        self.net.engines[from].send_and_forget(to as u32, 0, tag, bytes.clone()).unwrap();
                        self.net.carry_out(from);
                        None
                    }
                    How::Piecewise if self.net.engines[from].pushes(to as u32, len) => {
                        self.net.send_piecewise(from, to, tag, &bytes)
                    }
                    How::Asked | How::Piecewise => self.net.send(from, to, tag, &bytes),
                };
                self.sent[from].push(Sent {
                    to,
                    tag,
                    bytes,
                    request,
                    is_unwanted: false,
                    is_withdrawn: false,
                });
            }
            Move::Withdraw(from, at) => {
                let at = at % self.sent[from].len().max(1);
                let Some(Sent { request: Some(request), is_unwanted, .. }) = self.sent[from].get_mut(at)
                else {
                    return;
                };
                *is_unwanted |= self.net.engines[from].withdraw(*request);
                self.net.carry_out(from);
            }
            Move::Receive { at, source, tag } => {
                let request = self.net.receive(at, source, tag, own()).unwrap();
                self.receives[at].push(Receive { source, tag, request });
            }
            Move::Get { at, from, blocks: (count, len, gap) } => {
                let shape = Shape::new(count, len, len + gap).unwrap();
                let mut into = vec![0; shape.total()];
                let whole = Shape::new(1, into.len(), 0).unwrap();
                // SAFETY: the memory stays where it is to the end of the game.
                let room = unsafe { Blocks::new(into.as_mut_ptr(), whole) };
                let offset = (WINDOW + LEN - shape.span()) as u64;
                let request = self.net.engines[at].get(from as u32, offset, shape, room).unwrap();
                self.net.carry_out(at);
                self.gets[at].push(Get { from, shape, into, request });
            }
            Move::Mark(at, to) => {
                self.net.engines[at].has_put(to as u32);
                self.marks.push((at, self.net.engines[at].mark(to as u32).unwrap()));
                self.net.carry_out(at);
            }
            Move::Call { from, to, handler, len } => {
                let bytes = message(from, self.calls[from].len(), len);
                if self.net.call(from, to, handler, &bytes).unwrap() {
                    self.calls[from].push((to, HandlerCall { from: from as u32, handler, bytes }));
                }
            }
            Move::Run(at) => _ = self.net.run(at),
            Move::Deliver(from, to) => _ = self.net.deliver(from, to),
            Move::Piece(from, to) => _ = self.net.piece(from, to),
        }
        let held = self.net.engines.iter().flat_map(|engine| &engine.peers).map(|peer| peer.held.bytes());
        assert!(held.max() <= Some(OPTIONS.held), "what waits to leave is bounded");
    }

    /// Number of messages to a rank that were not taken back.
    fn sent_to(&self, at: usize) -> usize {
        self.sent.iter().flatten().filter(|sent| sent.to == at && !sent.is_withdrawn).count()
    }

    /// Finds out which sends were taken back: after the network has settled, that is decided of all.
    fn learn_withdrawn(&mut self) {
        for (from, sent) in self.sent.iter_mut().enumerate() {
            for sent in sent.iter_mut().filter(|sent| sent.is_unwanted) {
                let Some(request) = sent.request else { continue };
                sent.is_withdrawn = self.net.engines[from].was_withdrawn(request).unwrap();
            }
        }
    }

    /// What nobody has asked for yet is asked for now.
    fn ask_for_the_rest(&mut self) {
        self.net.settle();
        self.learn_withdrawn();
        for at in 0..RANKS {
            (0..self.sent_to(at)).for_each(|_| self.take(Move::Receive { at, source: None, tag: None }));
        }
        self.net.settle();
    }

    /// All that was begun comes to its end, as it must.
    pub(super) fn check_all(&mut self) -> Verdict {
        self.ask_for_the_rest();
        (0..RANKS).try_for_each(|at| self.check_received(at))?;
        self.check_one_sided()?;
        self.check_active()?;
        self.check_rest()
    }

    /// Each message to `at` was received once, by a receive that it fits, whole and in order; other receives
    /// can be taken back.
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
            prop_assert!(!message.is_withdrawn);
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

    /// All gets have brought what is in the windows, and all marks are answered.
    fn check_one_sided(&mut self) -> Verdict {
        for (at, gets) in self.gets.iter().enumerate() {
            for Get { from, shape, into, request } in gets {
                prop_assert!(matches!(self.net.outcome(at, Some(*request)), Some(Ok(_))));
                let window = &self.windows[*from][LEN - shape.span()..];
                let runs = shape.runs(0, usize::MAX).flat_map(|(at, len)| &window[at..at + len]);
                prop_assert!(runs.eq(into));
            }
        }
        for (at, mark) in std::mem::take(&mut self.marks) {
            prop_assert!(matches!(self.net.outcome(at, Some(mark)), Some(Ok(_))));
        }
        for (at, to) in (0..RANKS).flat_map(|at| (0..RANKS).map(move |to| (at, to))) {
            prop_assert!(self.net.engines[at].forgotten.is_empty());
            let Some(mark) = self.net.engines[at].fence(to as u32) else { continue };
            self.net.carry_out(at);
            self.net.settle();
            prop_assert!(matches!(self.net.outcome(at, mark.ok()), Some(Ok(_))));
            prop_assert!(self.net.engines[at].fence(to as u32).is_none());
        }
        Ok(())
    }

    /// Each active message was handled once, in the order they were sent, and so were the echoes that were
    /// not refused.
    fn check_active(&self) -> Verdict {
        for (from, to) in (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to))) {
            let handled = self.net.handled[to].iter().filter(|call| call.from as usize == from);
            let is_echo = |call: &&HandlerCall| call.handler == KEEP && self.was_sent_as(call) == ECHO;
            let (echoes, direct): (Vec<&HandlerCall>, Vec<&HandlerCall>) = handled.partition(is_echo);
            let sent = |from: usize, to: usize| {
                self.calls[from].iter().filter(move |&&(theirs, _)| theirs == to).map(|(_, call)| call)
            };
            prop_assert!(direct.into_iter().eq(sent(from, to)));
            let is_refused = |bytes: &&Vec<u8>| {
                self.net.refused[from].iter().any(|(theirs, refused)| (*theirs, refused) == (to, *bytes))
            };
            let asked = sent(to, from).filter(|call| call.handler == ECHO).map(|call| &call.bytes);
            let echoed = asked.filter(|bytes| !is_refused(bytes));
            prop_assert!(echoes.into_iter().map(|call| &call.bytes).eq(echoed));
        }
        Ok(())
    }

    /// For which handler an active message was sent that is known by its bytes.
    fn was_sent_as(&self, call: &HandlerCall) -> u16 {
        let [rank, low, high] = [0, 1, 2].map(|at| usize::from(call.bytes[at]));
        self.calls[rank][low | high << 8].1.handler
    }

    /// All sends are over, and the engines have forgotten everything.
    fn check_rest(&mut self) -> Verdict {
        for (from, sent) in self.sent.iter().enumerate() {
            for sent in sent.iter().filter(|sent| !sent.is_withdrawn) {
                prop_assert!(
                    matches!(self.net.outcome(from, sent.request), Some(Ok(_))),
                    "all sends are over"
                );
            }
        }
        for engine in &mut self.net.engines {
            prop_assert!(
                engine.landings.is_empty()
                    && engine.offers.is_empty()
                    && engine.unexpected.len() == 0
                    && engine.expected.len() == 0
            );
            prop_assert!(engine.requests.iter_mut().next().is_none());
        }
        for (from, to) in (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to))) {
            let (here, there) = (&self.net.engines[from].peers[to], &self.net.engines[to].peers[from]);
            prop_assert!(here.held.is_empty());
            for (here, there) in [(&here.messages, &there.messages), (&here.calls, &there.calls)] {
                prop_assert_eq!(here.credit + there.debt, OPTIONS.window, "what is lent is owed");
                prop_assert!(there.debt < OPTIONS.window / 2, "what was received is given back");
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 400 }))]

    #[test]
    fn every_message_is_received_once_whole_and_in_order_and_every_get_brings_what_it_asks_for(
        steps in prop::collection::vec(step(), 0..250),
        large in prop_oneof![Just(Large::Auto), Just(Large::Get), Just(Large::Push), Just(Large::Rendezvous)],
        reads in any::<bool>(),
        is_near in any::<bool>(),
    ) {
        let mut game = Game::new(large, reads, is_near);
        steps.into_iter().for_each(|step| game.take(step));
        game.check_all()?;
    }
}
