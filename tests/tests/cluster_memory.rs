//! What shared memory costs: nothing until it is touched, and little besides itself then.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::kinds;
use std::path::Path;

const MIB: u64 = 1 << 10;

/// Runs `footprint WHAT`, and checks that no rank says more than this, or than this and what a provider may have on its way.
fn at_most(what: &str, most_kib: u64, on_its_way: impl Fn(&str) -> u64) {
    for kind in kinds() {
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

/// Looked at between intervals, when there are no twins. TCP buffers what a peer is slow to take: up to 64 MiB a peer, some of which
/// the allocator may still hold.
#[test]
fn a_ranks_own_memory_is_small_beside_the_shared_memory_that_it_uses() {
    at_most("own", 256 * MIB * 2 / 100 + 32 * MIB, |provider| if provider == "tcp" { 64 * MIB } else { 0 });
}
