//! Descriptors that ranks are not to have.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::os::fd::BorrowedFd;

/// Launchers leave pipes and sockets of theirs open in what they start. No rank has use for them, and none
/// could be saved that has others when it comes back.
pub(in crate::run) fn withhold_descriptors() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let streams = numbers.filter(|number| *number > 2).filter(|number| {
        let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
        // All that is no file has a name such as pipe:[4711].
        link.is_ok_and(|link| !link.has_root())
    });
    for number in streams {
        // SAFETY: nothing is done with the number but a system call, which refuses one that is not open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
}
