//! Ranks and threads are stopped in the middle of a checkpoint while ranks die, and ranks fail at random,
//! on one host (`scash run --replicas`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::built::built;
use scash_tests::cluster::{
    Job, all_kinds, came_back, launcher, newest_epoch, processes_of_rank, replicas, run_beside, signal_rank,
    wait_for,
};
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LU: [&str; 6] = ["--size", "256", "--block", "16", "--check", "--json"];
const LAPLACE: [&str; 6] = ["--size", "126", "--iterations", "40", "--check", "--json"];

/// Rank 1 is where it is in checkpoint 2 until it is ended: nobody wakes it. Rank 0 has its mark, and is
/// killed. What ranks go on from is decided by whether the stopped one has marked.
#[test]
fn a_rank_that_is_stopped_through_a_checkpoint_in_which_another_dies_comes_back_with_it() {
    let moments = [("due", 1), ("stop", 1), ("copy", 1), ("fence", 1), ("mark", 2), ("meet", 2)];
    for kind in all_kinds() {
        for (moment, epoch) in moments {
            let waits = [
                format!("delay rank 1 by 300s at checkpoint 2 after {moment}"),
                format!(
                    "delay rank 0 by 300s at checkpoint 2 after {}",
                    if moment == "meet" { moment } else { "mark" }
                ),
            ];
            let job = replicas(kind.job(2), 2, &waits.each_ref().map(String::as_str));
            for (program, arguments) in [("lu", LU), ("laplace", LAPLACE)] {
                let ended = run_beside(job.command(&built(program), &arguments), |front| {
                    wait_for("mark of rank 0", || (newest_epoch(front, 0) == 2).then_some(()));
                    if epoch == 2 {
                        wait_for("mark of rank 1", || (newest_epoch(front, 1) == 2).then_some(()));
                    }
                    signal_rank(front, 1, libc::SIGSTOP);
                    signal_rank(front, 0, libc::SIGKILL);
                });
                ended.is_right();
                assert_eq!(came_back(&ended), 1, "{program} {kind:?} {moment} {ended}");
                ended.said(&[&format!("(epoch {epoch}, incarnation 1)")]);
            }
        }
    }
}

/// Without a shell that could continue it: the system stops no such process, and no SIGCONT ever comes.
#[test]
fn a_stop_that_the_system_does_not_carry_out_keeps_no_rank_from_coming_back() {
    let job = replicas(Job::plain(2), 2, &["delay rank 1 by 300s at barrier 9"]);
    let lu = job.command(&built("lu"), &LU);
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(lu.get_program()).args(lu.get_args());
    let ended = run_beside(command, |setsid| {
        let front = wait_for("front", || launcher(setsid));
        wait_for("epoch 4", || (newest_epoch(front, 1) == 4).then_some(()));
        // SAFETY: the call takes numbers.
        unsafe { libc::kill(front, libc::SIGTSTP) };
        std::thread::sleep(Duration::from_millis(300));
        signal_rank(front, 1, libc::SIGKILL);
    });
    ended.is_right();
    assert_eq!(came_back(&ended), 1, "{ended}");
}

/// In `letters` other threads pass messages all the time, and are stopped wherever they are.
#[test]
fn threads_that_are_stopped_or_in_the_barrier_as_a_rank_dies_go_on() {
    let deaths = [
        "kill rank 1 at checkpoint 5 after stop",
        "kill all ranks at checkpoint 3 after stop in incarnation 1",
        "kill rank 0 at checkpoint 2 after stop in incarnation 2",
    ];
    let letters = Path::new(env!("CARGO_BIN_EXE_letters"));
    for kind in all_kinds() {
        let expected = kind.job(2).run(letters, &["threads"]);
        let ended = replicas(kind.job(2), 1, &deaths).run(letters, &["threads"]);
        assert_eq!((ended.status, ended.sorted()), (0, expected.sorted()), "{kind:?} {ended}");
        assert_eq!(came_back(&ended), deaths.len(), "{kind:?} {ended}");
        let ended = replicas(kind.job(2), 1, &deaths).option("--threads", "4").run(&built("lu"), &LU);
        ended.is_right();
        assert_eq!(came_back(&ended), deaths.len(), "{kind:?} {ended}");
    }
}

