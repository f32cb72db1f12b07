//! Barriers of ranks of which some share memory: random steps, and what must hold whatever they are.

use super::{Network, OPTIONS};
use crate::Options;
use crate::collective::Collective;
use crate::requests::{Destination, RequestNumber};
use crate::span::ReceiveBuffer;
use proptest::prelude::*;
use scash_comm::Error;

#[derive(Clone, Debug)]
enum Move {
    Begin(usize),
    Look(usize),
    Deliver(usize, usize),
    /// A rank hears that another one is gone.
    Tell(usize, usize),
}

const RANKS: usize = 6;
const MEETINGS: usize = 4;

fn step() -> impl Strategy<Value = Move> {
    let rank = || 0..RANKS;
    prop_oneof![
        2 => rank().prop_map(Move::Begin),
        3 => rank().prop_map(Move::Look),
        3 => (rank(), rank()).prop_map(|(from, to)| Move::Deliver(from, to)),
        1 => (rank(), rank()).prop_map(|(at, gone)| Move::Tell(at, gone)),
    ]
}

struct Game {
    net: Network,
    begun: Vec<Vec<RequestNumber>>,
    /// What came of each.
    over: Vec<Vec<Option<Result<(), u32>>>>,
    /// The rank that dies, after so many barriers have begun there.
    dies: Option<(usize, usize)>,
    /// Whether those who have heard that it is gone begin no more.
    quit: bool,
    has_heard: [bool; RANKS],
}

impl Game {
    fn new(hosts: &[u32], share_cores: bool, dies: Option<(usize, usize)>, quit: bool) -> Self {
        let net = Network::on(hosts, share_cores, OPTIONS, false);
        let (begun, over) = (vec![Vec::new(); RANKS], vec![Vec::new(); RANKS]);
        Self { net, begun, over, dies, quit, has_heard: [false; RANKS] }
    }

    fn may_begin(&self, at: usize) -> bool {
        self.begun[at].len() < MEETINGS && !self.is_dead(at) && !(self.quit && self.has_heard[at])
    }

    fn is_dead(&self, at: usize) -> bool {
        self.dies.is_some_and(|(rank, after)| rank == at && self.begun[at].len() >= after)
    }

    fn take(&mut self, step: &Move) {
        match *step {
            Move::Begin(at) if self.may_begin(at) => {
                // SAFETY: there are no bytes.
                let nothing = unsafe { ReceiveBuffer::new(std::ptr::dangling_mut(), 0) };
                let number =
                    self.net.engines[at].start(&Collective::Barrier, nothing.source(), nothing).unwrap();
                self.begun[at].push(number);
                self.over[at].push(None);
                self.settle(at);
            }
            Move::Deliver(from, to) if !self.is_dead(to) => {
                self.net.deliver(from, to);
                self.settle(to);
            }
            Move::Look(at) if !self.is_dead(at) => self.settle(at),
            Move::Tell(at, gone) if !self.is_dead(at) && self.is_dead(gone) && at != gone => {
                self.net.engines[at].down(gone as u32);
                self.has_heard[at] = true;
                self.settle(at);
            }
            _ => {}
        }
    }

    /// As the driver does.
    fn settle(&mut self, at: usize) {
        self.net.look_at_board(at);
        for (number, over) in self.begun[at].iter().zip(&mut self.over[at]).filter(|(_, over)| over.is_none())
        {
            *over = self.net.engines[at].outcome(*number).map(|outcome| match outcome {
                Ok(_) => Ok(()),
                Err(Error::Down { rank, .. }) => Err(rank),
                Err(error) => panic!("{error}"),
            });
        }
    }

    /// Nobody is through with a meeting that a rank has not begun.
    fn check(&self) -> Result<(), TestCaseError> {
        for (at, meeting) in
            (0..RANKS).flat_map(|at| (0..self.over[at].len()).map(move |meeting| (at, meeting)))
        {
            let all_have_come = self.begun.iter().all(|begun| begun.len() > meeting);
            prop_assert!(
                self.over[at][meeting] != Some(Ok(())) || all_have_come,
                "{at} left meeting {meeting} alone"
            );
        }
        Ok(())
    }

    /// All begin what they have not yet, and everything arrives.
    fn finish(&mut self) {
        let pairs = || (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to)));
        for _ in 0..4 * MEETINGS * RANKS {
            (0..RANKS).for_each(|at| self.take(&Move::Begin(at)));
            pairs().for_each(|(from, to)| self.take(&Move::Deliver(from, to)));
            pairs().for_each(|(at, gone)| self.take(&Move::Tell(at, gone)));
            (0..RANKS).for_each(|at| self.take(&Move::Look(at)));
        }
    }
}

/// The messages of the earlier one wait for credit, and those of the later one do not.
#[test]
fn a_meeting_that_is_over_behind_a_later_one_takes_nothing_back() {
    let net = Network::on(&[0, 0, 1, 1, 1, 1], false, Options { window: 128, ..OPTIONS }, false);
    let mut game = Game { net, ..Game::new(&[0; RANKS], false, None, false) };
    for _ in 0..2 {
        game.net.send(0, 2, 7, &[]);
        game.net.deliver(0, 2);
    }
    for at in [1, 3, 4, 5, 2].into_iter().flat_map(|at| [at, at]) {
        game.take(&Move::Begin(at));
    }
    let into = Destination::Own(Vec::new());
    game.net.receive(2, Some(0), Some(7), into).unwrap();
    game.take(&Move::Begin(0));
    while !game.net.letters[2][0].is_empty() {
        game.take(&Move::Deliver(2, 0));
    }
    game.take(&Move::Begin(0));
    for _ in 0..20 {
        game.take(&Move::Deliver(0, 2));
    }
    for _ in 0..20 {
        game.take(&Move::Deliver(2, 0));
    }
    game.finish();
    assert!(game.over.iter().all(|over| over[..2] == [Some(Ok(())); 2]), "{:?}", game.over);
}

fn hosts() -> impl Strategy<Value = Vec<u32>> {
    let apart = (0..).take(RANKS).collect();
    prop_oneof![Just(vec![0; RANKS]), Just(apart), prop::collection::vec(0..3u32, RANKS)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 600 }))]

    #[test]
    fn nobody_is_through_with_a_meeting_before_all_have_come_and_then_all_are(
        hosts in hosts(),
        share_cores in any::<bool>(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut game = Game::new(&hosts, share_cores, None, false);
        for step in &steps {
            game.take(step);
            game.check()?;
        }
        game.finish();
        prop_assert!(game.over.iter().all(|over| *over == [Some(Ok(())); MEETINGS]), "{:?}", game.over);
        prop_assert!(game.net.engines.iter_mut().all(|engine| engine.requests.iter_mut().next().is_none()));
    }

    #[test]
    fn if_a_rank_dies_each_meeting_ends_with_its_name_or_well(
        hosts in hosts(),
        share_cores in any::<bool>(),
        steps in prop::collection::vec(step(), 0..200),
        dies in (0..RANKS, 0..MEETINGS),
        quit in any::<bool>(),
    ) {
        let mut game = Game::new(&hosts, share_cores, Some(dies), quit);
        for step in &steps {
            game.take(step);
            game.check()?;
        }
        game.finish();
        let (dead, after) = dies;
        for at in (0..RANKS).filter(|&at| at != dead) {
            prop_assert!(quit || game.over[at].len() == MEETINGS);
            for (meeting, over) in game.over[at].iter().enumerate() {
                let is_told = *over == Some(Err(dead as u32));
                prop_assert!(is_told || meeting < after && *over == Some(Ok(())), "{}: {:?}", meeting, over);
            }
        }
    }
}
