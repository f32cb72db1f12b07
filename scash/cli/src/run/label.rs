//! Output of ranks that goes through pipes of ours: as it is, or labelled, where every line goes out whole, behind the rank's number.
//!
//! One thread serves all ranks' stdout and one all ranks' stderr, so that a reader of ours who is slow holds up the ranks (as it would
//! without us), but not the launcher. Whoever stops reading our stdout makes the ranks' writes fail, as in any pipeline.

use nix::fcntl::OFlag;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::stat::fstat;
use nix::unistd::pipe2;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A line longer than this goes out in pieces, each behind its label.
const LONGEST: usize = 64 << 20;

/// Held while lines are written.
pub(super) type Turn = Arc<Mutex<()>>;

/// How lines of ranks go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As they come in.
    Plain,
    /// Behind the rank's number; the first pipe is that of this rank.
    Labelled(u32),
}

/// Starts to copy the ranks' stdout and stderr to ours with labels, one pipe a rank in rank order. What is returned hangs up when all is out.
pub(super) fn print(stdout: Vec<OwnedFd>, stderr: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    let turn = Turn::default();
    // One terminal or file for both takes turns; a stdout that nobody reads does not hold up stderr.
    let other_turn =
        if is_one_file(&io::stdout(), &io::stderr()) { Arc::clone(&turn) } else { Turn::default() };
    start(Style::Labelled(0), (stdout, io::stdout(), turn), (stderr, io::stderr(), other_turn))
}

/// Starts to copy one set of pipes and another, each to where it goes. What is returned hangs up when all is out.
pub(super) fn start<A: Write + Send + 'static, B: Write + Send + 'static>(
    style: Style,
    (pipes, out, turn): (Vec<OwnedFd>, A, Turn),
    (other_pipes, other_out, other_turn): (Vec<OwnedFd>, B, Turn),
) -> io::Result<OwnedFd> {
    let (printing, done) = pipe2(OFlag::O_CLOEXEC)?;
    spawn(style, pipes, out, turn, done.try_clone()?)?;
    spawn(style, other_pipes, other_out, other_turn, done)?;
    Ok(printing)
}

pub(super) fn is_one_file(one: &impl AsFd, other: &impl AsFd) -> bool {
    let identity = |fd: BorrowedFd<'_>| fstat(fd).map(|file| (file.st_dev, file.st_ino));
    matches!((identity(one.as_fd()), identity(other.as_fd())), (Ok(one), Ok(other)) if one == other)
}

/// Starts a thread that copies lines from `pipes` to `out`. It ends when all pipes are at their end, or `out` takes no
/// more; `done` is dropped then.
fn spawn(
    style: Style,
    pipes: Vec<OwnedFd>,
    mut out: impl Write + Send + 'static,
    turn: Turn,
    done: OwnedFd,
) -> io::Result<JoinHandle<()>> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (index, pipe) in (0..).zip(&pipes) {
        epoll.add(pipe, EpollEvent::new(EpollFlags::EPOLLIN, index))?;
    }
    let sources = (0..)
        .zip(pipes)
        .map(|(index, pipe)| Some(Source { pipe: pipe.into(), lines: Lines::new(style, index) }))
        .collect();
    thread::Builder::new().name("labels".into()).spawn(move || {
        let _done = done;
        // An error means that nobody reads any more. Dropping the pipes tells the ranks.
        let _ = copy(&epoll, sources, &mut out, &turn);
    })
}

/// Where a rank's lines come from.
struct Source {
    pipe: File,
    lines: Lines,
}

fn copy(
    epoll: &Epoll,
    mut sources: Vec<Option<Source>>,
    out: &mut impl Write,
    turn: &Turn,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut events = [EpollEvent::empty(); 64];
    let mut open = sources.len();
    while open > 0 {
        let count = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            let slot = usize::try_from(event.data()).ok().and_then(|index| sources.get_mut(index));
            let Some(slot) = slot else { continue };
            let Some(source) = slot else { continue };
            let length = source.pipe.read(&mut buffer)?;
            let text = if length == 0 { source.lines.finish() } else { source.lines.push(&buffer[..length]) };
            write(out, &text, turn)?;
            if length == 0 {
                *slot = None; // closing it takes it out of the epoll
                open -= 1;
            }
        }
    }
    Ok(())
}

fn write(out: &mut impl Write, text: &[u8], turn: &Turn) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let _guard = turn.lock();
    out.write_all(text)?;
    out.flush()
}

/// Cuts a rank's output into labelled lines, if it is to be labelled.
#[derive(Debug)]
struct Lines {
    /// `None`: it goes out as it comes in.
    label: Option<String>,
    /// The beginning of a line whose end has not come yet.
    pending: Vec<u8>,
}

impl Lines {
    fn new(style: Style, index: u32) -> Lines {
        let label = match style {
            Style::Plain => None,
            Style::Labelled(first) => Some(format!("[{}] ", first + index)),
        };
        Lines { label, pending: Vec::new() }
    }

    /// Takes some output; returns the lines that are complete with it.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.label.is_none() {
            return bytes.to_vec();
        }
        let mut text = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.emit(&mut text);
            } else if self.pending.len() > LONGEST {
                self.pending.push(b'\n');
                self.emit(&mut text);
            }
        }
        text
    }

    /// The output has ended; returns the line that had no end.
    fn finish(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        if !self.pending.is_empty() {
            self.pending.push(b'\n');
            self.emit(&mut text);
        }
        text
    }

    fn emit(&mut self, text: &mut Vec<u8>) {
        text.extend_from_slice(self.label.as_deref().unwrap_or_default().as_bytes());
        text.append(&mut self.pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_come_in() {
        for step in 1..12 {
            let mut lines = Lines::new(Style::Labelled(5), 2);
            let mut text = Vec::new();
            for piece in b"one\n\nthree is long\nfour has no end".chunks(step) {
                text.extend(lines.push(piece));
            }
            assert!(!text.windows(4).any(|window| window == b"four"), "an unfinished line waits");
            text.extend(lines.finish());
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text, "[7] one\n[7] \n[7] three is long\n[7] four has no end\n");
        }
    }

    #[test]
    fn no_output_is_no_line() {
        assert!(Lines::new(Style::Labelled(0), 0).finish().is_empty());
    }

    #[test]
    fn plain_output_goes_out_as_it_comes_in() {
        let mut lines = Lines::new(Style::Plain, 0);
        assert_eq!(lines.push(b"half a li"), b"half a li");
        assert_eq!(lines.push(b"ne\nand"), b"ne\nand");
        assert!(lines.finish().is_empty());
    }
}
