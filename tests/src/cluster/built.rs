//! The command, the applications, the examples and the library for C, built as the running program was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of the running program's profile: `target/PROFILE/deps/test` or `target/PROFILE/program`.
fn profile() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let directory = program.parent().unwrap();
    if directory.ends_with("deps") { directory.parent().unwrap() } else { directory }.to_owned()
}

/// The executable `name` (`scash`, `laplace`, `examples/hello`, …), in the profile and target directory of
/// the running test. Cargo brings it up to date first, which takes no time if it was built before.
pub fn built(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        cargo_build(&["-p", "scash-cli", "-p", "scash-apps", "-p", "scash", "--bins", "--examples"]);
        profile()
    };
    let path = DIRECTORY.get_or_init(build).join(name);
    assert!(path.is_file(), "cargo has built no {}", path.display());
    path
}

/// The library for C programs, likewise.
pub fn library() -> PathBuf {
    cargo_build(&["-p", "libscash", "-p", "scash-cli"]);
    profile().join("libscash.so")
}

fn cargo_build(what: &[&str]) {
    let directory = profile();
    let name = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", name]).args(what);
    cargo.arg("--target-dir").arg(directory.parent().unwrap());
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(cargo.status().unwrap().success(), "cargo cannot build {what:?}");
}
