//! Every benchmark runs, on two ranks, and what it prints can be read. How long anything takes is not looked
//! at.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod command;

use std::process::Command;
use std::time::{Duration, Instant};

use command::{LIMIT, run, scash, text};
use scash::fault::{EngineKind, choose};
use scash_bench::namespaces::Namespaces;
use scash_bench::record::{Record, parse};
use scash_bench::scale::trace::Laplace;
use scash_bench::scale::{World, presets};

/// The records that a measurement on two ranks prints.
fn micro(options: &str, what: &str, variables: &[(&str, &str)]) -> Vec<Record> {
    let program = env!("CARGO_BIN_EXE_scash-micro");
    parse(&text(&format!("run -n 2 {options} {program} {what} --json"), variables)).unwrap()
}

/// Figures that are the difference of two times may be anything on a disturbed machine.
fn is_difference(record: &Record, name: &str) -> bool {
    record.mode == "rewrite" || (record.mode == "update" && name.starts_with("page"))
}

#[test]
fn every_measurement_has_figures_that_are_numbers() {
    for (what, figures) in [
        // What is measured, and how many figures it has at least.
        ("barrier --in-use 100k --rounds 2 --length 5", 2),
        ("update --pages 2 --rounds 3", 5),
        ("read --pages 5 --rounds 2", 5),
        ("rewrite --pages 3 --rounds 2", 8),
        ("fault --pages 3 --rounds 2", 6),
        ("diff --pages 2 --rounds 2", 6),
        ("memory --in-use 1M", 4),
    ] {
        for options in ["--provider shm", "--provider tcp", "--fault mprotect"] {
            let records = micro(options, what, &[]);
            assert_eq!(records.len(), if what.starts_with("memory") { 2 } else { 1 }, "{what}");
            for record in records {
                assert_eq!((record.program.as_str(), record.ranks), ("scash-micro", 2), "{what}");
                assert_ne!(record.check.as_deref(), Some("different"), "{what} {options}");
                assert!(record.figures.len() >= figures, "{what}: {:?}", record.figures);
                for (name, figure) in &record.figures {
                    let sound = figure.is_finite() && (*figure > 0.0 || is_difference(&record, name));
                    assert!(sound, "{what} {options}: {name} is {figure}");
                }
            }
        }
    }
}

#[test]
fn what_there_is_to_measure_where_ranks_share_frames_is_measured_and_the_rest_is_said() {
    for what in ["barrier --rounds 2 --length 5", "read --pages 5 --rounds 2", "memory --in-use 1M"] {
        for record in micro("", what, &[("SCASH_SHARE", "on")]) {
            let figures: Vec<_> = record.figures.iter().filter(|(_, figure)| !figure.is_finite()).collect();
            assert!(figures.is_empty() && record.faults == 0, "{what}: {record:?}");
        }
    }
    let program = env!("CARGO_BIN_EXE_scash-micro");
    let output = run(&format!("run -n 2 {program} update"), &[("SCASH_SHARE", "on")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("set SCASH_SHARE=off"), "{said}");
}

/// Each page faults twice a round: absent to readable, and read-only to writable. Writes to watched pages are
/// no faults.
#[test]
fn every_engine_that_works_is_measured_alone_without_a_job() {
    for kind in EngineKind::ALL.into_iter().filter(|kind| choose(Some(kind.name())).is_ok()) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scash-micro"));
        command.args(["engine", "--pages", "5", "--rounds", "2", "--json"]).env("SCASH_FAULT", kind.name());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let records = parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
        let [record] = &records[..] else { panic!("one line: {records:?}") };
        assert_eq!((record.engine.as_deref(), record.provider.as_deref()), (Some(kind.name()), None));
        assert!(record.faults >= 2 * 2 * 5, "{record:?}");
        for name in ["signal_us", "absent_to_readable_us", "read_only_to_writable_us"] {
            assert!(record.figures.get(name).is_some_and(|figure| *figure > 0.0), "{name}: {record:?}");
        }
    }
}

#[test]
fn every_provider_is_measured_alone_without_a_job() {
    for provider in ["shm", "tcp"] {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT, env!("CARGO_BIN_EXE_scash-micro"), "network"]);
        let output =
            command.args(["--provider", provider, "--rounds", "2", "--length", "5", "--json"]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        let records = parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
        let [record] = &records[..] else { panic!("one line: {records:?}") };
        assert_eq!((record.provider.as_deref(), record.engine.as_deref()), (Some(provider), None));
        assert_eq!(record.parameters["direct"], provider == "shm");
        for name in ["round_trip_us", "send_us", "in_burst_us", "put_us", "large_put_us", "get_us"] {
            assert!(record.figures.get(name).is_some_and(|figure| *figure > 0.0), "{name}: {record:?}");
        }
    }
}

#[test]
fn an_engine_that_there_is_not_is_refused_with_those_that_there_are() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scash-micro"));
    let output = command.arg("engine").env("SCASH_FAULT", "magic").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("uffd and mprotect"), "{output:?}");
}

