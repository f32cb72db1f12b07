//! Whom a rank calls, when, and what it makes of the answers.

use super::super::handshake::{ANSWER, Acceptor, HELLO};
use super::super::reception::Reception;
use super::*;
use crate::Secret;
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

fn job(size: u32) -> Job {
    Job {
        size,
        abi: 5,
        secret: Secret::from_bytes([3; 32]),
        encrypted: false,
        congestion: Congestion::System,
        comes_back: false,
    }
}

fn in_a_minute() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What the highest rank says that has called all others at this address, in vain.
fn complaint(job: &Job, address: SocketAddr, deadline: Instant) -> String {
    let me = job.size - 1;
    let lower: Vec<_> = (0..me).map(|rank| (rank, address)).collect();
    let called = connect_all(job, me, &lower, deadline, &AtomicBool::new(false));
    called.err().expect("it is connected").expect("it has a reason").to_string()
}

/// Plays all ranks that the highest one calls: answers nobody before `crowd` have said hello, or all that are
/// left.
fn answer_in_crowds(job: Job, listener: TcpListener, crowd: usize) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut left = 3 * (job.size as usize - 1);
        while left > 0 {
            let callers: Vec<_> = (0..crowd.min(left)).map(|_| greet(&job, &listener)).collect();
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "there is one more than may be");
            listener.set_nonblocking(false).unwrap();
            left -= callers.len();
            for (mut stream, acceptor, challenge) in callers {
                stream.write_all(&challenge).unwrap();
                let mut answer = [0; ANSWER];
                stream.read_exact(&mut answer).unwrap();
                stream.write_all(&acceptor.accept(&job, &answer).unwrap()).unwrap();
            }
        }
    })
}

/// Who calls next, and its challenge.
fn greet(job: &Job, listener: &TcpListener) -> (TcpStream, Acceptor, [u8; OPENED]) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello).unwrap();
    let to = u32::from_le_bytes(hello[16..20].try_into().unwrap());
    let (acceptor, challenge) = Acceptor::challenge(job, to, hello).unwrap();
    (stream, acceptor, challenge)
}

#[test]
fn nobody_waits_for_an_answer_to_somebody_else_unless_too_many_are_called() {
    for (ranks, crowd) in [(2, 3), (60, 3 * 59), (101, MOST_AT_ONCE)] {
        let (listener, address) = listener();
        let (job, lower) = (job(ranks), (0..ranks - 1).map(|rank| (rank, address)).collect::<Vec<_>>());
        let answering = answer_in_crowds(job.clone(), listener, crowd);
        let links = connect_all(&job, ranks - 1, &lower, in_a_minute(), &AtomicBool::new(false));
        let links = links.map_err(Option::unwrap).unwrap();
        assert!(links.iter().map(|(rank, _)| *rank).eq(0..ranks - 1));
        answering.join().unwrap();
    }
}

/// Where somebody listens that says `words` after each hello, and hangs up.
fn imposter(words: &'static [u8]) -> SocketAddr {
    let (listener, address) = listener();
    // It lives as long as the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A caller that has heard another one's answer may have hung up.
            if stream.read_exact(&mut [0; HELLO]).is_ok() {
                let _ = stream.write_all(words);
            }
        }
    });
    address
}

#[test]
fn a_rank_does_not_connect_to_an_imposter() {
    let call_an_imposter = |words| complaint(&job(2), imposter(words), in_a_minute());
    let error = call_an_imposter(
        b"scashtcp\x07\0 and sixty-four bytes that know nothing of the secret, alas, alas !!!!",
    );
    assert!(error.contains("does not know this job's secret"), "{error}");
    let error = call_an_imposter(b"SSH-2.0-OpenSSH_9.2\r\n");
    assert!(error.contains("does not speak this protocol"), "{error}");
    let error = call_an_imposter(b"scashtcp\x08\0");
    assert!(error.contains("speaks version 8 of the protocol, this rank version 7"), "{error}");
}

