//! One process is a rank: of several that have inherited the same line, the first one claims it.
//!
//! The claim is a record lock on the socket, which belongs to a process, is not inherited, and goes away with
//! the process. So a second process is told off before it has taken a byte that is meant for the first.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use scash_comm::{Error, Result};
use std::os::fd::BorrowedFd;

/// What a process hears that comes second.
pub(super) const TAKEN: &str = "another process has joined the job as this rank already: a rank is one process (does its program start a second one, or is it started \
                                twice by a script?)";

/// Claims a socket that this process has inherited, for as long as it lives (and closes no other descriptor
/// of the socket). Where the system has no such locks, nobody is told off.
pub(super) fn claim(socket: BorrowedFd<'_>) -> Result<()> {
    let whole = libc::flock {
        // The constant is small, whatever type a system has for it.
        l_type: libc::F_WRLCK.try_into().unwrap_or_default(),
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(socket, FcntlArg::F_SETLK(&whole)) {
        Err(Errno::EAGAIN | Errno::EACCES) => Err(Error::Invalid(TAKEN.to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};
    use std::os::fd::AsFd;

    #[test]
    fn a_second_process_is_told_off_while_the_first_lives() {
        let (line, _other) = crate::boot::line::pair().unwrap();
        let in_child = || {
            // SAFETY: the child makes one system call, looks at its result, and ends.
            match unsafe { fork() }.unwrap() {
                ForkResult::Child => {
                    let status = i32::from(claim(line.as_fd()).is_err());
                    // SAFETY: ends the process.
                    unsafe { libc::_exit(status) }
                }
                ForkResult::Parent { child } => waitpid(child, None).unwrap(),
            }
        };
        assert!(matches!(in_child(), WaitStatus::Exited(_, 0)), "the first one, which has ended");
        claim(line.as_fd()).unwrap();
        claim(line.as_fd()).unwrap();
        assert!(matches!(in_child(), WaitStatus::Exited(_, 1)), "the second one");
    }
}
