//! Every measurement of message passing runs, over each provider and over MPI, and what it prints can be
//! read. How long anything takes is not looked at.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod command;

use command::{run, text};
use scash_bench::namespaces::Namespaces;
use scash_bench::record::{Record, parse};
use scash_messages::rival::Rival;

const PROGRAM: &str = env!("CARGO_BIN_EXE_scash-comm-bench");

/// The records that a measurement prints.
fn measured(ranks: u32, provider: &str, words: &str) -> Vec<Record> {
    parse(&text(&format!("run -n {ranks} --provider {provider} {PROGRAM} {words} --json"), &[])).unwrap()
}

#[test]
fn every_measurement_has_the_figures_that_were_asked_for() {
    for (ranks, words, lines, names) in [
        (2, "transfer --lengths 8,5k,300k", 3, &["latency_us", "rate_mb_s", "both_ways_mb_s"][..]),
        (2, "transfer --lengths 0", 1, &["latency_us"]),
        (2, "sockets --lengths 8,300k", 2, &["latency_us", "rate_mb_s", "both_ways_mb_s"]),
        (2, "get --lengths 8,4k --count 5", 2, &["get_us", "bare_us"]),
        (3, "barrier --length 5", 1, &["barrier_us"]),
        (3, "all-to-all --lengths 8,70k", 2, &["all_to_all_us", "rate_mb_s"]),
        (2, "random --count 20", 1, &["messages_s"]),
        (2, "random --count 2 --most 0", 1, &["messages_s"]),
        (2, "all-to-all --lengths 0", 1, &["all_to_all_us"]),
        (2, "matching --posted 3,50 --length 4", 2, &["latency_us", "reverse_us"]),
        (2, "overlap --length 200k", 1, &["transfer_us", "sender_times", "receiver_times", "both_times"]),
    ] {
        for provider in ["shm", "tcp"] {
            let records = measured(ranks, provider, &format!("{words} --rounds 2"));
            assert_eq!(records.len(), lines, "{words}: {records:?}");
            for record in records {
                assert_eq!((record.ranks, record.provider.as_deref()), (ranks as usize, Some(provider)));
                for name in names {
                    let figure = record.figures.get(*name);
                    assert!(figure.is_some_and(|f| f.is_finite() && *f > 0.0), "{words}, {name}: {record:?}");
                }
            }
        }
    }
    assert_eq!(measured(4, "shm", "hello").len(), 1);
    assert!(measured(4, "shm", "memory")[0].figures["resident_bytes"] > 4096.0);
}

#[test]
fn every_protocol_carries_messages_of_every_length() {
    for protocol in [
        "default",
        "registered",
        "eager",
        "push",
        "rendezvous",
        "get",
        "registered-get",
        "eager-push",
        "eager-rendezvous",
    ] {
        for provider in ["shm", "tcp"] {
            let words = format!("transfer --protocol {protocol} --lengths 0,1,4097,2M --rounds 1");
            assert_eq!(measured(2, provider, &words).len(), 4, "{protocol} over {provider}");
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_would_help() {
    for (arguments, hint) in [
        (format!("run -n 3 {PROGRAM} transfer"), "between two ranks, and there are 3"),
        (format!("run -n 2 {PROGRAM} transfer --over smoke"), "`scash`, or `mpi:`"),
        (format!("run -n 2 {PROGRAM} transfer --over mpi:/nowhere.so"), "/nowhere.so"),
        (format!("run -n 2 {PROGRAM} transfer --lengths 1.5G"), "a size such as"),
        (format!("run -n 2 {PROGRAM} matching --posted 40000"), "40000"),
        ("bench comm --on nowhere".to_owned(), "nowhere"),
    ] {
        let output = run(&arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(hint), "{arguments}: {said}");
    }
}

/// The first line that begins with these words has a number in every column, but for these.
fn assert_full(text: &str, words: &str, dashes: usize) {
    let line = text.lines().find(|line| line.trim_start().starts_with(words));
    let found = line.map(|line| line.split_whitespace().filter(|word| *word == "-").count());
    assert_eq!(found, Some(dashes), "{words}:\n{text}");
}

#[test]
fn tables_have_all_their_lines() {
    let text = text("bench comm --quick --on shm,tcp", &[]);
    for protocol in [
        "eager",
        "push (active zero copy)",
        "rendezvous",
        "get",
        "get, registered",
        "default",
        "a bare connection",
    ] {
        assert_full(&text, &format!("{protocol}  "), 0);
    }
    for (words, dashes) in [
        ("8 bytes one way, µs", 0),
        // There is no bare connection within shm.
        ("8 bytes one way, × bare", 1),
        ("barrier, 2 ranks", 0),
        ("random sizes, not posted", 0),
        ("behind 10,000 posted", 0),
        ("memory a rank", 0),
        ("get of 4 KiB", 0),
        ("put of 4 KiB", 0),
        ("8 ranks, from `scash run`", 0),
    ] {
        assert_full(&text, words, dashes);
    }
}

#[test]
fn messages_between_two_hosts_are_measured() {
    if let Err(why) = Namespaces::new(2) {
        eprintln!("skipped: messages between two hosts: {why}");
        return;
    }
    let text = text("bench comm --quick --on hosts", &[]);
    for words in
        ["eager", "a bare connection", "get of 4 KiB", "barrier, 2 ranks", "8 ranks, from `scash run`"]
    {
        assert_full(&text, words, 0);
    }
}

/// Libraries that are installed are measured, and others named. Only over shared memory: over TCP MPICH's
/// ranks, where they outnumber cores, take a time slice for each message, and now and then never end.
#[test]
fn mpi_libraries_are_compared_with_over_shared_memory() {
    let text = text("bench comm --compare --quick --on shm", &[]);
    let missing = Rival::ALL.into_iter().filter_map(Rival::missing).inspect(|why| {
        eprintln!("skipped: a comparison with {why}");
        assert!(text.contains(&format!("Not compared: {why}")), "{text}");
    });
    let dashes = if missing.count() == Rival::ALL.len() { 1 } else { 0 };
    for words in ["8 bytes one way", "1 MiB from registered memory", "barrier, 8 ranks", "behind 10,000"] {
        assert_full(&text, words, dashes);
    }
}
