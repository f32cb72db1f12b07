//! What shared memory costs: nothing until it is touched, and little besides itself then.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::{all_kinds, kinds};
use std::path::Path;

const MIB: u64 = 1 << 10;

/// Runs `footprint WHAT`, and checks that no rank says more than this, or than this and what a provider may
/// have on its way.
fn at_most(what: &str, most_kib: u64, on_its_way: impl Fn(&str) -> u64) {
    for kind in all_kinds() {
        let ended = kind.job(2).run(Path::new(env!("CARGO_BIN_EXE_footprint")), &[what]);
        ended.succeeded();
        let most_kib = most_kib + on_its_way(kind.provider);
        for line in ended.lines(2) {
            let kib: u64 = line.parse().unwrap();
            eprintln!("{what}, {kind:?}: {kib} KiB");
            assert!(kib <= most_kib, "more than {most_kib} KiB: {ended}");
        }
    }
}

#[test]
fn half_of_the_default_region_can_be_allocated_and_costs_what_is_touched() {
    at_most("sparse", 64 * MIB, |_| 0);
}

/// A tenth of what the rank works on. The limit may be passed by what one fetch brings.
#[test]
fn cached_pages_beyond_the_limit_go_back_to_the_system_and_the_results_are_right() {
    for kind in kinds() {
        for eviction in ["fifo", "sieve"] {
            let job = kind.job(2).env("SCASH_CACHE", "3M").env("SCASH_EVICTION", eviction);
            let ended = job.run(Path::new(env!("CARGO_BIN_EXE_footprint")), &["cached"]);
            ended.succeeded();
            let most: u64 = ended.lines(2).iter().map(|line| line.parse().unwrap()).max().unwrap();
            assert!((1 << 10..=3 * MIB + 256).contains(&most), "{kind:?}, {eviction}: {ended}");
        }
    }
}

/// Something kept of each would be more: the state of 9,000 locks, or their values, of which the region has
/// room for 16 at a time.
#[test]
fn what_is_made_and_destroyed_ten_thousand_times_takes_no_memory() {
    for kind in all_kinds() {
        let job = kind.job(2).env("SCASH_REGION", "64K");
        let ended = job.run(Path::new(env!("CARGO_BIN_EXE_footprint")), &["objects"]);
        ended.succeeded();
        for line in ended.lines(2) {
            let kib: u64 = line.parse().unwrap();
            eprintln!("objects, {kind:?}: {kib} KiB more");
            assert!(kib <= 256, "something is kept: {ended}");
        }
    }
}

/// Looked at between intervals, when there are no twins. TCP buffers what a peer is slow to take: up to 64
/// MiB a peer, some of which the allocator may still hold.
#[test]
fn a_ranks_own_memory_is_small_beside_the_shared_memory_that_it_uses() {
    at_most("own", 256 * MIB * 2 / 100 + 32 * MIB, |provider| if provider == "tcp" { 64 * MIB } else { 0 });
}
