//! What ranks print, on its way to this command's own stdout and stderr: whole lines, whoever else prints.
//!
//! ```text
//!  rank 0 ═══ pipe or terminal ══╗
//!  rank 1 ═══ pipe or terminal ══╬═ a stream's thread ([`copy`]) ── [`Lines`] ── our own ([`Screen`])
//!  rank 2 ═══ pipe or terminal ══╝
//! ```
//!
//! Each rank writes to a pipe of its own, or to a pseudo-terminal of its own where ours is a terminal, so
//! that programs which ask see one ([`Wiring`]). Where stdout and stderr are one file, a rank has one pipe
//! for both, and what it says stays in its order. On several hosts the threads of the agents send frames
//! instead, and the launcher's make lines of them.
//!
//! Where ranks may die and be started again, they write to files in memory instead ([`saved`]), of which is
//! printed what can not be taken back any more.
//!
//! A thread for each stream: a reader of ours who is slow holds up the ranks (as it would without us), but
//! not the launcher; what that has to say itself, a thread says, too ([`messages`]). Whoever stops reading
//! our stdout makes the ranks' writes fail, as in any pipeline; what cannot be written for another reason (a
//! full disk) ends the job with an error ([`OutputError`]).

mod copy;
mod lines;
mod messages;
mod saved;
mod screen;
mod terminal;
mod wiring;

pub(super) use copy::{Pipe, Sink};
pub(super) use lines::Lines;
pub(super) use saved::{Lengths, Saved};
pub(crate) use screen::say;
pub(super) use screen::{LOOK_AGAIN, Shared, all_is_said, finish_saying, hurry, is_soon_said, lock, open};
pub(super) use terminal::Terminals;
pub(super) use wiring::{RankOutput, Wiring};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::fstat;
use nix::unistd::pipe2;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One of the two streams that ranks print to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stream {
    Out = 1,
    Err = 2,
}

impl Stream {
    pub(super) const BOTH: [Stream; 2] = [Stream::Out, Stream::Err];

    /// What people call it.
    fn name(self) -> &'static str {
        match self {
            Stream::Out => "standard output",
            Stream::Err => "standard error",
        }
    }
}

/// Output that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputError {
    pub(super) stream: Stream,
    pub(super) error: Errno,
}

impl OutputError {
    /// Whether that is because nobody reads it any more.
    pub(super) fn is_unread(self) -> bool {
        self.error == Errno::EPIPE
    }

    /// Whether it can be written when there is room again.
    pub(super) fn is_for_want_of_room(self) -> bool {
        matches!(self.error, Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG)
    }
}

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write to {}: {}", self.stream.name(), self.error.desc())
    }
}

/// Whether our stdout and stderr are one file.
pub(super) fn is_one_file() -> bool {
    let identity = |fd: BorrowedFd<'_>| fstat(fd).map(|file| (file.st_dev, file.st_ino));
    matches!((identity(io::stdout().as_fd()), identity(io::stderr().as_fd())), (Ok(one), Ok(other)) if one == other)
}

/// The threads that print, seen from the launcher's, which polls it.
#[derive(Debug)]
pub(super) struct Printing {
    news: File,
    copiers: Vec<copy::Copier>,
    /// Where ranks print to files in memory.
    saved: Option<saved::SavedPrinter>,
}

/// How long what ranks have printed may take to be out, before something is said of them. (Whoever reads our
/// output may be slow.)
const CATCH_UP: Duration = Duration::from_millis(200);

/// What they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrintingState {
    Failed(OutputError),
    /// Nothing (more) for now.
    Nothing,
    /// All is out.
    Done,
}

impl Printing {
    /// Starts to print what comes from ranks, on screens of this process.
    pub(super) fn start(wiring: Wiring, screens: [Shared; 2]) -> io::Result<Printing> {
        let (news, report) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let report = File::from(report);
        let mut copiers = Vec::new();
        for ((stream, pipes), screen) in Stream::BOTH.into_iter().zip(wiring.into_pipes()).zip(screens) {
            if !pipes.is_empty() {
                copiers
                    .push(copy::start(pipes, LocalScreen { stream, screen, report: report.try_clone()? })?);
            }
        }
        Ok(Printing { news: news.into(), copiers, saved: None })
    }

    /// Starts to print what ranks have saved, on screens of this process, as [`commit`](Self::commit) allows.
    pub(super) fn start_saved(saved: &Arc<Saved>, screens: [Shared; 2]) -> io::Result<Printing> {
        let (news, report) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let (report, [out, err]) = (File::from(report), screens);
        let also = report.try_clone()?;
        let sinks = [
            LocalScreen { stream: Stream::Out, screen: out, report: also },
            LocalScreen { stream: Stream::Err, screen: err, report },
        ];
        let printer = saved::start(Arc::clone(saved), sinks)?;
        Ok(Printing { news: news.into(), copiers: Vec::new(), saved: Some(printer) })
    }

