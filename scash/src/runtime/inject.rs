//! Failures that the user asks for (`scash run --inject`): at named points this rank is killed, stopped or
//! delayed, if that was said.

use super::{Runtime, lock};
use crate::error::{Error, Result};
use nix::fcntl::{OFlag, open};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid, write};
use scash_ft::Incarnation;
use scash_ft::inject::{InjectedAction, Injector, Point, parse_list};
use scash_ft::store::vars;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::thread::sleep;
use std::time::Duration;

/// What is to happen to a rank.
#[derive(Debug)]
pub(super) struct RankInjections {
    injector: Injector,
    /// The file that is told before the rank kills itself, and what it is told.
    told: Option<(CString, String)>,
}

impl RankInjections {
    /// What happens at a point, if anything.
    fn at(&mut self, point: Point) -> Option<InjectedAction> {
        let act = self.injector.at(point);
        if act == Some(InjectedAction::Kill) {
            self.tell();
        }
        act
    }

    /// Allocates nothing. A line that cannot be written is missed by those who read the file.
    fn tell(&self) {
        let Some((file, line)) = &self.told else { return };
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND | OFlag::O_CLOEXEC;
        if let Ok(file) = open(file.as_c_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            let _ = write(&file, line.as_bytes());
        }
    }
}

/// What was asked for of a rank, in the incarnation that `var` tells of; `None` if nothing was.
///
/// # Errors
/// The text is none that the launcher gives.
pub(super) fn read(var: &dyn Fn(&str) -> Option<OsString>, rank: u32) -> Result<Option<RankInjections>> {
    let text = |name: &str| var(name).map(|text| text.to_string_lossy().into_owned());
    let Some(list) = text(vars::INJECT) else { return Ok(None) };
    let list = parse_list(&list).map_err(|e| Error::Setting(format!("{}: {e}", vars::INJECT)))?;
    let incarnation = text(vars::INCARNATION).and_then(|text| text.parse().ok()).unwrap_or(0);
    let injector = Injector::new(&list, rank, Incarnation(incarnation));
    let file = var(vars::INJECTED).and_then(|file| CString::new(file.into_vec()).ok());
    let told = file.map(|file| (file, format!("{incarnation} {rank} {}\n", getpid())));
    Ok((!injector.is_empty()).then_some(RankInjections { injector, told }))
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
    /// as it passes a point itself, or runs and passes one, has the lock; then nothing happens here.)
    #[cold]
    fn meet_fate(&self, point: Point) {
        let fate = match point {
            Point::CheckpointStop | Point::ImageThread | Point::ImageDescribed | Point::ImagePage => {
                self.fate.try_lock().ok()
            }
            _ => Some(lock(&self.fate)),
        };
        let act = fate.and_then(|mut fate| fate.as_mut()?.at(point));
        match act {
            None => {}
            Some(InjectedAction::Kill) => {
                // It cannot fail, and does not return.
                let _ = kill(getpid(), Signal::SIGKILL);
            }
            Some(InjectedAction::Stop(time)) => stop(time),
            Some(InjectedAction::Delay(time)) => sleep(time),
        }
    }
}

/// What the process is called that wakes a rank that was stopped.
const WAKER: &CStr = c"scash-waker";

/// Stops this process, as by SIGSTOP, for so long.
fn stop(time: Duration) {
    let this = getpid();
    // Somebody else must wake it: a process that is nobody's child here, as children cannot be saved. The
    // stop is sent before that one exists: a rank that stopped by itself might do so when it had been woken
    // already.
    match fork() {
        0 => {
            // Whoever looks for ranks is not to take it for one.
            let _ = prctl::set_name(WAKER);
            let _ = kill(this, Signal::SIGSTOP);
            if fork() <= 0 {
                sleep(time);
                let _ = kill(this, Signal::SIGCONT);
            }
            // SAFETY: ends the child without running anything of the program's.
            unsafe { libc::_exit(0) }
        }
        child if child > 0 => {
            let _ = waitpid(Pid::from_raw(child), None);
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
