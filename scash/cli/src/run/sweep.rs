//! Ends the processes that ranks have started and left behind. They are children of this process now, which
//! adopts orphans.

use super::exits::{Children, children, reap};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use std::fs;
use std::time::{Duration, Instant};

/// How long killed processes may take to go away (a large one, or one that waits for a disk).
const TIMEOUT: Duration = Duration::from_secs(10);

/// Kills and reaps the children of this process, and what becomes its child thereby, except `strangers`. To
/// be called when no rank is left.
pub(super) fn sweep(strangers: &[Pid]) {
    let started = Instant::now();
    while children() != Children::None {
        let left: Vec<Pid> = living().into_iter().filter(|pid| !strangers.contains(pid)).collect();
        if left.is_empty() {
            return;
        }
        if started.elapsed() > TIMEOUT {
            return crate::say(&format!("these processes do not die although they were killed: {left:?}"));
        }
        for pid in left {
            // A child that was not waited for keeps its number, so this is nobody else.
            let _ = kill(pid, Signal::SIGKILL);
            if reap(pid).is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The children of this process, dead ones that were not waited for included.
pub(super) fn living() -> Vec<Pid> {
    if children() == Children::None {
        return Vec::new();
    }
    // Not from the short list in /proc/self/task, which needs a kernel option.
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| parent_of(*pid) == Some(getpid().as_raw())).map(Pid::from_raw).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // PID (NAME) STATE PPID …, where NAME may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
