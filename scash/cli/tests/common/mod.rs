//! Runs the built `scash` as a user would, with a limit on every wait.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Whatever takes longer hangs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Marks the processes of one job, its grandchildren included.
const MARK: &str = "SCASH_TEST_MARK";

/// A running `scash`.
pub struct Scash {
    child: Child,
    mark: String,
    lines: Receiver<String>,
    errors: Receiver<String>,
    seen: Vec<String>,
}

/// What a `scash` that has ended left to read.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status, or 128 + the signal that killed it.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    /// Processes of the job that are still there.
    pub left: Vec<String>,
}

/// `scash` with these arguments, to be changed before it is started.
pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_scash"));
    command.args(arguments);
    command.env(MARK, format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    for variable in ["SCASH_PROVIDER", "SCASH_THREADS", "SCASH_FAULT"] {
        command.env_remove(variable);
    }
    command
}

/// `scash run` with `options`, and a shell script as program.
pub fn script(options: &str, script: &str) -> Command {
    let mut arguments: Vec<&str> = vec!["run"];
    arguments.extend(options.split_whitespace());
    arguments.extend(["/bin/sh", "-c", script]);
    command(arguments)
}

/// Runs to the end.
pub fn run(command: Command) -> Ended {
    start(command).end()
}

pub fn start(command: Command) -> Scash {
    start_reading(Stdio::piped(), command)
}

/// Starts a command whose standard input is this.
pub fn start_reading(stdin: Stdio, mut command: Command) -> Scash {
    let mark = command.get_envs().find(|(name, _)| *name == MARK).and_then(|(_, value)| value).unwrap();
    let mark = format!("{MARK}={}", mark.to_str().unwrap());
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = reader(child.stdout.take().unwrap());
    let errors = reader(child.stderr.take().unwrap());
    Scash { child, mark, lines, errors, seen: Vec::new() }
}

/// Lines as they come.
fn reader(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

impl Scash {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The next line of stdout.
    pub fn line(&mut self) -> String {
        let line = self.lines.recv_timeout(LIMIT).expect("a line of output");
        self.seen.push(line.clone());
        line.trim_end().to_owned()
    }

    /// The next line of stderr, which will be missing at the end.
    pub fn error_line(&mut self) -> String {
        self.errors.recv_timeout(LIMIT).expect("a line on stderr").trim_end().to_owned()
    }

    /// The next `count` lines of stdout, sorted: ranks may be in any order.
    pub fn sorted_lines(&mut self, count: usize) -> Vec<String> {
        let mut lines: Vec<String> = (0..count).map(|_| self.line()).collect();
        lines.sort();
        lines
    }

    pub fn signal(&self, signal: &str) {
        kill(signal, self.pid());
    }

    /// Processes of this job that live, as their command lines.
    pub fn processes(&self) -> Vec<String> {
        let mark = self.mark.clone() + "\0";
        let has_mark = |directory: &PathBuf| {
            std::fs::read(directory.join("environ"))
                .is_ok_and(|environment| find(&environment, mark.as_bytes()))
        };
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let name = |directory: PathBuf| {
            let words = std::fs::read(directory.join("cmdline")).unwrap_or_default();
            format!("{} {}", directory.display(), String::from_utf8_lossy(&words).replace('\0', " "))
        };
        processes.filter(has_mark).map(name).collect()
    }

    /// Waits until no process of the job is left; returns those that do not go away.
    pub fn processes_left(&self) -> Vec<String> {
        let started = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() || started.elapsed() > Duration::from_secs(20) {
                return left;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the process that was started, and for the end of its output.
    pub fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let status = self.wait();
        let left = self.processes();
        let mut stdout = std::mem::take(&mut self.seen).concat();
        drain(&self.lines, &mut stdout);
        let mut stderr = String::new();
        drain(&self.errors, &mut stderr);
        Ended {
            status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap()),
            stdout,
            stderr,
            left,
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if started.elapsed() > LIMIT {
                panic!("scash hangs; its processes: {:#?}", self.processes());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Scash {
    fn drop(&mut self) {
        // A failed test leaves nothing behind either.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Adds all that comes until the pipe is closed, which a process that was left behind would put off for ever.
fn drain(lines: &Receiver<String>, text: &mut String) {
    loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) => text.push_str(&line),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => panic!("somebody holds the output open; so far: {text}"),
        }
    }
}

fn find(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// `kill -signal pid`.
pub fn kill(signal: &str, pid: i32) {
    let status = Command::new("kill").args([&format!("-{signal}"), "--", &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -{signal} {pid}");
}

/// The only child of a process.
pub fn child_of(pid: i32) -> i32 {
    let children = children_of(pid);
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

/// The children of a process's first thread.
pub fn children_of(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Writes to a process that may have ended.
pub fn write(mut pipe: ChildStdin, text: &[u8]) {
    let _ = pipe.write_all(text);
}
