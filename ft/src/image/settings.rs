//! What a program may set for its process that no image carries, as the launcher gives it anew: limits,
//! priorities, cores, users. It is found out what a program has changed since it began, so that this can be
//! said. Locks of files are such, too; and threads that are there before the program begins.

#![forbid(unsafe_code)]

use super::tasks::{each_thread, is_of_the_runtime, own_number};
use super::threads::has_lasting_others;
use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What the kernel tells of a process.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProcessSettings {
    limits: String,
    root: PathBuf,
    leader: ThreadSettings,
}

/// What it tells of a thread; others begin with what the thread has that starts them.
#[derive(Debug, Default, PartialEq, Eq)]
struct ThreadSettings {
    users: Vec<String>,
    cores: Vec<String>,
    /// And the policy of its scheduling.
    priority: Vec<String>,
}

/// What was there when this process began.
struct Start {
    settings: ProcessSettings,
    has_threads: bool,
    /// Descriptors of files that are locked: the launcher has these locks, too.
    locked: Vec<RawFd>,
}

static AT_START: OnceLock<Start> = OnceLock::new();

/// Notes what the launcher has given, these descriptors among it.
pub(super) fn note_start(descriptors: &[RawFd]) {
    let locked = descriptors.iter().copied().filter(|number| has_locks(*number)).collect();
    let has_threads = has_lasting_others().unwrap_or(false);
    let _ = AT_START.set(Start { settings: ProcessSettings::now(), has_threads, locked });
}

/// Whether a library had started threads before the program began. In a process that comes back it would do
/// so, too, where those of the image belong.
pub(super) fn has_begun_with_threads() -> bool {
    AT_START.get().is_some_and(|start| start.has_threads)
}

/// In words, what the program has set since that a process which comes back does not have.
pub(super) fn changed(descriptors: &[RawFd]) -> Vec<&'static str> {
    let Some(Start { settings: start, locked, .. }) = AT_START.get() else { return Vec::new() };
    let is_locked = |number: &RawFd| !locked.contains(number) && has_locks(*number);
    let now = ProcessSettings::now();
    let mut threads = vec![now.leader];
    // If they cannot be looked at, the first one is what there is.
    let _ = each_thread(&mut |number| {
        if number != own_number() && !is_of_the_runtime(number) {
            threads.extend(ThreadSettings::of(number));
        }
    });
    threads.extend(ThreadSettings::of(own_number()));
    let any = |differs: fn(&ThreadSettings, &ThreadSettings) -> bool| {
        threads.iter().any(|thread| differs(thread, &start.leader))
    };
    let found = [
        (now.limits != start.limits, "limits (setrlimit)"),
        (any(|one, other| one.cores != other.cores), "cores (sched_setaffinity)"),
        (any(|one, other| one.priority != other.priority), "priorities (nice, sched_setscheduler)"),
        (
            any(|one, other| one.users != other.users),
            "users, groups or capabilities (setuid, setgid, capset)",
        ),
        (now.root != start.root, "the root directory (chroot)"),
        (descriptors.iter().any(is_locked), "locks of files (flock, fcntl)"),
    ];
    found.into_iter().filter_map(|(is_so, what)| is_so.then_some(what)).collect()
}

impl ProcessSettings {
    /// What cannot be read is nothing, now and later.
    fn now() -> ProcessSettings {
        ProcessSettings {
            limits: fs::read_to_string("/proc/self/limits").unwrap_or_default(),
            root: fs::read_link("/proc/self/root").unwrap_or_default(),
            leader: ThreadSettings::of(std::process::id()).unwrap_or_default(),
        }
    }
}

impl ThreadSettings {
    /// Of a thread of this process; none if it has ended.
    fn of(number: u32) -> Option<ThreadSettings> {
        let directory = PathBuf::from(format!("/proc/self/task/{number}"));
        let read = |name| fs::read_to_string(directory.join(name)).ok();
        let (status, stat) = (read("status")?, read("stat")?);
        let lines = |names: &[&str]| {
            let is_one = |line: &&str| names.iter().any(|name| line.starts_with(name));
            status.lines().filter(is_one).map(str::to_owned).collect()
        };
        // Behind the name, which may have blanks, proc_pid_stat(5) has nice as the 17th word; then it has the
        // priority of real time, and the policy.
        let words = stat.rsplit_once(')')?.1.split_whitespace();
        let priority = words.enumerate().filter(|(at, _)| [16, 37, 38].contains(at));
        Some(ThreadSettings {
            users: lines(&["Uid:", "Gid:", "Groups:", "CapEff:"]),
            cores: lines(&["Cpus_allowed:"]),
            priority: priority.map(|(_, word)| word.to_owned()).collect(),
        })
    }
}

/// Whether this process has a lock of the file of a descriptor.
fn has_locks(number: RawFd) -> bool {
    let info = fs::read_to_string(Path::new("/proc/self/fdinfo").join(number.to_string()));
    info.is_ok_and(|info| info.lines().any(|line| line.starts_with("lock:")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use nix::fcntl::{Flock, FlockArg};
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use std::os::fd::AsRawFd;

    #[test]
    fn what_a_program_sets_for_itself_is_told_and_nothing_else() {
        note_start(&[]);
        let file = tempfile::tempfile().unwrap();
        let number = file.as_raw_fd();
        assert_eq!(changed(&[number]), [""; 0]);
        let locked = Flock::lock(file, FlockArg::LockExclusive).unwrap();
        assert_eq!(changed(&[number]), ["locks of files (flock, fcntl)"]);
        drop(locked);
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, soft - 1, hard).unwrap();
        assert_eq!(changed(&[]), ["limits (setrlimit)"]);
    }
}
