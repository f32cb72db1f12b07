//! Games in which a rank dies or is stopped, at any moment of any operations: all operations of the others
//! end, well or with an error that names it, and nothing is left of them.

use super::collectives::{KINDS, Played};
use super::{ECHO, Fate, HandlerCall, KEEP, Network, OPTIONS, SILENT_TICKS, message, own};
use crate::blocks::{Blocks, Shape};
use crate::matching::Pattern;
use crate::requests::{Outcome, RequestNumber};
use crate::span::{ReceiveBuffer, Source};
use crate::wire::MessageHead;
use crate::{Large, Options};
use proptest::prelude::*;
use scash_comm::{Error, Result};

const RANKS: usize = 4;
/// A window of each rank: where it is in registered memory, and its length.
const WINDOW: usize = 4096;
const LEN: usize = 600;

#[derive(Clone, Debug)]
enum Move {
    Send {
        from: usize,
        to: usize,
        tag: u64,
        len: usize,
        forgets: bool,
    },
    /// The operation of a rank that is that far from its first one, modulo their number.
    TakeBack(usize, usize),
    Receive {
        at: usize,
        source: Option<u32>,
        tag: Option<u64>,
    },
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
    /// A rank begins its next collective operation.
    Collect(usize),
    Run(usize),
    Deliver(usize, usize),
    Piece(usize, usize),
    Tick,
}

fn step() -> impl Strategy<Value = Move> {
    let rank = || 0..RANKS;
    let len = prop_oneof![3..65usize, 65..513usize, 513..3000usize];
    let source = prop_oneof![Just(None), (0..RANKS as u32).prop_map(Some)];
    let tag = prop_oneof![Just(None), (0..3u64).prop_map(Some)];
    prop_oneof![
        4 => (rank(), rank(), 0..3u64, len, any::<bool>())
            .prop_map(|(from, to, tag, len, forgets)| Move::Send { from, to, tag, len, forgets }),
        1 => (rank(), 0..100usize).prop_map(|(from, at)| Move::TakeBack(from, at)),
        4 => (rank(), source, tag).prop_map(|(at, source, tag)| Move::Receive { at, source, tag }),
        1 => (rank(), rank(), (1..9usize, 1..60usize, 0..9usize))
            .prop_map(|(at, from, blocks)| Move::Get { at, from, blocks }),
        1 => (rank(), rank()).prop_map(|(at, to)| Move::Mark(at, to)),
        2 => (rank(), rank(), KEEP..=ECHO, 3..513usize)
            .prop_map(|(from, to, handler, len)| Move::Call { from, to, handler, len }),
        3 => rank().prop_map(Move::Collect),
        1 => rank().prop_map(Move::Run),
        12 => (rank(), rank()).prop_map(|(from, to)| Move::Deliver(from, to)),
        4 => (rank(), rank()).prop_map(|(from, to)| Move::Piece(from, to)),
        1 => Just(Move::Tick),
    ]
}

/// How a rank goes: when, which one, whether it is only stopped, and how many of its letters to each other
/// one arrive otherwise.
#[derive(Clone, Debug)]
struct End {
    when: usize,
    victim: usize,
    is_stopped: bool,
    arrive: Vec<usize>,
}

fn end() -> impl Strategy<Value = End> {
    (0..200usize, 0..RANKS, any::<bool>(), prop::collection::vec(0..9usize, RANKS))
        .prop_map(|(when, victim, is_stopped, arrive)| End { when, victim, is_stopped, arrive })
}

enum What {
    /// The number of the message.
    Send {
        to: usize,
        number: usize,
    },
    Receive {
        source: Option<u32>,
    },
    Get {
        from: usize,
        shape: Shape,
        into: Vec<u8>,
    },
    Mark {
        to: usize,
    },
    Collective {
        played: Played,
        _input: Vec<u64>,
        output: Vec<u64>,
    },
}

/// An operation of a rank. What it works on lies in vectors that stay.
struct Operation {
    what: What,
    request: Option<RequestNumber>,
    /// Why it could not be begun, or what came of it.
    outcome: Option<Outcome>,
    is_withdrawn: bool,
}

struct Game {
    net: Network,
    windows: Vec<Vec<u8>>,
    operations: Vec<Vec<Operation>>,
    /// Messages by sender: to whom, and which bytes.
    sent: Vec<Vec<(usize, Vec<u8>)>>,
    calls: Vec<Vec<(usize, Vec<u8>)>>,
    kinds: Vec<usize>,
    begun: [usize; RANKS],
    ticks: u32,
    victim: usize,
}

type Verdict = std::result::Result<(), TestCaseError>;

