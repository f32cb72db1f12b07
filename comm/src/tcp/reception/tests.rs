//! Who is heard when the port is crowded, step by step.

use super::super::congestion::Congestion;
use super::super::handshake::{CHALLENGE, ConnectionClass, Connector, OPENING, WELCOME};
use super::*;
use crate::Secret;
use nix::sys::resource::{Resource, setrlimit};
use std::os::fd::AsRawFd;

/// More than are heard at once at rank 0 of 2.
const CROWD: usize = 100;

fn job() -> Job {
    Job {
        size: 2,
        abi: 0,
        secret: Secret::from_bytes([3; 32]),
        encrypted: false,
        congestion: Congestion::System,
        comes_back: false,
    }
}

/// Rank 0 of 2, of which each step is a call of the test, and where it listens.
fn reception(job: &Job) -> (Reception<'_>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (Reception::new(job, 0, 1..2, listener), address)
}

fn crowd(address: SocketAddr) -> Vec<TcpStream> {
    (0..CROWD).map(|_| TcpStream::connect(address).unwrap()).collect()
}

impl Reception<'_> {
    fn rounds(&mut self) {
        for _ in 0..CROWD / ROUND + 2 {
            self.accept().unwrap();
            self.hear();
        }
    }
}

#[test]
fn a_rank_in_a_crowd_is_heard_and_keeps_its_place() {
    let job = job();
    let (mut reception, address) = reception(&job);
    let connector = Connector::new(&job, ConnectionClass::Stream, 1, 0).unwrap();
    let mut rank = TcpStream::connect(address).unwrap();
    rank.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    rank.write_all(&connector.hello).unwrap();
    let _first = crowd(address);
    reception.rounds();
    let mut challenge = [0; OPENING + CHALLENGE];
    rank.read_exact(&mut challenge).expect("it was heard before it had to make room");
    let _second = crowd(address);
    reception.rounds();
    assert_eq!(reception.newcomers.len(), reception.capacity());
    rank.write_all(&connector.answer(challenge.last_chunk().unwrap()).unwrap()).unwrap();
    reception.rounds();
    rank.read_exact(&mut [0; WELCOME]).expect("those who say nothing make room before it");
    assert!(reception.arrived[&1][ConnectionClass::Stream as usize].is_some());
}

#[test]
fn the_oldest_silent_newcomer_makes_room() {
    let job = job();
    let (mut reception, address) = reception(&job);
    let mut crowd = crowd(address);
    reception.rounds();
    let kept = crowd.split_off(CROWD - reception.capacity());
    for mut stream in crowd {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it was cut off");
    }
    for mut stream in kept {
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "it is still there");
    }
}

#[test]
fn where_descriptors_run_out_strangers_make_room() {
    const ALONE: &str = "SCASH_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // The limit on descriptors is a process's: this test has one of its own.
        let name = "tcp::reception::tests::where_descriptors_run_out_strangers_make_room";
        let mut this = std::process::Command::new(std::env::current_exe().unwrap());
        let output = this.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let job = job();
    let (mut reception, address) = reception(&job);
    let strangers: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    let limit = u64::try_from(next).unwrap() + 10;
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit).unwrap();
    reception.rounds();
    assert!(reception.newcomers.len() <= 10);
    let last = strangers.last().unwrap().local_addr().unwrap();
    assert_eq!(reception.newcomers.last().unwrap().address, last, "all of them were taken in");
}

#[test]
fn who_takes_too_long_is_cut_off_whatever_it_dribbles() {
    let job = job();
    let (mut reception, address) = reception(&job);
    let mut slow = TcpStream::connect(address).unwrap();
    for byte in &Connector::new(&job, ConnectionClass::Stream, 1, 0).unwrap().hello[..20] {
        slow.write_all(&[*byte]).unwrap();
        reception.rounds();
    }
    let [newcomer] = &mut reception.newcomers[..] else { panic!("it is heard") };
    newcomer.deadline = Instant::now();
    reception.rounds();
    assert!(reception.newcomers.is_empty());
    assert!(!reception.refusals.is_new(&Refusal::Late));
}

#[test]
fn each_kind_of_refusal_is_told_once() {
    let mut refusals = Refusals::default();
    assert!(refusals.is_new(&Refusal::Foreign));
    assert!(refusals.is_new(&Refusal::Version(1)));
    for _ in 0..1_000 {
        assert!(!refusals.is_new(&Refusal::Foreign));
        assert!(!refusals.is_new(&Refusal::Version(2)), "whatever it says");
    }
}

#[test]
fn an_error_of_one_connection_does_not_end_the_others() {
    for errno in [libc::EHOSTUNREACH, libc::ENETDOWN, libc::ECONNABORTED, libc::EINTR] {
        assert!(is_of_the_newcomer(&io::Error::from_raw_os_error(errno)), "{errno}");
    }
    for errno in [libc::EMFILE, libc::EBADF, libc::EINVAL, libc::ENOMEM] {
        assert!(!is_of_the_newcomer(&io::Error::from_raw_os_error(errno)), "{errno}");
    }
}
