//! The protocol under a seeded simulator. `SCASH_SEED=n cargo test -p scash-tests --test simulation -- one_seed` runs one seed, and `SCASH_TRACE=1` tells
//! all its steps.

use scash_tests::sim::random::{self, RandomProgram};
use scash_tests::sim::report::Report;
use scash_tests::sim::{Failure, World};

fn run(seed: u64, trace: bool) -> Result<Report, Failure> {
    let setup = scash_tests::sim::Setup { trace, ..random::setup(seed) };
    World::new(setup, RandomProgram::new(&setup)).run()
}

#[test]
fn one_seed() {
    let seed = std::env::var("SCASH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let trace = std::env::var("SCASH_TRACE").is_ok();
    if let Err(failure) = run(seed, trace) {
        panic!("{failure}");
    }
}

#[test]
fn many_seeds() {
    let mut failures = 0;
    let start = std::time::Instant::now();
    for seed in 0..1000 {
        if let Err(failure) = run(seed, false) {
            failures += 1;
            if failures < 4 {
                println!("{failure}");
            } else {
                println!("{}", failure.0.lines().next().unwrap());
            }
            if failures > 30 { break; }
        }
    }
    println!("{:?}", start.elapsed());
    assert_eq!(failures, 0);
}
