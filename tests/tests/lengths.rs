//! Files and lines that can be read: no file is too long to be held in the head, and prose in comments is as
//! wide as code, which rustfmt does not see to.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::path::{Path, PathBuf};

/// Columns of a line, as rustfmt.toml has them.
const COLUMNS: usize = 110;

/// Lines of a file, its tests included.
const LINES: usize = 600;

/// The files below a directory whose names end so. What is generated is no source.
fn files(directory: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                files(&path, endings, found);
            }
        } else if path.extension().is_some_and(|end| endings.iter().any(|ending| end == *ending)) {
            found.push(path);
        }
    }
}

/// The sources with these endings, and their texts.
fn sources(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), endings, &mut found);
    assert!(found.len() > 10, "there are no sources");
    let text = |path: PathBuf| std::fs::read_to_string(&path).map(|text| (path, text)).unwrap();
    found.into_iter().map(text).collect()
}

/// Whether a line is a comment, and neither a row of a table nor part of a picture.
fn is_prose(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    let text = comment.trim_start_matches(['/', '!']).trim_start();
    !text.starts_with('|') && !text.contains(['│', '─'])
}

#[test]
fn prose_in_comments_is_as_wide_as_code() {
    let mut wide = Vec::new();
    for (path, text) in sources(&["rs"]) {
        let lines = text.lines().enumerate();
        let prose = lines.filter(|(_, line)| line.chars().count() > COLUMNS && is_prose(line));
        wide.extend(prose.map(|(number, _)| format!("{}:{}", path.display(), number + 1)));
    }
    assert!(wide.is_empty(), "more than {COLUMNS} columns: {wide:#?}");
}

#[test]
fn no_file_is_too_long() {
    let lengths = sources(&["rs", "c"]).into_iter().map(|(path, text)| (text.lines().count(), path));
    let long: Vec<_> = lengths.filter(|(lines, _)| *lines > LINES).collect();
    assert!(long.is_empty(), "more than {LINES} lines: {long:#?}");
}
