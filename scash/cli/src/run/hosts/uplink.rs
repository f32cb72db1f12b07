//! An agent's way to the launcher: its stdout, on which several threads send frames, and the room that there
//! is for output. An agent that outlives its launcher ([`Uplink::keep`]) has another way to the next one.
//!
//! Nobody waits for a launcher that does not read: what there is no room for is kept. That is not much: what
//! ranks print has its window, and the rest answers what the launcher has said.

use super::TIMEOUT;
use super::frames::{MOST_OUTPUT, Up};
use crate::run::output::{Lengths, Sink, Stream};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use scash_comm::SecretBytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most bytes of a stream that are on their way.
pub(super) const WINDOW: usize = 256 << 10;

/// Most bytes of the beginning of a line that are kept for the next launcher.
const LONGEST: usize = 1 << 20;

/// The way to the launcher.
#[derive(Debug)]
pub(super) struct Uplink {
    launcher: Mutex<LauncherPipe>,
    /// There is one for output again.
    changed: Condvar,
    /// One a stream.
    rooms: [StreamCredit; 2],
}

#[derive(Debug, Default)]
struct LauncherPipe {
    /// `None`: the launcher is gone, and another one may come.
    pipe: Option<File>,
    /// Frames for which it has had no room yet.
    queue: SecretBytes,
    /// Whether the launcher takes output.
    is_open: bool,
    /// What is kept for the launcher that comes after this one.
    kept: Option<Sent>,
}

