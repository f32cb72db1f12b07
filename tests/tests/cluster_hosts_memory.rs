//! What checkpoints take of memory beside the program's, on several hosts (`scash status` says it).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::{Hosts, run_beside, scash};
use std::path::Path;
use std::time::{Duration, Instant};

/// Of a rank, in MiB: what it has at home, what is its own, and what it writes of either from one checkpoint
/// to the next.
const SHARED: u64 = 16;
const PRIVATE: u64 = 32;
const WRITTEN: u64 = 4;
/// What a rank has besides: the program's data, its heap and stacks, and what a store writes about pages.
const BESIDES: u64 = 5;

/// The newest epoch, and by host what checkpoints take there, in MiB.
fn status(front: i32) -> (u64, Vec<u64>) {
    let text = scash(&["status", &front.to_string()]).out;
    let behind = |words: &'static str| {
        text.match_indices(words).filter_map(|(at, _)| {
            let digits = text[at + words.len()..].split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        })
    };
    (behind("epoch ").next().unwrap_or(0), behind("checkpoints take ").collect())
}

#[test]
fn checkpoints_take_twice_what_ranks_have_and_what_one_of_them_writes() {
    let Some(hosts) = Hosts::new(2) else { return };
    let job = hosts.job("10.77.0.1,10.77.0.2").options("--replicas 1 --checkpoint every=2");
    let sizes = [SHARED, PRIVATE, WRITTEN / 2].map(|size| size.to_string());
    let end = hosts.file("end").display().to_string();
    let arguments = [&end, &sizes[0], &sizes[1], &sizes[2]].map(String::as_str);
    let mut most = [0; 2];
    let command = job.command(Path::new(env!("CARGO_BIN_EXE_hoard")), &arguments);
    let ended = run_beside(command, |front| {
        let started = Instant::now();
        // All parts have been written several times then.
        while status(front).0 < 60 {
            assert!(started.elapsed() < Duration::from_secs(120), "{:?}", status(front));
            for (most, now) in most.iter_mut().zip(status(front).1) {
                *most = now.max(*most);
            }
        }
        hosts.let_end();
    });
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(ended.out.matches("[true, true]").count(), 2, "{ended}");
    // A rank's own store and the other one's copy: each has all of a rank once, and of what is written from
    // one checkpoint to the next both states (shared and private memory, each WRITTEN).
    let bound = 2 * (SHARED + PRIVATE + 2 * WRITTEN + BESIDES);
    eprintln!("checkpoints take {most:?} MiB, at most {bound}");
    assert!(most.iter().all(|most| (2 * (SHARED + PRIVATE)..=bound).contains(most)), "{most:?} MiB");
}
