//! The programs that a soak runs, and what is right of what they print.

use super::output::{Expected, Files};
use crate::cluster::built::{built, library};
use crate::cluster::{Job, observe};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// What tells whether a program has done right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It compares its result with that of the sequential program, and reports.
    Report,
    /// It prints what it prints when nobody dies.
    Lines,
    /// It does, and writes the same files into the directory that is its last argument.
    LinesAndFiles,
}

/// A program, and how it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its executable.
    pub name: &'static str,
    /// Its arguments, with spaces between them.
    pub arguments: &'static str,
    /// What is compared.
    pub proof: Proof,
    /// Most threads of a rank.
    pub threads: u32,
    /// Whether it takes locks so often that random failures at locks would end each incarnation.
    pub locks_often: bool,
}

const fn app(name: &'static str, arguments: &'static str) -> Program {
    Program { name, arguments, proof: Proof::Report, threads: 4, locks_often: false }
}

const fn locking(name: &'static str, arguments: &'static str) -> Program {
    Program { locks_often: true, ..app(name, arguments) }
}

/// The C program with state of many kinds, which is compiled for the soak.
const C_PHOENIX: &str = "phoenix-c";

/// All of them, with sizes of which a run takes about a second.
pub const PROGRAMS: [Program; 30] = [
    app("laplace", "--size 254 --iterations 60 --check --json"),
    app("lu", "--size 384 --block 16 --check --json"),
    app("lu", "--size 384 --block 16 --layout rows --check --json"),
    app("sor", "--size 254 --iterations 40 --check --json"),
    locking("ocean", "--size 33 --steps 2 --check --json"),
    app("matmul", "--size 256 --check --json"),
    app("fft", "--size 65536 --check --json"),
    app("radix", "--size 262144 --check --json"),
    app("kmeans", "--size 20000 --iterations 20 --check --json"),
    locking("tsp", "--cities 12 --check --json"),
    locking("water", "--size 343 --steps 6 --check --json"),
    locking("nbody", "--bodies 600 --steps 8 --check --json"),
    locking("fmm", "--particles 2000 --steps 6 --check --json"),
    locking("raytrace", "--size 160 --check --json"),
    app("raytrace", "--size 160 --queue atomic --check --json"),
    locking("volume", "--size 48 --image 96 --check --json"),
    app("volume", "--size 48 --image 96 --queue atomic --check --json"),
    locking("cholesky", "--size 64 --check --json"),
    locking("market", "--size 200 --steps 20 --check --json"),
    app("shifting", "--size 65536 --iterations 48 --check --json"),
    locking("relay", "--size 16384 --turns 64 --check --json"),
    app("is", "--class S --check --json"),
    app("ep", "--batches 24 --check --json"),
    app("laplace-c", "--size 254 --iterations 60 --check --json"),
    app("lu-c", "--size 384 --block 16 --check --json"),
    Program { name: "phoenix", arguments: "", proof: Proof::Lines, threads: 4, locks_often: false },
    // Of several threads, the one that prints first ends the line that the rank has begun.
    Program { name: "phoenix", arguments: "loud", proof: Proof::Lines, threads: 1, locks_often: false },
    Program { name: "letters", arguments: "", proof: Proof::Lines, threads: 1, locks_often: false },
    Program { name: "letters", arguments: "threads", proof: Proof::Lines, threads: 1, locks_often: false },
    Program { name: C_PHOENIX, arguments: "", proof: Proof::LinesAndFiles, threads: 1, locks_often: false },
];

/// A program, its arguments, ranks and threads.
type Undertaking = (&'static str, &'static str, u32, u32);
/// What a program that nobody disturbs has left.
type Undisturbed = (Vec<String>, Files);

/// Programs that are there, and what they print.
#[derive(Debug)]
pub struct Programs {
    /// The C program, in a directory of its own; why it cannot be had.
    c_phoenix: Result<(PathBuf, tempfile::TempDir), String>,
    undisturbed: Mutex<HashMap<Undertaking, Undisturbed>>,
}

impl Programs {
    /// Compiles what is not compiled by cargo.
    pub fn new() -> Programs {
        let c_phoenix = compile();
        if let Err(why) = &c_phoenix {
            eprintln!("skipped: the C program with state of many kinds: {why}");
        }
        Programs { c_phoenix, undisturbed: Mutex::default() }
    }

    /// Whether a program can be run here.
    pub fn has(&self, program: &Program) -> bool {
        program.name != C_PHOENIX || self.c_phoenix.is_ok()
    }

    /// Its executable.
    pub fn path(&self, program: &Program) -> PathBuf {
        match &self.c_phoenix {
            Ok((path, _)) if program.name == C_PHOENIX => path.clone(),
            _ => built(program.name),
        }
    }

    /// What it must have printed and written, as so many ranks of so many threads. `directory`: for files.
    pub fn expected(&self, program: &Program, ranks: u32, threads: u32) -> Expected {
        if program.proof == Proof::Report {
            return Expected::Report { ranks };
        }
        let key = (program.name, program.arguments, ranks, threads);
        let mut known = self.undisturbed.lock().unwrap();
        let (lines, files) =
            known.entry(key).or_insert_with(|| self.run_undisturbed(program, ranks, threads)).clone();
        Expected::Lines { lines, files }
    }

    fn run_undisturbed(&self, program: &Program, ranks: u32, threads: u32) -> Undisturbed {
        let directory = tempfile::tempdir().unwrap();
        let arguments = arguments(program, directory.path());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let job = Job::plain(ranks).option("--threads", &threads.to_string());
        let command = job.command(&self.path(program), &arguments);
        let ended = observe(command, Duration::from_secs(300), |_| ()).ended;
        ended.succeeded();
        let mut lines: Vec<String> = ended.out.lines().map(str::to_owned).collect();
        lines.sort();
        (lines, files(directory.path()))
    }
}

impl Default for Programs {
    fn default() -> Self {
        Programs::new()
    }
}

/// The arguments of a program, which may write into a directory.
pub(super) fn arguments(program: &Program, directory: &Path) -> Vec<String> {
    let mut words: Vec<String> = program.arguments.split_whitespace().map(str::to_owned).collect();
    if program.proof == Proof::LinesAndFiles {
        let input: String = (0..100).map(|i| format!("{}\n", i * i % 37)).collect();
        std::fs::write(directory.join("input"), input).unwrap();
        words.push(directory.to_str().unwrap().to_owned());
    }
    words
}

/// The files of a directory.
pub(super) fn files(directory: &Path) -> Files {
    let all = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    all.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

/// Compiles the program of `scash/capi/tests/c/phoenix.c`.
fn compile() -> Result<(PathBuf, tempfile::TempDir), String> {
    let capi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scash/capi");
    let (library, directory) = (library(), tempfile::tempdir().unwrap());
    let (path, library) = (directory.path().join("phoenix"), library.parent().unwrap());
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-pthread", "-I"])
        .arg(capi.join("include"));
    command.arg("-o").arg(&path).arg(capi.join("tests/c/phoenix.c")).arg("-L").arg(library).arg("-lscash");
    command.arg(format!("-Wl,-rpath,{}", library.display()));
    match command.output() {
        Err(error) => Err(format!("there is no C compiler (cc, or what CC names): {error}")),
        Ok(done) if done.status.success() => Ok((path, directory)),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}
