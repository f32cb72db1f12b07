//! C programs whose ranks are killed: they come back, whatever they are linked with, and print and write what
//! they would have.

use crate::support::{Job, Link, Program};
use std::collections::BTreeMap;
use std::path::Path;

/// What a run has left: its output, and the files that it has written.
type Left = (Vec<String>, BTreeMap<String, Vec<u8>>);

/// Runs it in a job of this kind, with these options of `scash run`.
fn left_by(program: &Program, job: Job, options: &[&str]) -> Left {
    let directory = tempfile::tempdir().unwrap();
    let input: String = (0..100).map(|i| format!("{}\n", i * i % 37)).collect();
    std::fs::write(directory.path().join("input"), input).unwrap();
    let ended = program.run_with(job, options, &[], &[directory.path().to_str().unwrap()]);
    assert_eq!(ended.status, Some(0), "{job:?} {options:?}: {}{}", ended.out, ended.err);
    let mut lines: Vec<String> = ended.out.lines().map(str::to_owned).collect();
    lines.sort();
    (lines, files(directory.path()))
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    all.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

fn survives(link: Link) {
    let program = Program::compile("phoenix", link);
    let deaths = [
        "kill rank 1 at barrier 20",
        "kill rank 0 at barrier 33 after flush",
        "kill all ranks at checkpoint 3 after mark",
        "kill rank 1 at checkpoint 7 after copy",
    ];
    for job in Job::all().into_iter().filter(|job| job.ranks == 2) {
        let expected = left_by(&program, job, &[]);
        assert_eq!(expected.0.len(), 2, "a line for each rank: {:?}", expected.0);
        for every in ["every=1", "every=9"] {
            let mut options = vec!["--replicas", "1", "--checkpoint", every];
            deaths.iter().for_each(|death| options.extend(["--inject", death]));
            assert_eq!(left_by(&program, job, &options), expected, "{every} {job:?}");
        }
    }
}

#[test]
fn a_c_program_comes_back_with_the_shared_library() {
    survives(Link::Shared);
}

#[test]
fn a_c_program_comes_back_with_the_archive() {
    survives(Link::Static);
}
