//! The command, the applications and the examples, built as the running test was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of the running test's profile: `target/PROFILE/deps/test` lies in it.
fn profile() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// The executable `name` (`scash`, `laplace`, `examples/hello`, …), in the profile and target directory of
/// the running test. Cargo brings it up to date first, which takes no time if it was built before.
pub fn built(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let path = DIRECTORY.get_or_init(build).join(name);
    assert!(path.is_file(), "cargo has built no {}", path.display());
    path
}

fn build() -> PathBuf {
    let directory = profile();
    let name = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "scash-cli", "-p", "scash-apps", "-p", "scash"]);
    cargo.args(["--bins", "--examples", "--profile", name]);
    cargo.arg("--target-dir").arg(directory.parent().unwrap());
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(
        cargo.status().unwrap().success(),
        "cargo cannot build the command, the applications and the examples"
    );
    directory
}
