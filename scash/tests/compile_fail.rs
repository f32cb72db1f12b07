//! Mistakes that the typed interface leaves no room for: programs in `ui/` that must not compile.
//!
//! A line that the compiler must refuse says with which errors: `//~ E0502`. Lines and error codes are what
//! counts: the words that explain them, and the places that they point to besides, differ from one compiler
//! to the next. A program without marks must compile; `ui/used_as_intended.rs` has the right form of every
//! mistake, so that none of them is refused for another reason.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A line, and the code of an error in it.
type Refusal = (usize, String);

/// The library, built as this test was: `target/PROFILE/deps/test` is the test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(2).unwrap();
    let profile = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(env!("CARGO"));
    // All packages: with fewer of them cargo would choose fewer features of some, and build them again.
    cargo.args(["build", "--quiet", "--workspace", "--lib", "--bins", "--examples", "--profile", profile]);
    cargo.arg("--target-dir").arg(directory.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().unwrap().success(), "cargo cannot build the library");
    directory.join("libscash.rlib")
}

/// Whether a program compiles, what the compiler refuses in it, and all that it says.
fn compile(program: &Path, library: &Path) -> (bool, Vec<Refusal>, String) {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args([
        "--edition",
        "2024",
        "--emit",
        "metadata",
        "--error-format",
        "short",
        "--cap-lints",
        "allow",
    ]);
    rustc.arg("--extern").arg(format!("scash={}", library.display()));
    rustc.arg("-L").arg(format!("dependency={}", library.with_file_name("deps").display()));
    rustc.arg("--out-dir").arg(env!("CARGO_TARGET_TMPDIR")).arg(program);
    let output = rustc.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // `PROGRAM:LINE:COLUMN: error[CODE]: …`
    let refusal = |line: &str| {
        let (place, rest) =
            line.strip_prefix(program.to_str()?)?.strip_prefix(':')?.split_once(": error[")?;
        let (line, _column) = place.split_once(':')?;
        Some((line.parse().ok()?, rest.split_once(']')?.0.to_owned()))
    };
    let mut refusals: Vec<_> = said.lines().filter_map(refusal).collect();
    refusals.sort();
    (output.status.success(), refusals, said)
}

/// The marks of a program.
fn marks(program: &Path) -> Vec<Refusal> {
    let text = std::fs::read_to_string(program).unwrap();
    let of_line = |(number, line): (usize, &str)| {
        let (_, codes) = line.split_once("//~ ").unwrap_or_default();
        codes
            .split(' ')
            .filter(|code| !code.is_empty())
            .map(|code| (number, code.to_owned()))
            .collect::<Vec<_>>()
    };
    (1..).zip(text.lines()).flat_map(of_line).collect()
}

#[test]
fn programs_that_misuse_shared_memory_do_not_compile() {
    let library = library();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut mistakes = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let program = entry.unwrap().path();
        let marks = marks(&program);
        let (compiles, refusals, said) = compile(&program, &library);
        assert_eq!((compiles, &refusals), (marks.is_empty(), &marks), "{}:\n{said}", program.display());
        mistakes += marks.len();
    }
    assert!(mistakes > 0, "no program has a mark");
}
