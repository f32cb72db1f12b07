//! Signals as the launcher's two processes see them: blocked, and read from descriptors.

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::mem::MaybeUninit;

/// Signals that the front passes on to the ranks.
const PASSED_ON: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Blocks the signals that are to be read from a descriptor, and returns them. The parent's choices stand:
/// what it told us to ignore (`nohup`, a shell's `&`) stays ignored.
pub(super) fn block() -> Result<SigSet, Errno> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is installed. (If the parent ignored it, exits of children could not be waited for.)
    unsafe { sigaction(Signal::SIGCHLD, &default) }?;
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal)).for_each(|signal| set.add(signal));
    set.thread_block()?;
    Ok(set)
}

/// Undoes [`block`], for a rank. Async-signal-safe.
pub(super) fn unblock() -> Result<(), Errno> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    set.add(Signal::SIGWINCH);
    PASSED_ON.into_iter().for_each(|signal| set.add(signal));
    set.thread_unblock()
}

/// Takes back what the parent told us to ignore, which is of use where it is not the user's shell.
pub(super) fn reset() -> Result<(), Errno> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in PASSED_ON {
        // SAFETY: no handler is installed.
        unsafe { sigaction(signal, &default) }?;
    }
    Ok(())
}

/// Has this process ignore what a terminal sends, and be ended by SIGTERM or the death of its parent.
/// Async-signal-safe.
pub(super) fn leave_to_parent() -> Result<(), Errno> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGTSTP] {
        // SAFETY: no handler is installed.
        unsafe { sigaction(signal, &ignore) }?;
    }
    unblock()
}

fn is_ignored(signal: Signal) -> bool {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; one struct is written to `old`.
    let asked = unsafe { libc::sigaction(signal as i32, std::ptr::null(), old.as_mut_ptr()) };
    // SAFETY: it was zeroed, which is a valid value, before sigaction wrote to it.
    asked == 0 && unsafe { old.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Stops this process as its parent expects of a `signal` that is blocked here; returns when it has been
/// continued, by a SIGCONT that waits for whoever reads signals. Returns `false` if there is none: the system
/// stops no process that nobody could continue, as it has no shell (an orphaned process group).
pub(super) fn stop_by(signal: Signal) -> bool {
    let mut set = SigSet::empty();
    set.add(signal);
    // It waits while blocked, and strikes when unblocked.
    let _ = raise(signal);
    let _ = set.thread_unblock();
    let _ = set.thread_block();
    is_pending(Signal::SIGCONT)
}

/// Whether a signal that is blocked has come and was not taken.
fn is_pending(signal: Signal) -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a set of signals is written to `pending`.
    let asked = unsafe { libc::sigpending(pending.as_mut_ptr()) };
    // SAFETY: it was zeroed, which is a valid value, and `pending` is a set of signals.
    asked == 0 && unsafe { libc::sigismember(pending.as_ptr(), signal as i32) } == 1
}
