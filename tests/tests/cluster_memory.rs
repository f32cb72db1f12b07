//! What shared memory costs: nothing until it is touched, and little besides itself then.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::kinds;
use std::path::Path;

/// Runs `footprint WHAT`, and checks that no rank says more than this.
fn at_most(what: &str, most_kib: u64) {
    for kind in kinds() {
        let ended = kind.job(2).run(Path::new(env!("CARGO_BIN_EXE_footprint")), &[what]);
        ended.succeeded();
        for line in ended.lines(2) {
            let kib: u64 = line.parse().unwrap();
            eprintln!("{what}, {kind:?}: {kib} KiB");
            assert!(kib <= most_kib, "more than {most_kib} KiB: {ended}");
        }
    }
}

#[test]
fn half_of_the_default_region_can_be_allocated_and_costs_what_is_touched() {
    at_most("sparse", 64 << 10);
}

#[test]
fn a_ranks_own_memory_is_small_beside_the_shared_memory_that_it_uses() {
    at_most("own", (256 << 10) * 2 / 100 + (32 << 10));
}
