//! Strangers crowd the port of a real job from its first moment on: it gives the right answer, and says what
//! it has refused, in one line a kind. Once it runs, it has no port.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_sim::rng::Rng;
use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, Job, kinds};
use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const RANKS: u16 = 6;
/// How a rank begins that speaks a version which there is not.
const OF_NO_VERSION: [u8; 10] = *b"scashtcp\xff\xff";
/// How a hello begins; 90 bytes follow.
const OPENING: [u8; 10] = *b"scashtcp\x07\x00";
/// Random bytes that a stranger has at hand.
const NOISE: usize = 1 << 20;
/// Connections that one of those who say nothing keeps.
const HELD: usize = 1_000;
/// Jobs until each kind of stranger has been told of. A job's port is open for milliseconds, and one of each
/// must come just then.
const MOST_JOBS: u32 = 200;

/// What a stranger does with a connection and its random bytes. It returns the connection to keep it.
type Prank = fn(TcpStream, &[u8]) -> Option<TcpStream>;

/// What strangers do, and how they are told of.
const PRANKS: [(Prank, &str); 5] = [
    (|stream, noise| say(stream, &[noise]), "it does not speak this protocol"),
    (|stream, noise| say(stream, &[&OPENING, &noise[..30]]), "it hung up during the handshake"),
    (|stream, noise| say(stream, &[&OPENING, noise]), "it belongs to another job"),
    (|stream, noise| say(stream, &[&OF_NO_VERSION, &noise[..90]]), "it speaks version 65535 of the protocol"),
    (|stream, _| Some(stream), "too many wait to be heard"),
];

/// Bytes of a refusal: an opening, and the number of a reason. It has nothing in it that depends on the job's
/// secret.
const REFUSAL: usize = OPENING.len() + 2;

/// Says all this, hangs up, and hears that nothing comes back but an opening, alone or as a refusal: no
/// challenge.
fn say(mut stream: TcpStream, words: &[&[u8]]) -> Option<TcpStream> {
    let mut answer = Vec::new();
    // The other side may hang up at any time.
    let said = words.iter().try_for_each(|part| stream.write_all(part));
    let _ =
        said.and_then(|()| stream.shutdown(Shutdown::Write)).and_then(|()| stream.read_to_end(&mut answer));
    let is_opening = answer.starts_with(&OPENING) && [OPENING.len(), REFUSAL].contains(&answer.len());
    assert!(answer.is_empty() || is_opening, "a stranger was told {answer:02x?}");
    None
}

/// Plays a prank on whoever listens on that port, again and again.
fn play(prank: Prank, port: u16, noise: &[u8], job_is_over: &AtomicBool) {
    let mut held = VecDeque::new();
    while !job_is_over.load(Ordering::Relaxed) {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => held.extend(prank(stream, noise)),
            Err(_) => thread::sleep(Duration::from_micros(100)),
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

/// Runs a job whose rank 0 listens on a port that strangers know.
fn beset(noise: &[u8]) -> Ended {
    // Where the system takes no ports from for others, nor other tests.
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = (10_000..20_000).step_by(16).find(|&port| (port..port + RANKS).all(is_free)).unwrap();
    let job = Job::plain(RANKS.into()).option("--provider", "tcp").env("SCASH_PORT", first.to_string());
    let job_is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let job_is_over = &job_is_over;
        for (prank, _) in PRANKS {
            scope.spawn(move || play(prank, first, noise, job_is_over));
        }
        let program = built("laplace");
        let ended = job.run(&program, &["--size", "126", "--iterations", "20", "--check", "--json"]);
        job_is_over.store(true, Ordering::Relaxed);
        ended
    })
}

#[test]
fn strangers_at_its_port_do_not_harm_a_job() {
    let mut rng = Rng::new(1);
    let noise: Vec<u8> = (0..NOISE / 8).flat_map(|_| rng.bits().to_le_bytes()).collect();
    let mut missing: BTreeSet<_> = PRANKS.iter().map(|(_, told)| *told).collect();
    for _ in 0..MOST_JOBS {
        let ended = beset(&noise);
        let report: serde_json::Value =
            serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended}"));
        assert_eq!((ended.status, &report["check"]), (0, &"equal".into()), "{ended}");
        let reasons = ended.err.lines().map(|line| {
            let (_, told) = line
                .strip_prefix("scash: tcp: refused a connection from 127.0.0.1:")
                .and_then(|rest| rest.split_once(": "))
                .unwrap_or_else(|| panic!("what is {line:?}? {ended}"));
            told
        });
        let reasons: Vec<_> = reasons.collect();
        let kinds: BTreeSet<_> = reasons.iter().collect();
        assert_eq!(kinds.len(), reasons.len(), "each kind is told once: {ended}");
        missing.retain(|told| !reasons.iter().any(|reason| reason.starts_with(told)));
        if missing.is_empty() {
            return;
        }
    }
    panic!("in {MOST_JOBS} jobs nobody was refused because {missing:?}");
}

#[test]
fn nobody_can_connect_to_a_job_that_runs() {
    for kind in kinds() {
        let ended = kind.job(3).run(Path::new(env!("CARGO_BIN_EXE_listeners")), &[]);
        ended.succeeded();
        // The line to the launcher, and three connections to each of two others.
        let sockets = if kind.provider == "tcp" { 7 } else { 1 };
        let expected = format!("has {sockets} sockets, of which these listen or have a name: []");
        assert!(ended.lines(3).iter().all(|line| line.ends_with(&expected)), "{ended}");
    }
}
