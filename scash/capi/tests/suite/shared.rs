//! Programs with static variables that are shared: `scash_shared.h`, and the script for the linker.

use crate::support::{Job, Library, Link, Object, Program, shared_script};

fn linked(link: Link) -> Program {
    linked_with(link, &[])
}

/// With what the file is compiled that is not annotated.
fn linked_with(link: Link, words: &[&str]) -> Program {
    let theirs = Object::compile("shared_theirs", words);
    Program::compile_with("shared", &["-no-pie", &shared_script(), theirs.path()], link)
}

#[test]
fn variables_are_shared_in_every_kind_of_job() {
    for link in [Link::Shared, Link::Static] {
        let program = linked(link);
        for job in Job::all() {
            let ended = program.run(job, &[], &[]);
            ended.succeeded();
            let lines = ended.sorted();
            assert_eq!(lines.len(), job.ranks as usize, "{ended}");
            for (rank, line) in lines.iter().enumerate() {
                assert!(line.starts_with(&format!("rank {rank}: 0x600000")), "{ended}");
            }
        }
    }
}

#[test]
fn all_variables_of_a_file_are_shared_however_it_was_compiled() {
    for words in
        [&["-fdata-sections", "-ffunction-sections"][..], &["-fcommon"], &["-fno-pie"], &["-O2", "-fPIC"]]
    {
        linked_with(Link::Shared, words).run(Job::of(2), &[], &[]).succeeded();
    }
}

#[test]
fn variables_are_shared_after_a_restart_too() {
    let program = linked(Link::Shared);
    let deaths = [
        "--inject",
        "kill rank 1 at barrier 5",
        "--inject",
        "kill all ranks at barrier 2 after flush in incarnation 1",
    ];
    let options = [&["--replicas", "1", "--checkpoint", "every=1"], &deaths[..]].concat();
    for job in Job::all().into_iter().filter(|job| job.ranks == 2) {
        let ended = program.run_with(job, &options, &[], &[]);
        ended.succeeded();
        let times = ended.err.lines().filter(|line| line.contains("all 2 ranks go on from barrier")).count();
        assert_eq!(times, 2, "{ended}");
    }
}

#[test]
fn a_program_that_is_linked_otherwise_is_told_how_it_must_be() {
    let theirs = Object::compile("shared_theirs", &[]);
    for how in ["-no-pie", "-pie"] {
        let program = Program::compile_with("shared", &[how, theirs.path()], Link::Shared);
        let ended = program.run(Job::of(2), &[], &[]);
        ended.ended_with(1);
        ended.said(&["(DSM_SHARED)", "link it by what `pkg-config --libs scash-shared` says"]);
    }
    // One that has zeroed ones alone.
    let ended = Program::compile_with("shared_zero", &[], Link::Shared).run(Job::of(2), &[], &[]);
    ended.ended_with(1);
    ended.said(&["(DSM_SHARED)", "link it by what `pkg-config --libs scash-shared` says"]);
    let why = Program::why_not_compiled("shared", &["-pie", &shared_script(), theirs.path()]);
    assert!(why.contains("scash_shared.ld: shared variables need a program with a fixed address"), "{why}");
}

#[test]
fn variables_that_shared_memory_has_no_room_for_are_told() {
    let ended = linked(Link::Shared).run(Job::of(2), &[("SCASH_REGION", "64K")], &[]);
    ended.ended_with(1);
    ended.said(&["raise SCASH_REGION"]);
}

#[test]
fn variables_of_a_library_are_refused_with_its_name() {
    let (library, theirs) = (Library::compile("shared_zero"), Object::compile("shared_theirs", &[]));
    let words = ["-no-pie", &shared_script(), theirs.path(), "-Wl,--no-as-needed", library.path()];
    let ended = Program::compile_with("shared", &words, Link::Shared).run(Job::of(2), &[], &[]);
    ended.ended_with(1);
    ended.said(&[
        "libshared_zero.so has variables that are to be shared",
        "link its object files into the program",
    ]);
}

#[test]
fn zeroed_variables_need_no_others() {
    let program = Program::compile_with("shared_zero", &["-no-pie", &shared_script()], Link::Shared);
    for ranks in [1, 2, 4] {
        let ended = program.run(Job::of(ranks), &[], &[]);
        ended.succeeded();
        assert_eq!(ended.out, format!("{ranks} ranks have written\n"), "{ended}");
    }
}