impl Game {
    fn new(large: Large, reads: bool, kinds: Vec<usize>, victim: usize) -> Self {
        let mut net = Network::new(RANKS, Options { large, ..OPTIONS }, reads);
        let windows: Vec<_> = (0..RANKS).map(|rank| message(rank, 0, LEN)).collect();
        for (engine, window) in net.engines.iter_mut().zip(&windows) {
            // SAFETY: the window lives as long as the game, and is only read.
            engine.open_window(WINDOW, unsafe { ReceiveBuffer::new(window.as_ptr().cast_mut(), LEN) });
        }
        let operations = (0..RANKS).map(|_| Vec::new()).collect();
        let (sent, calls) = (vec![Vec::new(); RANKS], vec![Vec::new(); RANKS]);
        Game { net, windows, operations, sent, calls, kinds, begun: [0; RANKS], ticks: 0, victim }
    }

    fn lives(&self, rank: usize) -> bool {
        self.net.fates[rank] == Fate::Lives
    }

    fn survivors(&self) -> impl Iterator<Item = usize> + use<> {
        let victim = self.victim;
        (0..RANKS).filter(move |&rank| rank != victim)
    }

    fn note(&mut self, at: usize, what: What, begun: Result<Option<RequestNumber>>) {
        self.net.carry_out(at);
        let (request, outcome) = match begun {
            Ok(request) => (request, request.is_none().then(|| Ok(Default::default()))),
            Err(error) => (None, Some(Err(error))),
        };
        self.operations[at].push(Operation { what, request, outcome, is_withdrawn: false });
    }

    fn take(&mut self, step: Move) {
        match step {
            Move::Deliver(from, to) => _ = self.net.deliver(from, to),
            Move::Piece(from, to) => _ = self.net.piece(from, to),
            Move::Run(at) => _ = self.net.run(at),
            // The network may be slow, but not so slow that ranks are taken for gone.
            Move::Tick if self.ticks < SILENT_TICKS => {
                self.ticks += 1;
                self.net.tick();
            }
            Move::Tick => {}
            Move::Send { from: at, .. }
            | Move::TakeBack(at, _)
            | Move::Receive { at, .. }
            | Move::Get { at, .. }
            | Move::Mark(at, _)
            | Move::Call { from: at, .. }
            | Move::Collect(at) => {
                if self.lives(at) {
                    self.act(step);
                }
            }
        }
    }

    fn act(&mut self, step: Move) {
        match step {
            Move::Send { from, to, tag, len, forgets } => self.send(from, to, tag, len, forgets),
            Move::TakeBack(at, number) => self.take_back(at, number),
            Move::Receive { at, source, tag } => {
                let begun = self.net.receive(at, source, tag, own());
                self.note(at, What::Receive { source }, begun.map(Some));
            }
            Move::Get { at, from, blocks: (count, len, gap) } => {
                let shape = Shape::new(count, len, len + gap).unwrap();
                let mut into = vec![0; shape.total()];
                let whole = Shape::new(1, into.len(), 0).unwrap();
                // SAFETY: the memory stays where it is to the end of the game.
                let room = unsafe { Blocks::new(into.as_mut_ptr(), whole) };
                let offset = (WINDOW + LEN - shape.span()) as u64;
                let begun = self.net.engines[at].get(from as u32, offset, shape, room);
                self.note(at, What::Get { from, shape, into }, begun.map(Some));
            }
            Move::Mark(at, to) => {
                self.net.engines[at].has_put(to as u32);
                let begun = self.net.engines[at].mark(to as u32);
                self.note(at, What::Mark { to }, begun.map(Some));
            }
            Move::Call { from, to, handler, len } => {
                let bytes = message(from, self.calls[from].len(), len);
                // It may be refused, because too much waits to leave or the other one is gone.
                if matches!(self.net.call(from, to, handler, &bytes), Ok(true)) {
                    self.calls[from].push((to, bytes));
                }
            }
            Move::Collect(at) => self.collect(at),
            Move::Run(_) | Move::Deliver(..) | Move::Piece(..) | Move::Tick => {}
        }
    }

    fn send(&mut self, from: usize, to: usize, tag: u64, len: usize, forgets: bool) {
        let number = self.sent[from].len();
        let bytes = message(from, number, len);
        // SAFETY: the vector lives to the end of the game, though it is moved.
        let source = unsafe { Source::new(bytes.as_ptr(), bytes.len()) };
        let engine = &mut self.net.engines[from];
        let begun = if forgets {
            engine.send_and_forget(to as u32, 0, tag, bytes.clone()).map(|()| None)
        } else {
            engine.send(to as u32, 0, tag, source, len.is_multiple_of(2))
        };
        self.sent[from].push((to, bytes));
        self.note(from, What::Send { to, number }, begun);
    }

