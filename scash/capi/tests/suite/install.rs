//! `install.sh`, and pkg-config with what it has installed.

use crate::support::{Job, built, cc, here, tool};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Runs it where `stand` is.
fn install_from(stand: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.arg(here("install.sh")).args(arguments).current_dir(stand);
    command.env_remove("DESTDIR").env_remove("STRIP").output().unwrap()
}

fn install(arguments: &[&str]) -> Output {
    install_from(Path::new("."), arguments)
}

/// Sizes of what was installed and is made of code.
fn sizes(prefix: &Path) -> [u64; 3] {
    ["bin/scash", "lib/libscash.so", "lib/libscash.a"].map(|file| size(&prefix.join(file)))
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
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
    pkg_config_of("scash", name, prefix, arguments)
}

/// What it says of a package.
fn pkg_config_of(package: &str, name: &str, prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(name);
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).env_remove("PKG_CONFIG_LIBDIR");
    let done = command.args(arguments).arg(package).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn programs_are_compiled_and_linked_with_what_pkg_config_says() {
    let Some(pkg) = tool("PKG_CONFIG", "pkg-config") else {
        eprintln!("skipped: there is no pkg-config (or what PKG_CONFIG names)");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let prefix = &directory.path().join("place/for-scash");
    let from = built().shared.parent().unwrap();
    let arguments = ["--prefix", "./place/for-scash", "--from", from.to_str().unwrap()];
    let done = install_from(directory.path(), &arguments);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
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
fn programs_for_other_systems_find_their_headers_below_what_pkg_config_says() {
    let Some(pkg) = tool("PKG_CONFIG", "pkg-config") else {
        eprintln!("skipped: there is no pkg-config (or what PKG_CONFIG names)");
        return;
    };
    let prefix = installed();
    let includes = pkg_config(&pkg, prefix.path(), &["--variable=includedir"]);
    let options = pkg_config(&pkg, prefix.path(), &["--cflags", "--libs"]);
    for (name, arguments) in [("jiajia_wrong", [].as_slice()), ("treadmarks_wrong", &[]), ("parmacs", &["2"])]
    {
        let program = prefix.path().join(name);
        let mut command = Command::new(cc());
        command.arg(here("tests/c").join(name).with_extension("c")).arg("-o").arg(&program);
        command.arg(format!("-I{}/scash/compat", includes[0])).args(&options);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        // With no argument it does nothing wrong.
        let mut run = Command::new(prefix.path().join("bin/scash"));
        run.args(["run", "--no-aslr", "-n", "2", "--timeout", "60"]).arg(program).args(arguments);
        let done = run.env("LD_LIBRARY_PATH", prefix.path().join("lib")).output().unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn programs_with_shared_variables_are_linked_with_what_pkg_config_says_of_them() {
    let Some(pkg) = tool("PKG_CONFIG", "pkg-config") else {
        eprintln!("skipped: there is no pkg-config (or what PKG_CONFIG names)");
        return;
    };
    let prefix = installed();
    let program = prefix.path().join("shared");
    let mut command = Command::new(cc());
    command.args(["shared", "shared_theirs"].map(|name| here("tests/c").join(name).with_extension("c")));
    command.arg("-D_POSIX_C_SOURCE=200809L").arg("-o").arg(&program);
    command.args(pkg_config_of("scash-shared", &pkg, prefix.path(), &["--cflags", "--libs"]));
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // (One rank: variables of the other file are each rank's own here.)
    let mut run = Command::new(prefix.path().join("bin/scash"));
    run.args(["run", "-n", "1", "--timeout", "60"]).arg(program);
    let done = run.env("LD_LIBRARY_PATH", prefix.path().join("lib")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn what_is_installed_is_stripped_unless_it_is_to_be_as_it_was_built() {
    let directory = tempfile::tempdir().unwrap();
    let from = built().shared.parent().unwrap();
    let built = [&built().command, &built().shared, &built().archive].map(|file| size(file));
    let install = |prefix: &str, more: &[&str]| {
        let mut arguments = vec!["--from", from.to_str().unwrap(), "--prefix", prefix];
        arguments.extend(more);
        let done = install_from(directory.path(), &arguments);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        sizes(&directory.path().join(prefix))
    };
    assert_eq!(install("whole", &["--no-strip"]), built);
    if tool("STRIP", "strip").is_none() {
        eprintln!("skipped: there is no strip");
        return;
    }
    let stripped = install("stripped", &[]);
    assert!(
        stripped.iter().zip(built).all(|(stripped, built)| *stripped < built / 2),
        "{stripped:?}, {built:?}"
    );
}

#[test]
fn what_cannot_be_installed_is_said() {
    for (arguments, words) in [
        (&["--prefix"][..], "needs a value"),
        (&["--prefix", ""], "needs a value"),
        (&["--prefix", "a|b"], "cannot be written into scash.pc"),
        (&["--colour", "red"], "no option --colour"),
        (&["--from", "/nowhere", "--prefix", "/nowhere"], "cargo build --release"),
    ] {
        let done = install(arguments);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && told.contains(words), "{arguments:?}: {told}");
    }
}
