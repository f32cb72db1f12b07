//! Ranks of real jobs die when one is farther than another: in the meetings of a checkpoint, while the
//! launcher sees to it, and when a part of a restart is done.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_ft::Incarnation;
use scash_ft::store::Store;
use scash_tests::cluster::built::built;
use scash_tests::cluster::{
    Kind, all_kinds, came_back, computes, computes_the_same, launcher, newest_epoch, open_store,
    processes_of_rank, replicas, run_beside, signal_rank, wait_for,
};
use std::time::Duration;

const LAPLACE: [&str; 4] = ["--size", "126", "--iterations", "40"];
const LU: [&str; 4] = ["--size", "256", "--block", "16"];

/// Rank 0 is in the next epoch when it dies. Rank 1 is not: it has met all others and knows nothing of it
/// yet, or hears nothing of them.
#[test]
fn ranks_go_on_from_an_epoch_that_one_has_run_on_in_and_another_has_not_left() {
    let late = [
        "delay rank 1 by 300ms at checkpoint 1 after meet",
        "delay rank 0 by 100ms at checkpoint 1 after mark; stop rank 1 for 300ms at barrier 1 after meet",
    ];
    for late in late {
        for next in ["checkpoint 1 after done", "barrier 4 after enter", "barrier 4 after flush"] {
            let death = format!("kill rank 0 at {next}");
            let injections: Vec<&str> = late.split("; ").chain([death.as_str()]).collect();
            for kind in all_kinds() {
                for (program, arguments) in [("laplace", &LAPLACE[..]), ("lu", &LU[..])] {
                    let ended = computes(&replicas(kind.job(2), 3, &injections), 2, program, arguments);
                    ended.said(&["all 2 ranks go on from barrier 3 (epoch 1, incarnation 1)"]);
                    assert_eq!(came_back(&ended), 1, "{program} {kind:?} {ended}");
                }
            }
        }
    }
}

/// The launcher is stopped meanwhile. Rank 0 dies, rank 1 is killed as the launcher kills all that are left,
/// and rank 2 runs until it needs one of them.
#[test]
fn a_rank_that_outlives_the_others_for_a_while_leaves_nothing_that_they_would_go_on_from() {
    for point in ["barrier 7 after enter", "checkpoint 2 after copy", "checkpoint 2 after mark"] {
        let death = format!("kill rank 0 at {point}");
        let injections = ["delay all ranks by 500ms at barrier 5", &death];
        for kind in all_kinds() {
            for (program, arguments) in [("laplace", &LAPLACE[..]), ("lu", &LU[..])] {
                let arguments = [arguments, &["--check", "--json"]].concat();
                // On a busy machine, rank 0 may die before the launcher is stopped.
                let is_in_time = (0..100).any(|_| {
                    let command = replicas(kind.job(3), 3, &injections).command(&built(program), &arguments);
                    let mut is_in_time = false;
                    let ended = run_beside(command, |front| is_in_time = lose_two(front));
                    ended.is_right();
                    assert_eq!(came_back(&ended), 1, "{program} {point} {kind:?} {ended}");
                    is_in_time
                });
                assert!(is_in_time, "{program} {point} {kind:?}");
            }
        }
    }
}

/// Stops the launcher before rank 0 dies, and kills rank 1 when it has. Returns whether it was in time.
fn lose_two(front: i32) -> bool {
    let launcher_pid = wait_for("launcher", || launcher(front));
    let is_over = || launcher(front) != Some(launcher_pid);
    for rank in 0..3 {
        wait_for("checkpoint", || (is_over() || newest_epoch(front, rank) >= 1).then_some(()));
    }
    if is_over() {
        return false;
    }
    signal(launcher_pid, libc::SIGSTOP);
    let store = open_store(front, 0).and_then(|file| Store::open(file.into()).ok());
    let is_first = store.is_some_and(|store| store.base().incarnation == Incarnation(0));
    let is_in_time = is_first && !processes_of_rank(front, 0).is_empty();
    if is_in_time {
        wait_for("death", || processes_of_rank(front, 0).is_empty().then_some(()));
        signal_rank(front, 1, libc::SIGKILL);
        std::thread::sleep(Duration::from_millis(200));
    }
    signal(launcher_pid, libc::SIGCONT);
    is_in_time
}

/// Of pages that come back, some are there: there are several runs of 64 of them.
#[test]
fn ranks_die_when_a_part_of_their_frames_has_come_back() {
    let programs =
        [("laplace", ["--size", "510", "--iterations", "40"]), ("lu", ["--size", "512", "--block", "16"])];
    for (program, arguments) in programs {
        for kind in all_kinds() {
            for rank in [0, 1] {
                let dies = format!("kill rank {rank} at recovery 2 after filled");
                let deaths = ["kill rank 1 at barrier 7", &dies];
                let times = computes_the_same(&replicas(kind.job(2), 3, &deaths), 2, program, &arguments);
                assert_eq!(times, 2, "{program} {kind:?} {dies}");
            }
        }
    }
}

/// A checkpoint is due by the clock of rank 1, which comes late to barrier 9, and not yet by that of rank 0,
/// which is there: rank 1 dies before it has told, or as it has told some.
#[test]
fn a_rank_dies_that_alone_knows_of_a_checkpoint() {
    for (ranks, moment) in [(2, "enter"), (2, "flush"), (4, "flush")] {
        let injections = [
            "delay all ranks by 100ms at barrier 4 after done",
            "delay rank 1 by 100ms at barrier 8 after done",
            &format!("kill rank 1 at barrier 9 after {moment}"),
        ];
        for kind in all_kinds() {
            for (program, arguments) in [("laplace", &LAPLACE[..]), ("lu", &LU[..])] {
                let job = kind.job(ranks).option("--replicas", "1").option("--checkpoint", "seconds=0.05");
                let job = injections.iter().fold(job, |job, one| job.option("--inject", one));
                assert_eq!(
                    computes_the_same(&job, ranks, program, arguments),
                    1,
                    "{program} {kind:?} {moment}"
                );
            }
        }
    }
}

/// The launcher is stopped when a rank dies: the other one saves itself, goes on, misses it, and waits.
#[test]
fn a_rank_that_misses_another_waits_for_a_launcher_that_takes_its_time() {
    let deaths = [
        "delay rank 0 by 2s at barrier 2",
        "delay rank 1 by 500ms at barrier 6 after meet",
        "kill rank 0 at checkpoint 6 after mark",
    ];
    let kind = Kind { engine: "mprotect", provider: "tcp", shares: false };
    let command = replicas(kind.job(2), 1, &deaths).command(&built("lu"), &[&LU[..], &["--check"]].concat());
    let stops = |front: i32| {
        std::thread::sleep(Duration::from_secs(1));
        let launcher = launcher(front).unwrap();
        signal(launcher, libc::SIGSTOP);
        std::thread::sleep(Duration::from_secs(5));
        signal(launcher, libc::SIGCONT);
    };
    let ended = run_beside(command, stops);
    assert_eq!((ended.status, came_back(&ended)), (0, 1), "{ended}");
}

/// Sends a signal to a process of a job, which was not waited for yet.
fn signal(pid: i32, signal: i32) {
    // SAFETY: the call takes numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}
