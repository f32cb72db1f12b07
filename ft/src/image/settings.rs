//! What a program may set for its process that no image carries, as the launcher gives it anew: limits,
//! priorities, cores, users, filters, namespaces. It is found out what a program has changed since it began,
//! so that this can be said. Locks of files are such, too; and threads that are there before the program
//! begins.

#![forbid(unsafe_code)]

use super::kernel;
use super::tasks::{each_thread, is_of_the_runtime, own_number};
use super::threads::has_lasting_others;
use nix::sys::prctl;
use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the kernel tells of a process or of a thread: what it is, for the user, and its value as text. Always
/// the same ones, in the same order.
type Settings = Vec<(&'static str, String)>;

/// What was there when this process began.
struct Start {
    process: Settings,
    /// Of the first thread; others begin with what the thread has that starts them.
    thread: Settings,
    has_threads: bool,
    /// Descriptors of files that are locked: the launcher has these locks, too.
    locked: Vec<RawFd>,
}

static AT_START: Mutex<Option<Start>> = Mutex::new(None);

const LOCKS: &str = "locks of files (flock, fcntl)";

fn at_start() -> MutexGuard<'static, Option<Start>> {
    AT_START.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what the launcher has given, these descriptors among it.
pub(super) fn note_start(descriptors: &[RawFd]) {
    let locked = descriptors.iter().copied().filter(|number| has_locks(*number)).collect();
    let has_threads = has_lasting_others().unwrap_or(false);
    let (process, thread) = (of_process(), of_thread(std::process::id()).unwrap_or_default());
    *at_start() = Some(Start { process, thread, has_threads, locked });
}

/// Notes what the launcher has given to this process, which has come back: the memory tells of another one.
pub(super) fn note_return() {
    if let Some(start) = &mut *at_start() {
        start.process = of_process();
        start.thread = of_thread(std::process::id()).unwrap_or_default();
    }
}

/// Whether a library had started threads before the program began. In a process that comes back it would do
/// so, too, where those of the image belong.
pub(super) fn has_begun_with_threads() -> bool {
    at_start().as_ref().is_some_and(|start| start.has_threads)
}

/// In words, what the program has set since that a process which comes back does not have.
pub(super) fn changed(descriptors: &[RawFd]) -> Vec<&'static str> {
    let at_start = at_start();
    let Some(start) = &*at_start else { return Vec::new() };
    let mut threads: Vec<Settings> =
        [std::process::id(), own_number()].into_iter().filter_map(of_thread).collect();
    // If they cannot be looked at, these are what there is.
    let _ = each_thread(&mut |number| {
        if number != own_number() && !is_of_the_runtime(number) {
            threads.extend(of_thread(number));
        }
    });
    let mut words: Vec<&'static str> = changes(&start.process, &of_process()).collect();
    for (at, (what, value)) in start.thread.iter().enumerate() {
        if threads.iter().any(|thread| thread[at].1 != *value) {
            words.push(what);
        }
    }
    if descriptors.iter().any(|number| !start.locked.contains(number) && has_locks(*number)) {
        words.push(LOCKS);
    }
    words
}

fn changes<'a>(start: &'a Settings, now: &'a Settings) -> impl Iterator<Item = &'static str> + 'a {
    let both = start.iter().zip(now);
    both.filter(|(start, now)| start != now).map(|((what, _), _)| *what)
}

