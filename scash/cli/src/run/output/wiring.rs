//! What each rank has as its stdout and stderr, and where that is read.

use super::{Pipe, Stream, Terminals, is_one_file, terminal};
use nix::fcntl::OFlag;
use nix::unistd::{isatty, pipe2};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a rank gets as its stdout and stderr; `None`: what this process has.
#[derive(Debug, Default)]
pub(in crate::run) struct RankOutput {
    pub(in crate::run) stdout: Option<OwnedFd>,
    pub(in crate::run) stderr: Option<OwnedFd>,
}

/// How a stream of a rank's reaches ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamKind {
    /// It is ours.
    Same,
    Pipe,
    /// Through a terminal of its own, as ours is one.
    Terminal,
}

/// The streams of all ranks.
#[derive(Debug)]
pub(in crate::run) struct Wiring {
    kinds: [StreamKind; 2],
    /// Whether both of a rank's streams are one, so that what it says stays in its order.
    is_one: bool,
    pipes: [Vec<Pipe>; 2],
    /// Terminals of ranks.
    terminals: Vec<File>,
}

impl Wiring {
    /// For ranks whose output is printed here.
    pub(in crate::run) fn here(ranks: u32, label: bool) -> Wiring {
        let kind = |stream: BorrowedFd<'_>| match isatty(stream) {
            // Nobody's lines can be mixed with those of a rank that is alone.
            Ok(true) if ranks == 1 && !label => StreamKind::Same,
            Ok(true) => StreamKind::Terminal,
            _ => StreamKind::Pipe,
        };
        let kinds = [kind(io::stdout().as_fd()), kind(io::stderr().as_fd())];
        Wiring { kinds, is_one: is_one_file(), pipes: Default::default(), terminals: Vec::new() }
    }

    /// For ranks whose output is printed elsewhere, where stdout and stderr are one file or are not.
    pub(in crate::run) fn elsewhere(is_one: bool) -> Wiring {
        Wiring { kinds: [StreamKind::Pipe; 2], is_one, pipes: Default::default(), terminals: Vec::new() }
    }

    /// Makes the streams of a rank.
    pub(in crate::run) fn make(&mut self, rank: u32) -> io::Result<RankOutput> {
        let stdout = self.make_one(rank, Stream::Out)?;
        let stderr = match &stdout {
            Some(stdout) if self.is_one => Some(stdout.try_clone()?),
            _ => self.make_one(rank, Stream::Err)?,
        };
        Ok(RankOutput { stdout, stderr })
    }

    fn make_one(&mut self, rank: u32, stream: Stream) -> io::Result<Option<OwnedFd>> {
        let index = stream as usize - 1;
        let made = match self.kinds[index] {
            StreamKind::Same => return Ok(None),
            StreamKind::Pipe => None,
            // Where there are no (more) terminals, a pipe does.
            StreamKind::Terminal => terminal::open(ours(stream)?.as_fd()).ok(),
        };
        let (file, given) = match made {
            Some((file, given)) => {
                self.terminals.push(file.try_clone()?);
                (file, given)
            }
            None => pipe2(OFlag::O_CLOEXEC).map(|(read, write)| (read.into(), write))?,
        };
        self.pipes[index].push(Pipe { rank, file });
        Ok(Some(given))
    }

    /// The terminals of ranks, if they have any.
    pub(in crate::run) fn take_terminals(&mut self) -> io::Result<Option<Terminals>> {
        let is_out = self.kinds[0] == StreamKind::Terminal;
        let ranks = std::mem::take(&mut self.terminals);
        if ranks.is_empty() {
            return Ok(None);
        }
        let ours = ours(if is_out { Stream::Out } else { Stream::Err })?;
        Ok(Some(Terminals { ours, ranks }))
    }

    /// Where the streams are read: of stdout, and of stderr where that is another one.
    pub(super) fn into_pipes(self) -> [Vec<Pipe>; 2] {
        self.pipes
    }
}

fn ours(stream: Stream) -> io::Result<OwnedFd> {
    match stream {
        Stream::Out => io::stdout().as_fd().try_clone_to_owned(),
        Stream::Err => io::stderr().as_fd().try_clone_to_owned(),
    }
}
