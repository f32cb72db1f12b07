//! The programs as their users see them: what they print, and how they end.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::process::{Command, Output};

use serde_json::Value;

const LAPLACE: [&str; 2] = [env!("CARGO_BIN_EXE_laplace"), env!("CARGO_BIN_EXE_laplace-c")];
const LU: [&str; 2] = [env!("CARGO_BIN_EXE_lu"), env!("CARGO_BIN_EXE_lu-c")];

fn run(program: &str, arguments: &str) -> Output {
    Command::new(program).args(arguments.split_whitespace()).output().unwrap()
}

/// The JSON objects that a successful run prints.
fn objects(program: &str, arguments: &str) -> Vec<Value> {
    let output = run(program, arguments);
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a run that is refused says.
fn refusal(program: &str, arguments: &str) -> String {
    let output = run(program, arguments);
    assert_eq!(output.status.code(), Some(2), "{program} {arguments}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_mode_has_the_sequential_result() {
    for (programs, sizes) in [
        (
            LAPLACE,
            ["--size 1", "--size 2 --iterations 3", "--size 30 --iterations 0", "--size 65 --iterations 9"],
        ),
        (LU, ["--size 1 --block 1", "--size 6 --block 6", "--size 36 --block 12", "--size 64 --block 16"]),
    ] {
        for program in programs {
            for size in sizes {
                for mode in ["--sequential", "--threads 1", "--threads 2 --pin", "--threads 5"] {
                    let arguments = format!("{size} {mode} --check --repeat 2 --json");
                    let lines = objects(program, &arguments);
                    assert_eq!(lines.len(), 2, "{program} {arguments}");
                    assert!(lines.iter().all(|line| line["check"] == "equal"), "{program} {arguments}");
                }
            }
        }
    }
}

#[test]
fn a_json_line_has_all_that_comparisons_need() {
    for (program, name) in
        [(LAPLACE[0], "laplace"), (LAPLACE[1], "laplace-c"), (LU[0], "lu"), (LU[1], "lu-c")]
    {
        let line = objects(program, "--size 64 --threads 2 --json").remove(0);
        assert_eq!(line["program"], name);
        assert_eq!(line["mode"], "threads");
        assert_eq!(line["ranks"], 1);
        assert_eq!(line["threads"], 2);
        assert_eq!(line["provider"], Value::Null);
        assert_eq!(line["engine"], Value::Null);
        assert!(line["seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(line["check"], Value::Null);
        for part in ["sync", "diff", "update"] {
            assert_eq!(line["barrier"][part].as_f64(), Some(0.0));
        }
        for count in ["faults", "messages", "bytes", "repetition"] {
            assert_eq!(line[count], 0, "{count}");
        }
        assert_eq!(line["size"], 64);
    }
}

#[test]
fn people_get_a_line_per_repetition() {
    for program in [LAPLACE, LU].concat() {
        let output = run(program, "--size 64 --sequential --repeat 3 --check");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 3);
        let line = text.lines().next().unwrap();
        assert!(line.contains("sequential, 1 thread: ") && line.contains(" ms, equal to"), "{line}");
    }
}

#[test]
fn wrong_options_are_named() {
    for program in [LAPLACE, LU].concat() {
        for (arguments, hint) in [
            ("--size x --sequential", "--size"),
            ("--size -1 --sequential", "--size"),
            ("--threads 0", "--threads"),
            ("--repeat 0 --sequential", "--repeat"),
            ("--sequential --threads 2", "--threads"),
            ("--sequential --pin", "--pin"),
            ("--sequential 7", "7"),
            ("--colour --sequential", "--colour"),
        ] {
            let text = refusal(program, arguments);
            assert!(text.contains(hint), "{program} {arguments}: {text}");
        }
    }
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for program in [LAPLACE, LU].concat() {
        assert!(refusal(program, "--size 0 --sequential").contains("--size"));
        let huge = refusal(program, &format!("--sequential --size {}", usize::MAX - 63));
        assert!(huge.contains("smaller --size"), "{huge}");
        // More than the address space of a process, but no overflow.
        let large = refusal(program, &format!("--sequential --size {}", 1usize << 28));
        assert!(large.contains("no memory"), "{large}");
    }
    for program in LU {
        let text = refusal(program, "--size 100 --block 64 --sequential");
        assert!(text.contains("100") && text.contains("multiple of --block 64"), "{text}");
        refusal(program, "--block 0 --sequential");
    }
}

#[test]
fn without_a_mode_and_without_a_launcher_a_program_says_how_to_start_it() {
    for program in [LAPLACE, LU].concat() {
        let text = refusal(program, "--size 64");
        assert!(text.contains("scash run") && text.contains("--sequential"), "{text}");
    }
}

#[test]
fn help_names_every_option() {
    for program in [LAPLACE, LU].concat() {
        let text = String::from_utf8(run(program, "--help").stdout).unwrap();
        for option in ["--size", "--sequential", "--threads", "--pin", "--repeat", "--check", "--json"] {
            assert!(text.contains(option), "{program}: {option}");
        }
    }
}
