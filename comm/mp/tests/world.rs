//! Message passing between processes that a launcher has started: ranks join with what their environment
//! says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../join/tests/processes/mod.rs"]
mod processes;

use processes::play;
use scash_join::boot::vars;
use scash_mp::{Op, Options, World};

/// Plays `rank` on two ranks over each provider that needs nothing to be installed.
fn with_each_provider(test: &str, rank: fn()) {
    if std::env::var_os(vars::RANK).is_some() {
        return rank();
    }
    for provider in ["auto", "shm", "tcp"] {
        let ends = play(test, provider);
        assert!(ends.iter().all(|end| end.success()), "over {provider}: {ends:?}");
    }
}

#[test]
fn ranks_of_a_launcher_send_and_reduce() {
    with_each_provider("ranks_of_a_launcher_send_and_reduce", || {
        let world = World::from_env(Options::default()).unwrap();
        let peer = 1 - world.rank();
        let mine = world.rank().to_le_bytes().repeat(75_000);
        let receive = world.start_receive_owned(Some(peer), Some(7)).unwrap();
        world.send(peer, 7, &mine).unwrap();
        assert_eq!(world.wait(receive).unwrap().bytes, peer.to_le_bytes().repeat(75_000));
        let mut sum = [0u64];
        world.all_reduce(Op::Sum, &[u64::from(world.rank()) + 1], &mut sum).unwrap();
        assert_eq!(sum, [3]);
        world.finalize().unwrap();
    });
}

#[test]
fn a_process_joins_once() {
    with_each_provider("a_process_joins_once", || {
        let world = World::from_env(Options::default()).unwrap();
        let again = World::from_env(Options::default()).unwrap_err().to_string();
        assert!(again.contains("joined its job already"), "{again}");
        world.finalize().unwrap();
    });
}

#[test]
fn a_program_that_no_launcher_has_started_is_a_world_of_one_rank() {
    let world = World::from_env(Options::default()).unwrap();
    assert_eq!((world.rank(), world.size()), (0, 1));
    let mut sum = [7u64];
    world.all_reduce(Op::Sum, &[3], &mut sum).unwrap();
    assert_eq!(sum, [3]);
    world.finalize().unwrap();
}
