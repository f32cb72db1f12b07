//! What the tests share: the libraries and the command, built; C programs, compiled; jobs, run.

use scash::fault::{EngineKind, Probe};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Seconds after which a job counts as hanging.
const LIMIT: u32 = 120;

/// A file of this crate.
pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The C compiler.
pub(crate) fn cc() -> String {
    tool("CC", "cc").expect("a C compiler: install cc, or name one with CC")
}

/// The program that the variable names, or else `default`, if it is there.
pub(crate) fn tool(variable: &str, default: &str) -> Option<String> {
    let named = std::env::var(variable).ok().filter(|name| !name.is_empty());
    let name = named.unwrap_or_else(|| default.to_owned());
    let found = Command::new(&name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok().then_some(name)
}

/// The word by which the linker takes the script for shared variables.
pub(crate) fn shared_script() -> String {
    format!("-Wl,-T,{}", here("scash_shared.ld").display())
}

/// What cargo builds for C programs.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) command: PathBuf,
    pub(crate) shared: PathBuf,
    pub(crate) archive: PathBuf,
}

/// Has cargo build the libraries and the command `scash`, in the profile and directory of this test. Cargo
/// itself sees to it that several tests can do so at once, and does nothing if nothing has changed. All
/// packages are selected: with fewer of them cargo would choose fewer features of some, and build them again.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/PROFILE/deps/this-test
        let me = std::env::current_exe().unwrap();
        let profile = me.ancestors().nth(2).unwrap();
        let name = match profile.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let done = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--lib", "--bins", "--examples"])
            .args(["--message-format", "json-render-diagnostics", "--profile", name, "--target-dir"])
            .arg(profile.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(done.status.success(), "cargo cannot build the libraries");
        let mut built = Built::default();
        for line in String::from_utf8(done.stdout).unwrap().lines() {
            note(&serde_json::from_str(line).unwrap(), &mut built);
        }
        for path in [&built.command, &built.shared, &built.archive] {
            assert!(path.is_file(), "cargo has not told of all that it was to build");
        }
        built
    })
}

/// Notes the files that one of cargo's messages tells of.
fn note(message: &serde_json::Value, built: &mut Built) {
    let package = message["package_id"].as_str().unwrap_or_default();
    if message["reason"] != "compiler-artifact" || message["target"]["name"] != "scash" {
        return;
    }
    if let Some(command) = message["executable"].as_str() {
        built.command = command.into();
    } else if package.contains("libscash") {
        for file in message["filenames"].as_array().into_iter().flatten().filter_map(|file| file.as_str()) {
            match Path::new(file).extension().and_then(OsStr::to_str) {
                Some("so") => built.shared = file.into(),
                Some("a") => built.archive = file.into(),
                _ => {}
            }
        }
    }
}

/// How a C program is linked to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Shared,
    Static,
}

/// What a C program is compiled as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cpp,
}

/// A compiled C program.
pub(crate) struct Program {
    path: PathBuf,
    _directory: TempDir,
}

/// An object file of a C program.
pub(crate) struct Object {
    path: PathBuf,
    _directory: TempDir,
}

