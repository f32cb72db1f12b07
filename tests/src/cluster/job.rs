//! Starting a job, and waiting for its end.

use super::built::built;
use super::ended::Ended;
use super::interrupt::is_interrupted;
use scash::fault::{self, Probe};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Whatever takes longer hangs. Generous: nothing else is said about time.
pub const LIMIT: Duration = Duration::from_secs(300);
/// How long processes that were killed may take to be gone.
const GRACE: Duration = Duration::from_secs(30);
/// The variable that marks the processes of one run, whatever they become.
pub const MARK: &str = "SCASH_TEST_MARK";

/// What a job's ranks communicate through, how they notice accesses, and whose frames they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The fault engine.
    pub engine: &'static str,
    /// The provider.
    pub provider: &'static str,
    /// Whether they share frames: then the engine has nothing to notice but what is not allocated.
    pub shares: bool,
}

/// The providers that need nothing but Linux.
const PROVIDERS: [&str; 2] = ["shm", "tcp"];

/// Every kind of job that [`kinds`] has, and one whose ranks share frames.
pub fn all_kinds() -> Vec<Kind> {
    let shared = Kind { engine: fault::EngineKind::Mprotect.name(), provider: "shm", shares: true };
    kinds().into_iter().chain([shared]).collect()
}

/// Every kind of job that the kernel has the parts for, whose ranks have frames of their own. Says what is
/// missing for the others. (An engine that has its parts and does not work fails the tests: it is ours.)
pub fn kinds() -> Vec<Kind> {
    let parts = Probe::run().uffd_parts;
    let missing = parts.iter().find(|part| !part.is_there());
    if let Some(part) = missing {
        eprintln!("skipped: jobs with uffd: {part}");
    }
    let engines = fault::EngineKind::ALL
        .into_iter()
        .filter(|&kind| kind != fault::EngineKind::Uffd || missing.is_none());
    engines
        .flat_map(|kind| PROVIDERS.map(|provider| Kind { engine: kind.name(), provider, shares: false }))
        .collect()
}

impl Kind {
    /// A job of this kind.
    pub fn job(self, ranks: u32) -> Job {
        let (name, value) = self.setting();
        let env = vec![(name.into(), value.into())];
        Job { ranks, options: vec!["--provider".into(), self.provider.into()], env }
    }

    /// The setting, besides the provider, that makes a job one of this kind.
    pub fn setting(self) -> (&'static str, &'static str) {
        if self.shares { ("SCASH_SHARE", "on") } else { ("SCASH_FAULT", self.engine) }
    }
}

/// How a program is to be run.
#[derive(Clone, Debug)]
pub struct Job {
    ranks: u32,
    options: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Job {
    /// A job with the settings that users have who set none.
    pub fn plain(ranks: u32) -> Job {
        Job { ranks, options: Vec::new(), env: Vec::new() }
    }

    /// With an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Job {
        self.env.push((name.into(), value.as_ref().into()));
        self
    }

    /// With an option of `scash run` that has no value.
    pub fn flag(mut self, name: &str) -> Job {
        self.options.push(name.into());
        self
    }

    /// With an option of `scash run` and its value.
    pub fn option(mut self, name: &str, value: &str) -> Job {
        self.options.extend([name.into(), value.into()]);
        self
    }

    /// The command that starts it.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        self.command_from(&built("scash"), program, arguments)
    }

    /// The command that starts it, where `scash` was copied to.
    pub fn command_from(&self, scash: &Path, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(scash);
        command.args(["run", "-n", &self.ranks.to_string()]).args(&self.options);
        command.arg(program).args(arguments);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SCASH_"))
        {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a program to the job's end.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Ended {
        run(self.command(program, arguments))
    }

    /// Runs a script of the shell as the ranks' program: it has these arguments as `$1`, `$2`, ….
    pub fn run_script(&self, script: &str, arguments: &[&str]) -> Ended {
        let mut all = vec!["-c", script, "sh"];
        all.extend(arguments);
        self.run(Path::new("/bin/sh"), &all)
    }
}

/// Runs a command to its end, and checks that it leaves nothing.
pub fn run(command: Command) -> Ended {
    run_beside(command, |_| ())
}

/// The same, with something that is done to it by its process number while it runs.
pub fn run_beside(command: Command, act: impl FnOnce(i32)) -> Ended {
    let Observed { ended, hanging, processes, files } = observe(command, LIMIT, act);
    assert!(hanging.is_empty(), "it hangs, with these threads: {hanging:#?} {ended}");
    assert!(processes.is_empty(), "it has left {processes:?}: {ended}");
    assert!(files.is_empty(), "it has left {files:?} in /dev/shm: {ended}");
    ended
}

/// A command that has ended, by itself or by force.
#[derive(Debug)]
pub struct Observed {
    /// How; its status is -1 if it has hung.
    pub ended: Ended,
    /// If it has hung, the threads of its processes, and what each waited for.
    pub hanging: Vec<String>,
    /// Processes that it had left, as their numbers and command lines. They are killed.
    pub processes: Vec<String>,
    /// Files that it has left in `/dev/shm`.
    pub files: Vec<OsString>,
}

