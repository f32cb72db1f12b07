//! Asks the system: numbers from /proc and from system calls, `None` where it does not tell.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use std::fs;

/// Bytes of an OS page.
pub(super) fn page_size() -> Option<u64> {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    u64::try_from(size).ok()
}

/// The kernel's name, release and machine, as `uname -srm` prints them.
pub(super) fn kernel() -> String {
    match nix::sys::utsname::uname() {
        Ok(names) => [names.sysname(), names.release(), names.machine()]
            .map(|word| word.to_string_lossy().into_owned())
            .join(" "),
        Err(error) => format!("unknown: {error}"),
    }
}

/// The number in a file that holds only a number.
pub(super) fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A line of /proc/meminfo, in bytes.
pub(super) fn meminfo(name: &str) -> Option<u64> {
    parse_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn parse_meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the control group that this process is in may use, in bytes; `None` if there is no limit.
pub(super) fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A container sees its own group as the root.
    let paths = [format!("/sys/fs/cgroup{group}/memory.max"), "/sys/fs/cgroup/memory.max".to_owned()];
    paths.iter().find_map(|path| number(path))
}

/// Total and free bytes of the file system at `path`.
pub(super) fn file_system(path: &str) -> Option<(u64, u64)> {
    let found = statvfs(path).ok()?;
    // The types of these fields differ between platforms.
    #[allow(clippy::useless_conversion, reason = "they are narrower on 32-bit machines")]
    let bytes = |blocks| u64::from(blocks).checked_mul(u64::from(found.fragment_size()));
    Some((bytes(found.blocks())?, bytes(found.blocks_available())?))
}

/// Soft and hard limit; `None` stands for "unlimited".
pub(super) fn limit(resource: Resource) -> Option<(Option<u64>, Option<u64>)> {
    let bounded = |value| (value != RLIM_INFINITY).then_some(value);
    getrlimit(resource).ok().map(|(soft, hard)| (bounded(soft), bounded(hard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_lines_are_found_by_their_whole_name() {
        let text = "MemTotal:        8000 kB\nMemAvailable:    1 kB\nHugePages_Total:   0\n";
        assert_eq!(parse_meminfo(text, "MemTotal"), Some(8000 * 1024));
        assert_eq!(parse_meminfo(text, "Mem"), None);
        assert_eq!(parse_meminfo(text, "HugePages_Total"), None);
    }
}
