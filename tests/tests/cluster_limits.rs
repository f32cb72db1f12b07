//! Jobs whose ranks come back, and whose stores have no room (`ulimit -f`, `ulimit -v`, a limit of memory):
//! they go on with the newest epoch that has, or end with a word of why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use scash_tests::cluster::{Ended, Job, JobDirectory, run};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
/// Room for a store of 64 MiB of pages, the smallest that there is, and for nothing larger.
const ROOM: u64 = 120 * MIB;

/// Runs `hoard` on two ranks. Before each of ten barriers, all of them checkpoints, each writes 4 MiB of
/// shared memory and 4 MiB of its own: 60 MiB in the end, and what changes from one to the next once more.
fn hoard(job: Job, prepare: impl FnOnce(&mut Command)) -> Ended {
    let end = tempfile::NamedTempFile::new().unwrap();
    let job = job.option("--checkpoint", "every=1").env("SCASH_REGION", "64M").env("SCASH_HEAP", "0");
    let words = [end.path().to_str().unwrap(), "20", "40", "4"];
    let mut command = job.command(Path::new(env!("CARGO_BIN_EXE_hoard")), &words);
    prepare(&mut command);
    run(command)
}

/// Each rank has found what it wrote.
fn is_right(ended: &Ended) {
    assert_eq!(ended.status, 0, "{ended}");
    assert_eq!(ended.lines(2).iter().filter(|line| line.ends_with(": [true, true]")).count(), 2, "{ended}");
}

/// The two places of stores, and whether they are on a disk.
fn places(directory: &JobDirectory) -> [(&'static str, Job); 2] {
    let path = directory.path();
    let on_disk = Job::plain(2).option("--checkpoint-dir", path.to_str().unwrap());
    [("memory", Job::plain(2).option("--replicas", "1")), ("a disk", on_disk)]
}

/// Sets a limit of the command, and of all processes that it starts.
fn limit(command: &mut Command, resource: libc::__rlimit_resource_t, most: u64) {
    let set = move || {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: it reads a value of this stack.
        if unsafe { libc::setrlimit(resource, &limit) } == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: the call may be made between fork and exec.
    unsafe { command.pre_exec(set) };
}

#[test]
fn ranks_whose_stores_are_full_for_files_may_not_be_longer_go_on_from_the_newest_that_was_not() {
    let directory = JobDirectory::new();
    for (place, job) in places(&directory) {
        let job = job.option("--inject", "kill rank 1 at barrier 11");
        let ended = hoard(job, |command| limit(command, libc::RLIMIT_FSIZE, ROOM));
        is_right(&ended);
        let lines: Vec<&str> = ended.err.lines().collect();
        let full = lines
            .iter()
            .filter(|line| line.contains("cannot be saved") && line.ends_with(": its store is full"));
        // Each rank at most once, and once more where it has come back from before that.
        assert!((1..=4).contains(&full.count()), "{place} {ended}");
        let back: Vec<_> =
            lines.iter().filter(|line| line.contains("all 2 ranks go on from barrier ")).collect();
        assert_eq!(back.len(), 1, "{place} {ended}");
        assert!(lines.iter().all(|line| line.starts_with("scash: rank ")), "{place} {ended}");
    }
}

#[test]
fn files_that_may_not_be_as_long_as_the_smallest_store_are_refused() {
    let directory = JobDirectory::new();
    for (place, job) in places(&directory) {
        let ended = hoard(job, |command| limit(command, libc::RLIMIT_FSIZE, 110 * MIB));
        ended.refused(&["files may have 115343360 bytes only", "raise `ulimit -f`"]);
        assert_eq!(ended.out, "", "{place} {ended}");
    }
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn ranks_without_address_space_for_a_store_are_refused() {
    let directory = JobDirectory::new();
    for (place, job) in places(&directory) {
        let ended = hoard(job, |command| limit(command, libc::RLIMIT_AS, 16 << 30));
        ended.refused(&["`ulimit -v` allows 16384 MiB of address space, and a store is mapped whole"]);
        assert_eq!(ended.out, "", "{place} {ended}");
    }
}

/// A control group with a limit of memory, which is gone in the end.
struct Group(PathBuf);

impl Group {
    /// Tells why there can be none.
    fn new(most: u64) -> Result<Group, String> {
        let v2 = Path::new("/sys/fs/cgroup/cgroup.controllers");
        let is_v2 =
            fs::read_to_string(v2).is_ok_and(|names| names.split_whitespace().any(|name| name == "memory"));
        let root = if is_v2 { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/memory" };
        let path = Path::new(root).join(format!("scash-test-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Group(path);
        let (limits, swap) = if is_v2 {
            ([("memory.max", most)], ("memory.swap.max", 0))
        } else {
            ([("memory.limit_in_bytes", most)], ("memory.memsw.limit_in_bytes", most))
        };
        for (name, value) in limits {
            let set = fs::write(group.0.join(name), value.to_string());
            set.map_err(|error| format!("{name}: {error}"))?;
        }
        // Where nothing is swapped there is no such file.
        let _ = fs::write(group.0.join(swap.0), swap.1.to_string());
        Ok(group)
    }

    /// Puts the command into it, with all processes that it starts.
    fn take(&self, command: &mut Command) {
        let members = self.0.join("cgroup.procs");
        let enter = move || fs::write(&members, "0");
        // SAFETY: a small write; no other thread of the process that was forked holds what it needs.
        unsafe { command.pre_exec(enter) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is left in it ends before long.
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} is left", self.0.display());
    }
}

#[test]
fn ranks_whose_stores_have_no_memory_end_right_or_with_a_word_of_that() {
    // Memory for no checkpoint or few of them, for most, and for all.
    for (most, has_room) in [(60, false), (160, false), (1000, true)] {
        let group = match Group::new(most * MIB) {
            Ok(group) => group,
            Err(why) => {
                eprintln!("skipped: a control group with a limit of memory cannot be made: {why}");
                return;
            }
        };
        let job = Job::plain(2).option("--replicas", "1").option("--restarts", "3");
        let ended = hoard(job, |command| group.take(command));
        if has_room {
            is_right(&ended);
            assert_eq!(ended.err, "", "{ended}");
        } else {
            ended.failed(128 + 9, &["for want of memory", "3 restarts", "without a new checkpoint"]);
            assert_eq!(ended.out, "", "{ended}");
        }
    }
}