    /// So much of what ranks have saved will not be taken back.
    pub(super) fn commit(&self, lengths: &[Lengths]) {
        if let Some(saved) = &self.saved {
            saved.print(lengths);
        }
    }

    /// No rank runs any more, and none will: what they have saved is printed to its end.
    pub(super) fn finish(&self) {
        if let Some(saved) = &self.saved {
            saved.finish();
        }
    }

    /// Ranks go on after all. Returns `false` if all is printed already, and this is of no use any more.
    pub(super) fn go_on(&self) -> bool {
        self.saved.as_ref().is_some_and(saved::SavedPrinter::go_on)
    }

    /// Starts to send what comes from ranks elsewhere; what is returned says nothing but when all is sent.
    pub(super) fn send<S: Sink>(
        wiring: Wiring,
        sinks: impl FnOnce(File) -> io::Result<[S; 2]>,
    ) -> io::Result<Printing> {
        let (news, report) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let each = wiring.into_pipes().into_iter().zip(sinks(report.into())?);
        let copiers = each.map(|(pipes, sink)| copy::start(pipes, sink)).collect::<io::Result<_>>()?;
        Ok(Printing { news: news.into(), copiers, saved: None })
    }

    /// The same, of what ranks have saved, as [`commit`](Self::commit) allows.
    pub(super) fn send_saved<S: Sink>(
        saved: &Arc<Saved>,
        sinks: impl FnOnce(File) -> io::Result<[S; 2]>,
    ) -> io::Result<Printing> {
        let (news, report) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let printer = saved::start(Arc::clone(saved), sinks(report.into())?)?;
        Ok(Printing { news: news.into(), copiers: Vec::new(), saved: Some(printer) })
    }

    /// So much of what these ranks have printed was printed elsewhere.
    pub(super) fn skip(&self, ranks: &[(usize, Lengths)]) {
        if let Some(saved) = &self.saved {
            saved.skip(ranks);
        }
    }

    /// Returns when what ranks have printed so far is out: what is said of a rank's end then comes behind it.
    /// (No rank will be started again.)
    pub(super) fn catch_up(&self) {
        if let Some(saved) = &self.saved {
            saved.print_all(CATCH_UP);
        }
        self.copiers.iter().for_each(copy::Copier::ask);
        let deadline = Instant::now() + CATCH_UP;
        self.copiers
            .iter()
            .for_each(|copier| copier.wait(deadline.saturating_duration_since(Instant::now())));
    }

    /// The next word. Never waits.
    pub(super) fn word(&mut self) -> PrintingState {
        let mut bytes = [0; 5];
        match self.news.read(&mut bytes) {
            Ok(0) => PrintingState::Done,
            // They write five bytes at a time, which a pipe keeps together.
            Ok(_) => {
                let [stream, error @ ..] = bytes;
                let stream = if stream == Stream::Out as u8 { Stream::Out } else { Stream::Err };
                PrintingState::Failed(OutputError {
                    stream,
                    error: Errno::from_raw(i32::from_le_bytes(error)),
                })
            }
            Err(_) => PrintingState::Nothing,
        }
    }
}

impl AsFd for Printing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

/// A screen where ranks of this machine print, and the way to tell what goes wrong.
struct LocalScreen {
    stream: Stream,
    screen: Shared,
    report: File,
}

impl LocalScreen {
    /// Tells what has gone wrong. An error is for who stops reading the ranks' output, so that they learn
    /// that nobody reads it.
    fn tell(&mut self, done: Result<(), Errno>) -> io::Result<()> {
        let Err(error) = done else { return Ok(()) };
        let mut word = vec![self.stream as u8];
        word.extend((error as i32).to_le_bytes());
        // Each stream tells once, for which a pipe has room.
        let _ = self.report.write(&word);
        if error == Errno::EPIPE { Err(error.into()) } else { Ok(()) }
    }
}

impl Sink for LocalScreen {
    fn take(&mut self, rank: u32, bytes: &[u8]) -> io::Result<()> {
        let done = screen::lock(&self.screen).take(rank, bytes);
        self.tell(done)
    }

    fn due(&self) -> Option<std::time::Instant> {
        screen::lock(&self.screen).due()
    }

    fn tick(&mut self) -> io::Result<()> {
        let done = screen::lock(&self.screen).tick();
        self.tell(done)
    }

    fn has_failed(&self) -> bool {
        screen::lock(&self.screen).has_failed()
    }

    fn fail(&mut self, why: &io::Error) {
        let _ = self.tell(Err(why.raw_os_error().map_or(Errno::EIO, Errno::from_raw)));
    }
}
