//! The programs as their users see them: what they print, and how they end.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::process::{Command, Output};

use serde_json::Value;

/// A program, and parameters that leave some workers without work, or give some more than others.
struct Program {
    name: &'static str,
    path: &'static str,
    parameters: &'static [&'static str],
}

macro_rules! program {
    ($name:literal, $($parameters:literal),+) => {
        Program {
            name: $name,
            path: env!(concat!("CARGO_BIN_EXE_", $name)),
            parameters: &[$($parameters),+],
        }
    };
}

#[rustfmt::skip]
const PROGRAMS: [Program; 22] = [
    program!("laplace", "--size 1", "--size 2 --iterations 3", "--size 30 --iterations 0", "--size 65 --iterations 9"),
    program!("laplace-c", "--size 1", "--size 2 --iterations 3", "--size 30 --iterations 0", "--size 65 --iterations 9"),
    program!("lu", "--size 1 --block 1", "--size 6 --block 6", "--size 36 --block 12 --layout rows", "--size 64 --block 16"),
    program!("lu-c", "--size 1 --block 1", "--size 6 --block 6", "--size 36 --block 12", "--size 64 --block 16"),
    program!("sor", "--size 1", "--size 2 --iterations 3", "--size 30 --iterations 0", "--size 65 --iterations 9"),
    program!("ocean", "--size 5", "--size 9 --steps 0", "--size 65 --steps 3 --cycles 4"),
    program!("matmul", "--size 1", "--size 7", "--size 70"),
    program!("fft", "--size 1", "--size 16", "--size 1024"),
    program!("radix", "--size 1", "--size 7", "--size 3000"),
    program!("kmeans", "--size 1 --clusters 1", "--size 2000 --iterations 0", "--size 3000 --clusters 7 --dimensions 3 --iterations 4"),
    program!("ep", "--batches 1", "--batches 7"),
    program!("is", "--class S"),
    program!("shifting", "--size 1", "--size 90 --iterations 0", "--size 1000 --iterations 9 --period 2"),
    program!("relay", "--size 1", "--size 90 --turns 0", "--size 1000 --turns 9 --period 2"),
    program!("tsp", "--cities 1", "--cities 4", "--cities 9"),
    program!("market", "--size 1", "--size 8 --steps 0", "--size 65 --steps 5"),
    program!("nbody", "--bodies 1", "--bodies 9 --steps 0", "--bodies 90 --steps 3 --theta 0.7 --locks 5"),
    program!("fmm", "--particles 1", "--particles 9 --steps 0 --terms 1", "--particles 90 --steps 3 --terms 5 --per-box 2 --locks 5"),
    program!("raytrace", "--size 1", "--size 9 --depth 0 --tile 20", "--size 50 --depth 2 --tile 7 --queue atomic"),
    program!("volume", "--size 2 --image 1", "--size 9 --image 5 --frames 1 --tile 20", "--size 24 --image 30 --frames 3 --tile 7 --steal off --queue atomic"),
    program!("cholesky", "--size 1", "--size 4 --locks 1", "--size 30 --locks 7"),
    program!("water", "--size 1", "--size 8 --steps 0", "--size 65 --steps 3"),
];

/// The paths of some programs.
fn paths<const N: usize>(names: [&str; N]) -> [&'static str; N] {
    names.map(|name| PROGRAMS.iter().find(|program| program.name == name).unwrap().path)
}

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
    for Program { path, parameters, .. } in PROGRAMS {
        for parameters in parameters {
            for mode in ["--sequential", "--threads 1", "--threads 2 --pin", "--threads 5"] {
                let arguments = format!("{parameters} {mode} --check --repeat 2 --json");
                let lines = objects(path, &arguments);
                assert_eq!(lines.len(), 2, "{path} {arguments}");
                assert!(lines.iter().all(|line| line["check"] == "equal"), "{path} {arguments}");
            }
        }
    }
}

