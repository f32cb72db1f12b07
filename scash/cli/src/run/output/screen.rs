//! Where output of ranks is written: this process's stdout or stderr.

use super::Lines;
use super::messages::Messages;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{isatty, write};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A screen that several threads write to.
pub(in crate::run) type Shared = Arc<Mutex<Screen>>;

/// What we say on our stderr, once output of ranks goes there too.
static MESSAGES: OnceLock<Arc<Messages>> = OnceLock::new();
/// Whether who is to read that does not want to wait for the end of this process.
static IS_HURRIED: AtomicBool = AtomicBool::new(false);

/// How soon somebody who waits for [`all_is_said`] should look again.
pub(in crate::run) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long what was said last may take to be out, if somebody is in a hurry or waits.
const LAST_MESSAGES: Duration = Duration::from_secs(2);

/// Our stdout or stderr, and the lines of ranks on their way there.
#[derive(Debug)]
pub(in crate::run) struct Screen {
    out: OwnedFd,
    lines: Lines,
    /// What we have to say here ourselves.
    messages: Option<Arc<Messages>>,
    /// Whether something could not be written, and nothing more will be.
    has_failed: bool,
}

/// A thread that panicked while it held the lock has left lines that are as good as any.
pub(in crate::run) fn lock(screen: &Shared) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Our stdout and stderr for so many ranks, which are one screen if they are one file. To be called once.
pub(in crate::run) fn open(label: bool, ranks: u32, is_one: bool) -> io::Result<[Shared; 2]> {
    let messages = Arc::new(Messages::default());
    let screen = |out: OwnedFd, messages: Option<&Arc<Messages>>| {
        Arc::new(Mutex::new(Screen::new(out, label, ranks, messages.cloned())))
    };
    let out = screen(io::stdout().as_fd().try_clone_to_owned()?, Some(&messages).filter(|_| is_one));
    let err = if is_one {
        Arc::clone(&out)
    } else {
        screen(io::stderr().as_fd().try_clone_to_owned()?, Some(&messages))
    };
    messages.start(Arc::clone(&err))?;
    let _ = MESSAGES.set(messages);
    Ok([out, err])
}

/// Says something on stderr: whole lines, in one write, and never within a rank's line. If nobody listens,
/// that is no reason to fail; if somebody reads slowly, it comes later.
pub(crate) fn say(lines: &str) {
    match MESSAGES.get() {
        Some(messages) => messages.say(lines),
        None => drop(io::stderr().write_all(lines.as_bytes())),
    }
}

/// Whether all that was said is out.
pub(in crate::run) fn all_is_said() -> bool {
    MESSAGES.get().is_none_or(|messages| messages.wait(Duration::ZERO))
}

/// Waits a little until all that was said is out, and tells whether it is.
pub(in crate::run) fn is_soon_said() -> bool {
    MESSAGES.get().is_none_or(|messages| messages.wait(LAST_MESSAGES))
}

/// The user wants this process to end.
pub(in crate::run) fn hurry() {
    IS_HURRIED.store(true, Relaxed);
}

/// Before this process ends: waits until all that was said is out, unless that takes too long for somebody in
/// a hurry.
pub(in crate::run) fn finish_saying() {
    let most = if IS_HURRIED.load(Relaxed) { LAST_MESSAGES } else { Duration::MAX };
    MESSAGES.get().map(|messages| messages.wait(most));
}

impl Screen {
    pub(super) fn new(out: OwnedFd, label: bool, ranks: u32, messages: Option<Arc<Messages>>) -> Screen {
        let is_terminal = isatty(&out).unwrap_or(false);
        Screen { out, lines: Lines::new(label, ranks == 1, is_terminal), messages, has_failed: false }
    }

    /// Takes what a rank has printed; nothing: it prints no more. An error is told once; afterwards, output
    /// is taken and goes nowhere.
    pub(in crate::run) fn take(&mut self, rank: u32, bytes: &[u8]) -> Result<(), Errno> {
        self.say_all();
        let text = self.lines.take(rank, bytes, Instant::now());
        self.write(&text)
    }

    /// Whether that has happened.
    pub(in crate::run) fn has_failed(&self) -> bool {
        self.has_failed
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

    /// Says what we have to say here.
    pub(super) fn say_all(&mut self) {
        let Some(messages) = self.messages.clone() else { return };
        while let Some(message) = messages.first() {
            let text = self.lines.say(&message, Instant::now());
            let _ = write_all(&self.out, &text);
            messages.first_is_out();
        }
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
