//! Pseudo-terminals: what ranks print to where we print to a terminal. A program that asks whether it prints
//! to one does what it does there, as line by line.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{OutputFlags, tcgetattr};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A pseudo-terminal like ours: where a rank's output is read, and where the rank writes it.
pub(super) fn open(ours: BorrowedFd<'_>) -> Result<(File, OwnedFd), Errno> {
    let mut settings = tcgetattr(ours)?;
    // What ends a line is up to the terminal where it is shown.
    settings.output_flags.remove(OutputFlags::OPOST);
    let OpenptyResult { master, slave } = openpty(&size(ours)?, &settings)?;
    for end in [&master, &slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok((master.into(), slave))
}

/// The pseudo-terminals of all ranks, which become as large as ours is.
#[derive(Debug)]
pub(in crate::run) struct Terminals {
    pub(super) ours: OwnedFd,
    pub(super) ranks: Vec<File>,
}

impl Terminals {
    /// Our terminal has another size.
    pub(in crate::run) fn resize(&self) {
        let Ok(size) = size(self.ours.as_fd()) else { return };
        for terminal in &self.ranks {
            // SAFETY: the call reads one struct. (One whose rank has ended has no size to be set: that is no
            // loss.)
            unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        }
    }
}

fn size(terminal: BorrowedFd<'_>) -> Result<Winsize, Errno> {
    let mut size = Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call writes one struct.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    Errno::result(done).map(|_| size)
}
