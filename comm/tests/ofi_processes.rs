//! Ranks over libfabric in processes of their own: what happens to the others when one is killed.

#![cfg(feature = "ofi")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod processes;

use nix::sys::signal::{Signal, raise};
use processes::{LIMIT, play};
use scash_comm::boot::{Identity, Member, vars};
use scash_comm::conformance::SharedMemory;
use scash_comm::ofi::{OfiEndpoint, OfiOptions, providers};
use scash_comm::{Atomic, Endpoint, Error, Event, Exchange, GetRange, Rmw, SegmentId};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// After which a rank that says nothing is taken to be dead: libfabric's `shm` tells nobody that a process has ended.
const SILENCE: Duration = Duration::from_secs(3);

/// Plays `test` over one of libfabric's providers: rank 1 is killed while rank 0 gets from it.
fn a_rank_is_killed(test: &str, provider: &str) {
    if std::env::var_os(vars::RANK).is_some() {
        return rank(provider);
    }
    let names = match providers() {
        Ok(names) => names,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    if !names.iter().any(|name| name.split(';').any(|part| part == provider)) {
        return eprintln!("skipped: libfabric has no provider {provider}, only {names:?}");
    }
    let [survivor, victim] = play(test, "ofi");
    assert_eq!(victim.signal(), Some(Signal::SIGKILL as i32), "rank 1 was to be killed: {victim:?}");
    assert!(survivor.success(), "rank 0 ended with {survivor:?}");
}

#[test]
fn over_tcp_a_killed_rank_is_reported_and_holds_nobody_up() {
    a_rank_is_killed("over_tcp_a_killed_rank_is_reported_and_holds_nobody_up", "tcp");
}

#[test]
fn over_shm_a_killed_rank_is_reported_and_holds_nobody_up() {
    a_rank_is_killed("over_shm_a_killed_rank_is_reported_and_holds_nobody_up", "shm");
}

fn rank(provider: &str) {
    let mut member = Member::from_env().unwrap();
    member.hello(&Identity::of_this_program("test", 0).unwrap()).unwrap();
    let (provider, interface) = (Some(provider.to_owned()), Some("127.0.0.1".to_owned()));
    let options = OfiOptions { provider, interface, silence: SILENCE, ..OfiOptions::default() };
    let endpoint = OfiEndpoint::new(&mut member, &options).unwrap();
    let memory = SharedMemory::new(4_096).unwrap();
    // SAFETY: no references to the memory's bytes exist; it is unmapped when the process ends.
    let segment = unsafe { endpoint.register(&mut member, memory.segment()) }.unwrap();
    if member.rank() == 1 {
        die_when_asked(&endpoint);
    }
    survive(&endpoint, segment);
    std::mem::forget(memory); // the endpoint goes first
}

fn die_when_asked(endpoint: &OfiEndpoint) -> ! {
    let mut turn = 0;
    loop {
        endpoint.poll(&mut |_| raise(Signal::SIGKILL).unwrap()).unwrap();
        endpoint.idle(turn, LIMIT);
        turn += 1;
    }
}

fn survive(endpoint: &OfiEndpoint, segment: SegmentId) {
    let get = || {
        let mut bytes = [0u8; 8];
        let range = GetRange { offset: 0, len: 8, dst: bytes.as_mut_ptr() };
        // SAFETY: the bytes are ours for the call.
        unsafe { endpoint.get(1, segment, &[range]) }
    };
    get().unwrap();
    endpoint.send(1, 0, &[b"die"]).unwrap();
    endpoint.flush().unwrap();
    let deadline = Instant::now() + LIMIT;
    // libfabric's shm reads a dead process's memory no more than a missing one's, and does not say that it is the process.
    let error = loop {
        assert!(Instant::now() < deadline, "gets from a dead rank go on");
        if let Err(error) = get() {
            break error;
        }
    };
    assert!(matches!(error, Error::Down { rank: 1, .. }), "{error}");
    let mut downs = 0;
    while downs == 0 {
        assert!(Instant::now() < deadline, "rank 1 was not reported");
        endpoint.poll(&mut |event| downs += u32::from(matches!(event, Event::Down { rank: 1 }))).unwrap();
    }
    for refused in [
        endpoint.atomic(1, segment, 0, Atomic::U64(Rmw::Load)).map(|_| ()),
        endpoint.fence(1),
        endpoint.send(1, 0, &[]),
    ] {
        assert!(matches!(refused, Err(Error::Down { rank: 1, .. })), "{refused:?}");
    }
    assert_eq!(endpoint.poll(&mut |_| ()).unwrap(), 0, "rank 1 was reported twice");
}
