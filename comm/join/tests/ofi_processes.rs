//! Ranks over libfabric in processes of their own: what happens to the others when one is killed, or stopped.

#![cfg(feature = "ofi")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod processes;

use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use processes::{LIMIT, play};
use scash_comm::conformance::SharedMemory;
use scash_comm::{Atomic, Endpoint, Error, Event, Exchange, GetRange, Rmw, SegmentId};
use scash_join::boot::{Identity, Member, vars};
use scash_ofi::{OfiEndpoint, OfiOptions, providers};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// After which a rank that says nothing is taken to be dead: libfabric's `shm` tells nobody that a process
/// has ended.
const SILENCE: Duration = Duration::from_secs(3);

/// Plays `test` over one of libfabric's providers: rank 1 raises `signal` when it is asked to, and rank 0
/// survives that.
fn a_rank_is_hit(test: &str, provider: &str, signal: Signal, survive: fn(&OfiEndpoint, SegmentId)) {
    if std::env::var_os(vars::RANK).is_some() {
        return rank(provider, signal, survive);
    }
    let names = match providers() {
        Ok(names) => names,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    if !names.iter().any(|name| name.split(';').any(|part| part == provider)) {
        return eprintln!("skipped: libfabric has no provider {provider}, only {names:?}");
    }
    let [survivor, victim] = play(test, "ofi");
    // One that was stopped is killed by the survivor in the end.
    assert_eq!(victim.signal(), Some(Signal::SIGKILL as i32), "rank 1 was to be killed: {victim:?}");
    assert!(survivor.success(), "rank 0 ended with {survivor:?}");
}

#[test]
fn over_tcp_a_killed_rank_is_reported_and_holds_nobody_up() {
    let test = "over_tcp_a_killed_rank_is_reported_and_holds_nobody_up";
    a_rank_is_hit(test, "tcp", Signal::SIGKILL, survive_death);
}

#[test]
fn over_shm_a_killed_rank_is_reported_and_holds_nobody_up() {
    let test = "over_shm_a_killed_rank_is_reported_and_holds_nobody_up";
    a_rank_is_hit(test, "shm", Signal::SIGKILL, survive_death);
}

#[test]
fn over_tcp_sends_to_a_stopped_rank_go_on_and_calls_that_wait_for_it_end_when_it_is_given_up() {
    let test = "over_tcp_sends_to_a_stopped_rank_go_on_and_calls_that_wait_for_it_end_when_it_is_given_up";
    a_rank_is_hit(test, "tcp", Signal::SIGSTOP, survive_stop);
}

#[test]
fn over_shm_sends_to_a_stopped_rank_go_on_and_calls_that_wait_for_it_end_when_it_is_given_up() {
    let test = "over_shm_sends_to_a_stopped_rank_go_on_and_calls_that_wait_for_it_end_when_it_is_given_up";
    a_rank_is_hit(test, "shm", Signal::SIGSTOP, survive_stop);
}

fn rank(provider: &str, signal: Signal, survive: fn(&OfiEndpoint, SegmentId)) {
    let mut member = Member::from_env().unwrap();
    member.hello(&Identity::of_this_program("test", 0).unwrap()).unwrap();
    let (provider, interface) = (Some(provider.to_owned()), Some("127.0.0.1".to_owned()));
    let options = OfiOptions { provider, interface, silence: silence(signal), ..OfiOptions::default() };
    let endpoint = OfiEndpoint::new(&mut member, &options).unwrap();
    let memory = SharedMemory::new(4_096).unwrap();
    // SAFETY: no references to the memory's bytes exist; it is unmapped when the process ends.
    let segment = unsafe { endpoint.register(&mut member, memory.segment()) }.unwrap();
    if member.rank() == 1 {
        raise_when_asked(&endpoint, signal);
    }
    survive(&endpoint, segment);
    std::mem::forget(memory); // the endpoint goes first
}

/// How long a rank may say nothing: who is stopped, for ever, as far as the endpoint is concerned.
fn silence(signal: Signal) -> Duration {
    if signal == Signal::SIGSTOP { Duration::ZERO } else { SILENCE }
}

fn raise_when_asked(endpoint: &OfiEndpoint, signal: Signal) -> ! {
    let pid = std::process::id().to_le_bytes();
    endpoint.send(0, 0, &[&pid]).unwrap();
    endpoint.flush().unwrap();
    let mut turn = 0;
    loop {
        endpoint.poll(&mut |_| raise(signal).unwrap()).unwrap();
        endpoint.idle(turn, LIMIT);
        turn += 1;
    }
}

/// The process of rank 1.
fn victim(endpoint: &OfiEndpoint) -> Pid {
    let mut pid = 0;
    while pid == 0 {
        let sink = &mut |event: Event<'_>| {
            let Event::Message { payload, .. } = event else { panic!("{event:?}") };
            pid = i32::from_le_bytes(payload.try_into().unwrap());
        };
        endpoint.poll(sink).unwrap();
    }
    Pid::from_raw(pid)
}

/// Whether a process is stopped.
fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim().starts_with('T')
}

fn survive_stop(endpoint: &OfiEndpoint, segment: SegmentId) {
    let pid = victim(endpoint);
    endpoint.send(1, 0, &[b"stop"]).unwrap();
    endpoint.flush().unwrap();
    while !is_stopped(pid) {
        std::thread::yield_now();
    }
    assert!(!endpoint.is_congested(1));
    let started = Instant::now();
    // More than all room that there is on the way.
    while !endpoint.is_congested(1) {
        endpoint.send(1, 0, &[&[7; 100_000]]).unwrap();
        endpoint.flush().unwrap();
        assert!(started.elapsed() < LIMIT, "a rank that takes nothing is not congested");
    }
    endpoint.send(1, 0, &[&[7; 100_000]]).unwrap();
    type Call = fn(&OfiEndpoint, SegmentId) -> scash_comm::Result<()>;
    let calls: [Call; 3] = [
        |endpoint, _| endpoint.fence(1),
        |endpoint, segment| endpoint.atomic(1, segment, 0, Atomic::U64(Rmw::Load)).map(drop),
        |endpoint, segment| {
            let mut bytes = [0u8; 8];
            let range = GetRange { offset: 0, len: 8, dst: bytes.as_mut_ptr() };
            // SAFETY: the bytes are ours for the call.
            unsafe { endpoint.get(1, segment, &[range]) }
        },
    ];
    std::thread::scope(|threads| {
        let calls = calls.map(|call| threads.spawn(move || call(endpoint, segment)));
        while endpoint.waits_for(1).is_none() {
            std::thread::yield_now();
        }
        endpoint.give_up(1, "it was stopped");
        for call in calls {
            let error = call.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Down { rank: 1, .. }), "{error}");
        }
    });
    assert_eq!((endpoint.waits_for(1), endpoint.is_congested(1)), (None, false));
    kill(pid, Signal::SIGKILL).unwrap();
}

fn survive_death(endpoint: &OfiEndpoint, segment: SegmentId) {
    victim(endpoint);
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
    // libfabric's shm reads a dead process's memory no more than a missing one's, and does not say that it is
    // the process.
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
