//! The thread of a stream: takes what comes from all ranks' pipes, and hands it to a [`Sink`].

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes that are taken from one rank in turn. What it has written at once, as a report of several lines, stays together.
const MOST: usize = 64 << 10;

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
}

/// Starts the thread. It ends when all pipes are at their end, or the sink takes no more: the ranks learn that when the pipes are closed.
pub(super) fn start(pipes: Vec<Pipe>, sink: impl Sink) -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (index, pipe) in (0..).zip(&pipes) {
        epoll.add(&pipe.file, EpollEvent::new(EpollFlags::EPOLLIN, index))?;
    }
    let pipes = pipes.into_iter().map(Some).collect();
    thread::Builder::new().name("printer".into()).spawn(move || {
        let _ = copy(&epoll, pipes, sink);
    })?;
    Ok(())
}

fn copy(epoll: &Epoll, mut pipes: Vec<Option<Pipe>>, mut sink: impl Sink) -> io::Result<()> {
    let mut buffer = vec![0; MOST];
    let mut events = [EpollEvent::empty(); 64];
    let mut open = pipes.len();
    while open > 0 {
        let count = match epoll.wait(&mut events, patience(sink.due())) {
            Err(Errno::EINTR) => 0,
            waited => waited?,
        };
        for event in &events[..count] {
            let slot = usize::try_from(event.data()).ok().and_then(|index| pipes.get_mut(index));
            let Some(slot) = slot else { continue };
            let Some(pipe) = slot else { continue };
            let length = match pipe.file.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // That is how a terminal says that nobody can write to it any more.
                Err(_) => 0,
                Ok(length) => length,
            };
            sink.take(pipe.rank, &buffer[..length])?;
            if length == 0 {
                *slot = None; // closing it takes it out of the epoll
                open -= 1;
            }
        }
        sink.tick()?;
    }
    Ok(())
}

/// How long nothing may come until something is due.
fn patience(due: Option<Instant>) -> EpollTimeout {
    let Some(due) = due else { return EpollTimeout::NONE };
    // The kernel counts milliseconds; a fraction more is not too early.
    let time = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    EpollTimeout::try_from(time).unwrap_or(EpollTimeout::MAX)
}