#[test]
fn pages_are_updated_by_message_and_by_zero_copy() {
    for transfer in ["message", "zero-copy"] {
        for options in ["--provider shm", "--provider tcp"] {
            let [record] =
                &micro(options, "update --pages 3 --rounds 3", &[("SCASH_TRANSFER", transfer)])[..]
            else {
                panic!("one rank tells");
            };
            assert_eq!(
                (record.check.as_deref(), &record.parameters["transfer"]),
                (Some("equal"), &transfer.into())
            );
        }
    }
}

#[test]
fn people_get_a_line_with_units() {
    let program = env!("CARGO_BIN_EXE_scash-micro");
    let text = text(&format!("run -n 2 {program} read --pages 4 --rounds 1"), &[]);
    assert!(
        text.starts_with("read, shm, ") && text.contains(": scattered ") && text.contains(" µs"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn what_is_measured_between_two_ranks_says_that_one_is_not_enough() {
    let program = env!("CARGO_BIN_EXE_scash-micro");
    for what in ["update", "read", "rewrite", "fault"] {
        let output = run(&format!("run -n 1 {program} {what}"), &[]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{what}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("scash run -n 2"), "{output:?}");
    }
}

#[test]
fn the_tables_have_all_their_lines() {
    for (what, first_words) in [
        (
            "table3",
            &["SCASH on Myrinet", "shm, the whole", "shm, the home's", "tcp, the whole", "tcp, the home's"][..],
        ),
        ("figure2 --in-use 0,64k", &["1 ", "2 ", "4 ", "8 "]),
        (
            "micro",
            &[
                "empty memory barrier",
                "cold page read",
                "page rewritten",
                "a signal whose handler",
                "the engine alone",
                "with the protocol",
                "diff of",
                "memory a rank",
            ],
        ),
    ] {
        let text = text(&format!("bench {what} --quick"), &[]);
        for words in first_words {
            let line = text.lines().find(|line| line.starts_with(words));
            // A difference of two times may tell nothing.
            let complete =
                |line: &str| words.ends_with("whole") || line.split_whitespace().all(|word| word != "-");
            assert!(line.is_some_and(complete), "{words}:\n{text}");
        }
    }
}

/// Of a program's lines, the one that was measured in the way whose name ends so.
fn way<'a>(records: &'a [Record], program: &str, name: &str) -> &'a Record {
    let is_it = |record: &&Record| {
        record.program == program && record.parameters["way"].as_str().unwrap().ends_with(name)
    };
    let found = records.iter().find(is_it);
    found.unwrap_or_else(|| panic!("no line for {program}, {name}"))
}

#[test]
fn a_limit_on_cached_pages_has_pages_go_and_come_again() {
    let records = parse(&text("bench cache --quick --json", &[])).unwrap();
    let count = |program: &str, name: &str, figure: &str| way(&records, program, name).figures[figure];
    for program in ["matmul", "fft", "relay"] {
        assert_eq!(count(program, "no limit", "evicted_pages"), 0.0);
        for policy in ["fifo", "sieve"] {
            let least = format!("(64 pages), {policy}");
            assert!(count(program, &least, "evicted_pages") > 0.0, "{program}, {least}");
            assert!(count(program, &least, "cached_pages") <= 2.0 * 64.0, "{program}, {least}");
        }
    }
    // Each rank goes through a block of 160 pages again and again.
    let fetched = |name: &str| count("relay", name, "fetched_pages");
    assert!(fetched("(64 pages), fifo") > 2.0 * fetched("no limit"), "{records:?}");
}

#[test]
fn what_is_switched_off_is_of_no_use_any_more() {
    let records = parse(&text("bench adaptive --quick --json", &[])).unwrap();
    for (program, name, figure) in [
        ("lu", "fetching ahead", "prefetched_pages"),
        ("laplace", "updating copies", "updated_pages"),
        ("relay", "updating copies", "updated_pages"),
        ("water", "renewing copies", "renewed_pages"),
    ] {
        let with = way(&records, program, "with everything").figures[figure];
        let without = way(&records, program, &format!("without {name}")).figures[figure];
        assert!(with > 0.0 && without < with, "{program}, {figure}: {with} with {name}, {without} without");
    }
    let faults = |name| way(&records, "lu", name).faults;
    assert!(faults("without fetching ahead") > faults("with everything"));
}

/// Which accesses fault depends on the program and the protocol, and not on time. Rows of 510 elements and
/// two of the frame are pages.
#[test]
fn the_simulator_counts_the_faults_that_real_ranks_take() {
    for (ranks, provider) in [(2, "shm"), (2, "tcp"), (4, "shm"), (4, "tcp")] {
        let program = scash().with_file_name("laplace");
        let job = format!("run -n {ranks} --provider {provider} {}", program.display());
        let records = parse(&text(&format!("{job} --size 510 --iterations 20 --json"), &[])).unwrap();
        let mut machine = presets::ethernet_10g();
        machine.network.direct = provider == "shm";
        let totals = World::new(&machine, &Laplace::square(510, 20, ranks), ranks).run();
        assert_eq!(totals.faults, records[0].faults, "{ranks} ranks, {provider}");
    }
}

#[test]
fn the_simulation_of_large_machines_has_tables_and_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("scale.svg");
    let small = "--ranks 1,2,4 --grid 62 --iterations 4 --matrix 128 --block 16";
    let networks = "--network measured,scash-1999";
    let arguments = format!("bench scale --quick {networks} {small} --plot {}", picture.display());
    let text = text(&arguments, &[]);
    for words in [
        "measured here, shm",
        "measured here, tcp",
        "scash-1999",
        "LAPLACE, 62×62",
        "LU, 128×128",
        "empty barrier: messages",
    ] {
        assert!(text.lines().any(|line| line.starts_with(words)), "{words}:\n{text}");
    }
    assert!(std::fs::read_to_string(&picture).unwrap().contains("measured here, tcp"));
    let json = self::text(
        "bench scale --quick --json --network ethernet-10g --ranks 1,4 --grid 62 --matrix 128",
        &[],
    );
    let objects: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let points: Vec<_> = objects.iter().filter(|object| object["program"].is_string()).collect();
    assert_eq!(points.len(), 2 * 2, "{json}");
    assert_eq!(points[0]["speed_up"], 1.0);
    assert!(objects.iter().any(|object| object["law"] == "logarithm"), "{json}");
}

