//! ARCHITECTURE.md lists every crate that is not ours, who uses it, and why: this keeps the list and the
//! manifests together.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A foreign crate, and a package of ours that uses it: `scash-comm`, or `scash-comm (tests)` if only its
/// tests do.
type Use = (String, String);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(workspace().join(name)).unwrap()
}

/// What cargo reads in the manifests of our packages.
fn metadata() -> serde_json::Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(workspace());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every dependency of every package: its name, its user's name, which kind it is, and whether it comes from
/// elsewhere.
fn dependencies() -> Vec<(String, String, &'static str, bool)> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let of_package = |package: &serde_json::Value| {
        let user = package["name"].as_str().unwrap().to_owned();
        let each = |dependency: &serde_json::Value| {
            let kind = match dependency["kind"].as_str() {
                Some("dev") => " (tests)",
                Some("build") => " (build)",
                _ => "",
            };
            let name = dependency["name"].as_str().unwrap().to_owned();
            (name, user.clone(), kind, !dependency["source"].is_null())
        };
        package["dependencies"].as_array().unwrap().iter().map(each).collect::<Vec<_>>()
    };
    packages.iter().flat_map(of_package).collect()
}

fn uses_in_the_manifests() -> BTreeSet<Use> {
    let foreign: Vec<_> = dependencies().into_iter().filter(|(.., foreign)| *foreign).collect();
    let plain = |name: &str, user: &str| {
        foreign.iter().any(|(n, u, kind, _)| n == name && u == user && kind.is_empty())
    };
    // Tests may ask for more features of what the package uses anyway.
    let counts =
        |(name, user, kind, _): &&(String, String, &str, bool)| kind.is_empty() || !plain(name, user);
    foreign
        .iter()
        .filter(counts)
        .map(|(name, user, kind, _)| (name.clone(), format!("{user}{kind}")))
        .collect()
}

/// The rows of the table, `| crates | users | reason |`.
fn uses_in_the_table() -> BTreeSet<Use> {
    let text = read("ARCHITECTURE.md");
    let (_, section) = text.split_once("\n## Dependencies\n").unwrap();
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut uses = BTreeSet::new();
    for row in rows.skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [crates, users, reason] = cells[..] else { panic!("not three cells: {row}") };
        assert!(!reason.is_empty(), "no reason: {row}");
        for name in crates.split(", ") {
            uses.extend(users.split(", ").map(|user| (name.to_owned(), user.to_owned())));
        }
    }
    uses
}

#[test]
fn the_table_of_dependencies_says_what_the_manifests_say() {
    let (written, used) = (uses_in_the_table(), uses_in_the_manifests());
    let untold: Vec<_> = used.difference(&written).collect();
    let gone: Vec<_> = written.difference(&used).collect();
    assert!(
        untold.is_empty() && gone.is_empty(),
        "ARCHITECTURE.md, Dependencies: lacks {untold:?}; no manifest has {gone:?}"
    );
}

#[test]
fn every_foreign_crate_that_the_workspace_declares_is_used() {
    let used: BTreeSet<String> = uses_in_the_manifests().into_iter().map(|(name, _)| name).collect();
    let manifest = read("Cargo.toml");
    let (_, section) = manifest.split_once("\n[workspace.dependencies]\n").unwrap();
    let declared =
        section.lines().take_while(|line| !line.starts_with('[')).filter(|line| !line.contains("path = "));
    let names = declared.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let idle: Vec<_> = names.filter(|name| !used.contains(*name)).collect();
    assert!(idle.is_empty(), "Cargo.toml, workspace.dependencies: no package uses {idle:?}");
}
