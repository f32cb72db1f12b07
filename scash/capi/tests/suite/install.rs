//! `install.sh`, and pkg-config with what it has installed.

use crate::support::{Job, built, cc, here, tool};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn install(arguments: &[&str]) -> Output {
    Command::new("sh").arg(here("install.sh")).args(arguments).env_remove("DESTDIR").output().unwrap()
}

/// A prefix with everything installed that cargo has built.
pub(crate) fn installed() -> TempDir {
    let prefix = tempfile::tempdir().unwrap();
    let from = built().shared.parent().unwrap();
    let done = install(&["--prefix", prefix.path().to_str().unwrap(), "--from", from.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    prefix
}

fn pkg_config(name: &str, prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(name);
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).env_remove("PKG_CONFIG_LIBDIR");
    let done = command.args(arguments).arg("scash").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn programs_are_compiled_and_linked_with_what_pkg_config_says() {
    let Some(pkg) = tool("PKG_CONFIG", "pkg-config") else {
        eprintln!("skipped: there is no pkg-config (or what PKG_CONFIG names)");
        return;
    };
    let directory = installed();
    let prefix = directory.path();
    assert_eq!(pkg_config(&pkg, prefix, &["--modversion"]), [env!("CARGO_PKG_VERSION")]);

    // With the shared library; and, when that is not there, with the archive.
    for options in [&["--cflags", "--libs"][..], &["--cflags", "--libs", "--static"]] {
        if options.contains(&"--static") {
            std::fs::remove_file(prefix.join("lib/libscash.so")).unwrap();
        }
        let program = prefix.join("hello");
        let mut command = Command::new(cc());
        command.arg(here("tests/c/hello.c")).arg("-o").arg(&program).args(pkg_config(&pkg, prefix, options));
        let done = command.output().unwrap();
        assert!(done.status.success(), "{options:?}: {}", String::from_utf8_lossy(&done.stderr));
        let job = Job::of(2);
        let mut run = Command::new(prefix.join("bin/scash"));
        run.args(["run", "-n", "2", "--timeout", "60", "--provider", job.provider])
            .arg(program)
            .arg(job.provider);
        let done = run.env("LD_LIBRARY_PATH", prefix.join("lib")).env("SCASH_FAULT", "").output().unwrap();
        assert!(done.status.success(), "{options:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn what_cannot_be_installed_is_said() {
    for (arguments, words) in [
        (&["--prefix"][..], "needs a value"),
        (&["--prefix", "here"], "absolute path"),
        (&["--colour", "red"], "no option --colour"),
        (&["--from", "/nowhere", "--prefix", "/nowhere"], "cargo build --release"),
    ] {
        let done = install(arguments);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && told.contains(words), "{arguments:?}: {told}");
    }
}
