//! Descriptors of ours in a program that has descriptors of its own.
//!
//! The system gives a new file the lowest number that is free. A program that closes what it has not opened
//! (all from 3 on, as daemons do) may so get a file under a number of ours, and what we read and write by
//! that number would be the program's file. So ours lie high, where files of programs seldom come to: then
//! such a program takes descriptors away, which is an error of the next call that needs one, or finds none of
//! them in its way.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit, rlim_t};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// From here on, if there may be twice as many. (The system keeps a table as long as the highest number, of 8
/// bytes for each.)
const FIRST: rlim_t = 4096;

/// The same file under a number that is out of the program's way; under its own if there is no such number.
#[must_use]
pub fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    let Ok(first) = RawFd::try_from(FIRST.min(most() / 2)) else { return fd };
    if fd.as_raw_fd() >= first {
        return fd;
    }
    let Ok(high) = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(first)) else { return fd };
    // SAFETY: the descriptor was just made and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(high) }
}

/// Whether a descriptor's number is one of those that [`out_of_the_way`] gives.
pub fn is_out_of_the_way(fd: RawFd) -> bool {
    RawFd::try_from(FIRST.min(most() / 2)).is_ok_and(|first| fd >= first)
}

/// A descriptor that becomes readable when the process ends (Linux 5.3). Of several that ended, an epoll
/// returns the first first.
///
/// # Errors
/// There is no such process, the kernel is older, or there are no descriptors left.
pub fn pidfd(pid: Pid) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes a number and flags.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How many descriptors this process may have.
fn most() -> rlim_t {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(most, _)| most)
}

/// Whether a call failed because this process, or the system, has no descriptor left.
pub(crate) fn are_used_up(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::fs::File;
    use std::io::Read;

    #[test]
    fn a_file_is_the_same_under_a_high_number_and_closed_under_its_own() {
        let low = OwnedFd::from(File::open("/proc/self/comm").unwrap());
        let high = out_of_the_way(low);
        assert!(rlim_t::try_from(high.as_raw_fd()).unwrap() >= FIRST.min(most() / 2));
        let again = out_of_the_way(high);
        assert_eq!(fcntl(&again, FcntlArg::F_GETFD), Ok(libc::FD_CLOEXEC));
        let mut text = String::new();
        File::from(again).read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
    }
}
