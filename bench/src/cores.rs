//! Cores for threads that measure: one that moves, or shares its core with the one that it measures with, is
//! disturbed.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Gives this thread, the one at `place` of `count`, a core of its own, if there are as many. What is
/// measured is right elsewhere too, and only less steady.
pub fn take(place: usize, count: usize) {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return };
    let cores: Vec<usize> = (0..CpuSet::count()).filter(|&at| allowed.is_set(at).unwrap_or(false)).collect();
    let own = cores.get(place);
    if let Some(&own) = own.filter(|_| cores.len() >= count) {
        let mut set = CpuSet::new();
        let _ = set.set(own).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    }
}