impl LauncherPipe {
    /// One that never keeps a thread waiting.
    fn connect(&mut self, pipe: File) -> io::Result<()> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        self.pipe = Some(pipe);
        Ok(())
    }

    /// Sends a frame behind those that wait. Without a launcher it is of no use.
    fn send(&mut self, up: &Up) -> io::Result<()> {
        if self.pipe.is_some() {
            self.queue.push(&mut up.encode());
        }
        self.flush()
    }

    /// Sends as much as there is room for.
    fn flush(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        while !self.queue.left().is_empty() {
            match pipe.write(self.queue.left()) {
                Ok(length) => self.queue.take(length),
                Err(error) if error.kind() == Interrupted => {}
                Err(error) if error.kind() == WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What was sent of what ranks have printed.
#[derive(Debug)]
struct Sent {
    /// By rank: how much, and how much of that is out.
    lengths: Vec<Lengths>,
    seen: Vec<Lengths>,
    /// Ranks that have come here from elsewhere, or are to be started here.
    came: BTreeSet<u32>,
    /// By stream: pieces of which the launcher has not said that they are out, oldest first.
    unprinted: [VecDeque<SentPiece>; 2],
    /// By stream and rank: the beginning of a line that the launcher has, and shows when its end has come.
    begun: [BTreeMap<u32, Vec<u8>>; 2],
}

/// Something that a rank has printed.
#[derive(Debug)]
struct SentPiece {
    rank: u32,
    bytes: Vec<u8>,
    /// How much the rank has printed with that; `None` if it has gone on elsewhere since, or has come from
    /// there.
    end: Option<u64>,
}

impl Sent {
    /// The oldest piece of a stream is out, but for a line that has no end. Returns of which rank, and how
    /// much of that was seen before and is now.
    fn acknowledge(&mut self, stream: usize) -> Option<(u32, Range<u64>)> {
        let SentPiece { rank, bytes, end } = self.unprinted[stream].pop_front()?;
        let end = end?;
        let begun = self.begun[stream].entry(rank).or_default();
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => *begun = bytes[end + 1..].to_vec(),
            None => begun.extend(bytes),
        }
        // What waits for its end for so long is likely to be no line, and may be shown by now.
        if begun.len() > LONGEST {
            begun.clear();
        }
        let has_begun = begun.len() as u64;
        if has_begun == 0 {
            self.begun[stream].remove(&rank);
        }
        let seen = self.seen.get_mut(rank as usize)?;
        let before = seen[stream];
        seen[stream] = before.max(end.saturating_sub(has_begun));
        Some((rank, before..seen[stream]))
    }

    /// A rank goes on behind so much, which others have sent: what was sent here before is theirs, too.
    fn skip(&mut self, rank: u32, length: Lengths) {
        for all in [&mut self.lengths, &mut self.seen] {
            all.get_mut(rank as usize).into_iter().for_each(|sent| *sent = length);
        }
        self.forget(|other| other == rank);
        self.came.insert(rank);
    }

    /// What was sent of these ranks is of no use any more, also to the next launcher.
    fn forget(&mut self, are_gone: impl Fn(u32) -> bool) {
        let pieces = self.unprinted.iter_mut().flatten();
        pieces.filter(|piece| are_gone(piece.rank)).for_each(|piece| piece.end = None);
        self.begun.iter_mut().for_each(|begun| begun.retain(|rank, _| !are_gone(*rank)));
    }
}

/// How much of a stream may be sent.
#[derive(Debug)]
struct StreamCredit {
    /// `None`: nobody reads it any more.
    bytes: Mutex<Option<usize>>,
    changed: Condvar,
}

impl StreamCredit {
    fn give_back(&self, bytes: usize) {
        if let Some(left) = &mut *lock(&self.bytes) {
            *left = left.saturating_add(bytes).min(WINDOW);
        }
        self.changed.notify_all();
    }
}

/// A thread that panicked while it held the lock has left what is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uplink {
    pub(super) fn new(pipe: File) -> io::Result<Arc<Uplink>> {
        let room = || StreamCredit { bytes: Mutex::new(Some(WINDOW)), changed: Condvar::new() };
        let mut launcher = LauncherPipe { is_open: true, ..LauncherPipe::default() };
        launcher.connect(pipe)?;
        let (launcher, rooms) = (Mutex::new(launcher), [room(), room()]);
        Ok(Arc::new(Uplink { launcher, changed: Condvar::new(), rooms }))
    }

    /// From now on ranks may go on elsewhere, or under another launcher, for which output of so many ranks
    /// waits.
    pub(super) fn keep(&self, ranks: usize) {
        let lengths = vec![[0; 2]; ranks];
        let seen = lengths.clone();
        let came = BTreeSet::new();
        let sent = Sent { lengths, seen, came, unprinted: Default::default(), begun: Default::default() };
        lock(&self.launcher).kept = Some(sent);
    }

    /// Sends a frame, or keeps it until there is room. Without a launcher it is of no use.
    pub(super) fn send(&self, up: &Up) -> io::Result<()> {
        lock(&self.launcher).send(up)
    }

    /// There may be room again.
    pub(super) fn flush(&self) -> io::Result<()> {
        lock(&self.launcher).flush()
    }

    /// Nothing more will be sent: waits until all has left, as long as a launcher may be silent.
    pub(super) fn finish(&self) {
        let by = Instant::now() + TIMEOUT;
        let mut launcher = lock(&self.launcher);
        while launcher.flush().is_ok() && !launcher.queue.left().is_empty() && Instant::now() < by {
            let Some(pipe) = &launcher.pipe else { return };
            let left = PollTimeout::try_from(by - Instant::now()).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)], left);
        }
    }

    /// The launcher is gone.
    pub(super) fn cut(&self) {
        let mut launcher = lock(&self.launcher);
        (launcher.pipe, launcher.is_open) = (None, false);
        launcher.queue.take(usize::MAX);
    }

    /// There is another launcher, which does not take output yet.
    pub(super) fn connect(&self, pipe: File) -> io::Result<()> {
        lock(&self.launcher).connect(pipe)
    }

    /// The other launcher takes output: that which the one before has perhaps not printed is sent once more.
    pub(super) fn open(&self) -> io::Result<()> {
        let mut guard = lock(&self.launcher);
        guard.is_open = true;
        let Some(mut sent) = guard.kept.take() else { return Ok(()) };
        let opened = self.send_again(&mut guard, &mut sent);
        guard.kept = Some(sent);
        self.changed.notify_all();
        opened
    }

    fn send_again(&self, launcher: &mut LauncherPipe, sent: &mut Sent) -> io::Result<()> {
        for stream in Stream::BOTH {
            let index = stream as usize - 1;
            // It says of each piece that it is out, whoever was told of it before.
            for (rank, begun) in std::mem::take(&mut sent.begun[index]).into_iter().rev() {
                let seen = sent.seen.get(rank as usize).map_or(0, |seen| seen[index]);
                let mut end = seen + begun.len() as u64;
                for part in begun.rchunks(MOST_OUTPUT) {
                    let piece = SentPiece { rank, bytes: part.to_vec(), end: Some(end) };
                    end -= part.len() as u64;
                    sent.unprinted[index].push_front(piece);
                }
            }
            // No launcher will say of the others that they are out.
            let gone = sent.unprinted[index].iter().filter(|piece| piece.end.is_none());
            self.room(stream).give_back(gone.map(|piece| piece.bytes.len()).sum());
            sent.unprinted[index].retain(|piece| piece.end.is_some());
            for SentPiece { rank, bytes, .. } in &sent.unprinted[index] {
                launcher.send(&Up::Output { stream, rank: *rank, bytes: bytes.clone() })?;
            }
        }
        Ok(())
    }

    /// Ranks, and how much of what each has printed was sent, here or by others.
    pub(super) fn sent(&self) -> Vec<(usize, Lengths)> {
        let launcher = lock(&self.launcher);
        launcher
            .kept
            .as_ref()
            .map_or_else(Vec::new, |sent| sent.lengths.iter().copied().enumerate().collect())
    }

    /// Ranks that have printed here or have come here, and how much of what they have printed is out.
    pub(super) fn printed(&self) -> Vec<(u32, Lengths)> {
        let launcher = lock(&self.launcher);
        let Some(Sent { seen, came, .. }) = &launcher.kept else { return Vec::new() };
        let is_known = |(rank, lengths): &(u32, Lengths)| *lengths != [0; 2] || came.contains(rank);
        (0..).zip(seen.iter().copied()).filter(is_known).collect()
    }

    /// So much of what these ranks have printed was sent by others.
    pub(super) fn skip(&self, ranks: &[(usize, Lengths)]) {
        if let Some(sent) = &mut lock(&self.launcher).kept {
            for (rank, length) in ranks {
                sent.skip(u32::try_from(*rank).unwrap_or(u32::MAX), *length);
            }
        }
    }

    /// From now on only these ranks print here. Others have brought along what was not seen.
    pub(super) fn only(&self, ranks: &[u32]) {
        if let Some(sent) = &mut lock(&self.launcher).kept {
            sent.forget(|rank| !ranks.contains(&rank));
            sent.came.retain(|rank| ranks.contains(rank));
        }
    }

    /// Sends what a rank has printed.
    fn send_output(&self, stream: Stream, rank: u32, bytes: &[u8]) -> io::Result<()> {
        let mut launcher = lock(&self.launcher);
        while !launcher.is_open {
            launcher = self.changed.wait(launcher).unwrap_or_else(PoisonError::into_inner);
        }
        let sent = launcher.send(&Up::Output { stream, rank, bytes: bytes.to_vec() });
        let Some(Sent { lengths, unprinted, .. }) = &mut launcher.kept else { return sent };
        let index = stream as usize - 1;
        // Word that a rank prints no more is not kept.
        if let Some(lengths) = lengths.get_mut(rank as usize).filter(|_| !bytes.is_empty()) {
            lengths[index] += bytes.len() as u64;
            let (bytes, end) = (bytes.to_vec(), Some(lengths[index]));
            unprinted[index].push_back(SentPiece { rank, bytes, end });
        }
        // Who reads the other pipe notices that the launcher is gone.
        Ok(())
    }

    /// So many bytes of a stream are out: those of its oldest piece. If that is kept, returns of which rank,
    /// and how much of what that has printed was seen before and is now: whole lines.
    pub(super) fn taken(&self, stream: Stream, bytes: u32) -> Option<(u32, Range<u64>)> {
        let mut launcher = lock(&self.launcher);
        let kept = launcher.kept.as_mut().filter(|_| bytes > 0);
        let seen = kept.and_then(|sent| sent.acknowledge(stream as usize - 1));
        drop(launcher);
        self.room(stream).give_back(bytes as usize);
        seen
    }

    /// Nobody reads a stream any more: whoever writes to it is to learn that.
    pub(super) fn shut(&self, stream: Stream) {
        let room = self.room(stream);
        *lock(&room.bytes) = None;
        room.changed.notify_all();
    }

    fn room(&self, stream: Stream) -> &StreamCredit {
        &self.rooms[stream as usize - 1]
    }
}

