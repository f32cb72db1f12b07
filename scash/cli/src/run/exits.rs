//! Waiting for processes. Not through nix, whose wait functions fail when a real-time signal killed the
//! process.

use super::leftovers;
use nix::errno::Errno;
use nix::unistd::Pid;
use scash_comm::descriptors::pidfd;
use scash_join::boot::Exit;
use std::mem::MaybeUninit;

/// Takes the exit of a child that has ended, and removes what is left of it; `None` if it has not (or is no
/// child).
pub(super) fn reap(pid: Pid) -> Option<Exit> {
    let mut status = 0;
    // SAFETY: waitpid writes one int.
    let reaped = unsafe { libc::waitpid(pid.as_raw(), &raw mut status, libc::WNOHANG) };
    if reaped != pid.as_raw() {
        return None;
    }
    leftovers::remove(pid);
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    Some(if libc::WIFSIGNALED(status) {
        Exit::Signal(byte(libc::WTERMSIG(status)))
    } else {
        Exit::Status(byte(libc::WEXITSTATUS(status)))
    })
}

/// What there is to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Children {
    /// This child has ended and was not reaped yet.
    Ended(Pid),
    /// There are children; none has ended.
    Running,
    /// There are none.
    None,
}

/// Looks whether any child has ended, without reaping it.
pub(super) fn children() -> Children {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: waitid writes one siginfo_t.
    if unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) } != 0 {
        return if Errno::last() == Errno::ECHILD { Children::None } else { Children::Running };
    }
    // SAFETY: it was zeroed, which is a valid value, before waitid wrote to it.
    let info = unsafe { info.assume_init() };
    // SAFETY: waitid fills in the fields of SIGCHLD; it leaves the pid 0 if no child has ended.
    match unsafe { info.si_pid() } {
        0 => Children::Running,
        pid => Children::Ended(Pid::from_raw(pid)),
    }
}

/// Whether [`pidfd`] works here.
pub(crate) fn pidfd_works() -> Result<(), Errno> {
    pidfd(nix::unistd::getpid()).map(drop)
}
