//! What a program may set for its process that no image carries, as the launcher gives it anew: most limits,
//! priorities, cores, users, filters, namespaces. It is found out what a program has changed since it began,
//! so that this can be said. Locks of files are such, too; and threads that are there before the program
//! begins.

#![forbid(unsafe_code)]

use super::kernel;
use super::limits;
use super::tasks::{each_thread, is_of_the_runtime, own_number};
use super::threads::has_lasting_others;
use nix::sys::prctl;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
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

const FILTERS: &str = "filters of system calls (seccomp)";
const NAMESPACES: &str = "namespaces (unshare, setns)";
const LOCKS: &str = "locks of files (flock, fcntl)";

fn at_start() -> MutexGuard<'static, Option<Start>> {
    AT_START.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what the launcher has given, these descriptors among it.
pub(super) fn note_start(descriptors: &[RawFd]) {
    limits::note_start();
    let locked = descriptors.iter().copied().filter(|number| has_locks(*number)).collect();
    let has_threads = has_lasting_others().unwrap_or(false);
    let (process, thread) = (of_process(true), of_thread(own_number(), true).unwrap_or_default());
    *at_start() = Some(Start { process, thread, has_threads, locked });
}

/// Notes what the launcher has given to this process, which has come back: the memory tells of another one.
pub(super) fn note_return() {
    if let Some(start) = &mut *at_start() {
        start.process = of_process(true);
        start.thread = of_thread(own_number(), true).unwrap_or_default();
    }
}

/// Whether a library had started threads before the program began. In a process that comes back it would do
/// so, too, where those of the image belong.
pub(super) fn has_begun_with_threads() -> bool {
    at_start().as_ref().is_some_and(|start| start.has_threads)
}

/// In words, what was set since that a process which comes back does not have.
pub(super) fn changed(descriptors: &[RawFd]) -> Vec<&'static str> {
    let at_start = at_start();
    let Some(start) = &*at_start else { return Vec::new() };
    // A filter may end this process for a call that it does not know.
    let own = of_thread(own_number(), false).unwrap_or_default();
    let may_ask = !own.is_empty() && !changes(&start.thread, &own).any(|what| what == FILTERS);
    let mut words: Vec<&'static str> = changes(&start.process, &of_process(may_ask)).collect();
    words.dedup();
    let mut of_threads = Vec::new();
    // If they cannot be looked at, the calling one is what there is.
    let _ = each_thread(&mut |number| {
        if number == own_number() || !is_of_the_runtime(number) {
            let settings = of_thread(number, may_ask).unwrap_or_default();
            of_threads.extend(changes(&start.thread, &settings));
        }
    });
    words.extend(start.thread.iter().map(|(what, _)| *what).filter(|what| of_threads.contains(what)));
    if descriptors.iter().any(|number| !start.locked.contains(number) && has_locks(*number)) {
        words.push(LOCKS);
    }
    words
}

/// Which settings differ. One that could not be read, then or now, may be as it was.
fn changes(start: &Settings, now: &Settings) -> impl Iterator<Item = &'static str> {
    let both = start.iter().zip(now);
    both.filter(|((_, start), (_, now))| !start.is_empty() && !now.is_empty() && start != now)
        .map(|((what, _), _)| *what)
}

/// Of this process. What cannot be read is an empty text, and so is, if not `may_ask`, what seldom system
/// calls tell.
fn of_process(may_ask: bool) -> Settings {
    // The first thread may have ended, and tells nothing then.
    let this = Path::new("/proc/thread-self");
    let read = |name: &str| fs::read_to_string(this.join(name)).unwrap_or_default();
    let asked = |ask: fn() -> Option<String>| if may_ask { ask().unwrap_or_default() } else { String::new() };
    let (status, stat) = (read("status"), read("stat"));
    let locks_memory = lines(&status, &["VmLck:"]).first().map(|line| (!line.ends_with(" 0 kB")).to_string());
    let dumps = fs::read_to_string("/proc/self/coredump_filter").unwrap_or_default();
    let mut settings = vec![
        ("limits (setrlimit)", limits::but_for_raised(&read("limits"))),
        ("the root directory (chroot)", root()),
        ("its session or process group (setsid, setpgid)", words(&stat, &[2, 3])),
        ("memory that is locked (mlock)", locks_memory.unwrap_or_default()),
        ("the policy of memory (set_mempolicy)", asked(kernel::memory_policy)),
        ("whether it is killed first when memory is short (oom_score_adj)", read("oom_score_adj")),
        ("what it dumps when it crashes (coredump_filter)", dumps),
        ("attributes (prctl)", asked(attributes)),
        ("leave to use AMX (arch_prctl)", asked(kernel::permitted_states)),
    ];
    for name in ["cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts"] {
        let namespace = match fs::read_link(this.join("ns").join(name)) {
            Ok(link) => link.display().to_string(),
            // There is none yet for children of which the first one makes it; or the kernel has no such.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !status.is_empty() => "none".to_owned(),
            Err(_) => String::new(),
        };
        settings.push((NAMESPACES, namespace));
    }
    settings
}

