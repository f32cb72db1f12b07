//! A peer that lies. It may get the job wrong data or bring it to a stop, but no rank that it talks to may
//! panic or go round in circles.

#![allow(clippy::print_stdout)]

use scash_sim::random::{self, RandomProgram};
use scash_sim::{Setup, World};

/// How a job with lies ends, by a text in the failure.
const ENDS: [&str; 11] = [
    // The node or the codec noticed.
    "broke the protocol",
    "malformed",
    // All ranks are told.
    "Mismatch",
    // The lie stood for something that will not happen, or an object that is no more.
    "never come",
    "and hears",
    "nothing can go on",
    // Wrong data, wrong rights, wrong allocations.
    "was written",
    "was told",
    "was denied",
    "rights that are not in force",
    // Where somebody lies about whose a page is, even a rank that wrote alone is taken for two.
    "a data race where there is none",
];

#[test]
fn a_lying_peer_makes_nobody_panic_and_no_job_endless() {
    let mut ends = [0; ENDS.len()];
    let mut harmless = 0;
    for seed in 0..500u32 {
        let setup = random::setup(u64::from(seed));
        let setup = Setup { size: setup.size.min(16), lies: 1 + seed % 40, ..setup };
        let Err(failure) = World::new(setup, RandomProgram::new(&setup)).run() else {
            harmless += 1;
            continue;
        };
        let line = failure.0.lines().next().unwrap_or_default();
        let end = ENDS.iter().position(|text| line.contains(text));
        ends[end.unwrap_or_else(|| panic!("a new way to end: {failure}"))] += 1;
    }
    println!("{harmless} harmless; {:?}", ENDS.iter().zip(ends).collect::<Vec<_>>());
    assert!(harmless > 0 && ends[0] > 30 && ends[1] > 30, "{harmless} harmless, {ends:?}");
}