/// Runs a command to its end, by force if that takes longer than `limit`, and looks at what it leaves.
/// Meanwhile something is done to it by its process number. Commands with the same value of [`MARK`] in their
/// environment are one run: what the first one has left is what the last one has left.
pub fn observe(command: Command, limit: Duration, act: impl FnOnce(i32)) -> Observed {
    observe_losable(command, limit, |front| {
        act(front);
        false
    })
}

/// As [`observe`], where `act` tells whether it has killed the launcher, so that processes wait for another
/// one: these are left, and are for those who observe that one.
pub fn observe_losable(mut command: Command, limit: Duration, act: impl FnOnce(i32) -> bool) -> Observed {
    let what = format!("{command:?}");
    let given = command.get_envs().find_map(|(name, value)| value.filter(|_| name == MARK));
    let mark = given.map_or_else(new_mark, |mark| mark.to_string_lossy().into_owned());
    let before = shared_files();
    command.env(MARK, &mark).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (out, err) = (Reader::of(child.stdout.take().unwrap()), Reader::of(child.stderr.take().unwrap()));
    let pid = i32::try_from(child.id()).unwrap();
    let is_lost = match catch_unwind(AssertUnwindSafe(|| act(pid))) {
        Ok(is_lost) => is_lost,
        Err(why) => {
            end_group(&mut child);
            processes_left(&mark);
            eprintln!("{what}\nstdout:\n{}\nstderr:\n{}", out.all(), err.all());
            resume_unwind(why);
        }
    };
    let status = wait(&mut child, limit);
    if is_lost && let Some(status) = status {
        let ended = Ended { what, status: shell_status(status), out: out.so_far(), err: err.so_far() };
        return Observed { ended, hanging: Vec::new(), processes: Vec::new(), files: Vec::new() };
    }
    let mut hanging = Vec::new();
    if status.is_none() {
        hanging = processes(&mark).iter().flat_map(|process| threads(process)).collect();
        end_group(&mut child);
    }
    let left = processes_left(&mark);
    let (out, err, status) = (out.all(), err.all(), status.map_or(-1, shell_status));
    let files = shared_files().difference(&before).cloned().collect();
    Observed { ended: Ended { what, status, out, err }, hanging, processes: left, files }
}

/// A value of [`MARK`] that no other run has.
pub fn new_mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What a shell calls that end.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// What comes through a pipe.
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn of(mut pipe: impl Read + Send + 'static) -> Reader {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            loop {
                match pipe.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) => shared.lock().unwrap().extend_from_slice(&buffer[..length]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
                }
            }
        });
        Reader { bytes, thread }
    }

    /// All of it: nobody writes any more.
    fn all(self) -> String {
        self.thread.join().unwrap();
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// What those have written who are dead, though others may hold the pipe.
    fn so_far(self) -> String {
        let seen = || self.bytes.lock().unwrap().len();
        let mut last = None;
        // The thread reads what is in the pipe at once.
        while last != Some(seen()) && !self.thread.is_finished() {
            last = Some(seen());
            thread::sleep(Duration::from_millis(20));
        }
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// Waits for the end; `None` if it does not come, or nobody wants to wait for it any more.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < limit && !is_interrupted() {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Kills a process that leads a group, and its group.
fn end_group(child: &mut Child) {
    let group = i32::try_from(child.id()).unwrap();
    // SAFETY: the child was not reaped yet, so the number is still that of its group.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    child.wait().unwrap();
}

/// Waits until no process of the run is left; kills and returns those that do not go away.
fn processes_left(mark: &str) -> Vec<String> {
    let started = Instant::now();
    loop {
        let left = processes(mark);
        if left.is_empty() || started.elapsed() > GRACE {
            for pid in left.iter().filter_map(|process| process.split(' ').next()?.parse().ok()) {
                // SAFETY: sends a signal to a process that bears this run's mark.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            return left;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Processes of the run, as their numbers and command lines.
fn processes(mark: &str) -> Vec<String> {
    let variable = format!("{MARK}={mark}");
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok());
    let marked = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    });
    let describe = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        format!("{} {}", entry.file_name().display(), String::from_utf8_lossy(&words).replace('\0', " "))
    };
    marked.map(describe).collect()
}

/// The threads of a process that [`processes`] tells of: what each is, does, and waits for.
fn threads(process: &str) -> Vec<String> {
    let pid = process.split(' ').next().unwrap_or_default();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let describe = |entry: std::fs::DirEntry| {
        let of = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let (status, thread) = (of("status"), entry.file_name());
        let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
        let (name, channel, call) = (of("comm"), of("wchan"), of("syscall"));
        let words = [name.trim(), state.trim_start_matches("State:").trim(), &channel, call.trim()];
        format!("{process}thread {}: {}", thread.display(), words.join(", "))
    };
    entries.filter_map(|entry| entry.ok()).map(describe).collect()
}

/// The children of a process with one thread.
pub fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Files of scash in the directory of shared memory. (There are none: ranks share files without names.)
fn shared_files() -> BTreeSet<OsString> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else { return BTreeSet::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    names.filter(|name| name.to_string_lossy().contains("scash")).collect()
}
