//! The examples in Rust (`scash/examples/*.rs`) print what their README says, which is what those in C print.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use scash_tests::cluster::Job;
use scash_tests::cluster::built::built;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A line of the README's table.
struct Example {
    name: String,
    /// Options of `scash run`, besides the number of ranks.
    options: Vec<String>,
    /// What it prints; `rank R of N` stands for a line of each rank.
    prints: String,
}

impl Example {
    /// Reads `| [NAME](…) | idea | scash run -n 4 OPTIONS PROGRAM | text |`, whose last two cells are code;
    /// `None` for other lines.
    fn parse(line: &str) -> Option<Example> {
        let (name, rest) = line.strip_prefix("| [")?.split_once(']')?;
        let mut code = rest.split('`').skip(1).step_by(2);
        let (_, run) = code.next()?.split_once("scash run -n 4 ")?;
        let mut options: Vec<_> = run.split(' ').map(str::to_owned).collect();
        let program = options.pop()?;
        assert!(program.ends_with(&format!("/{name}")), "{line}");
        Some(Example { name: name.to_owned(), options, prints: code.next()?.to_owned() })
    }

    /// What a job of so many ranks is to print, in the order of ranks.
    fn lines(&self, ranks: u32) -> Vec<String> {
        let of = |rank| self.prints.replace("rank R of N", &format!("rank {rank} of {ranks}"));
        let mut lines: Vec<_> = (0..ranks).map(of).collect();
        lines.dedup();
        lines
    }
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The table in the README of this directory.
fn examples(directory: &str) -> Vec<Example> {
    let readme = std::fs::read_to_string(workspace().join(directory).join("README.md")).unwrap();
    readme.lines().filter_map(Example::parse).collect()
}

#[test]
fn every_example_stands_in_the_readme_with_what_it_prints() {
    let listed: Vec<_> = examples("scash/examples").into_iter().map(|example| example.name).collect();
    let files =
        std::fs::read_dir(workspace().join("scash/examples")).unwrap().map(|file| file.unwrap().file_name());
    let names = files.filter_map(|file| Some(file.to_str()?.strip_suffix(".rs")?.to_owned()));
    let there: BTreeSet<_> = names.collect();
    assert_eq!(BTreeSet::from_iter(listed.iter().cloned()), there);
    assert_eq!(listed.len(), there.len(), "an example stands there twice");
}

#[test]
fn examples_print_what_the_readme_says_whatever_the_number_of_ranks() {
    for example in examples("scash/examples") {
        let program = built(&format!("examples/{}", example.name));
        for ranks in [1, 2, 4] {
            let job = Job::plain(ranks).option("--timeout", "120");
            let ended = example.options.iter().fold(job, |job, option| job.flag(option)).run(&program, &[]);
            ended.succeeded();
            let mut lines: Vec<_> = ended.out.lines().collect();
            lines.sort_unstable();
            assert_eq!(lines, example.lines(ranks), "{ended}");
        }
    }
}

#[test]
fn examples_in_c_and_in_rust_have_the_same_names_and_print_the_same() {
    let all = |directory| -> BTreeMap<_, _> {
        examples(directory).into_iter().map(|example| (example.name, example.prints)).collect()
    };
    let mut in_c = all("scash/capi/examples");
    // Static variables that are shared are for C.
    assert!(in_c.remove("globals").is_some());
    assert_eq!(all("scash/examples"), in_c);
}