/// The root directory of the calling thread. (The link in /proc tells `/` of whoever reads it.)
fn root() -> String {
    fs::metadata("/").map_or(String::new(), |root| format!("{} {}", root.dev(), root.ino()))
}

/// What `prctl` has set of the process, and of the calling thread if others inherit it.
fn attributes() -> Option<String> {
    let flags = [
        prctl::get_dumpable().ok()?,
        prctl::get_thp_disable().ok()?,
        prctl::get_child_subreaper().ok()?,
        prctl::get_keepcaps().ok()?,
    ];
    Some(format!("{flags:?}"))
}

/// Of a thread of this process; none if it has ended. `may_ask`: as for [`of_process`].
fn of_thread(number: u32, may_ask: bool) -> Option<Settings> {
    let directory = PathBuf::from(format!("/proc/self/task/{number}"));
    let read = |name| fs::read_to_string(directory.join(name)).ok();
    let (status, stat) = (read("status")?, read("stat")?);
    let of_status = |names: &[&str]| lines(&status, names).join(" ");
    let io_priority = if may_ask { kernel::io_priority(number) } else { None };
    Some(vec![
        ("cores (sched_setaffinity)", of_status(&["Cpus_allowed:"])),
        // proc_pid_stat(5): nice, the priority of real time, the policy.
        ("priorities (nice, sched_setscheduler)", words(&stat, &[16, 37, 38])),
        (
            "priorities of input and output (ioprio_set)",
            io_priority.map_or(String::new(), |number| number.to_string()),
        ),
        (
            "users, groups or capabilities (setuid, setgid, capset)",
            of_status(&["Uid:", "Gid:", "Groups:", "Cap"]),
        ),
        ("no new privileges (prctl)", of_status(&["NoNewPrivs:"])),
        (FILTERS, of_status(&["Seccomp"])),
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
    use nix::errno::Errno;
    use nix::fcntl::{Flock, FlockArg};
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::signal::Signal;
    use nix::unistd::chroot;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_kernel_tells_of_each_setting() {
        let of_this = [of_process(true), of_thread(own_number(), true).unwrap()].concat();
        // A kernel may have been built without nodes of memory, and processors may have no AMX.
        let may_lack = ["set_mempolicy", "AMX"];
        for (what, value) in of_this {
            assert!(!value.trim().is_empty() || may_lack.iter().any(|word| what.contains(word)), "{what}");
        }
    }

    #[test]
    fn another_root_is_told_of() {
        let change = || {
            let before = root();
            unshare(CloneFlags::CLONE_FS).and_then(|()| chroot("/usr")).map(|()| (before, root()))
        };
        // The other threads have theirs.
        match std::thread::spawn(change).join().unwrap() {
            Ok((before, after)) => assert_ne!(before, after),
            Err(errno) => assert_eq!(errno, Errno::EPERM, "skipped: only root may chroot"),
        }
    }

    #[test]
    fn what_a_program_sets_for_itself_is_told_and_nothing_else() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, soft - 1, hard).unwrap();
        note_start(&[]);
        // A thread dies with the one that started it, and this is not inherited.
        prctl::set_pdeathsig(Signal::SIGURG).unwrap();
        assert_eq!(std::thread::spawn(|| changed(&[])).join().unwrap(), [""; 0]);
        prctl::set_pdeathsig(None).unwrap();
        let file = tempfile::tempfile().unwrap();
        let number = file.as_raw_fd();
        assert_eq!(changed(&[number]), [""; 0]);
        let locked = Flock::lock(file, FlockArg::LockExclusive).unwrap();
        assert_eq!(changed(&[number]), [LOCKS]);
        drop(locked);
        // What was raised of it comes back.
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        assert_eq!(changed(&[]), [""; 0]);
        setrlimit(Resource::RLIMIT_NOFILE, soft - 2, hard).unwrap();
        assert_eq!(changed(&[]), ["limits (setrlimit)"]);
        prctl::set_thp_disable(true).unwrap();
        assert_eq!(changed(&[]), ["limits (setrlimit)", "attributes (prctl)"]);
        // A process that comes back is given these by the launcher.
        note_return();
        assert_eq!(changed(&[]), [""; 0]);
    }
}