#[test]
fn a_json_line_has_all_that_comparisons_need() {
    for Program { name, path, parameters } in PROGRAMS {
        let parameters = parameters.last().unwrap();
        let line = objects(path, &format!("{parameters} --threads 2 --json")).remove(0);
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
        let words: Vec<&str> = parameters.split_whitespace().collect();
        for [option, value] in words.as_chunks().0 {
            let parameter = &line[option.trim_start_matches("--")];
            assert_eq!(parameter.to_string().trim_matches('"'), *value, "{name} {option}");
        }
    }
}

#[test]
fn people_get_a_line_per_repetition() {
    for Program { path, parameters, .. } in PROGRAMS {
        let output = run(path, &format!("{} --sequential --repeat 3 --check", parameters[0]));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 3);
        let line = text.lines().next().unwrap();
        assert!(line.contains("sequential, 1 thread: ") && line.contains(" ms, equal to"), "{line}");
    }
}

#[test]
fn wrong_options_are_named() {
    for Program { path, parameters, .. } in PROGRAMS {
        let option = parameters[0].split(' ').next().unwrap();
        for (arguments, hint) in [
            (&*format!("{option} x --sequential"), option),
            (&*format!("{option} -1 --sequential"), option),
            ("--threads 0", "--threads"),
            ("--repeat 0 --sequential", "--repeat"),
            ("--sequential --threads 2", "--threads"),
            ("--sequential --pin", "--pin"),
            ("--sequential 7", "7"),
            ("--colour --sequential", "--colour"),
        ] {
            let text = refusal(path, arguments);
            assert!(text.contains(hint), "{path} {arguments}: {text}");
        }
    }
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for program in paths(["laplace", "laplace-c", "lu", "lu-c", "sor", "matmul"]) {
        assert!(refusal(program, "--size 0 --sequential").contains("--size"));
        let huge = refusal(program, &format!("--sequential --size {}", usize::MAX - 63));
        assert!(huge.contains("smaller --size"), "{huge}");
        // More than the address space of a process, but no overflow.
        let large = refusal(program, &format!("--sequential --size {}", 1usize << 28));
        assert!(large.contains("no memory"), "{large}");
    }
    for program in paths(["lu", "lu-c"]) {
        let text = refusal(program, "--size 100 --block 64 --sequential");
        assert!(text.contains("100") && text.contains("multiple of --block 64"), "{text}");
        refusal(program, "--block 0 --sequential");
    }
    for (program, arguments, hint) in [
        ("ocean", "--size 0", "--size 0 is not a power of 2 and 1 more"),
        ("ocean", "--size 3", "from 5 on"),
        ("ocean", "--size 64", "65"),
        ("ocean", "--cycles 0", "--cycles 0"),
        ("ocean", "--size 9223372036854775809", "smaller --size"),
        ("ocean", "--size 268435457", "no memory"),
        ("fft", "--size 0", "--size 0"),
        ("fft", "--size 1000", "--size 1000 is not a power of 4"),
        ("fft", "--size 2048", "1024"),
        ("fft", "--size 1152921504606846976", "smaller --size"),
        ("fft", "--size 4398046511104", "no memory"),
        ("kmeans", "--dimensions 0", "--dimensions 0"),
        ("kmeans", "--size 10 --clusters 11", "--clusters 11 are more than --size 10"),
        ("kmeans", "--size 18446744073709551615", "smaller --size"),
        ("kmeans", "--size 72057594037927936", "no memory"),
        ("is", "--class D", "--class"),
        ("ep", "--class D", "--class"),
        ("ep", "--batches 0", "--batches 0"),
        ("tsp", "--cities 0", "--cities 0"),
        ("tsp", "--cities 25", "--cities 25 would take years; choose at most 24"),
        ("nbody", "--bodies 0", "--bodies 0"),
        ("nbody", "--locks 0", "--locks 0"),
        ("nbody", "--theta nan", "--theta NaN is not from 0 to 1"),
        ("nbody", "--bodies 18446744073709551615", "choose at most 1048576"),
        ("fmm", "--particles 0", "--particles 0 is not from 1 to 1048576"),
        ("fmm", "--terms 41", "--terms 41 is not from 1 to 40"),
        ("fmm", "--per-box 0", "--per-box 0 is not from 1 to 1024"),
        ("fmm", "--locks 0", "--locks 0"),
        ("raytrace", "--size 0", "--size 0"),
        ("raytrace", "--tile 0", "--tile 0"),
        ("raytrace", "--queue none", "--queue"),
        ("raytrace", "--size 18446744073709551615", "smaller --size"),
        ("raytrace", "--size 1073741824", "no memory"),
        ("raytrace", "--size 9 --out /dev/null/picture", "cannot write the picture to /dev/null/picture: "),
        ("cholesky", "--size 0", "--size 0"),
        ("cholesky", "--locks 0", "--locks 0"),
        ("cholesky", "--size 1025", "--size 1025 is too large a grid; choose at most 1024"),
        ("water", "--size 0", "--size 0"),
        ("water", "--size 18446744073709551615", "smaller --"),
        ("water", "--size 72057594037927936", "no memory"),
        ("shifting", "--size 0", "--size 0"),
        ("shifting", "--period 0", "--period 0"),
        ("shifting", "--size 18446744073709551615", "smaller --size"),
        ("relay", "--period 0", "--period 0"),
        ("relay", "--size 18446744073709551615", "smaller --size"),
        ("radix", "--size 0", "--size 0"),
        ("radix", "--size 18446744073709551615", "smaller --size"),
        ("radix", "--size 1152921504606846976", "no memory"),
    ] {
        let [path] = paths([program]);
        let text = refusal(path, &format!("{arguments} --sequential"));
        assert!(text.contains(hint), "{program} {arguments}: {text}");
    }
}

