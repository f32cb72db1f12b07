//! Prints what the ranks of all hosts print, in a thread for each stream, so that a slow reader does not hold up the launcher.

use super::frames::Stream;
use crate::run::label::{Turn, is_one_file};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread;

/// A line longer than this goes out in pieces.
const LONGEST: usize = 64 << 20;

/// What became of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// So many bytes of a host are out.
    Taken(u32, Stream, u32),
    /// Nobody reads the stream any more.
    Shut(Stream),
}

/// The two threads, seen from the launcher's. It polls [`as_fd`](AsFd::as_fd), and takes what they have [`printed`](Printers::printed).
#[derive(Debug)]
pub(super) struct Printers {
    /// One a stream: a host, and what its ranks have printed.
    queues: [Sender<(u32, Vec<u8>)>; 2],
    /// Pieces of each stream that were handed over and are not out yet.
    waiting: [usize; 2],
    printed: Receiver<Printed>,
    bell: Arc<EventFd>,
}

impl Printers {
    /// Starts them. With `lines`, hosts print whole lines, which are not mixed.
    pub(super) fn start(lines: bool) -> io::Result<Printers> {
        let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let (report, printed) = channel();
        let turn = Turn::default();
        // One terminal or file for both takes turns; a stdout that nobody reads does not hold up stderr.
        let other =
            if is_one_file(&io::stdout(), &io::stderr()) { Arc::clone(&turn) } else { Turn::default() };
        let printer = |stream, turn| Printer {
            stream,
            turn,
            lines: lines.then(HashMap::new),
            report: report.clone(),
            bell: Arc::clone(&bell),
        };
        let queues = [
            printer(Stream::Out, turn).start(io::stdout())?,
            printer(Stream::Err, other).start(io::stderr())?,
        ];
        Ok(Printers { queues, waiting: [0; 2], printed, bell })
    }

    /// Prints what ranks of a host have printed.
    pub(super) fn print(&mut self, host: u32, stream: Stream, bytes: Vec<u8>) {
        let index = stream as usize - 1;
        // A thread that has ended has said that nobody reads its stream.
        if self.queues[index].send((host, bytes)).is_ok() {
            self.waiting[index] += 1;
        }
    }

    /// What is out since the last call.
    pub(super) fn printed(&mut self) -> Vec<Printed> {
        let _ = self.bell.read();
        let all: Vec<Printed> = self.printed.try_iter().collect();
        for printed in &all {
            match printed {
                Printed::Taken(_, stream, _) => self.waiting[*stream as usize - 1] -= 1,
                Printed::Shut(stream) => self.waiting[*stream as usize - 1] = 0,
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
    turn: Turn,
    /// The line of each host whose end has not come yet; `None` if output goes out as it comes in.
    lines: Option<HashMap<u32, Vec<u8>>>,
    report: Sender<Printed>,
    bell: Arc<EventFd>,
}

impl Printer {
    fn start(mut self, mut out: impl Write + Send + 'static) -> io::Result<Sender<(u32, Vec<u8>)>> {
        let (sender, receiver) = channel::<(u32, Vec<u8>)>();
        thread::Builder::new().name("printer".into()).spawn(move || {
            for (host, bytes) in receiver {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let text = self.whole(host, bytes);
                if self.write(&mut out, &text).is_err() {
                    return self.tell(Printed::Shut(self.stream));
                }
                self.tell(Printed::Taken(host, self.stream, length));
            }
        })?;
        Ok(sender)
    }

    /// Tells the launcher, if it still wants to know.
    fn tell(&self, printed: Printed) {
        let _ = self.report.send(printed);
        let _ = self.bell.write(1);
    }

    /// What can go out of what has come so far.
    fn whole(&mut self, host: u32, bytes: Vec<u8>) -> Vec<u8> {
        let Some(lines) = &mut self.lines else { return bytes };
        let pending = lines.entry(host).or_default();
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (whole, rest) = bytes.split_at(end);
        if whole.is_empty() && pending.len() < LONGEST {
            pending.extend_from_slice(rest);
            return Vec::new();
        }
        let mut text = std::mem::replace(pending, rest.to_vec());
        text.extend_from_slice(whole);
        text
    }

    fn write(&self, out: &mut impl Write, text: &[u8]) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_hosts_are_not_mixed() {
        let (report, _printed) = channel();
        let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap());
        let lines = Some(HashMap::new());
        let mut printer = Printer { stream: Stream::Out, turn: Turn::default(), lines, report, bell };
        let mut text = Vec::new();
        for (host, piece) in [(0, "[0] on"), (1, "[1] two\n[1] th"), (0, "e\n[0] four\n"), (1, "ree\n")] {
            text.extend(printer.whole(host, piece.into()));
        }
        assert_eq!(String::from_utf8(text).unwrap(), "[1] two\n[0] one\n[0] four\n[1] three\n");
    }
}
