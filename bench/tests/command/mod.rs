//! The command `scash`, as tests of benchmarks call it.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Seconds after which a command is taken to hang.
pub(crate) const LIMIT: &str = "120";

/// The command `scash`, with the programs that it measures beside it. Cargo builds what has changed, in the
/// profile and directory of this test. All packages are selected: with fewer of them cargo would choose fewer
/// features of some, and build them and all that needs them again.
pub(crate) fn scash() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = Path::new(env!("CARGO_BIN_EXE_scash-micro")).parent().unwrap();
        let profile = match directory.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let done = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--lib", "--bins", "--examples"])
            .args(["--profile", profile, "--target-dir"])
            .arg(directory.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(done.success(), "cargo cannot build the command scash");
        directory.join("scash")
    })
}

pub(crate) fn run(arguments: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT]).arg(scash()).args(arguments.split_whitespace());
    for variable in ["SCASH_PROVIDER", "SCASH_TRANSFER", "SCASH_FAULT", "SCASH_THREADS"] {
        command.env_remove(variable);
    }
    // Measurements that a test starts by itself are of the protocol.
    command.env("SCASH_SHARE", "off").envs(variables.iter().copied()).output().unwrap()
}

/// What a command that succeeds prints.
pub(crate) fn text(arguments: &str, variables: &[(&str, &str)]) -> String {
    let output = run(arguments, variables);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scash {arguments}: {}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