    fn take_back(&mut self, at: usize, number: usize) {
        let count = self.operations[at].len().max(1);
        let Some(operation) = self.operations[at].get_mut(number % count) else { return };
        let (Some(request), None) = (operation.request, &operation.outcome) else { return };
        if self.net.engines[at].cancel(request) {
            operation.outcome = Some(Ok(Default::default()));
        } else if self.net.engines[at].withdraw(request) {
            operation.is_withdrawn = true;
        }
        self.net.carry_out(at);
    }

    /// Whether a collective operation of a rank has failed: then it begins no other one.
    fn has_failed(&mut self, at: usize) -> bool {
        self.operations[at].iter_mut().any(|operation| {
            if let (What::Collective { .. }, None, Some(request)) =
                (&operation.what, &operation.outcome, operation.request)
            {
                operation.outcome = self.net.engines[at].outcome(request);
            }
            matches!((&operation.what, &operation.outcome), (What::Collective { .. }, Some(Err(_))))
        })
    }

    fn collect(&mut self, at: usize) {
        if self.has_failed(at) {
            return;
        }
        let number = self.begun[at];
        let Some(&kind) = self.kinds.get(number) else { return };
        self.begun[at] += 1;
        let played = Played { number, kind, n: RANKS };
        let (input, mut output) = played.begin(at);
        // SAFETY: both vectors live to the end of the game, though they are moved.
        let source = unsafe { Source::new(input.as_ptr().cast(), 8 * input.len()) };
        // SAFETY: as above, and the output is not used meanwhile.
        let place = unsafe { ReceiveBuffer::new(output.as_mut_ptr().cast(), 8 * output.len()) };
        let request = self.net.engines[at].start(&played.collective(), source, place).unwrap();
        self.note(at, What::Collective { played, _input: input, output }, Ok(Some(request)));
    }

    /// Survivors do what they owe each other: the collective operations that others have begun, and receives
    /// of what was sent.
    fn finish(&mut self) {
        let most = self.begun.into_iter().max().unwrap_or(0);
        let mut any = true;
        while any {
            any = false;
            for at in self.survivors() {
                if self.begun[at] < most && !self.has_failed(at) {
                    self.collect(at);
                    any = true;
                }
            }
            self.net.settle_for_long();
        }
        let any = Pattern { context: 0, source: None, tag: None };
        for at in self.survivors() {
            while self.net.engines[at].probe(any).is_some() {
                self.act(Move::Receive { at, source: None, tag: None });
                self.net.settle_for_long();
            }
        }
        for at in self.survivors() {
            for operation in &mut self.operations[at] {
                let Some(request) = operation.request.filter(|_| operation.outcome.is_none()) else {
                    continue;
                };
                if operation.is_withdrawn {
                    let was_withdrawn = self.net.engines[at].was_withdrawn(request);
                    operation.is_withdrawn = was_withdrawn == Some(true);
                    if operation.is_withdrawn {
                        operation.outcome = Some(Ok(Default::default()));
                        continue;
                    }
                }
                operation.outcome = self.net.engines[at].outcome(request);
            }
        }
    }

    /// All operations are over, and none has failed but because of the victim.
    fn check_outcomes(&mut self) -> Verdict {
        for at in self.survivors() {
            for operation in &self.operations[at] {
                let awaits = match operation.what {
                    What::Send { to, .. } | What::Mark { to } => Some(to),
                    What::Get { from, .. } => Some(from),
                    What::Receive { source } => source.map(|source| source as usize),
                    What::Collective { .. } => None,
                };
                match (&operation.outcome, &operation.what) {
                    (Some(Ok(_)), What::Get { from, shape, into }) => {
                        let window = &self.windows[*from][LEN - shape.span()..];
                        let runs = shape.runs(0, usize::MAX).flat_map(|(at, len)| &window[at..at + len]);
                        prop_assert!(runs.eq(into));
                    }
                    (Some(Ok(_)), What::Collective { played, output, .. }) => {
                        prop_assert_eq!(&played.end(at), output, "{:?} at {}", played, at);
                    }
                    (Some(Ok(_)), _) => {}
                    (Some(Err(Error::Down { rank, .. })), _) => {
                        prop_assert_eq!(*rank as usize, self.victim);
                        prop_assert!(awaits.is_none_or(|rank| rank == self.victim), "it was not concerned");
                    }
                    (Some(Err(error)), _) => prop_assert!(false, "{}", error),
                    // What comes from others, or from any of them, may still come.
                    (None, What::Receive { source }) => {
                        prop_assert_ne!(source.map(|source| source as usize), Some(self.victim));
                        let request = operation.request.unwrap();
                        prop_assert!(self.net.engines[at].cancel(request));
                    }
                    (None, _) => prop_assert!(false, "it never ends at {}: waits for {:?}", at, awaits),
                }
            }
        }
        Ok(())
    }