/// A stream of this host's ranks, served by one thread.
#[derive(Debug)]
pub(super) struct Output {
    uplink: Arc<Uplink>,
    stream: Stream,
    /// Closed when nothing more is to be sent.
    _done: File,
}

impl Output {
    pub(super) fn new(uplink: Arc<Uplink>, stream: Stream, done: File) -> Output {
        Output { uplink, stream, _done: done }
    }

    /// Takes room for some of so many bytes; waits until there is any.
    fn take_room(&self, wanted: usize) -> io::Result<usize> {
        let room = self.uplink.room(self.stream);
        let mut left = lock(&room.bytes);
        loop {
            match &mut *left {
                None => return Err(io::ErrorKind::BrokenPipe.into()),
                Some(0) => left = room.changed.wait(left).unwrap_or_else(PoisonError::into_inner),
                Some(most) => {
                    let length = wanted.min(*most).min(MOST_OUTPUT);
                    *most -= length;
                    return Ok(length);
                }
            }
        }
    }

    fn send(&self, rank: u32, bytes: &[u8]) -> io::Result<()> {
        self.uplink.send_output(self.stream, rank, bytes)
    }
}

impl Sink for Output {
    fn take(&mut self, rank: u32, mut bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return self.send(rank, bytes);
        }
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(self.take_room(bytes.len())?);
            self.send(rank, part)?;
            bytes = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use std::thread;

