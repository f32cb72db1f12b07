//! The committed header is the one that the sources give, and compilers take it.

use crate::support::{cc, here, tool};
use std::path::PathBuf;
use std::process::Command;

/// What exports something, in the order of the header.
const SOURCES: [&str; 6] =
    ["src/types.rs", "src/functions.rs", "src/locks.rs", "src/signals.rs", "src/atomics.rs", "src/reduce.rs"];

fn generated() -> String {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let builder =
        SOURCES.iter().fold(cbindgen::Builder::new().with_config(config), |b, s| b.with_src(here(s)));
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    plain(&String::from_utf8(header).unwrap())
}

/// Takes out what cbindgen cannot help writing and C89 does not know: `//` comments, and a comma before an enum's end.
fn plain(header: &str) -> String {
    let line = |line: &str| match line.split_once(" //") {
        Some((code, _)) if line.starts_with(['#', '}']) => format!("{}\n", code.trim_end()),
        _ => format!("{line}\n"),
    };
    header.lines().map(line).collect::<String>().replace(",\n}", "\n}")
}

#[test]
fn the_committed_header_is_that_of_the_sources() {
    let (path, want) = (here("include/scash.h"), generated());
    let mut have = std::fs::read_to_string(&path).unwrap_or_default();
    if have != want && std::env::var_os("SCASH_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &want).unwrap();
        have.clone_from(&want);
    }
    assert!(
        have == want,
        "{} is not what src/ gives: run `SCASH_UPDATE_HEADER=1 cargo test -p scash-capi header` and commit it",
        path.display()
    );
}

#[test]
fn the_header_has_every_function_that_is_exported() {
    let header = std::fs::read_to_string(here("include/scash.h")).unwrap();
    let sources: Vec<PathBuf> =
        std::fs::read_dir(here("src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files = sources.iter().filter(|path| path.is_file());
    let code: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let exported = code.split("extern \"C\" fn ").skip(1).map(|rest| rest.split_once('(').unwrap().0);
    let missing: Vec<&str> = exported.filter(|name| !header.contains(&format!("{name}("))).collect();
    assert!(missing.is_empty(), "not in the header: {missing:?}");
}

/// Compiles a file that only includes the header, twice.
fn accepts(compiler: &str, suffix: &str, options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join(format!("twice.{suffix}"));
    std::fs::write(
        &source,
        "#include \"scash.h\"\n#include \"scash.h\"\nint use(void);\nint use(void) { return dsm_rank(); }\n",
    )
    .unwrap();
    let mut command = Command::new(compiler);
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(options);
    let done = command.arg("-I").arg(here("include")).arg(source).output().unwrap();
    assert!(done.status.success(), "{compiler} {options:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn c_compilers_take_the_header_in_every_standard() {
    for standard in ["-std=c89", "-std=c99", "-std=c11", "-std=c2x"] {
        accepts(&cc(), "c", &[standard]);
    }
}

#[test]
fn cpp_compilers_take_the_header() {
    let Some(compiler) = tool("CXX", "c++") else {
        eprintln!("skipped: there is no C++ compiler (c++, or what CXX names)");
        return;
    };
    for standard in ["-std=c++11", "-std=c++20"] {
        accepts(&compiler, "cpp", &[standard]);
    }
}
