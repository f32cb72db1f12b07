//! Prints what the ranks of all hosts print, in a thread for each stream, so that a slow reader does not hold
//! up the launcher.

use crate::run::output::{self, OutputError, Shared, Stream};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What became of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputReport {
    /// So many bytes of an agent were taken.
    Taken(OutputSource, Stream, u32),
    /// Something could not be written. If nobody reads the stream any more, nothing more is taken.
    Failed(OutputError),
}

/// An agent that has sent output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputSource {
    pub(super) host: u32,
    /// How often the host was called before: one that was lost has another agent when it is back.
    pub(super) call: u32,
}

/// What a rank has printed; nothing: it prints no more.
#[derive(Debug)]
pub(super) struct OutputChunk {
    pub(super) from: OutputSource,
    pub(super) rank: u32,
    pub(super) bytes: Vec<u8>,
}

/// The two threads, seen from the launcher's. It polls [`as_fd`](AsFd::as_fd), and takes what they have
/// [`printed`](Printers::printed).
#[derive(Debug)]
pub(super) struct Printers {
    /// One a stream; `None` when nobody reads that any more.
    queues: [Option<Sender<OutputChunk>>; 2],
    /// Pieces of each stream that were handed over and are not taken yet.
    waiting: [usize; 2],
    printed: Receiver<OutputReport>,
    bell: Arc<EventFd>,
    /// Whether another launcher prints what is not out yet.
    is_left: Arc<AtomicBool>,
}

impl Printers {
    /// Starts them, for screens that are one or two.
    pub(super) fn start([out, err]: [Shared; 2]) -> io::Result<Printers> {
        let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (report, printed) = channel();
        let is_left = Arc::new(AtomicBool::new(false));
        let printer = |stream, screen| {
            let (bell, is_left) = (Arc::clone(&bell), Arc::clone(&is_left));
            Printer { stream, screen, report: report.clone(), bell, is_left }
        };
        let queues = [Some(printer(Stream::Out, out).start()?), Some(printer(Stream::Err, err).start()?)];
        Ok(Printers { queues, waiting: [0; 2], printed, bell, is_left })
    }

    /// Another launcher prints what is not out yet.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Relaxed);
    }

    /// Prints what a rank has printed.
    pub(super) fn print(&mut self, stream: Stream, piece: OutputChunk) {
        let index = stream as usize - 1;
        // A thread that has ended has said, or is about to say, that nobody reads its stream.
        if self.queues[index].as_ref().is_some_and(|queue| queue.send(piece).is_ok()) {
            self.waiting[index] += 1;
        }
    }

    /// What has happened since the last call.
    pub(super) fn printed(&mut self) -> Vec<OutputReport> {
        let _ = self.bell.read();
        let all: Vec<OutputReport> = self.printed.try_iter().collect();
        for printed in &all {
            match printed {
                OutputReport::Taken(_, stream, _) => self.waiting[*stream as usize - 1] -= 1,
                OutputReport::Failed(trouble) if trouble.is_unread() => {
                    let index = trouble.stream as usize - 1;
                    (self.queues[index], self.waiting[index]) = (None, 0);
                }
                OutputReport::Failed(_) => {}
            }
        }
        all
    }

    /// Whether all is out.
    pub(super) fn are_idle(&self) -> bool {
        self.waiting == [0; 2]
    }
}

impl AsFd for Printers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// What the thread of a stream has.
struct Printer {
    stream: Stream,
    screen: Shared,
    report: Sender<OutputReport>,
    bell: Arc<EventFd>,
    is_left: Arc<AtomicBool>,
}

impl Printer {
    fn start(self) -> io::Result<Sender<OutputChunk>> {
        let (sender, pieces) = channel();
        thread::Builder::new().name("printer".into()).spawn(move || while self.turn(&pieces) {})?;
        Ok(sender)
    }

    /// Prints the next piece, or what is due; `false` when there is nothing more to be done.
    fn turn(&self, pieces: &Receiver<OutputChunk>) -> bool {
        // Not in the condition: others write while this one waits.
        let due = output::lock(&self.screen).due();
        let next = match due {
            None => pieces.recv().map_err(RecvTimeoutError::from),
            Some(due) => {
                pieces.recv_timeout(due.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
            }
        };
        let mut screen = output::lock(&self.screen);
        let done = match &next {
            Err(RecvTimeoutError::Disconnected) => return false,
            _ if self.is_left.load(Relaxed) => Ok(()),
            Ok(piece) => screen.take(piece.rank, &piece.bytes).and_then(|()| screen.tick()),
            Err(RecvTimeoutError::Timeout) => screen.tick(),
        };
        let trouble = done.err().map(|error| OutputError { stream: self.stream, error });
        let (unread, unwritten) =
            (trouble.filter(|all| all.is_unread()), trouble.filter(|all| !all.is_unread()));
        // First, and before the other thread of one screen goes on: of what is said to be taken from now on
        // nothing was written.
        unwritten.into_iter().for_each(|trouble| self.tell(OutputReport::Failed(trouble)));
        drop(screen);
        if let Ok(OutputChunk { from, bytes, .. }) = next {
            self.tell(OutputReport::Taken(from, self.stream, u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
        }
        // Last: nothing is taken any more.
        unread.into_iter().for_each(|trouble| self.tell(OutputReport::Failed(trouble)));
        unread.is_none()
    }

    /// Tells the launcher, if it still wants to know.
    fn tell(&self, printed: OutputReport) {
        let _ = self.report.send(printed);
        let _ = self.bell.write(1);
    }
}
