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
    let path = directory().join(name);
    assert!(path.is_file(), "cargo has built no {}", path.display());
    path
}

/// The library for C programs, likewise.
pub fn library() -> PathBuf {
    directory().join("libscash.so")
}

/// The directory of what cargo has built. All is selected that `cargo nextest run --workspace` selects: with
/// fewer packages cargo would choose fewer features of some, and build them and all that needs them again.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = profile();
        let name = match directory.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--workspace", "--lib", "--bins", "--examples", "--profile", name]);
        cargo.arg("--target-dir").arg(directory.parent().unwrap());
        cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(cargo.status().unwrap().success(), "cargo cannot build the workspace");
        directory
    })
}
