//! Whether the system kills processes for want of memory. A rank that it kills so is killed by SIGKILL like
//! any other; only a counter of the whole system tells the difference, so what is said is a hint.

use nix::sys::signal::Signal;

/// The status by which a shell reports that SIGKILL ended a process. A rank that is a shell ends so itself.
const KILLED: u8 = 128 + Signal::SIGKILL as u8;

/// What to add to the news that a rank has ended so, if it may have been for want of memory.
pub(super) const HINT: &str = ", most likely for want of memory, for which the system has killed a process meanwhile: raise the memory limit \
                               of the job's cgroup, or share less";

/// How many processes the system had killed for want of memory when the job began; `None` if it does not
/// tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct OomKills(Option<u64>);

impl OomKills {
    /// As many as there were until now.
    pub(super) fn until_now() -> OomKills {
        OomKills(count(&std::fs::read_to_string("/proc/vmstat").unwrap_or_default()))
    }

    /// Whether a rank that has ended with `status` may have been killed for want of memory.
    pub(super) fn may_explain(self, status: u8, until_now: impl FnOnce() -> OomKills) -> bool {
        is_kill(status) && matches!((self.0, until_now().0), (Some(before), Some(after)) if after > before)
    }
}

/// Whether a rank that has ended with `status` was killed as the system does it.
pub(super) fn is_kill(status: u8) -> bool {
    status == KILLED
}

/// The counter in the text of `/proc/vmstat`.
fn count(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_by_its_whole_name() {
        assert_eq!(count("oom_kill_x 1\nnr_free 2\noom_kill 3\n"), Some(3));
        assert_eq!(count("nr_free 2\n"), None);
    }

    #[test]
    fn memory_is_named_if_a_rank_was_killed_and_the_system_has_killed_for_it() {
        let named = |before, status, after| OomKills(before).may_explain(status, || OomKills(after));
        assert!(named(Some(1), 137, Some(2)));
        for (before, status, after) in
            [(Some(1), 137, Some(1)), (Some(1), 139, Some(2)), (None, 137, Some(2)), (Some(1), 137, None)]
        {
            assert!(!named(before, status, after));
        }
    }
}
