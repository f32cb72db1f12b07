//! What ranks ask of the system in rounds of memory barriers, with checkpoints and without.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::calls::{Calls, calls_between};
use scash_tests::cluster::{Job, kinds, processes_of_rank, replicas, run_beside, wait_for};
use std::path::Path;

/// Rounds that are counted.
const ROUNDS: u64 = 50;

/// By which threads wait for others: how often depends on the machine.
const WAITS: [i64; 10] = [
    libc::SYS_restart_syscall,
    libc::SYS_epoll_ctl,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
];

/// What rank 0 calls in so many rounds of `until`, besides waits. It looks for the file in each round.
fn of_rank_0(job: Job) -> Calls {
    let until = Path::new(env!("CARGO_BIN_EXE_until"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("end");
    let mut calls = Calls::new();
    let ended = run_beside(job.command(until, &[file.to_str().unwrap(), "tells"]), |front| {
        wait_for("hundredth round", || directory.path().join("end.begun").exists().then_some(()));
        let rank = wait_for("rank 0", || processes_of_rank(front, 0).first().copied());
        calls = calls_between(rank, libc::SYS_statx, ROUNDS);
        std::fs::File::create(&file).unwrap();
    });
    ended.is_right();
    calls.retain(|call, _| !WAITS.contains(call));
    calls
}

/// By which faults are served, frames protected, and messages sent: what coherence is made of.
const OF_COHERENCE: [i64; 11] = [
    // Of what threads of a rank wake each other by.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_rt_sigreturn,
    libc::SYS_mprotect,
    libc::SYS_ioctl,
    libc::SYS_madvise,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_writev,
];

fn name(call: i64) -> String {
    format!("system call {call}")
}

/// Of the others, checkpoints have two dozen: those that look at the process and scan its memory.
#[test]
fn ranks_that_do_not_come_back_make_no_calls_for_checkpoints() {
    for kind in kinds() {
        // Only a userfaultfd is asked by it; checkpoints scan memory by it.
        let is_scan = |call: i64| call == libc::SYS_ioctl && kind.engine == "mprotect";
        let others = |job: Job| {
            let mut calls = of_rank_0(job);
            calls.retain(|call, _| !OF_COHERENCE.contains(call) || is_scan(*call));
            calls.into_keys().map(name).collect::<Vec<_>>()
        };
        assert_eq!(others(kind.job(2)), [""; 0], "{kind:?}");
        assert_eq!(others(replicas(kind.job(2), 1_000_000, &[])), [""; 0], "{kind:?} without a checkpoint");
        let at_each_barrier = others(replicas(kind.job(2), 1, &[]));
        assert!(at_each_barrier.len() > 10, "{kind:?} {at_each_barrier:?}: these calls are not seen");
    }
}