/// Of what may go wrong with these, something does.
const SEEDS: [u64; 6] = [2, 4, 7, 8, 12, 15];

/// Ranks that are killed say so before, and so deaths are counted.
#[test]
fn random_failures_on_one_host_do_not_change_the_result() {
    let mut killed = 0;
    let programs = [("lu", LU), ("laplace", LAPLACE)];
    for (seed, (program, arguments)) in
        SEEDS.into_iter().flat_map(|seed| programs.map(|program| (seed, program)))
    {
        let said = tempfile::NamedTempFile::new().unwrap();
        let job = replicas(Job::plain(2), 2, &[]).option("--chaos", &seed.to_string());
        let job = job.option("--restarts", "100").env("SCASH_INJECTED", said.path());
        let ended = job.run(&built(program), &arguments);
        ended.is_right();
        let deaths = std::fs::read_to_string(said.path()).unwrap().lines().count();
        let restarts = came_back(&ended);
        assert!((deaths > 0) == (restarts > 0) && restarts <= deaths, "{deaths} deaths: {ended}");
        killed += deaths;
    }
    assert!(killed > 10, "{killed} deaths");
}

/// Up to 22 ms after it was started. Undisturbed, it has its memory back after some 30 ms.
#[test]
fn a_rank_that_comes_back_is_killed_before_it_has_all_of_its_memory() {
    let churn = Path::new(env!("CARGO_BIN_EXE_churn"));
    let arguments = ["200", "40000"];
    let undisturbed = Job::plain(2).run(churn, &arguments);
    let job = replicas(Job::plain(2), 1, &["kill rank 1 at barrier 40"]).option("--restarts", "100");
    let ended = run_beside(job.command(churn, &arguments), |front| {
        kill_new_starts(front, (0..12).map(|number| number * 2));
    });
    assert_eq!((ended.status, ended.sorted()), (0, undisturbed.sorted()), "{ended}");
    assert_eq!(came_back(&ended), 1 + 12, "{ended}");
}

/// Kills rank 1 again and again when it has been started again, so many milliseconds later each time.
fn kill_new_starts(front: i32, after: impl Iterator<Item = u64>) {
    let mut seen = HashSet::new();
    let mut next = || {
        let new = wait_for("next start of rank 1", || {
            processes_of_rank(front, 1).into_iter().find(|pid| !seen.contains(pid))
        });
        seen.insert(new);
        new
    };
    next();
    for milliseconds in after {
        let pid = next();
        std::thread::sleep(Duration::from_millis(milliseconds));
        // SAFETY: the call takes numbers. The launcher has not waited for the process, which needs longer
        // than that to come to an end.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    }
}

/// These have less memory. Rank 0 waits when it has come back, so that no start of rank 1 comes to its end.
#[test]
fn a_rank_of_any_kind_is_killed_before_or_just_when_it_has_its_memory() {
    for kind in all_kinds() {
        for (program, arguments) in [("lu", LU), ("laplace", LAPLACE)] {
            let deaths = [
                // It is seen before it dies.
                "delay rank 1 by 300ms at barrier 1",
                "kill rank 1 at barrier 8",
                "delay rank 0 by 2s at recovery after joined in every incarnation",
            ];
            let job = replicas(kind.job(2), 2, &deaths).option("--restarts", "100");
            let ended = run_beside(job.command(&built(program), &arguments), |front| {
                kill_new_starts(front, (0..6).map(|number| number * 2));
            });
            ended.is_right();
            assert_eq!(came_back(&ended), 1 + 6, "{program} {kind:?} {ended}");
            assert!(!ended.err.contains("from the beginning"), "{program} {kind:?} {ended}");
        }
    }
}
