//! Which system calls a rank makes, counted as a debugger sees them (ptrace).

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashSet};

/// Calls by their number.
pub type Calls = BTreeMap<i64, u64>;

/// Calls of all threads of a process, between one call of this number and the one that comes so many such
/// calls later. Threads that begin meanwhile are not seen. The process must get no real-time signals.
///
/// # Panics
/// If the process cannot be followed, or ends before.
pub fn calls_between(pid: i32, mark: i64, marks: u64) -> Calls {
    // Whoever follows threads waits for these alone, and they go on by themselves when it ends.
    let follow = move || Follower::new(pid).count(mark, marks);
    std::thread::spawn(follow).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Follows the threads of a process.
struct Follower {
    /// Those that are in a call.
    within: HashSet<Pid>,
}

impl Follower {
    fn new(pid: i32) -> Follower {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let tasks = tasks.unwrap_or_else(|error| panic!("process {pid}: {error}"));
        let number = |name: std::ffi::OsString| name.into_string().ok()?.parse().ok();
        for thread in tasks.filter_map(|task| number(task.ok()?.file_name())).map(Pid::from_raw) {
            let followed = ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD);
            match followed.and_then(|()| ptrace::interrupt(thread)) {
                // It may have ended meanwhile.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => panic!("thread {thread}: {errno}"),
            }
        }
        Follower { within: HashSet::new() }
    }

    fn count(mut self, mark: i64, marks: u64) -> Calls {
        let (mut calls, mut met) = (Calls::new(), 0);
        loop {
            let (thread, signal) = match self.next() {
                WaitStatus::PtraceSyscall(thread) => {
                    let call = self.begun(thread);
                    met += u64::from(call == Some(mark));
                    if met > marks {
                        return calls;
                    }
                    if let Some(call) = call.filter(|call| met > 0 && *call != mark) {
                        *calls.entry(call).or_default() += 1;
                    }
                    (thread, None)
                }
                WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
                WaitStatus::PtraceEvent(thread, ..) => (thread, None),
                // A thread has ended. If all have, there is none to wait for.
                _ => continue,
            };
            self.resume(thread, signal);
        }
    }

    /// What one of the threads does next that stops it.
    fn next(&self) -> WaitStatus {
        let own = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        waitpid(None, Some(own)).unwrap_or_else(|error| panic!("waiting for a thread: {error}"))
    }

    /// The call that the thread begins, if it is not the end of one that it is at.
    fn begun(&mut self, thread: Pid) -> Option<i64> {
        if self.within.remove(&thread) {
            return None;
        }
        self.within.insert(thread);
        let registers =
            ptrace::getregs(thread).unwrap_or_else(|error| panic!("registers of {thread}: {error}"));
        Some(registers.orig_rax.cast_signed())
    }

    fn resume(&self, thread: Pid, signal: Option<Signal>) {
        ptrace::syscall(thread, signal).unwrap_or_else(|error| panic!("resuming {thread}: {error}"));
    }
}