#[test]
fn a_rank_that_hangs_up_is_called_again_until_the_time_is_up() {
    let job = job(2);
    for words in [&b""[..], b"scashtcp\x07\0", b"scashtcp\x07\0\0", b"scashtcp\x07\0\xff\xff"] {
        let (mut calls, limit) = (ConnectionAttempts::new(&job, 1, &[(0, imposter(words))]), in_a_minute());
        let is_second =
            |wanted: &PendingCall| wanted.again.is_some_and(|(_, pause)| pause > 2 * SHORTEST_PAUSE);
        while !calls.waiting.iter().any(is_second) {
            assert!(Instant::now() < limit, "it was not called a second time");
            calls.start().unwrap();
            calls.wait();
            calls.advance().unwrap();
        }
        let error = calls.too_late().unwrap().to_string();
        assert!(error.contains("closes each connection during the handshake"), "{error}");
    }
}

#[test]
fn a_rank_that_says_nothing_is_named_when_the_time_is_up() {
    let (_listener, address) = listener();
    let error = complaint(&job(2), address, Instant::now() + Duration::from_millis(50));
    assert!(error.contains("rank 0") && error.contains("did not answer in time"), "{error}");
}

#[test]
fn a_rank_to_which_there_is_no_way_is_called_again_only_where_ranks_come_back() {
    let (_listener, address) = listener();
    let miss = |comes_back| {
        let job = Job { comes_back, ..job(2) };
        let mut calls = ConnectionAttempts::new(&job, 1, &[(0, address)]);
        let wanted = calls.waiting.pop().unwrap();
        let (failed, left) = (calls.take_miss(wanted, Miss::NoWay(Errno::EHOSTUNREACH)), calls.waiting.len());
        (failed.map(|()| calls.waiting.swap_remove(left - 1).out_of_reach()), left)
    };
    let (failed, left) = miss(false);
    assert!(matches!(failed.unwrap_err(), Error::Down { rank: 0, why } if why.contains("No route to host")));
    assert_eq!(left, ConnectionClass::ALL.len() - 1);
    let (waits, left) = miss(true);
    let error = waits.unwrap();
    assert!(
        matches!(&error, Error::OutOfReach { rank: 0, why } if why.contains("No route to host")),
        "{error}"
    );
    assert_eq!(left, ConnectionClass::ALL.len());
}

#[test]
fn who_was_called_in_vain_is_named_and_not_who_waited_for_a_turn() {
    let (_listener, address) = listener();
    let (job, lower) = (job(101), (0..100).map(|rank| (rank, address)).collect::<Vec<_>>());
    let mut calls = ConnectionAttempts::new(&job, 100, &lower);
    calls.start().unwrap();
    assert!(calls.waiting.iter().any(|wanted| wanted.rank == 0), "all are called");
    let error = calls.too_late().unwrap();
    assert!(matches!(error, Error::OutOfReach { rank: 99, .. }), "{error}");
}

/// What rank 2 says of a rank 0 of such a job that expects these ranks.
fn call_the_wrong_one(theirs: &Job, expected: &[u32]) -> String {
    let ((listener, address), has_called) = (listener(), AtomicBool::new(false));
    thread::scope(|scope| {
        let reception = Reception::new(theirs, 0, expected.iter().copied(), listener);
        let receiving = scope.spawn(|| reception.receive_all(in_a_minute(), &has_called).map(drop));
        let called = connect_all(&job(3), 2, &[(0, address)], in_a_minute(), &AtomicBool::new(false));
        has_called.store(true, Ordering::Relaxed);
        assert!(receiving.join().unwrap().is_err(), "nobody came");
        called.err().expect("it is connected").expect("it has a reason").to_string()
    })
}

#[test]
fn who_is_refused_for_good_does_not_call_again() {
    let other = Job { secret: Secret::from_bytes([4; 32]), ..job(3) };
    let cases = [
        (other, &[1, 2][..], "it belongs to another job"),
        (Job { abi: 6, ..job(3) }, &[1, 2], "it has another ABI"),
        (job(4), &[1, 2], "it knows no such rank"),
        (job(3), &[1], "start all ranks with the same provider"),
    ];
    for (theirs, expected, why) in cases {
        let error = call_the_wrong_one(&theirs, expected);
        assert!(error.contains("rank 0") && error.contains(why), "{error}");
    }
}

#[test]
fn nobody_is_called_when_somebody_else_has_given_up() {
    let (_listener, address) = listener();
    let called = connect_all(&job(2), 1, &[(0, address)], in_a_minute(), &AtomicBool::new(true));
    assert!(matches!(called, Err(None)));
}