    #[test]
    fn output_waits_for_room_and_learns_that_nobody_reads() {
        let mut file = tempfile::tempfile().unwrap();
        let uplink = Uplink::new(file.try_clone().unwrap()).unwrap();
        let mut output = Output::new(uplink.clone(), Stream::Err, tempfile::tempfile().unwrap());
        let writer = thread::spawn(move || output.take(3, &vec![7; 2 * WINDOW]));
        uplink.taken(Stream::Out, 1); // means nothing to it
        uplink.taken(Stream::Err, 10);
        uplink.shut(Stream::Err);
        assert_eq!(writer.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes.iter().filter(|byte| **byte == 7).count() <= WINDOW + 10);
    }

    #[test]
    fn output_waits_for_the_next_launcher_which_gets_what_the_one_before_has_not_printed() {
        let file = || tempfile::tempfile().unwrap();
        let said = |mut file: File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let frame =
            |bytes: &[u8]| Up::Output { stream: Stream::Out, rank: 1, bytes: bytes.to_vec() }.encode();
        let uplink = Uplink::new(file()).unwrap();
        uplink.keep(2);
        uplink.skip(&[(1, [100, 0])]);
        let mut output = Output::new(uplink.clone(), Stream::Out, file());
        output.take(0, b"").unwrap();
        output.take(1, b"printed\nand").unwrap();
        output.take(1, b" on its way").unwrap();
        assert_eq!(uplink.taken(Stream::Out, 0), None);
        assert_eq!(uplink.taken(Stream::Out, 11), Some((1, 100..108)));
        uplink.cut();
        uplink.send(&Up::Done).unwrap();
        assert_eq!(uplink.printed(), [(1, [108, 0])], "the launcher waits for the end of the line");
        let writer = thread::spawn(move || output.take(1, b"later\n"));
        let next = file();
        uplink.connect(next.try_clone().unwrap()).unwrap();
        assert!(said(next.try_clone().unwrap()).is_empty());
        uplink.open().unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(said(next), [frame(b"and"), frame(b" on its way"), frame(b"later\n")].concat());
        for piece in [3, 11, 6] {
            uplink.taken(Stream::Out, piece);
        }
        assert_eq!(uplink.printed(), [(1, [128, 0])]);
    }