    /// What survivors have sent each other was received once, and whole.
    fn check_messages(&self) -> Verdict {
        for at in self.survivors() {
            let mut got: Vec<(usize, usize)> = Vec::new();
            for operation in &self.operations[at] {
                let (What::Receive { .. }, Some(Ok(ended))) = (&operation.what, &operation.outcome) else {
                    continue;
                };
                // Taken back: it has brought nothing.
                let [from, low, high, ..] = ended.bytes[..] else { continue };
                let (from, number) = (usize::from(from), usize::from(low) | usize::from(high) << 8);
                prop_assert_eq!((at, &ended.bytes), (self.sent[from][number].0, &self.sent[from][number].1));
                got.push((from, number));
            }
            got.sort_unstable();
            let mut expected = Vec::new();
            for from in self.survivors() {
                for operation in &self.operations[from] {
                    if let What::Send { to, number } = operation.what
                        && to == at
                        && !operation.is_withdrawn
                    {
                        expected.push((from, number));
                    }
                }
            }
            expected.sort_unstable();
            got.retain(|&(from, _)| from != self.victim);
            prop_assert_eq!(got, expected, "all messages to {} are received, each once", at);
        }
        Ok(())
    }

    /// Active messages between survivors were handled once, in their order.
    fn check_active(&self) -> Verdict {
        for (from, to) in self.pairs() {
            let is_his =
                |call: &&HandlerCall| call.from as usize == from && usize::from(call.bytes[0]) == from;
            let handled = self.net.handled[to].iter().filter(is_his).map(|call| &call.bytes);
            let sent = self.calls[from].iter().filter(|(theirs, _)| *theirs == to).map(|(_, bytes)| bytes);
            prop_assert!(handled.eq(sent));
        }
        Ok(())
    }

    /// Different survivors.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let all: Vec<usize> = self.survivors().collect();
        let others = all.clone();
        all.into_iter()
            .flat_map(move |from| others.clone().into_iter().map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
    }

    /// Survivors' engines have forgotten everything.
    fn check_rest(&mut self) -> Verdict {
        for at in self.survivors() {
            let engine = &mut self.net.engines[at];
            prop_assert!(engine.running.is_empty() && !engine.has_orders());
            prop_assert_eq!(engine.expected.len(), 0);
            // Of a rank that is stopped, and that nobody has waited for here, a push may be under way for
            // ever.
            let victim = self.victim;
            let is_given_up = engine.peers[victim].is_gone;
            prop_assert!(engine.landings.keys().all(|key| key.0 as usize == victim && !is_given_up));
            prop_assert_eq!(engine.unexpected.len(), 0);
            prop_assert!(engine.forgotten.is_empty() && engine.busy == 0);
            prop_assert!(engine.requests.iter_mut().next().is_none());
            prop_assert!(engine.peers.iter().all(|peer| peer.held.is_empty() && peer.leaving.is_empty()));
        }
        for (from, to) in self.pairs() {
            let (here, there) = (&self.net.engines[from].peers[to], &self.net.engines[to].peers[from]);
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
    fn when_a_rank_dies_or_is_stopped_all_operations_of_the_others_end_and_nothing_is_left_of_them(
        steps in prop::collection::vec(step(), 0..250),
        end in end(),
        kinds in prop::collection::vec(0..KINDS, 0..8),
        large in prop_oneof![Just(Large::Auto), Just(Large::Get), Just(Large::Push), Just(Large::Rendezvous)],
        reads in any::<bool>(),
    ) {
        let mut game = Game::new(large, reads, kinds, end.victim);
        let when = end.when % (steps.len() + 1);
        for (number, step) in steps.into_iter().enumerate() {
            if number == when {
                game.go(&end);
            }
            game.take(step);
        }
        game.go(&end);
        game.finish();
        game.check_outcomes()?;
        game.check_messages()?;
        game.check_active()?;
        game.check_rest()?;
    }
}

impl Game {
    /// The victim goes, if it has not gone.
    fn go(&mut self, end: &End) {
        match end.is_stopped {
            _ if !self.lives(end.victim) => {}
            true => self.net.fates[end.victim] = Fate::Stopped,
            false => self.net.kill(end.victim, &end.arrive),
        }
    }
}

#[test]
fn an_operation_does_not_fail_because_of_a_rank_that_does_not_exist() {
    for culprit in [2, 3, u64::MAX] {
        let mut net = Network::new(2, OPTIONS, false);
        let head = MessageHead::Abort { operation: 0, culprit }.encode();
        let taken = net.engines[0].arrived(1, head.kind, head.bytes());
        assert!(matches!(taken, Err(Error::Protocol { rank: 1, .. })), "rank {culprit} of 2: {taken:?}");
    }
}
