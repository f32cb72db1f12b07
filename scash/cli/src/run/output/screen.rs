//! Where output of ranks is written: this process's stdout or stderr.

use super::Lines;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{isatty, write};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// A screen that several threads write to.
pub(in crate::run) type Shared = Arc<Mutex<Screen>>;

/// Our stderr, once output of ranks goes there too.
static ERRORS: OnceLock<Shared> = OnceLock::new();

/// Our stdout or stderr, and the lines of ranks on their way there.
#[derive(Debug)]
pub(in crate::run) struct Screen {
    out: OwnedFd,
    lines: Lines,
    /// Whether something could not be written, and nothing more will be.
    has_failed: bool,
}

/// A thread that panicked while it held the lock has left lines that are as good as any.
pub(in crate::run) fn lock(screen: &Shared) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Our stdout and stderr for so many ranks, which are one screen if they are one file. To be called once.
pub(in crate::run) fn open(label: bool, ranks: u32, is_one: bool) -> io::Result<[Shared; 2]> {
    let screen = |out: OwnedFd| {
        let is_terminal = isatty(&out).unwrap_or(false);
        let lines = Lines::new(label, ranks == 1, is_terminal);
        Arc::new(Mutex::new(Screen { out, lines, has_failed: false }))
    };
    let out = screen(io::stdout().as_fd().try_clone_to_owned()?);
    let err = if is_one { Arc::clone(&out) } else { screen(io::stderr().as_fd().try_clone_to_owned()?) };
    let _ = ERRORS.set(Arc::clone(&err));
    Ok([out, err])
}

/// Says something on stderr: whole lines, in one write, and never within a rank's line. If nobody listens,
/// that is no reason to fail.
pub(crate) fn say(lines: &str) {
    match ERRORS.get() {
        Some(screen) => lock(screen).say(lines),
        None => drop(io::stderr().write_all(lines.as_bytes())),
    }
}

impl Screen {
    /// Takes what a rank has printed; nothing: it prints no more. An error is told once; afterwards, output
    /// is taken and goes nowhere.
    pub(in crate::run) fn take(&mut self, rank: u32, bytes: &[u8]) -> Result<(), Errno> {
        let text = self.lines.take(rank, bytes, Instant::now());
        self.write(&text)
    }

    /// When [`tick`](Self::tick) is due.
    pub(in crate::run) fn due(&self) -> Option<Instant> {
        self.lines.due().filter(|_| !self.has_failed)
    }

    /// Time has passed.
    pub(in crate::run) fn tick(&mut self) -> Result<(), Errno> {
        let text = self.lines.tick(Instant::now());
        self.write(&text)
    }

    fn say(&mut self, lines: &str) {
        let text = self.lines.say(lines, Instant::now());
        let _ = write_all(&self.out, &text);
    }

    fn write(&mut self, text: &[u8]) -> Result<(), Errno> {
        if self.has_failed {
            return Ok(());
        }
        write_all(&self.out, text).inspect_err(|_| self.has_failed = true)
    }
}

fn write_all(out: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(out, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::EINTR) => {}
            // Somebody with whom we share the file has said that it should not wait.
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