impl Object {
    /// Compiles `tests/c/NAME.c` to one whose variables are all shared, where the script says so.
    pub(crate) fn compile(name: &str, words: &[&str]) -> Object {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name).with_extension("shared.o");
        let mut command = Command::new(cc());
        let done = command.args(words).arg("-c").arg(test(name)).arg("-o").arg(&path).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Object { path, _directory: directory }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// A shared library of a C program.
pub(crate) struct Library {
    path: PathBuf,
    _directory: TempDir,
}

impl Library {
    /// Compiles `tests/c/NAME.c`, whose main becomes another function.
    pub(crate) fn compile(name: &str) -> Library {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(format!("lib{name}.so"));
        let mut command = Command::new(cc());
        command.args(["-shared", "-fPIC", "-Dmain=nobody", "-I"]).arg(here("include"));
        let done = command.arg(test(name)).arg("-o").arg(&path).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Library { path, _directory: directory }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// The system's libraries that programs need besides the archive.
fn private_libs() -> Vec<String> {
    let pc = std::fs::read_to_string(here("scash.pc.in")).unwrap();
    let line = pc.lines().find_map(|line| line.strip_prefix("Libs.private:")).unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

/// The source of a test's program.
fn test(name: &str) -> PathBuf {
    here("tests/c").join(name).with_extension("c")
}

impl Program {
    /// Compiles `tests/c/NAME.c` as C99.
    pub(crate) fn compile(name: &str, link: Link) -> Program {
        Program::compile_by(&cc(), &["-std=c99", "-pedantic"], &[test(name)], &[], link)
    }

    /// Compiles `examples/NAME.c` as C99, and links it with these words besides.
    pub(crate) fn compile_example(name: &str, words: &[&str]) -> Program {
        let source = here("examples").join(name).with_extension("c");
        Program::compile_by(&cc(), &["-std=c99", "-pedantic"], &[source], words, Link::Shared)
    }

    /// Compiles `tests/c/NAME.c` as C11 or C++11; `None` if there is no compiler.
    pub(crate) fn compile_as(language: Language, name: &str, link: Link) -> Option<Program> {
        if language == Language::C {
            return Some(Program::compile_by(&cc(), &["-std=c11"], &[test(name)], &[], link));
        }
        let Some(compiler) = tool("CXX", "c++") else {
            eprintln!("skipped: {name} as C++: there is no compiler (c++, or what CXX names)");
            return None;
        };
        Some(Program::compile_by(&compiler, &["-std=c++11", "-x", "c++"], &[test(name)], &[], link))
    }

    /// Compiles `tests/c/NAME.c` of all these names as C99 to one program, with the headers for programs of
    /// other systems.
    pub(crate) fn compile_compat(names: &[&str]) -> Program {
        let compat = here("include/compat");
        let language = ["-std=c99", "-pedantic", "-I", compat.to_str().unwrap()];
        let sources: Vec<PathBuf> = names.iter().map(|name| test(name)).collect();
        Program::compile_by(&cc(), &language, &sources, &[], Link::Shared)
    }

    /// Compiles `tests/c/NAME.c` as C99, and links it with these words besides.
    pub(crate) fn compile_with(name: &str, words: &[&str], link: Link) -> Program {
        Program::compile_by(&cc(), &["-std=c99", "-pedantic"], &[test(name)], words, link)
    }

    fn compile_by(
        compiler: &str,
        language: &[&str],
        sources: &[PathBuf],
        words: &[&str],
        link: Link,
    ) -> Program {
        let compiled = Program::try_to_compile(compiler, language, sources, words, link);
        compiled.unwrap_or_else(|told| panic!("{}: {told}", sources[0].display()))
    }

    /// What the compiler says of `tests/c/NAME.c` that it does not link with these words besides.
    pub(crate) fn why_not_compiled(name: &str, words: &[&str]) -> String {
        let compiled = Program::try_to_compile(&cc(), &["-std=c99"], &[test(name)], words, Link::Shared);
        compiled.err().expect("it is linked")
    }

    fn try_to_compile(
        compiler: &str,
        language: &[&str],
        sources: &[PathBuf],
        words: &[&str],
        link: Link,
    ) -> Result<Program, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(sources[0].file_stem().unwrap());
        let mut command = Command::new(compiler);
        command.args(language);
        command.args(["-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-I"]);
        command.arg(here("include")).arg("-o").arg(&path).args(sources);
        // What follows is no source.
        command.args(["-x", "none"]).args(words);
        match link {
            Link::Shared => {
                let library = built().shared.parent().unwrap();
                command.arg("-L").arg(library).arg("-lscash");
                command.arg(format!("-Wl,-rpath,{}", library.display()));
            }
            Link::Static => {
                command.arg(&built().archive).args(private_libs());
            }
        }
        let done = command.output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() { Ok(Program { path, _directory: directory }) } else { Err(told) }
    }

    /// Runs it without a launcher.
    pub(crate) fn run_alone(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Ended {
        let mut command = Command::new("timeout");
        command.arg(LIMIT.to_string()).arg(&self.path).args(arguments).envs(environment.iter().copied());
        run(&mut command, format!("no launcher, {environment:?}"))
    }

    /// Runs it as the ranks of a job.
    pub(crate) fn run(&self, job: Job, environment: &[(&str, &str)], arguments: &[&str]) -> Ended {
        self.run_with(job, &[], environment, arguments)
    }

    /// As [`run`](Self::run), with options of `scash run`.
    pub(crate) fn run_with(
        &self,
        job: Job,
        options: &[&str],
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Ended {
        run(&mut self.command(job, options, environment, arguments), format!("{job:?}"))
    }

    /// What [`run_with`](Self::run_with) runs.
    pub(crate) fn command(
        &self,
        job: Job,
        options: &[&str],
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Command {
        let mut command = Command::new(&built().command);
        command.args(["run", "-n", &job.ranks.to_string(), "--provider", job.provider]);
        command.args(["--timeout", &LIMIT.to_string()]).args(options);
        let (setting, value) = if job.shares { ("SCASH_SHARE", "on") } else { ("SCASH_FAULT", job.engine) };
        command.env_remove("SCASH_FAULT").env(setting, value).envs(environment.iter().copied());
        command.arg(&self.path).args(arguments);
        command
    }

    /// Runs it in every kind of job, and checks that it succeeds each time.
    pub(crate) fn succeeds_everywhere(&self, arguments: &[&str]) {
        for job in Job::all() {
            self.run(job, &[], arguments).succeeded();
        }
    }
}

/// Goes on with the job whose checkpoints are in this directory.
pub(crate) fn resume(directory: &str) -> Ended {
    let mut command = Command::new(&built().command);
    run(command.args(["resume", directory]), format!("resume {directory}"))
}

/// A kind of job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) ranks: u32,
    pub(crate) provider: &'static str,
    pub(crate) engine: &'static str,
    /// Whether ranks share frames. Then the engine is not asked for.
    pub(crate) shares: bool,
}

impl Job {
    /// A job with default settings.
    pub(crate) fn of(ranks: u32) -> Job {
        Job { ranks, provider: "shm", engine: "", shares: false }
    }

    /// Both providers, the fault engines that the kernel has the parts for, and shared frames, each with 1, 2
    /// and 4 ranks.
    pub(crate) fn all() -> Vec<Job> {
        let parts = Probe::run().uffd_parts;
        let missing = parts.iter().find(|part| !part.is_there());
        if let Some(part) = missing {
            eprintln!("skipped: jobs with uffd: {part}");
        }
        let shared = Job { ranks: 0, provider: "shm", engine: EngineKind::Mprotect.name(), shares: true };
        let mut jobs = Vec::from([1, 2, 4].map(|ranks| Job { ranks, ..shared }));
        for kind in EngineKind::ALL.into_iter().filter(|&kind| kind != EngineKind::Uffd || missing.is_none())
        {
            for provider in ["shm", "tcp"] {
                jobs.extend([1, 2, 4].map(|ranks| Job {
                    ranks,
                    provider,
                    engine: kind.name(),
                    shares: false,
                }));
            }
        }
        jobs
    }
}

/// How a program or a job ended.
pub(crate) struct Ended {
    what: String,
    /// The exit status; `None` if a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs it to its end, under this name.
pub(crate) fn run(command: &mut Command, what: String) -> Ended {
    // Cargo sets it for tests; programs are to find the library as they were linked.
    let done = command.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ended { what, status: done.status.code(), out: text(&done.stdout), err: text(&done.stderr) }
}

impl Ended {
    /// Checks that it ended well.
    pub(crate) fn succeeded(&self) {
        assert_eq!(self.status, Some(0), "{self}");
    }

    /// Checks that it ended with this status.
    pub(crate) fn ended_with(&self, status: i32) {
        assert_eq!(self.status, Some(status), "{self}");
    }

    /// Checks that stderr holds all these words.
    pub(crate) fn said(&self, words: &[&str]) {
        let missing: Vec<_> = words.iter().filter(|word| !self.err.contains(**word)).collect();
        assert!(missing.is_empty(), "no {missing:?} in: {self}");
    }

    /// Its output, sorted by line, as ranks print in any order.
    pub(crate) fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: status {:?}\nstdout:\n{}\nstderr:\n{}", self.what, self.status, self.out, self.err)
    }
}
