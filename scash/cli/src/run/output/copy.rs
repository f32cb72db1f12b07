//! The thread of a stream: takes what comes from all ranks' pipes, and hands it to a [`Sink`].

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes that are taken from one rank in turn. What it has written at once, as a report of several
/// lines, stays together.
const MOST: usize = 64 << 10;
/// Most pipes that are looked at in one turn.
const EVENTS: usize = 64;

/// What a rank prints comes from here: a pipe, or the other side of a pseudo-terminal.
#[derive(Debug)]
pub(in crate::run) struct Pipe {
    pub(in crate::run) rank: u32,
    pub(in crate::run) file: File,
}

/// Where output goes. An error means that nobody wants it any more.
pub(in crate::run) trait Sink: Send + 'static {
    /// Takes what a rank has printed. Nothing: it prints no more.
    fn take(&mut self, rank: u32, bytes: &[u8]) -> io::Result<()>;

    /// When [`tick`](Self::tick) is due.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Time has passed.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether what it has taken last, or takes now, goes nowhere.
    fn has_failed(&self) -> bool {
        false
    }

    /// What it was to take cannot be read, and it gets no more.
    fn fail(&mut self, _why: &io::Error) {}
}

/// The thread of a stream, as the launcher's sees it.
#[derive(Debug)]
pub(super) struct Copier {
    request: Arc<EventFd>,
    /// One answer for each request. At its end when the thread has ended.
    answers: Receiver<()>,
}

impl Copier {
    /// Asks the thread to take what ranks have printed before now.
    pub(super) fn ask(&self) {
        // Answers to earlier requests, for which nobody has waited long enough.
        while self.answers.try_recv().is_ok() {}
        let _ = self.request.write(1);
    }

    /// Waits until it has, or has ended; not longer than this.
    pub(super) fn wait(&self, timeout: Duration) {
        let _ = self.answers.recv_timeout(timeout);
    }
}

/// Starts the thread. It ends when all pipes are at their end, or the sink takes no more: the ranks learn
/// that when the pipes are closed.
pub(super) fn start(pipes: Vec<Pipe>, sink: impl Sink) -> io::Result<Copier> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (index, pipe) in (0..).zip(&pipes) {
        epoll.add(&pipe.file, EpollEvent::new(EpollFlags::EPOLLIN, index))?;
    }
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let request = Arc::new(EventFd::from_value_and_flags(0, flags)?);
    epoll.add(&request, EpollEvent::new(EpollFlags::EPOLLIN, REQUEST))?;
    let (done, answers) = channel();
    let pipes: Vec<_> = pipes.into_iter().map(Some).collect();
    let copying = Copying {
        epoll,
        open: pipes.len(),
        pipes,
        buffer: vec![0; MOST],
        request: Arc::clone(&request),
        done,
    };
    thread::Builder::new().name("printer".into()).spawn(move || {
        let _ = copying.run(sink);
    })?;
    Ok(Copier { request, answers })
}

/// What the epoll returns for a request.
const REQUEST: u64 = u64::MAX;

/// What the thread has.
struct Copying {
    epoll: Epoll,
    pipes: Vec<Option<Pipe>>,
    /// How many of them are not at their end.
    open: usize,
    buffer: Vec<u8>,
    request: Arc<EventFd>,
    done: Sender<()>,
}

impl Copying {
    fn run(mut self, mut sink: impl Sink) -> io::Result<()> {
        while self.open > 0 {
            let is_asked = self.turn(&mut sink, |sink| timeout(sink.due()))?;
            if is_asked {
                // Each turn takes from up to so many pipes, and from each all that was there.
                for _ in 0..self.pipes.len().div_ceil(EVENTS) {
                    self.turn(&mut sink, |_| EpollTimeout::ZERO)?;
                }
                let _ = self.done.send(());
            }
        }
        Ok(())
    }

    /// Waits, and takes what has come. Returns whether the launcher has asked for it.
    fn turn<S: Sink>(&mut self, sink: &mut S, timeout: impl Fn(&S) -> EpollTimeout) -> io::Result<bool> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let mut is_asked = false;
        let count = match self.epoll.wait(&mut events, timeout(sink)) {
            Err(Errno::EINTR) => 0,
            waited => waited?,
        };
        for event in &events[..count] {
            if event.data() == REQUEST {
                is_asked |= self.request.read().is_ok();
            } else if let Ok(index) = usize::try_from(event.data()) {
                self.take(index, sink)?;
            }
        }
        sink.tick()?;
        Ok(is_asked)
    }

    /// Takes what a pipe has.
    fn take(&mut self, index: usize, sink: &mut impl Sink) -> io::Result<()> {
        let Some(slot) = self.pipes.get_mut(index) else { return Ok(()) };
        let Some(pipe) = slot else { return Ok(()) };
        let length = match pipe.file.read(&mut self.buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            // That is how a terminal says that nobody can write to it any more.
            Err(_) => 0,
            Ok(length) => length,
        };
        sink.take(pipe.rank, &self.buffer[..length])?;
        if length == 0 {
            *slot = None; // closing it takes it out of the epoll
            self.open -= 1;
        }
        Ok(())
    }
}

/// How long nothing may come until something is due.
fn timeout(due: Option<Instant>) -> EpollTimeout {
    let Some(due) = due else { return EpollTimeout::NONE };
    // The kernel counts milliseconds; a fraction more is not too early.
    let time = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    EpollTimeout::try_from(time).unwrap_or(EpollTimeout::MAX)
}
