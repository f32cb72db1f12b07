//! The front: the process that the shell knows. It starts the launcher, passes signals on to it as orders,
//! and waits for it.

use super::exits::reap;
use super::{Refusal, output, signals, status, sweep};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, pipe2};
use scash_join::boot::Exit;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long the launcher holds back the news that a rank died of a signal such as Ctrl-C: the terminal sends
/// it to all at once, and the front's word that it did may come after the rank's death.
pub(super) const WORD_OF_FRONT: Duration = Duration::from_millis(50);
/// The signals by which a user ends a job.
pub(super) const INTERRUPTS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Whether a user may end a job by this signal, which then reaches all ranks.
pub(super) fn is_interrupt(signal: u8) -> bool {
    INTERRUPTS.iter().any(|interrupt| *interrupt as i32 == i32::from(signal))
}

/// A signal that the front received, for the launcher to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignalOrder {
    pub(super) signal: Signal,
    /// Whether the terminal sent it, in which case the ranks have received it already.
    pub(super) from_terminal: bool,
}

impl SignalOrder {
    // On the pipe: the signal's number, and 1 if the terminal sent it.
    fn encode(self) -> [u8; 2] {
        [u8::try_from(self.signal as i32).expect("signals are small"), u8::from(self.from_terminal)]
    }

    fn decode([signal, from_terminal]: [u8; 2]) -> Option<SignalOrder> {
        let signal = Signal::try_from(i32::from(signal)).ok()?;
        Some(SignalOrder { signal, from_terminal: from_terminal == 1 })
    }
}

/// Ends this process, which a front has started, and the front, without a word to anybody.
pub(super) fn die() -> ! {
    for pid in [getppid(), getpid()] {
        let _ = kill(pid, Signal::SIGKILL);
    }
    unreachable!("nobody outlives SIGKILL")
}

/// The launcher's end of the pipe from the front.
#[derive(Debug)]
pub(super) struct Orders {
    pipe: File,
}

/// What the pipe said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontNews {
    /// An order.
    Order(SignalOrder),
    /// Nothing (more) for now.
    Nothing,
    /// The front is dead.
    FrontGone,
}

impl Orders {
    /// The next order. Never waits.
    pub(super) fn next(&mut self) -> FrontNews {
        let mut bytes = [0; 2];
        match self.pipe.read(&mut bytes) {
            Ok(0) => FrontNews::FrontGone,
            // The front writes two bytes at a time, which a pipe keeps together.
            Ok(_) => SignalOrder::decode(bytes).map_or(FrontNews::Nothing, FrontNews::Order),
            Err(_) => FrontNews::Nothing,
        }
    }
}

impl AsFd for Orders {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Runs `launch` in a process of its own, whose exit status is what it returns, and looks after that
/// process. If it is killed, that is told, and `end`: what becomes of the ranks. Without one, it is for
/// others to tell.
pub(super) fn run(end: Option<String>, launch: impl FnOnce(Orders) -> u8) -> Result<u8, Refusal> {
    let refuse =
        |what: &'static str| move |error: Errno| Refusal::new(status::LAUNCHER, format!("{what}: {error}"));
    let set = signals::block().map_err(refuse("blocking signals"))?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC).map_err(refuse("making a signalfd"))?;
    let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(refuse("making a pipe"))?;
    prctl::set_child_subreaper(true).map_err(refuse("becoming a subreaper"))?;
    let front = getpid();
    let strangers = sweep::living(); // of a shell that has become this process by `exec`
    // SAFETY: this process has one thread so far, so the child may do whatever the parent may.
    match unsafe { fork() }.map_err(refuse("starting the launcher's process"))? {
        ForkResult::Child => {
            drop((signals, write));
            let status = outlive(front).map_or(status::LAUNCHER, |()| launch(Orders { pipe: read.into() }));
            output::finish_saying();
            std::process::exit(status.into())
        }
        ForkResult::Parent { child } => {
            drop(read);
            Ok(wait(end, child, &strangers, &signals, write.into()))
        }
    }
}

/// Sets the launcher up to clean up after a front that is killed.
fn outlive(front: Pid) -> Option<()> {
    prctl::set_child_subreaper(true).ok()?;
    // The pipe tells of the front's death; this wakes a launcher that is stopped, so that it can act on it.
    prctl::set_pdeathsig(Signal::SIGCONT).ok()?;
    (getppid() == front).then_some(())
}

/// Passes signals on until the launcher ends; returns its exit status.
fn wait(end: Option<String>, launcher: Pid, strangers: &[Pid], signals: &SignalFd, mut orders: File) -> u8 {
    loop {
        let Ok(Some(info)) = signals.read_signal() else { continue }; // interrupted by being stopped
        let Some(signal) =
            i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
        else {
            continue;
        };
        if signal == Signal::SIGCHLD {
            if let Some(exit) = reap(launcher) {
                if let Exit::Signal(_) = exit {
                    sweep::sweep(strangers);
                    if let Some(end) = end {
                        crate::say(&format!("the launcher's second process {exit}; {end}"));
                    }
                }
                return exit.shell_status();
            }
            continue;
        }
        let order = SignalOrder { signal, from_terminal: info.ssi_code == libc::SI_KERNEL };
        // If 32,768 orders are waiting already, one more makes no difference.
        let _ = orders.write(&order.encode());
        if signal == Signal::SIGTSTP && !signals::stop_by(signal) {
            let goes_on = SignalOrder { signal: Signal::SIGCONT, from_terminal: false };
            let _ = orders.write(&goes_on.encode());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_pipe() {
        for signal in Signal::iterator() {
            for from_terminal in [false, true] {
                let order = SignalOrder { signal, from_terminal };
                assert_eq!(SignalOrder::decode(order.encode()), Some(order));
            }
        }
    }
}
