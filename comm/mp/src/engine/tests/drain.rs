//! Games in which messages are drained at random moments, and engines come back.

use super::game::{Game, Move, RANKS, step};
use crate::Large;
use crate::engine::{Found, ReadAccess};
use proptest::prelude::*;

/// All ranks drain, in some order; with `reborn` the engines then find new processes about them.
fn checkpoint(game: &mut Game, first: usize, reborn: bool) {
    let net = &mut game.net;
    for at in (0..RANKS).map(|at| (at + first) % RANKS) {
        // Those that come later still make progress on what comes of the first ones.
        (0..RANKS).for_each(|from| while from == first && at != first && net.deliver(from, at) {});
        net.engines[at].begin_drain();
        net.carry_out(at);
    }
    for to in 0..RANKS {
        (0..RANKS).for_each(|from| while net.take(from, to) {});
        assert!(net.engines[to].ends_drain(), "all have said that nothing more comes");
    }
    assert!(net.letters.iter().flatten().all(std::collections::VecDeque::is_empty), "nothing is on its way");
    assert!(net.engines.iter_mut().all(|engine| engine.hindrance().is_none()));
    let reach = [ReadAccess { all: false, registered: false }; RANKS];
    for at in (0..RANKS).filter(|_| reborn) {
        let groups = net.groups[at].clone();
        net.engines[at].reborn(Found { reads: &reach, readable: &reach, registered: 0..0, groups });
    }
    // The checkpoint is over everywhere.
    (0..RANKS).for_each(|at| net.carry_out(at));
}

#[derive(Clone, Debug)]
enum Step {
    Plays(Move),
    Checkpoint(usize, bool),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => step().prop_map(Step::Plays),
        1 => (0..RANKS, any::<bool>()).prop_map(|(first, reborn)| Step::Checkpoint(first, reborn)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 400 }))]

    #[test]
    fn messages_that_are_drained_at_any_moment_come_once(
        steps in prop::collection::vec(steps(), 0..250),
        large in prop_oneof![Just(Large::Auto), Just(Large::Get), Just(Large::Push), Just(Large::Rendezvous)],
        is_near in any::<bool>(),
    ) {
        let mut game = Game::new(large, false, is_near);
        for step in steps {
            match step {
                Step::Plays(step) => game.take(step),
                Step::Checkpoint(first, reborn) => checkpoint(&mut game, first, reborn),
            }
        }
        game.check_all()?;
    }
}
