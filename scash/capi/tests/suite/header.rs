//! The committed headers are those that the sources give, and compilers take them.

use crate::support::{cc, here, tool};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A header: what it is made of, in its order.
struct Header {
    name: &'static str,
    config: &'static str,
    sources: &'static [&'static str],
    /// What the names of its functions begin with,
    prefix: &'static str,
    /// and one of them.
    call: &'static str,
}

const HEADERS: [Header; 2] = [
    Header {
        name: "scash.h",
        config: "cbindgen.toml",
        sources: &["types", "functions", "heap", "files", "locks", "signals", "own", "atomics", "reduce"],
        prefix: "dsm_",
        call: "dsm_rank()",
    },
    Header {
        name: "scash_comm.h",
        config: "cbindgen_comm.toml",
        sources: &[
            "comm/types",
            "comm/functions",
            "comm/messages",
            "comm/waiting",
            "comm/collective",
            "comm/memory",
            "comm/one_sided",
            "comm/atomics",
            "comm/active",
        ],
        prefix: "scomm_",
        call: "scomm_rank()",
    },
];

impl Header {
    fn path(&self) -> PathBuf {
        here("include").join(self.name)
    }

    fn generated(&self) -> String {
        let config = cbindgen::Config::from_file(here(self.config)).unwrap();
        let with =
            |builder: cbindgen::Builder, source: &&str| builder.with_src(here(&format!("src/{source}.rs")));
        let builder = self.sources.iter().fold(cbindgen::Builder::new().with_config(config), with);
        let mut header = Vec::new();
        builder.generate().unwrap().write(&mut header);
        plain(&String::from_utf8(header).unwrap())
    }
}

/// Takes out what cbindgen cannot help writing and C89 does not know: `//` comments, and a comma before an
/// enum's end.
fn plain(header: &str) -> String {
    let line = |line: &str| match line.split_once(" //") {
        Some((code, _)) if line.starts_with(['#', '}']) => format!("{}\n", code.trim_end()),
        _ => format!("{line}\n"),
    };
    header.lines().map(line).collect::<String>().replace(",\n}", "\n}")
}

#[test]
fn the_committed_header_is_that_of_the_sources() {
    for header in &HEADERS {
        let (path, want) = (header.path(), header.generated());
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
}

/// The text of all sources below a directory.
fn code(directory: &Path) -> String {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(|path| if path.is_dir() { code(&path) } else { std::fs::read_to_string(path).unwrap() })
        .collect()
}

#[test]
fn the_headers_have_every_function_that_is_exported() {
    let texts = HEADERS.map(|header| (header.prefix, std::fs::read_to_string(header.path()).unwrap()));
    let code = code(&here("src"));
    let exported = code.split("extern \"C\" fn ").skip(1).map(|rest| rest.split_once('(').unwrap().0);
    let is_there = |name: &str| {
        let (_, text) = texts.iter().find(|(prefix, _)| name.starts_with(prefix)).unwrap();
        text.contains(&format!("{name}("))
    };
    let missing: Vec<&str> = exported.filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "not in the headers: {missing:?}");
}

/// Compiles a file that only includes a header, twice, and one that includes both.
fn accepts(compiler: &str, suffix: &str, options: &[&str]) {
    for Header { name, call, .. } in &HEADERS {
        let include = format!("#include \"{name}\"\n");
        compiles(compiler, suffix, options, &include.repeat(2), call);
    }
    let both = HEADERS.map(|header| format!("#include \"{}\"\n", header.name)).concat();
    compiles(compiler, suffix, options, &both, "dsm_rank() + scomm_rank()");
}

fn compiles(compiler: &str, suffix: &str, options: &[&str], includes: &str, expression: &str) {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join(format!("twice.{suffix}"));
    std::fs::write(&source, format!("{includes}int use(void);\nint use(void) {{ return {expression}; }}\n"))
        .unwrap();
    let mut command = Command::new(compiler);
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(options);
    let done = command.arg("-I").arg(here("include")).arg(source).output().unwrap();
    assert!(done.status.success(), "{compiler} {options:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn c_compilers_take_the_headers_in_every_standard() {
    for standard in ["-std=c89", "-std=c99", "-std=c11", "-std=c2x"] {
        accepts(&cc(), "c", &[standard]);
    }
}

#[test]
fn cpp_compilers_take_the_headers() {
    let Some(compiler) = tool("CXX", "c++") else {
        eprintln!("skipped: there is no C++ compiler (c++, or what CXX names)");
        return;
    };
    for standard in ["-std=c++11", "-std=c++20"] {
        accepts(&compiler, "cpp", &[standard]);
    }
}
