//! What a library leaves behind of a process that was killed, or that ended without leaving its job, and
//! nobody else removes: the files of libfabric's `shm`, 16 MiB each.

use nix::unistd::{Pid, geteuid};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where those files are.
const DIRECTORY: &str = "/dev/shm";

/// Removes what there is of a process that has ended: files of this user, called `PID:number:number`. That
/// they cannot be removed is nothing that a job could fail by.
pub(super) fn remove(pid: Pid) {
    remove_from(Path::new(DIRECTORY), pid);
}

fn remove_from(directory: &Path, pid: Pid) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_its = entry.file_name().to_str().is_some_and(|name| is_of(name, pid));
        let is_ours =
            || entry.metadata().is_ok_and(|file| file.is_file() && file.uid() == geteuid().as_raw());
        if is_its && is_ours() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_of(name: &str, pid: Pid) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.split(':').collect();
    matches!(parts[..], [first, second, third] if first == pid.to_string() && is_number(second) && is_number(third))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_files_of_a_process_go_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["12:0:0", "12:0:1", "123:0:0", "12:0", "12:0:x", "12::0", "sem.12:0:0"];
        names.iter().for_each(|name| fs::write(directory.path().join(name), "").unwrap());
        remove_from(directory.path(), Pid::from_raw(12));
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["123:0:0", "12:0", "12:0:x", "12::0", "sem.12:0:0"]);
    }
}
