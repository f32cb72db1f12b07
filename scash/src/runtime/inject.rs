//! Failures that the user asks for (`scash run --inject`): at named points this rank is killed, stopped or
//! delayed, if that was said.

use super::{Runtime, lock};
use crate::error::{Error, Result};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid};
use scash_ft::Incarnation;
use scash_ft::inject::{Act, Injector, Point, parse_list};
use scash_ft::store::vars;
use std::ffi::OsString;
use std::thread::sleep;
use std::time::Duration;

/// What was asked for of a rank, in the incarnation that `var` tells of; `None` if nothing was.
///
/// # Errors
/// The text is none that the launcher gives.
pub(super) fn read(var: &dyn Fn(&str) -> Option<OsString>, rank: u32) -> Result<Option<Injector>> {
    let text = |name: &str| var(name).map(|text| text.to_string_lossy().into_owned());
    let Some(list) = text(vars::INJECT) else { return Ok(None) };
    let list = parse_list(&list).map_err(|e| Error::Setting(format!("{}: {e}", vars::INJECT)))?;
    let incarnation = text(vars::INCARNATION).and_then(|text| text.parse().ok()).unwrap_or(0);
    let injector = Injector::new(&list, rank, Incarnation(incarnation));
    Ok((!injector.is_empty()).then_some(injector))
}

impl Runtime {
    /// This rank is at a point where something may be asked for.
    #[inline]
    pub(super) fn passes(&self, point: Point) {
        if self.checkpoints.is_some() {
            self.meet_fate(point);
        }
    }

    /// Allocates nothing, and waits for no lock: threads of the program may be stopped. (One that is stopped
    /// as it passes a point itself has the lock; then nothing happens here.)
    #[cold]
    fn meet_fate(&self, point: Point) {
        let injector = match point {
            Point::CheckpointStop => self.injector.try_lock().ok(),
            _ => Some(lock(&self.injector)),
        };
        let act = injector.and_then(|mut injector| injector.as_mut()?.at(point));
        match act {
            None => {}
            Some(Act::Kill) => {
                // It cannot fail, and does not return.
                let _ = kill(getpid(), Signal::SIGKILL);
            }
            Some(Act::Stop(time)) => stop(time),
            Some(Act::Delay(time)) => sleep(time),
        }
    }
}

/// Stops this process, as by SIGSTOP, for so long.
fn stop(time: Duration) {
    let this = getpid();
    // Somebody else must wake it: a process that is nobody's child here, as children cannot be saved.
    match fork() {
        0 => {
            if fork() == 0 {
                sleep(time);
                let _ = kill(this, Signal::SIGCONT);
            }
            // SAFETY: ends the child without running anything of the program's.
            unsafe { libc::_exit(0) }
        }
        child if child > 0 => {
            let _ = waitpid(Pid::from_raw(child), None);
            let _ = raise(Signal::SIGSTOP);
        }
        _ => sleep(time),
    }
}

/// The system's call, as the C library's `fork` would wait for locks that stopped threads may have. The child
/// makes system calls only, and ends. Returns 0 in the child, and its number in this process.
fn fork() -> i32 {
    // SAFETY: the child has a copy of this stack, and goes on there as a process of its own.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    i32::try_from(child).unwrap_or(-1)
}
