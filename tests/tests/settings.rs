//! docs/settings.md names every variable that the sources read and every option of `scash run`: this keeps
//! the page and the sources together.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What only tests read: testing.md has them.
const OF_TESTS: [&str; 6] =
    ["SCASH_PROGRAMS", "SCASH_SEED", "SCASH_SEEDS", "SCASH_SNAPSHOT", "SCASH_TRACE", "SCASH_UPDATE_HEADER"];

/// The directory whose own files define the launcher's options.
const LAUNCHER: &str = "scash/cli/src/run";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(workspace().join(name)).unwrap()
}

/// The files of Rust below a directory, but those of tests.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "tests"].contains(&name) {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The names of variables in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    let names = words.filter(|word| word.starts_with("SCASH_") && !word.ends_with('_'));
    names.map(str::to_owned).collect()
}

/// The names that stand alone in quotation marks, before the tests of a file begin: a name in a comment or
/// in the middle of a message is read by nobody.
fn read_by(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let quoted = text.split('"').filter(|part| part.starts_with("SCASH_"));
    quoted.filter(|part| variables(part).contains(*part)).map(str::to_owned).collect()
}

/// The long options in clap's definitions, but hidden ones: of `#[arg(long…)]` the field's name.
fn options(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, rest) in text.match_indices("#[arg(").map(|(at, found)| text[at..].split_at(found.len())) {
        let (arguments, after) = rest.split_once("]\n").unwrap();
        if !arguments.starts_with("long") || arguments.contains("hide = true") {
            continue;
        }
        let field = after.trim_start().trim_start_matches("pub(super) ").split(':').next().unwrap();
        found.insert(format!("--{}", field.replace('_', "-")));
    }
    found
}

#[test]
fn the_page_of_settings_names_the_variables_that_the_sources_read() {
    let mut files = Vec::new();
    sources(&workspace(), &mut files);
    let mut used = BTreeSet::new();
    for file in files {
        used.extend(read_by(&std::fs::read_to_string(file).unwrap()));
    }
    used.retain(|name| !name.starts_with("SCASH_TEST_"));
    used.extend(OF_TESTS.map(str::to_owned));
    let written = variables(&read("docs/settings.md"));
    let untold: Vec<_> = used.difference(&written).collect();
    let gone: Vec<_> = written.difference(&used).collect();
    assert!(
        untold.is_empty() && gone.is_empty(),
        "docs/settings.md: lacks {untold:?}; no source reads {gone:?}"
    );
}

#[test]
fn the_page_of_settings_names_the_options_of_scash_run() {
    let mut defined = BTreeSet::new();
    for entry in std::fs::read_dir(workspace().join(LAUNCHER)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            defined.extend(options(&std::fs::read_to_string(path).unwrap()));
        }
    }
    let page = read("docs/settings.md");
    let (_, section) = page.split_once("\n## Options of `scash run`\n").unwrap();
    let rows = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `--"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let words = cells.flat_map(|cell| cell.split(|c: char| !c.is_ascii_lowercase() && c != '-'));
    let mut written: BTreeSet<String> =
        words.filter(|word| word.starts_with("--")).map(str::to_owned).collect();
    // clap has these of itself.
    for name in ["--help", "--version"] {
        assert!(written.remove(name), "docs/settings.md lacks {name}");
    }
    let untold: Vec<_> = defined.difference(&written).collect();
    let gone: Vec<_> = written.difference(&defined).collect();
    assert!(
        untold.is_empty() && gone.is_empty(),
        "docs/settings.md: lacks {untold:?}; scash run has no {gone:?}"
    );
}
