//! A program that no launcher has started is a job of one rank, which leaves nothing, however it ends.
//!
//! That no process and no file is left behind is checked after every run ([`scash_tests::cluster::run`]).

use libc::SIGABRT;
use scash_tests::cluster::built::built;
use scash_tests::cluster::{Ended, all_kinds, run};
use std::path::Path;
use std::process::Command;

const FAILS: &str = env!("CARGO_BIN_EXE_alone");

/// Runs a program by itself.
fn alone(program: &Path, arguments: &str, settings: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCASH_")) {
        command.env_remove(name);
    }
    command.args(arguments.split_whitespace()).envs(settings.iter().copied());
    run(command)
}

#[test]
fn laplace_by_itself_has_the_sequential_result_with_every_engine_and_provider() {
    for kind in all_kinds() {
        for threads in ["1", "3"] {
            let settings = [
                kind.setting(),
                ("SCASH_PROVIDER", kind.provider),
                ("SCASH_THREADS", threads),
                ("SCASH_CACHE", "1M"),
            ];
            let arguments = "--size 126 --iterations 20 --check --json";
            let ended = alone(&built("laplace"), arguments, &settings);
            let report = ended.is_equal(1);
            let told = [&report["engine"], &report["provider"]];
            let engine = if kind.shares { "shared frames" } else { kind.engine };
            assert_eq!(told, [engine, kind.provider], "{ended}");
            assert_eq!(report["threads"].to_string(), threads, "{ended}");
        }
    }
}

#[test]
fn a_rank_that_is_alone_is_gone_with_all_it_had_when_it_aborts_or_exits() {
    for kind in all_kinds() {
        let settings = [kind.setting(), ("SCASH_PROVIDER", kind.provider)];
        let ended = alone(Path::new(FAILS), "aborts", &settings);
        assert_eq!(ended.status, 128 + SIGABRT, "{ended}");
        let ended = alone(Path::new(FAILS), "exits", &settings);
        assert_eq!((ended.status, &ended.err[..]), (3, ""), "{ended}");
    }
}

#[test]
fn settings_that_make_no_sense_are_named_without_a_launcher_too() {
    for (name, value) in [
        ("SCASH_THREADS", "none"),
        ("SCASH_PROVIDER", "pigeon"),
        ("SCASH_FAULT", "none"),
        ("SCASH_CACHE", "1K"),
        ("SCASH_REGION", "much"),
    ] {
        alone(Path::new(FAILS), "exits", &[(name, value)]).refused(&[value]);
    }
}
