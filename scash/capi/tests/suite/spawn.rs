//! Programs whose rank 0 runs main and gives the others what they run, as after fork: `scash_spawn.h`, and
//! the PARMACS macros that stand on it.

use crate::support::{Job, Link, Program};

const FIXED: &[&str] = &["--no-aslr"];

/// The numbers that `parmacs.c` sums.
fn expected() -> u64 {
    (0..3000u32).map(|i| u64::from(i.wrapping_mul(2_654_435_761) >> 7)).sum()
}

#[test]
fn ranks_find_the_variables_of_rank_0_in_each_round() {
    let spawn = Program::compile("spawn", Link::Shared);
    for job in Job::all() {
        let ended = spawn.run_with(job, FIXED, &[], &[]);
        ended.succeeded();
        let rounds = |rank: u32| (1..4).map(move |round| format!("rank {rank}, round {round}"));
        let mut lines: Vec<String> = (1..job.ranks).flat_map(rounds).collect();
        lines.insert(0, "main".to_owned());
        assert_eq!(ended.sorted(), lines, "{ended}");
    }
}

#[test]
fn what_is_given_out_of_turn_is_refused() {
    let ended = Program::compile("spawn", Link::Shared).run_with(Job::of(2), FIXED, &[], &["wrong"]);
    ended.succeeded();
    ended.said(&["no function", "rank 0 alone gives", "rank 0 alone waits", "call dsm_spawn_wait first"]);
}

#[test]
fn a_start_that_cannot_work_is_told_with_what_would() {
    let shared = Program::compile("spawn", Link::Shared).run(Job::of(2), &[], &[]);
    shared.ended_with(3);
    shared.said(&["scash run --no-aslr"]);
    assert_eq!(shared.err.matches("--no-aslr").count(), 1, "one rank says it: {shared}");
    let archive = Program::compile("spawn", Link::Static).run_with(Job::of(2), FIXED, &[], &[]);
    archive.ended_with(3);
    archive.said(&["link the program with libscash.so"]);
}

#[test]
fn programs_of_the_parmacs_macros_run_on_ranks() {
    let parmacs = Program::compile_compat(&["parmacs"]);
    for job in Job::all() {
        for how in ["once", "twice"] {
            let ended = parmacs.run_with(job, FIXED, &[], &[&job.ranks.to_string(), how]);
            ended.succeeded();
            assert_eq!(ended.out, format!("{}\n", expected()), "{how}: {ended}");
        }
    }
}

#[test]
fn a_program_that_makes_another_number_of_processes_is_told_so() {
    let parmacs = Program::compile_compat(&["parmacs"]);
    for (processes, how, words) in [
        ("3", "once", "CREATE: more processes than ranks"),
        // The last rank runs before the process that is one too many is asked for: either tells it first.
        ("3", "twice", "processes"),
        ("1", "once", "BARRIER: 1 processes are meant, 1 are made, and the job has 2 ranks"),
    ] {
        let ended = parmacs.run_with(Job::of(2), FIXED, &[], &[processes, how]);
        assert_ne!(ended.status, Some(0), "{ended}");
        ended.said(&[words, "scash run -n"]);
    }
}
