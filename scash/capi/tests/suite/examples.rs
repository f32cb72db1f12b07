//! The examples (`examples/*.c`) print what their README says.

use crate::install::installed;
use crate::support::{Ended, Job, Program, here, shared_script, tool};
use std::collections::BTreeSet;
use std::process::Command;

/// A line of the README's table.
struct Example {
    name: String,
    /// Options of `scash run`, besides the number of ranks.
    options: Vec<String>,
    /// What it prints; `rank R of N` stands for a line of each rank.
    prints: String,
}

impl Example {
    /// Reads `| [NAME](NAME.c) | idea | `scash run -n 4 OPTIONS ./NAME` | `text` |`; `None` for other lines.
    fn parse(line: &str) -> Option<Example> {
        let (name, rest) = line.strip_prefix("| [")?.split_once(']')?;
        let mut texts = rest.split('`').skip(1).step_by(2);
        let run: Vec<_> = texts.next()?.split(' ').collect();
        let ["scash", "run", "-n", _, options @ .., program] = &run[..] else { return None };
        assert_eq!(*program, format!("./{name}"), "{line}");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Some(Example { name: name.to_owned(), options, prints: texts.next()?.to_owned() })
    }

    /// Checks that a job of so many ranks has printed what the README says, and nothing else.
    fn is_printed(&self, ended: &Ended, ranks: u32) {
        let mut lines: Vec<_> = (0..ranks)
            .map(|rank| self.prints.replace("rank R of N", &format!("rank {rank} of {ranks}")))
            .collect();
        lines.dedup();
        ended.succeeded();
        assert_eq!(
            (ended.sorted(), ended.err.as_str()),
            (lines.iter().map(String::as_str).collect(), ""),
            "{ended}"
        );
    }
}

/// The README's table.
fn examples() -> Vec<Example> {
    let readme = std::fs::read_to_string(here("examples/README.md")).unwrap();
    readme.lines().filter_map(Example::parse).collect()
}

#[test]
fn every_example_stands_in_the_readme_with_what_it_prints() {
    let listed: Vec<_> = examples().into_iter().map(|example| format!("{}.c", example.name)).collect();
    let files = std::fs::read_dir(here("examples")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<_> = names.filter(|name| name.ends_with(".c")).collect();
    assert_eq!(BTreeSet::from_iter(listed.iter().cloned()), there);
    assert_eq!(listed.len(), there.len(), "an example stands there twice");
}

#[test]
fn examples_print_what_the_readme_says_whatever_the_number_of_ranks() {
    for example in examples() {
        let script = shared_script();
        let words: &[&str] = if example.name == "globals" { &["-no-pie", &script] } else { &[] };
        let program = Program::compile_example(&example.name, words);
        let options: Vec<_> = example.options.iter().map(String::as_str).collect();
        for ranks in [1, 2, 4] {
            let ended = program.run_with(Job::of(ranks), &options, &[], &[]);
            example.is_printed(&ended, ranks);
        }
    }
}

#[test]
fn the_makefile_builds_every_example_with_what_pkg_config_says() {
    let (Some(make), Some(_)) = (tool("MAKE", "make"), tool("PKG_CONFIG", "pkg-config")) else {
        eprintln!("skipped: there is no make, or no pkg-config");
        return;
    };
    let (prefix, sources) = (installed(), tempfile::tempdir().unwrap());
    for file in examples().iter().map(|example| format!("{}.c", example.name)).chain(["Makefile".to_owned()])
    {
        std::fs::copy(here("examples").join(&file), sources.path().join(&file)).unwrap();
    }
    let mut command = Command::new(make);
    command.arg("-C").arg(sources.path()).env_remove("MAKEFLAGS").env_remove("PKG_CONFIG_LIBDIR");
    let done = command.env("PKG_CONFIG_PATH", prefix.path().join("lib/pkgconfig")).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{said}");
    for example in examples() {
        let mut run = Command::new(prefix.path().join("bin/scash"));
        run.args(["run", "-n", "2", "--timeout", "60"]).args(&example.options);
        run.arg(sources.path().join(&example.name)).env("LD_LIBRARY_PATH", prefix.path().join("lib"));
        let done = run.output().unwrap();
        assert!(done.status.success(), "{}: {}", example.name, String::from_utf8_lossy(&done.stderr));
    }
}
