//! Ranks in processes of their own: what happens to the others when one is killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod processes;

use nix::sys::signal::{Signal, raise};
use processes::{LIMIT, play};
use scash_comm::conformance::SharedMemory;
use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_comm::{Atomic, Endpoint, Error, Event, Exchange, PutRange, Rmw, SegmentId};
use scash_join::boot::{Identity, Member, vars};
use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

#[test]
fn a_rank_killed_inside_a_get_is_reported_and_holds_nobody_up() {
    if std::env::var_os(vars::RANK).is_some() {
        return rank();
    }
    let [survivor, victim] = play("a_rank_killed_inside_a_get_is_reported_and_holds_nobody_up", "shm");
    assert_eq!(victim.signal(), Some(Signal::SIGKILL as i32), "rank 1 was to be killed: {victim:?}");
    assert!(survivor.success(), "rank 0 ended with {survivor:?}");
}

fn rank() {
    let mut member = Member::from_env().unwrap();
    member.hello(&Identity::of_this_program("test", 0).unwrap()).unwrap();
    let endpoint = ShmEndpoint::new(&mut member, &ShmOptions::default()).unwrap();
    let memory = SharedMemory::new(4_096).unwrap();
    // SAFETY: no references to the memory's bytes exist; it is unmapped when the process ends.
    let segment = unsafe { endpoint.register(&mut member, memory.segment()) }.unwrap();
    if member.rank() == 1 {
        let die = &mut |_| {
            endpoint.send(0, 7, &[b"last words"]).unwrap();
            endpoint.flush().unwrap();
            raise(Signal::SIGKILL).unwrap();
        };
        endpoint.read_peer(0, segment, 0, 8, die).unwrap();
        unreachable!("this process is dead");
    }
    survive(&endpoint, segment, &memory);
    std::mem::forget(memory); // the endpoint goes first
}

fn survive(endpoint: &ShmEndpoint, segment: SegmentId, memory: &SharedMemory) {
    let mut events = Vec::new();
    wait(endpoint, &mut events, 1);
    // Rank 1 says for ever that it is getting from us: the put must notice that it is dead.
    let range = PutRange { offset: 0, len: 8, src: memory.at(0) };
    // SAFETY: the memory stays mapped.
    let put = unsafe { endpoint.put(1, segment, &[range]) };
    assert!(matches!(put, Err(Error::Down { rank: 1, .. })), "{put:?}");
    wait(endpoint, &mut events, 2);
    assert_eq!(events, ["7 of 1: 10 bytes", "1 is down"]);
    let refused = endpoint.atomic(1, segment, 0, Atomic::U64(Rmw::Load));
    assert!(matches!(refused, Err(Error::Down { rank: 1, .. })), "{refused:?}");
    let refused = endpoint.send(1, 0, &[]);
    assert!(matches!(&refused, Err(Error::Down { rank: 1, why }) if why.contains("process")), "{refused:?}");
}

/// Polls until there have been `count` events.
fn wait(endpoint: &ShmEndpoint, events: &mut Vec<String>, count: usize) {
    let deadline = Instant::now() + LIMIT;
    let mut turn = 0;
    while events.len() < count {
        assert!(Instant::now() < deadline, "event {count} did not come: {events:?}");
        let note = &mut |event: Event<'_>| {
            events.push(match event {
                Event::Message { from, kind, payload } => {
                    format!("{kind} of {from}: {} bytes", payload.len())
                }
                Event::Part { .. } => panic!("messages come whole"),
                Event::Down { rank } => format!("{rank} is down"),
            });
        };
        if endpoint.poll(note).unwrap() == 0 {
            endpoint.idle(turn, LIMIT);
            turn += 1;
        }
    }
}
