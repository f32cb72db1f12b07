//! Processes that are no children of this one.

use nix::errno::Errno;
use nix::unistd::Pid;
use std::os::fd::{FromRawFd, OwnedFd};

/// A descriptor that becomes readable when the process ends (Linux 5.3). Of several that ended, an epoll
/// returns the first first.
pub fn pidfd(pid: Pid) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes a number and flags.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
