//! The job's secret is nowhere in the memory of a rank that has joined.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../join/tests/processes/mod.rs"]
mod processes;

use processes::{LIMIT, Rank, command, start};
use scash_comm::Secret;
use scash_join::boot::{Exit, HostRelay, LauncherRelay, Layout, Settings, vars};
use scash_mp::{Options, World};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const NAME: &str = "a_rank_that_has_joined_has_the_jobs_secret_nowhere_in_its_memory";
/// What a rank has in its memory for sure: it is in its environment.
const MARK: &str = "a-word-to-be-found-that-nobody-else-has";

#[test]
fn a_rank_that_has_joined_has_the_jobs_secret_nowhere_in_its_memory() {
    if std::env::var_os(vars::RANK).is_some() {
        return rank();
    }
    for (provider, encrypt) in [("tcp", "off"), ("tcp", "on"), ("shm", "off")] {
        let secret = Secret::random().unwrap();
        let layout = Layout::new(&[2]).unwrap();
        let settings = Settings { threads: 1, provider: provider.to_owned() };
        let mut launcher_relay = LauncherRelay::new(layout.clone());
        let mut host_relay = HostRelay::new(layout, 0, secret.clone(), settings).unwrap();
        let (say, words) = mpsc::channel();
        let mut ranks = [0, 1].map(|rank| {
            let mut command = command(&[], NAME);
            command.env("SCASH_ENCRYPT", encrypt).env("SCASH_TEST_MARK", MARK);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = start(host_relay.invite(rank).unwrap(), command);
            let (stdout, say) = (process.0.stdout.take().unwrap(), say.clone());
            thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.filter(|line| line == "joined").for_each(|_| _ = say.send(()));
            });
            process
        });
        let deadline = Instant::now() + LIMIT;
        let mut joined = 0;
        while joined < 2 {
            assert!(Instant::now() < deadline, "the ranks do not join");
            host_relay.turn();
            while let Some(report) = host_relay.report() {
                launcher_relay.take(0, report).unwrap();
            }
            while let Some(decision) = launcher_relay.decision() {
                host_relay.take(decision).unwrap();
            }
            joined += words.recv_timeout(Duration::from_millis(1)).iter().count();
        }
        for rank in &ranks {
            let Some([marks, secrets]) = count(rank, [MARK.as_bytes(), secret.bytes()]) else {
                return eprintln!("skipped: the memory of another process may not be read here");
            };
            assert!(marks > 0, "the search finds nothing");
            assert_eq!(secrets, 0, "{provider}, encrypted: {encrypt}");
        }
        ranks.iter_mut().for_each(|rank| drop(rank.0.stdin.take()));
        for (number, rank) in (0..).zip(&mut ranks) {
            assert!(rank.0.wait().unwrap().success());
            host_relay.exited(number, Exit::Status(0));
        }
    }
}

/// How often each of these is in the memory of a process; `None`: it may not be read.
fn count(rank: &Rank, wanted: [&[u8]; 2]) -> Option<[usize; 2]> {
    const PIECE: u64 = 1 << 20;
    let process = rank.0.id();
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let mut counts = [0; 2];
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        let is_private = fields.next()?.starts_with("rw-p");
        if !is_private {
            // What is shared is registered memory and rings: address space for the most part.
            continue;
        }
        for start in (from..to).step_by(usize::try_from(PIECE).ok()?) {
            // The end of a piece once more, for what lies across it.
            let len = usize::try_from((to - start).min(PIECE + 64)).ok()?;
            let mut bytes = vec![0; len];
            if memory.read_exact_at(&mut bytes, start).is_err() {
                continue;
            }
            for (count, wanted) in counts.iter_mut().zip(wanted) {
                *count += bytes.windows(wanted.len()).filter(|bytes| bytes == &wanted).count();
            }
        }
    }
    Some(counts)
}

fn rank() {
    let world = World::from_env(Options::from_env().unwrap()).unwrap();
    world.barrier().unwrap();
    std::io::stdout().write_all(b"\njoined\n").unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    drop(world);
    // It has not finalized, which a launcher would take for a failure; this one only looks.
    std::process::exit(0);
}
