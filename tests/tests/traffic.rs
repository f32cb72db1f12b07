//! What programs cost, in the simulator and with one seed: the same figures on every machine, held to those
//! in `snapshots/traffic.txt` and `snapshots/hosts.txt`.

use scash_proto::PAGE_SIZE;
use scash_proto::node::MIGRATE_AFTER;
use scash_sim::program::Script;
use scash_sim::{Setup, World};
use scash_tests::patterns::{ALL, Pattern, REGION};
use scash_tests::snapshot::Table;
use std::path::Path;

const COLUMNS: [&str; 5] = ["messages", "bytes", "faults", "fetched", "put"];

const COMMENT: &str =
    "What programs cost (tests/src/patterns), at all ranks together, from their beginning to their end.
messages: of the protocol; fetched: pages that were read from other ranks' memory; put: bytes of pages
that were put into it; bytes: of all three; faults: reads and writes that needed work.
Written by: SCASH_SNAPSHOT=write cargo test -p scash-tests --test traffic";

/// A job with frames of its own, and otherwise the settings that a user has who set none
/// (`scash/src/runtime/start.rs`).
fn setup(provider: &str, ranks: u32) -> Setup {
    let direct = provider == "shm";
    Setup {
        seed: 1,
        puts_at_once: direct,
        fetch_first: if direct { 1 } else { 8 },
        fetch_most: 32,
        migrate_after: MIGRATE_AFTER,
        renewals: if direct { 15 } else { 3 },
        bring: !direct,
        ahead: if direct { 0 } else { 32 },
        watch_from: 64,
        ..Setup::new(ranks, REGION)
    }
}

fn cost(pattern: &Pattern, provider: &str, ranks: u32) -> Vec<u64> {
    cost_of(pattern.name, setup(provider, ranks), (pattern.script)(ranks))
}

fn cost_of(name: &str, setup: Setup, script: Script) -> Vec<u64> {
    let report = World::new(setup, script.into_program()).run();
    let report = report.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    let sum = |of: fn(&scash_sim::report::Traffic) -> u64| -> u64 {
        report.periods.iter().map(|period| of(&period.traffic)).sum()
    };
    let (fetched, put) = (sum(|t| t.gets), sum(|t| t.puts));
    let bytes = sum(|t| t.message_bytes) + sum(|t| t.put_bytes) + fetched * PAGE_SIZE as u64;
    let counters = report.counters();
    vec![sum(|t| t.messages()), bytes, counters.read_faults + counters.write_faults, fetched, put]
}

fn measured() -> Table {
    let mut rows = Vec::new();
    for (provider, ranks) in [("shm", 4), ("shm", 16), ("tcp", 4)] {
        for pattern in &ALL {
            let name = format!("{} {provider} {ranks}", pattern.name);
            rows.push((name, cost(pattern, provider, ranks)));
        }
    }
    Table { columns: COLUMNS.map(str::to_owned).to_vec(), rows }
}

#[test]
fn programs_cost_what_the_snapshot_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/traffic.txt");
    let outcome = measured().compare(&path, COMMENT, "cargo test -p scash-tests --test traffic");
    outcome.unwrap_or_else(|differences| panic!("{differences}"));
}

#[test]
fn a_program_costs_the_same_each_time() {
    for pattern in &ALL {
        let costs = [(); 2].map(|()| cost(pattern, "shm", 4));
        assert_eq!(costs[0], costs[1], "{}", pattern.name);
    }
}

const HOSTS: &str = "What leaves a host in jobs of two hosts of 2 and of 4 ranks (\"2x2 ranks\"), each rank with frames of its own,
and what would leave it if the ranks of a host shared frames, as threads of one rank do (\"2x2 threads\").
Columns as in traffic.txt; faults are all.
Written by: SCASH_SNAPSHOT=write cargo test -p scash-tests --test traffic";

#[test]
fn what_frames_per_host_would_save_between_hosts_is_what_the_snapshot_says() {
    let mut rows = Vec::new();
    for a_host in [2, 4] {
        for pattern in &ALL {
            let (name, ranks) = (pattern.name, 2 * a_host);
            let today = Setup { ranks_a_host: a_host, ..setup("tcp", ranks) };
            rows.push((format!("{name} 2x{a_host} ranks"), cost_of(name, today, (pattern.script)(ranks))));
            let shared = (pattern.script)(ranks).on_threads(a_host);
            rows.push((format!("{name} 2x{a_host} threads"), cost_of(name, setup("tcp", 2), shared)));
        }
    }
    let table = Table { columns: COLUMNS.map(str::to_owned).to_vec(), rows };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/hosts.txt");
    let outcome = table.compare(&path, HOSTS, "cargo test -p scash-tests --test traffic");
    outcome.unwrap_or_else(|differences| panic!("{differences}"));
}
