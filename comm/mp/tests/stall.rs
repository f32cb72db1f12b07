//! A thread that waits for longer than `SCASH_STALL` says on stderr, in a line, what for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../join/tests/processes/mod.rs"]
mod processes;

use processes::{LIMIT, command, start};
use scash_join::boot::{Host, Settings, vars};
use scash_mp::{Op, Options, World};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const NAME: &str = "who_waits_for_long_says_what_for_in_a_line";
/// What rank 0 waits for, one after the other, until rank 1 is told to do its part.
const WAITS: [&str; 6] = [
    "a message from rank 1 with tag 7",
    "a message from any rank with any tag",
    "barrier, there for rank 1",
    "broadcast with root 1, there for rank 1",
    "all-reduce, there for rank 1",
    "one of 2 operations",
];

#[test]
fn who_waits_for_long_says_what_for_in_a_line() {
    if std::env::var_os(vars::RANK).is_some() {
        return rank();
    }
    for provider in ["shm", "tcp"] {
        let mut host = Host::new(2, Settings { threads: 1, provider: provider.to_owned() }).unwrap();
        let mut ranks = [0, 1].map(|rank| {
            let mut command = command(&[], NAME);
            command.env("SCASH_STALL", "0.1").stdin(Stdio::piped()).stderr(Stdio::piped());
            start(host.invite(rank).unwrap(), command)
        });
        let (say, lines) = mpsc::channel();
        let stderr = BufReader::new(ranks[0].0.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| _ = say.send(line)));
        let mut stdin = ranks[1].0.stdin.take().unwrap();
        let deadline = Instant::now() + LIMIT;
        for wait in WAITS {
            loop {
                host.turn();
                assert!(Instant::now() < deadline, "{provider}: nobody says it waits for {wait}");
                let Ok(line) = lines.recv_timeout(Duration::from_millis(1)) else { continue };
                let begins = line.starts_with("scash: rank 0 has waited for ");
                assert!(begins && line.ends_with(&format!(" s (SCASH_STALL) for {wait}")), "{line}");
                break;
            }
            stdin.write_all(b"go on\n").unwrap();
        }
        while !ranks.iter_mut().all(|rank| rank.0.try_wait().unwrap().is_some()) {
            host.turn();
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(1));
        }
        assert!(ranks.iter_mut().all(|rank| rank.0.wait().unwrap().success()));
    }
}

fn rank() {
    let world = World::from_env(Options::from_env().unwrap()).unwrap();
    let me = world.rank();
    for number in 0..WAITS.len() {
        if me == 1 {
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        match (number, me) {
            (0, 0) => drop(world.receive_owned(Some(1), Some(7)).unwrap()),
            (1, 0) => drop(world.receive_owned(None, None).unwrap()),
            (0 | 1, _) => world.send(0, 7, b"at last").unwrap(),
            (2, _) => world.barrier().unwrap(),
            (3, _) => world.broadcast(1, &mut [me]).unwrap(),
            (4, _) => world.all_reduce(Op::Sum, &[me], &mut [0]).unwrap(),
            (_, 0) => {
                let mut both = vec![
                    world.start_receive_owned(Some(1), Some(1)).unwrap(),
                    world.start_receive_owned(Some(1), Some(2)).unwrap(),
                ];
                while let Some((_, received)) = world.wait_any(&mut both) {
                    received.unwrap();
                }
            }
            _ => [1, 2].into_iter().for_each(|tag| world.send(0, tag, b"").unwrap()),
        }
    }
    world.finalize().unwrap();
}