/// Of this process. What cannot be read is nothing, now and later.
fn of_process() -> Settings {
    let this = Path::new("/proc/self");
    let read = |name: &str| fs::read_to_string(this.join(name)).unwrap_or_default();
    let link = |name: &str| fs::read_link(this.join(name)).unwrap_or_default().display().to_string();
    let namespaces = ["cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts"];
    let (status, stat) = (read("status"), read("stat"));
    let locks_memory = lines(&status, &["VmLck:"]).iter().any(|line| !line.ends_with(" 0 kB"));
    vec![
        ("limits (setrlimit)", read("limits")),
        ("the root directory (chroot)", link("root")),
        ("namespaces (unshare, setns)", namespaces.map(|name| link(&format!("ns/{name}"))).join(" ")),
        ("its session or process group (setsid, setpgid)", words(&stat, &[2, 3])),
        ("memory that is locked (mlock)", locks_memory.to_string()),
        ("the policy of memory (set_mempolicy)", kernel::memory_policy()),
        (
            "what becomes of it when memory is short, or it dumps core (oom_score_adj, coredump_filter)",
            read("oom_score_adj") + &read("coredump_filter"),
        ),
        ("attributes (prctl)", attributes() + &lines(&status, &["Speculation"]).join(" ")),
        ("leave to use AMX (arch_prctl)", kernel::permitted_states()),
    ]
}

/// What `prctl` has set of the calling thread and its process.
fn attributes() -> String {
    let flags = [
        prctl::get_dumpable(),
        prctl::get_keepcaps(),
        prctl::get_thp_disable(),
        prctl::get_child_subreaper(),
    ];
    format!("{flags:?} {:?} {:?}", prctl::get_timerslack(), prctl::get_pdeathsig())
}

/// Of a thread of this process; none if it has ended.
fn of_thread(number: u32) -> Option<Settings> {
    let directory = PathBuf::from(format!("/proc/self/task/{number}"));
    let read = |name| fs::read_to_string(directory.join(name)).ok();
    let (status, stat) = (read("status")?, read("stat")?);
    let of_status = |names: &[&str]| lines(&status, names).join(" ");
    // proc_pid_stat(5): nice, the priority of real time, the policy.
    let priority = words(&stat, &[16, 37, 38]);
    Some(vec![
        ("cores (sched_setaffinity)", of_status(&["Cpus_allowed:"])),
        (
            "priorities (nice, sched_setscheduler, ioprio_set)",
            format!("{priority} {:?}", kernel::io_priority(number)),
        ),
        (
            "users, groups or capabilities (setuid, setgid, capset)",
            of_status(&["Uid:", "Gid:", "Groups:", "CapEff:", "CapBnd:", "CapAmb:"]),
        ),
        ("filters of system calls (seccomp, no_new_privs)", of_status(&["NoNewPrivs:", "Seccomp"])),
    ])
}

/// The lines of a text that begin so.
fn lines<'a>(text: &'a str, beginnings: &[&str]) -> Vec<&'a str> {
    text.lines().filter(|line| beginnings.iter().any(|begins| line.starts_with(begins))).collect()
}

/// Words of proc_pid_stat(5), counted from 0 behind the name, which may have blanks.
fn words(stat: &str, which: &[usize]) -> String {
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let words: Vec<&str> = behind.split_whitespace().collect();
    which.iter().filter_map(|at| words.get(*at).copied()).collect::<Vec<&str>>().join(" ")
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
    fn the_kernel_tells_of_each_setting() {
        let of_this = [of_process(), of_thread(own_number()).unwrap()].concat();
        for (what, value) in of_this {
            assert!(!value.trim().is_empty(), "{what}");
        }
    }

    #[test]
    fn what_a_program_sets_for_itself_is_told_and_nothing_else() {
        note_start(&[]);
        let file = tempfile::tempfile().unwrap();
        let number = file.as_raw_fd();
        assert_eq!(changed(&[number]), [""; 0]);
        let locked = Flock::lock(file, FlockArg::LockExclusive).unwrap();
        assert_eq!(changed(&[number]), [LOCKS]);
        drop(locked);
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, soft - 1, hard).unwrap();
        assert_eq!(changed(&[]), ["limits (setrlimit)"]);
        prctl::set_timerslack(123_456).unwrap();
        assert_eq!(changed(&[]), ["limits (setrlimit)", "attributes (prctl)"]);
        // A process that comes back is given these by the launcher.
        note_return();
        assert_eq!(changed(&[]), [""; 0]);
    }
}
