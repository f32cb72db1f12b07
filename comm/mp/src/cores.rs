//! Where the helper runs: not where the application computes.
//!
//! A thread that is woken while no core is idle is put where it ran last, or where its waker runs, and
//! kernels leave one there that has run less than half a millisecond ago. So without a word of ours, a helper
//! that is to read a long message waits every other time behind the very computation that it is to read
//! beside, while the core of the sender, which sleeps until then, is idle.

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::{Pid, gettid};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The cores of a helper.
#[derive(Debug)]
pub(super) struct Cores {
    /// The helper's thread, and where it may run. One that has ended must not be meant: its number may be
    /// another's by then.
    helper: Mutex<Option<(Pid, CpuSet)>>,
    /// The core that it was kept away from last.
    avoided: AtomicUsize,
}

impl Cores {
    pub(super) fn new() -> Self {
        Self { helper: Mutex::default(), avoided: AtomicUsize::new(usize::MAX) }
    }

    /// This thread is the helper.
    pub(super) fn are_of_this_thread(&self) {
        if let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) {
            *self.helper() = Some((gettid(), allowed));
        }
    }

    /// The helper is about to end.
    pub(super) fn are_of_nobody(&self) {
        *self.helper() = None;
        self.avoided.store(usize::MAX, Ordering::Relaxed);
    }

    fn helper(&self) -> MutexGuard<'_, Option<(Pid, CpuSet)>> {
        self.helper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread is going to compute while the helper reads: that one runs elsewhere from now on, if it
    /// may. What is read is right in either case.
    pub(super) fn avoid_this_one(&self) {
        let Ok(core) = sched_getcpu() else { return };
        // In the common case nothing is written: the application stays where it is.
        if self.avoided.load(Ordering::Relaxed) == core {
            return;
        }
        let helper = self.helper();
        let Some((thread, allowed)) = &*helper else { return };
        self.avoided.store(core, Ordering::Relaxed);
        if let Some(others) = without(allowed, core) {
            let _ = sched_setaffinity(*thread, &others);
        }
    }
}

/// The others of these cores; `None`: there are none.
fn without(cores: &CpuSet, core: usize) -> Option<CpuSet> {
    let mut others = *cores;
    others.unset(core).ok()?;
    (0..CpuSet::count()).any(|at| others.is_set(at) == Ok(true)).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_has_ended_is_sent_nowhere() {
        let cores = Cores::new();
        let is_sent = || {
            cores.avoid_this_one();
            cores.avoided.load(Ordering::Relaxed) != usize::MAX
        };
        assert!(!is_sent());
        std::thread::scope(|scope| scope.spawn(|| cores.are_of_this_thread()).join().unwrap());
        assert!(is_sent());
        cores.are_of_nobody();
        assert!(!is_sent());
    }

    #[test]
    fn the_only_core_is_not_avoided() {
        let mut cores = CpuSet::new();
        cores.set(5).unwrap();
        assert_eq!(without(&cores, 5), None);
        cores.set(9).unwrap();
        let others = without(&cores, 5).unwrap();
        assert_eq!([5, 9].map(|core| others.is_set(core)), [Ok(false), Ok(true)]);
        assert_eq!(without(&cores, CpuSet::count()), None);
    }
}