    #[test]
    fn what_a_rank_has_printed_before_it_went_elsewhere_and_came_back_counts_no_more() {
        let file = || tempfile::tempfile().unwrap();
        let uplink = Uplink::new(file()).unwrap();
        uplink.keep(2);
        let mut output = Output::new(uplink.clone(), Stream::Out, file());
        output.take(1, b"old\n").unwrap();
        output.take(0, b"of another\nand").unwrap();
        output.take(1, b"older").unwrap();
        uplink.skip(&[(1, [500, 0])]);
        output.take(1, b"new\n").unwrap();
        assert_eq!(uplink.taken(Stream::Out, 4), None);
        assert_eq!(uplink.taken(Stream::Out, 14), Some((0, 0..11)));
        assert_eq!(uplink.taken(Stream::Out, 5), None);
        assert_eq!(uplink.taken(Stream::Out, 4), Some((1, 500..504)));
        // Rank 0 goes on elsewhere, and the next launcher hears nothing of it from here.
        output.take(0, b"more").unwrap();
        uplink.only(&[1]);
        uplink.cut();
        let next = file();
        uplink.connect(next.try_clone().unwrap()).unwrap();
        uplink.open().unwrap();
        assert_eq!(next.metadata().unwrap().len(), 0);
        assert_eq!(uplink.printed(), [(0, [11, 0]), (1, [504, 0])]);
    }

    #[test]
    fn a_rank_that_has_come_is_known_though_nothing_of_it_was_printed_elsewhere() {
        let uplink = Uplink::new(tempfile::tempfile().unwrap()).unwrap();
        uplink.keep(2);
        assert_eq!(uplink.printed(), []);
        uplink.skip(&[(1, [0; 2])]);
        assert_eq!(uplink.printed(), [(1, [0; 2])]);
        uplink.only(&[0]);
        assert_eq!(uplink.printed(), []);
    }

    #[test]
    fn the_beginning_of_a_line_is_kept_for_the_next_launcher_unless_it_is_long() {
        let file = || tempfile::tempfile().unwrap();
        let uplink = Uplink::new(file()).unwrap();
        uplink.keep(1);
        let mut output = Output::new(uplink.clone(), Stream::Out, file());
        let piece = vec![b'x'; MOST_OUTPUT];
        let pieces = LONGEST / MOST_OUTPUT;
        for number in 1..=pieces + 1 {
            output.take(0, &piece).unwrap();
            let seen = uplink.taken(Stream::Out, u32::try_from(piece.len()).unwrap()).unwrap().1.end;
            let all = (number * MOST_OUTPUT) as u64;
            assert_eq!(seen, if number > pieces { all } else { 0 });
        }
    }

    #[test]
    fn nobody_waits_for_a_launcher_that_does_not_read_and_all_comes_when_it_does() {
        let (mut launcher, pipe) = std::io::pipe().unwrap();
        let uplink = Uplink::new(std::os::fd::OwnedFd::from(pipe).into()).unwrap();
        let piece = Up::Said(vec![b'x'; MOST_OUTPUT]);
        let count = (1 << 20) / MOST_OUTPUT; // more than any pipe holds
        (0..count).for_each(|_| uplink.send(&piece).unwrap());
        let expected = piece.encode().repeat(count);
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            launcher.read_to_end(&mut all).map(|_| all)
        });
        uplink.finish();
        uplink.cut();
        assert!(reader.join().unwrap().unwrap() == expected);
        // What there was no room for is not for the next launcher.
        let (launcher, pipe) = std::io::pipe().unwrap();
        uplink.connect(std::os::fd::OwnedFd::from(pipe).into()).unwrap();
        (0..count).for_each(|_| uplink.send(&piece).unwrap());
        drop(launcher);
        assert_eq!(uplink.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        uplink.cut();
        let next = tempfile::tempfile().unwrap();
        uplink.connect(next.try_clone().unwrap()).unwrap();
        uplink.flush().unwrap();
        assert_eq!(next.metadata().unwrap().len(), 0);
    }

    #[test]
    fn what_goes_on_elsewhere_takes_no_room_under_the_next_launcher() {
        let file = || tempfile::tempfile().unwrap();
        let uplink = Uplink::new(file()).unwrap();
        uplink.keep(2);
        let mut output = Output::new(uplink.clone(), Stream::Out, file());
        output.take(1, &vec![b'x'; WINDOW / 2]).unwrap();
        output.take(0, &vec![b'x'; WINDOW / 2]).unwrap();
        uplink.only(&[0]);
        uplink.cut();
        uplink.connect(file()).unwrap();
        uplink.open().unwrap();
        assert_eq!(*lock(&uplink.room(Stream::Out).bytes), Some(WINDOW / 2));
    }
}
