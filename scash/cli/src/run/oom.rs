//! Whether the system kills processes for want of memory. A rank that it kills so is killed by SIGKILL like any other; only a
//! counter of the whole system tells the difference, so what is said is a hint.

use nix::sys::signal::Signal;

/// The status by which a shell reports that SIGKILL ended a process. A rank that is a shell ends so itself.
const KILLED: u8 = 128 + Signal::SIGKILL as u8;

/// How many processes the system had killed for want of memory when the job began; `None` if it does not tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct OomKills(Option<u64>);

impl OomKills {
    /// As many as there were until now.
    pub(super) fn until_now() -> OomKills {
        OomKills(count(&std::fs::read_to_string("/proc/vmstat").unwrap_or_default()))
    }

    /// What to add to the news that a rank has ended with `status`: nothing, unless it may have been for want of memory.
    pub(super) fn hint(self, status: u8, until_now: impl FnOnce() -> OomKills) -> &'static str {
        if status != KILLED {
            return "";
        }
        match (self.0, until_now().0) {
            (Some(before), Some(after)) if after > before => {
                ", most likely for want of memory, for which the system has killed a process meanwhile: raise the memory \
                 limit of the job's cgroup, or share less"
            }
            _ => "",
        }
    }
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
        let hint = |before, status, after| OomKills(before).hint(status, || OomKills(after));
        assert!(hint(Some(1), 137, Some(2)).contains("raise the memory limit"));
        for (before, status, after) in
            [(Some(1), 137, Some(1)), (Some(1), 139, Some(2)), (None, 137, Some(2)), (Some(1), 137, None)]
        {
            assert_eq!(hint(before, status, after), "");
        }
    }
}
