//! Jobs on several hosts whose launcher is lost, and those who go on with them.

use super::built::built;
use super::job::{MARK, children, new_mark};
use super::{Ended, Hosts, run, run_beside};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long something may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job that has lost its launcher.
#[derive(Debug)]
pub struct Orphan {
    /// What the user calls it.
    pub job: i32,
    mark: String,
    rsh: PathBuf,
    /// What its launchers have printed.
    out: String,
    err: String,
}

impl Orphan {
    /// Starts the command of a job, and has its launcher killed, both processes at once, when `act` has
    /// returned, which knows its process number.
    ///
    /// (It may be dead by then, with its host.)
    ///
    /// # Panics
    /// If the job ends before.
    pub fn of(hosts: &Hosts, command: Command, act: impl FnOnce(i32)) -> Orphan {
        let mark = new_mark();
        let (child, out, err) = start(hosts, command, &mark);
        let job = i32::try_from(child.id()).unwrap();
        act(job);
        let (out, err) = lose(child, &out, &err);
        Orphan { job, mark, rsh: hosts.file("rsh"), out, err }
    }

    /// Starts the command of a job, and waits until its launcher has left it by itself, behind what `act`
    /// does. Returns its status, too.
    ///
    /// # Panics
    /// If the launcher cannot be waited for.
    pub fn left(hosts: &Hosts, command: Command, act: impl FnOnce(i32)) -> (Orphan, Option<i32>) {
        let mark = new_mark();
        let (mut child, out, err) = start(hosts, command, &mark);
        let job = i32::try_from(child.id()).unwrap();
        act(job);
        let status = child.wait().unwrap().code();
        let text = |path: &Path| std::fs::read_to_string(path).unwrap();
        (Orphan { job, mark, rsh: hosts.file("rsh"), out: text(&out), err: text(&err) }, status)
    }

    /// What its launchers have said.
    pub fn said(&self) -> &str {
        &self.err
    }

    /// The command that goes on with the job, with these words besides, on a host or on none of them.
    pub fn resume(&self, host: Option<&str>, words: &[&str]) -> Command {
        let scash = built("scash");
        let mut command = match host {
            None => Command::new(scash),
            Some(host) => {
                let mut command = Command::new(&self.rsh);
                command.arg(host).arg(scash);
                command
            }
        };
        command.args(["resume", &self.job.to_string()]).args(words);
        command.env(MARK, &self.mark).env("SCASH_RSH", &self.rsh);
        command
    }

    /// Goes on with the job from a machine that is none of its hosts, called by that host, to its end.
    pub fn ends(self, first: &str) -> Ended {
        let command = self.resume(None, &["--host", first]);
        self.ends_by(command)
    }

    /// Goes on with the job by that command, to its end. Returns what all its launchers have printed.
    pub fn ends_by(self, command: Command) -> Ended {
        let ended = run(command);
        Ended { out: self.out + &ended.out, err: self.err + &ended.err, ..ended }
    }

    /// As [`ends_by`](Self::ends_by), for the program `until`: it is let end ([`Hosts::let_end`]) when `act`
    /// returns, which knows the new launcher's process number.
    pub fn ends_after(self, hosts: &Hosts, command: Command, act: impl FnOnce(i32)) -> Ended {
        let ended = run_beside(command, |front| {
            act(front);
            hosts.let_end();
        });
        Ended { out: self.out + &ended.out, err: self.err + &ended.err, ..ended }
    }

    /// Goes on with the job by that command, whose launcher is lost as well when `act` has returned.
    pub fn is_lost_again(self, hosts: &Hosts, command: Command, act: impl FnOnce(i32)) -> Orphan {
        let (child, out, err) = start(hosts, command, &self.mark);
        act(i32::try_from(child.id()).unwrap());
        let (out, err) = lose(child, &out, &err);
        Orphan { out: self.out.clone() + &out, err: self.err.clone() + &err, ..self }
    }
}

fn start(hosts: &Hosts, mut command: Command, mark: &str) -> (Child, PathBuf, PathBuf) {
    // Files: agents that go on would hold pipes open.
    let [out, err] = ["out", "err"].map(|name| hosts.file(name));
    let file = |path: &Path| std::fs::File::create(path).unwrap();
    command.env(MARK, mark).stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
    (command.spawn().unwrap(), out, err)
}

/// Kills a launcher, the front first stopped so that it tidies nothing up. Returns what they have printed.
fn lose(mut front: Child, out: &Path, err: &Path) -> (String, String) {
    let pid = i32::try_from(front.id()).unwrap();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    // One that was killed with its host may not have ended yet. Agents are its children then.
    let is_ending = std::fs::metadata(format!("/proc/{pid}/ns/net")).is_err();
    let ended = if is_ending { Some(front.wait().unwrap()) } else { front.try_wait().unwrap() };
    assert!(ended.is_none_or(|status| status.code().is_none()), "{ended:?}: {}{}", text(out), text(err));
    if ended.is_some() {
        return (text(out), text(err));
    }
    kill_launcher(&mut front);
    (text(out), text(err))
}

/// Kills both processes of a launcher at once.
///
/// # Panics
/// If it cannot be waited for.
pub fn kill_launcher(front: &mut Child) {
    let pid = i32::try_from(front.id()).unwrap();
    let signal = |pid: i32, signal: i32| {
        // SAFETY: the call takes numbers; neither process was waited for.
        unsafe { libc::kill(pid, signal) }
    };
    signal(pid, libc::SIGSTOP);
    for launcher in children(pid) {
        signal(launcher, libc::SIGKILL);
    }
    signal(pid, libc::SIGKILL);
    front.wait().unwrap();
}

/// Waits until `scash status` says these words on a host.
///
/// # Panics
/// If it does not in time.
pub fn wait_for_status_on(hosts: &Hosts, host: &str, words: &str) {
    let started = Instant::now();
    loop {
        let mut command = Command::new(hosts.file("rsh"));
        command.arg(host).arg(built("scash")).arg("status");
        let ended = run(command);
        if ended.out.contains(words) {
            return;
        }
        let waited = started.elapsed();
        assert!(waited < PATIENCE, "{words}: {ended}\nlaunchers have said: {:#?}", said_by_launchers(hosts));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until no host has a process.
///
/// # Panics
/// If that takes too long.
pub fn wait_until_all_are_gone(hosts: &Hosts) {
    let started = Instant::now();
    loop {
        let left: Vec<Vec<i32>> = (1..=hosts.count()).map(|host| hosts.processes(host)).collect();
        if left.iter().all(Vec::is_empty) {
            return;
        }
        let said = || said_by_launchers(hosts);
        assert!(started.elapsed() < PATIENCE, "left: {left:?}\nlaunchers have said: {:#?}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the first launcher has said, and `scash-JOB.err` of one that has gone on by itself.
fn said_by_launchers(hosts: &Hosts) -> Vec<String> {
    let files = std::fs::read_dir(hosts.file("")).unwrap().map(|entry| entry.unwrap().path());
    let said = files.filter(|file| file.to_string_lossy().ends_with("err"));
    said.filter_map(|file| std::fs::read_to_string(file).ok()).collect()
}