#[test]
fn programs_are_measured_in_every_way_and_are_right() {
    let text = text("bench apps --quick --check --json", &[]);
    let records = parse(&text).unwrap();
    let ways = match Namespaces::new(1) {
        Ok(_) => 13,
        Err(why) => {
            eprintln!("skipped: ranks on several hosts: {why}");
            10
        }
    };
    assert_eq!(records.len(), 2 * ways, "{text}");
    for record in records {
        assert_eq!(record.check.as_deref(), Some("equal"));
        assert!(record.seconds > 0.0 && record.parameters["of_sequential"]["median"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn kernels_are_compared_with_every_mpi_library_that_is_here() {
    for provider in ["shm", "tcp"] {
        // A run of an MPI library may never end, which counts as not measured. One of scash must end.
        let command = format!("bench nas --quick --compare --limit 15 -n 2 --provider {provider} is mg");
        let output = run(&command, &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || text.contains("no end in 15 s"), "{}: {said}", output.status);
        assert!(text.contains(&format!("is, class S (2 ranks, {provider})")), "{text}");
        let ours: Vec<&str> = text.lines().filter(|line| line.starts_with("scash ")).collect();
        assert!(ours.len() == 2 && !ours.iter().any(|row| row.contains("failed")), "{text}");
        for rival in ["Open MPI", "Open MPI, UCX", "MPICH"] {
            let missing = text.lines().find(|line| line.starts_with(&format!("Not measured: {rival}:")));
            if let Some(why) = missing {
                eprintln!("skipped: {why}");
                continue;
            }
            let rows: Vec<&str> =
                text.lines().filter(|line| line.starts_with(&format!("{rival}  "))).collect();
            assert!(rows.len() == 2 && !rows.iter().any(|row| row.contains("failed")), "{text}");
        }
    }
}

/// A program of that name that works like CRIU as far as benchmarks see, or fails at a step. What it restores
/// is another process.
fn criu(directory: &std::path::Path, fails_at: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let program = directory.join(format!("criu-{fails_at}"));
    let text = format!(
        "#!/bin/sh\n\
         [ \"$1\" = '{fails_at}' ] && {{ echo 'no such kernel'; exit 1; }}\n\
         case $1 in\n\
         --version) echo 'Version: 0.7';;\n\
         dump) kill -9 $4; echo $4 > '{0}/dumped';;\n\
         restore) sleep 600 > /dev/null 2>&1 & echo $! > $5; cp $5 '{0}/restored';;\n\
         esac\n",
        directory.display()
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn images_are_measured_beside_criu_and_no_process_that_it_dumps_or_restores_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let bench = |fails_at| {
        let program = criu(directory.path(), fails_at);
        run(&format!("bench checkpoints --only images --quick --criu {}", program.display()), &[])
    };
    let done = bench("nothing");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && text.contains("CRIU 0.7 in turns with ours"), "{text}");
    for left in ["dumped", "restored"] {
        let number = std::fs::read_to_string(directory.path().join(left)).unwrap();
        let stat = std::path::Path::new("/proc").join(number.trim()).join("stat");
        let state = || std::fs::read_to_string(&stat).unwrap_or_default();
        let is_over = |state: String| state.is_empty() || state.contains(") Z ");
        // Nobody can wait for one that was restored: it is killed, and comes to its end some time later.
        let soon = Instant::now() + Duration::from_secs(60);
        while !is_over(state()) {
            assert!(Instant::now() < soon, "{left}: {}", state());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    for (fails_at, words) in
        [("check", "check: exit status: 1: no such kernel"), ("restore", "restore: exit status: 1")]
    {
        let done = bench(fails_at);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success() && said.contains(words), "{said}");
    }
}
