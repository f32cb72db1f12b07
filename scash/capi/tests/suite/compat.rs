//! Programs for other systems (`compat/jia.h`, `compat/Tmk.h`): of several files, on 1, 2 and 3 ranks, in
//! every kind of job. They compare what ranks have computed together with what each computes alone.

use crate::support::{Ended, Job, Program, cc, here, tool};
use std::io::Write;
use std::process::{Command, Stdio};

/// Every kind of job, with 1, 2 and 3 ranks.
fn jobs() -> impl Iterator<Item = Job> {
    Job::all().into_iter().map(|job| Job { ranks: job.ranks.min(3), ..job })
}

/// Runs a program in every kind of job, and checks that all ranks come to its end.
fn succeeds(program: &Program) {
    for job in jobs() {
        let ended = program.run(job, &[], &[]);
        ended.succeeded();
        let want: Vec<String> =
            (0..job.ranks).map(|rank| format!("rank {rank} of {} is through", job.ranks)).collect();
        assert_eq!(ended.sorted(), want, "{ended}");
    }
}

#[test]
fn a_program_for_jiajia_computes_the_same() {
    succeeds(&Program::compile_compat(&["jiajia", "jiajia_more"]));
}

#[test]
fn a_program_for_treadmarks_computes_the_same() {
    succeeds(&Program::compile_compat(&["treadmarks", "treadmarks_more"]));
}

/// Runs a program with an argument, on one rank and on three.
fn runs_wrong(program: &Program, how: &str) -> [Ended; 2] {
    let frames = [(1, true), (3, false)];
    frames.map(|(ranks, shares)| program.run(Job { shares, ..Job::of(ranks) }, &[], &[how]))
}

/// Checks that ranks with these arguments end with status 1, and are told so.
fn are_told(program: &Program, cases: &[(&str, &[&str])]) {
    for (how, words) in cases {
        for ended in runs_wrong(program, how) {
            ended.ended_with(1);
            ended.said(words);
            // Nobody knows its number before it has joined.
            assert_eq!(ended.err.starts_with("rank "), !how.contains("too early"), "{ended}");
        }
    }
}

#[test]
fn wrong_calls_of_jiajia_are_told() {
    let program = Program::compile_compat(&["jiajia_wrong"]);
    are_told(
        &program,
        &[
            ("too early", &["jia_lock(0): jia_init has not been called"]),
            ("lock", &["jia_lock(64): there are 0 to 63; define JIA_LOCKS for more"]),
            ("negative lock", &["jia_unlock(-1): there are 0 to 63"]),
            ("not held", &["jia_unlock: lock 63 is given back by a thread that does not have it"]),
            ("variable", &["jia_setcv(3): there are 0 to 2; define JIA_CVS for more"]),
            ("rank", &["jia_alloc2p: there is no rank "]),
            ("first rank", &["jia_alloc3: there is no rank "]),
            ("nothing", &["jia_alloc: dsm_alloc of 0 bytes"]),
            ("too much", &["jia_alloc2: cyclic_bytes = "]),
            ("begin twice", &["jia_init: cannot join the job: this process has joined its job already"]),
            ("error", &["7 is odd\n"]),
            ("end twice", &["jia_exit: dsm_finalize was called after dsm_finalize"]),
        ],
    );
    for ended in runs_wrong(&program, "") {
        ended.succeeded();
    }
}

#[test]
fn wrong_calls_of_treadmarks_are_told() {
    let program = Program::compile_compat(&["treadmarks_wrong"]);
    let no_data: &[&str] = &["Tmk_distribute: the ", "are not in the program's own data"];
    are_told(
        &program,
        &[
            ("barrier too early", &["Tmk_barrier: Tmk_startup has not been called"]),
            ("lock too early", &["Tmk_lock_acquire: Tmk_startup has not been called"]),
            ("variable too early", &["Tmk_distribute: Tmk_startup has not been called"]),
            ("stack", no_data),
            ("heap", no_data),
            ("shared", no_data),
            ("constant", no_data),
            ("length", no_data),
            ("library", no_data),
            ("lock", &["Tmk_lock_acquire(1024): there are 0 to 1023; define TMK_LOCKS for more"]),
            ("negative lock", &["Tmk_lock_release(4294967295): there are 0 to 1023"]),
            ("not held", &["Tmk_lock_release: lock 1023 is given back"]),
            ("free", &["Tmk_free: ", "is not shared memory"]),
            ("too much", &["Tmk_malloc: ", "raise SCASH_HEAP"]),
            ("begin twice", &["Tmk_startup: cannot join the job: this process has joined its job already"]),
            ("error", &["7 is odd\n"]),
        ],
    );
    for ended in runs_wrong(&program, "status") {
        ended.ended_with(3);
    }
    for ended in runs_wrong(&program, "") {
        ended.succeeded();
    }
}

/// Compiles a file with the headers alone, without whatever makes systems declare more.
fn takes(compiler: &str, options: &[&str], header: &str) {
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-c", "-o", "/dev/null"]).args(options);
    command.arg("-I").arg(here("include")).arg("-I").arg(here("include/compat")).arg("-");
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Before and behind others, and twice.
    let source = format!("#include <{header}>\n#include <time.h>\n#include <{header}>\nint f(void);\n");
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{header}, {options:?}: {told}");
}

#[test]
fn compilers_take_the_headers_without_a_warning() {
    for header in ["jia.h", "Tmk.h"] {
        for standard in ["-std=c99", "-std=gnu99", "-std=c11"] {
            takes(&cc(), &[standard, "-x", "c"], header);
        }
        let Some(compiler) = tool("CXX", "c++") else {
            eprintln!("skipped: {header} as C++: there is no compiler (c++, or what CXX names)");
            continue;
        };
        takes(&compiler, &["-std=c++11", "-x", "c++"], header);
    }
}