#[test]
fn volumes_and_pictures_that_make_no_sense_are_refused() {
    let [path] = paths(["volume"]);
    for (arguments, hint) in [
        ("--size 1", "--size 1 is not from 2 to 1024"),
        ("--size 1025", "--size 1025 is not from 2 to 1024"),
        ("--image 0", "--image 0 is not from 1 to 4096"),
        ("--frames 0", "--frames 0 is not from 1 to 1024"),
        ("--tile 0", "--tile 0 is not from 1 to 4096"),
        ("--steal maybe", "--steal"),
        ("--queue none", "--queue"),
        ("--size 9 --image 9 --out /dev/null/it", "cannot write the picture to /dev/null/it: "),
    ] {
        let text = refusal(path, &format!("{arguments} --sequential"));
        assert!(text.contains(hint), "{arguments}: {text}");
    }
}

#[test]
fn the_nas_programs_say_that_their_results_are_the_published_ones() {
    for path in paths(["is", "ep"]) {
        let arguments = "--class S --threads 2";
        assert_eq!(objects(path, &format!("{arguments} --json"))[0]["verification"], "successful");
        let text = String::from_utf8(run(path, arguments).stdout).unwrap();
        assert!(text.ends_with(", verification successful\n"), "{text}");
    }
}

#[test]
fn without_a_mode_and_without_a_launcher_a_program_is_a_job_of_one_rank() {
    for Program { path, parameters, .. } in PROGRAMS {
        for parameters in parameters {
            let line = objects(path, &format!("{parameters} --check --json")).remove(0);
            let told = [&line["mode"], &line["check"]];
            assert_eq!(told, ["dsm", "equal"], "{path} {parameters}");
            assert_eq!((&line["ranks"], &line["threads"]), (&1.into(), &1.into()), "{path} {parameters}");
        }
    }
}

#[test]
fn help_names_every_option() {
    for Program { path, parameters, .. } in PROGRAMS {
        let text = String::from_utf8(run(path, "--help").stdout).unwrap();
        let own = parameters.last().unwrap().split(' ').step_by(2);
        for option in
            ["--sequential", "--threads", "--pin", "--repeat", "--check", "--json"].into_iter().chain(own)
        {
            assert!(text.contains(option), "{path}: {option}");
        }
    }
}
