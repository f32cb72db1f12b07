//! The search for data races under the simulator: programs without any are run with it by `simulation.rs`;
//! here each has one.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_proto::races::Race;
use scash_sim::random::{self, RandomProgram};
use scash_sim::{Setup, World};

/// Programs that are run.
const SEEDS: u64 = 1_500;

/// Orders are not torn: what a home writes between the look at its frame and a put is not seen (a limit of
/// the search).
fn setup(seed: u64) -> Option<Setup> {
    let setup = Setup { races: true, racy: true, tears: 0, ..random::setup(seed) };
    (setup.size > 1).then_some(setup)
}

#[test]
fn a_planted_race_is_found_with_both_ranks_and_the_byte_and_nothing_else_is() {
    let asked = std::env::var("SCASH_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = asked.map_or(0..SEEDS, |seed| seed..seed + 1);
    let mut wrong = Vec::new();
    for setup in seeds.filter_map(setup) {
        let (program, planted) = RandomProgram::racy(&setup);
        let setup = Setup { trace: asked.is_some(), ..setup };
        let report = World::new(setup, program).run().unwrap_or_else(|e| panic!("{e}"));
        let is_it = |(interval, race): &(u32, Race)| {
            (*interval, race.page, race.offset, race.len)
                == (planted.interval, planted.page, planted.offset, 1)
                && race.writers.each_ref().map(|writer| writer.rank) == planted.ranks
        };
        if report.races.len() != 1 || !report.races.iter().all(is_it) {
            wrong.push(format!("seed {}: {planted:?}, found {:?}", setup.seed, report.races));
        }
    }
    assert!(wrong.is_empty(), "{} seeds\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}
