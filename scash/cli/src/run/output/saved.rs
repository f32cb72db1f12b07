//! What ranks print where it may be taken back: a file in memory for each stream of each rank, which
//! outlives the rank's process. A thread prints what is part of an epoch that all ranks have; that is never
//! taken back.
//!
//! ```text
//!  a file   0          printed        to be printed        its end
//!           +----------+--------------+--------------------+
//!           | given up | waits for us | may be taken back  | ◀── the rank appends
//!           +----------+--------------+--------------------+
//! ```
//!
//! So a reader of ours who is slow holds up nobody, and costs memory instead.

use super::copy::Sink;
use super::wiring::RankOutput;
use crate::run::recovery::Directory;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use scash_comm::descriptors::out_of_the_way;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many bytes of its stdout and stderr a rank has printed.
pub(in crate::run) type Lengths = [u64; 2];

/// Most bytes that are printed at once.
const MOST: usize = 64 << 10;

/// The files of all ranks.
#[derive(Debug)]
pub(in crate::run) struct Saved {
    /// By rank: of stdout, and of stderr if that is another one.
    files: Vec<Vec<File>>,
    /// The first of these ranks.
    first: u32,
    /// Where it is noted what was printed, if that is to outlive this process.
    record: Option<File>,
}

impl Saved {
    /// Empty files. `is_one`: a rank has one for both streams, so that what it says stays in its order.
    pub(in crate::run) fn new(ranks: u32, is_one: bool) -> io::Result<Saved> {
        let streams = if is_one { 1 } else { 2 };
        let files = (0..ranks).map(|_| (0..streams).map(|_| file()).collect());
        Ok(Saved { files: files.collect::<io::Result<_>>()?, first: 0, record: None })
    }

    /// Files of these ranks in a directory: empty ones that are made, or those that are there.
    pub(in crate::run) fn on_disk(
        directory: &Directory,
        ranks: Range<u32>,
        is_one: bool,
        is_new: bool,
    ) -> io::Result<Saved> {
        let streams = if is_one { 1 } else { 2 };
        let out = |file: File| File::from(out_of_the_way(file.into()));
        let of = |rank| (0..streams).map(|stream| directory.output(rank, stream, is_new).map(out)).collect();
        let (first, files) = (ranks.start, ranks.map(of).collect::<io::Result<_>>()?);
        Ok(Saved { files, first, record: Some(directory.printed()?) })
    }

    /// How much was printed, by rank. What is not noted was not.
    fn printed(&self) -> Vec<Lengths> {
        let mut words = vec![0; self.files.len() * 16];
        if let Some(record) = &self.record {
            let (first, mut read) = (self.word(0, 0), 0);
            while let Ok(length @ 1..) = record.read_at(&mut words[read..], first + read as u64) {
                read += length;
            }
        }
        let (words, _) = words.as_chunks::<8>();
        words.chunks_exact(2).map(|two| [u64::from_le_bytes(two[0]), u64::from_le_bytes(two[1])]).collect()
    }

    /// Notes how much was printed. If that fails, some is printed twice by who goes on with the job.
    fn note(&self, rank: usize, stream: usize, printed: u64) {
        if let Some(record) = &self.record {
            let _ = record.write_all_at(&printed.to_le_bytes(), self.word(rank, stream));
        }
    }

    /// The descriptors of what the rank prints to, which are out of its way.
    pub(in crate::run) fn numbers(&self, rank: usize) -> [RawFd; 2] {
        let files = self.files.get(rank).map_or(&[][..], Vec::as_slice);
        [files.first(), files.last()].map(|file| file.map_or(-1, File::as_raw_fd))
    }

    /// Where in the record the word of a stream is.
    fn word(&self, rank: usize, stream: usize) -> u64 {
        (u64::from(self.first) + rank as u64) * 16 + stream as u64 * 8
    }

    /// What the rank prints to.
    pub(in crate::run) fn given(&self, rank: usize) -> io::Result<RankOutput> {
        let files = self.files.get(rank).map_or(&[][..], Vec::as_slice);
        let stream = |file: Option<&File>| file.map(File::try_clone).transpose();
        let (out, err) = (stream(files.first())?, stream(files.last())?);
        Ok(RankOutput { stdout: out.map(Into::into), stderr: err.map(Into::into) })
    }

    /// How much the rank has printed.
    pub(in crate::run) fn lengths(&self, rank: usize) -> Lengths {
        let length = |stream: usize| {
            let file = self.files.get(rank).and_then(|files| files.get(stream));
            file.map_or(0, length_of)
        };
        [length(0), length(1)]
    }

    /// By rank and stream, where less is there than was printed for the user: how much that is.
    fn taken_back(&self, printed: &[Lengths]) -> Vec<[Option<u64>; 2]> {
        let of = |(rank, printed): (usize, &Lengths)| {
            let there = self.lengths(rank);
            [0, 1].map(|stream| Some(there[stream]).filter(|there| *there < printed[stream]))
        };
        printed.iter().enumerate().map(of).collect()
    }

    /// Takes back what ranks have printed beyond that. Nobody may print meanwhile.
    pub(in crate::run) fn cut(&self, lengths: &[Lengths]) -> io::Result<()> {
        for (files, lengths) in self.files.iter().zip(lengths) {
            for (file, length) in files.iter().zip(lengths) {
                if file.metadata()?.len() > *length {
                    file.set_len(*length)?;
                }
            }
        }
        Ok(())
    }
}

impl Saved {
    /// What a rank has printed elsewhere counts as if it had been printed here: its file begins with zeros,
    /// which nobody reads ([`SavedPrinter::skip`]).
    pub(in crate::run) fn lengthen(&self, lengths: &[Lengths]) -> io::Result<()> {
        for (files, lengths) in self.files.iter().zip(lengths) {
            for (file, length) in files.iter().zip(lengths) {
                if file.metadata()?.len() < *length {
                    file.set_len(*length)?;
                }
            }
        }
        Ok(())
    }
}

/// A file that is appended to, whoever writes.
fn file() -> io::Result<File> {
    let file = memfd_create(c"scash-output", MFdFlags::MFD_CLOEXEC)?;
    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    Ok(out_of_the_way(file).into())
}

/// The thread that prints, as the launcher's sees it.
#[derive(Debug)]
pub(super) struct SavedPrinter {
    board: Arc<PrinterRequests>,
}

/// What the two threads tell each other.
#[derive(Debug)]
struct PrinterRequests {
    wishes: Mutex<Wishes>,
    changed: Condvar,
}

#[derive(Clone, Debug)]
struct Wishes {
    /// By rank: how much is to be printed.
    up_to: Vec<Lengths>,
    /// By rank: how much of that others have printed.
    from: Vec<Lengths>,
    /// How many times everything was asked for that is there, and how many times that was done.
    asked: u64,
    answered: u64,
    /// No rank prints any more: everything is to be printed, and then the thread ends.
    is_over: bool,
}

impl PrinterRequests {
    /// A thread that panicked while it held the lock has left wishes that are as good as any.
    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Wishes)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl SavedPrinter {
    /// What is part of an epoch that all ranks have is to be printed. It never becomes less.
    pub(super) fn print(&self, lengths: &[Lengths]) {
        self.board.change(|wishes| {
            for (up_to, lengths) in wishes.up_to.iter_mut().flatten().zip(lengths.iter().flatten()) {
                *up_to = (*up_to).max(*lengths);
            }
        });
    }

    /// So much of what these ranks have printed was printed elsewhere. What is to be printed of it here must
    /// be known before.
    pub(super) fn skip(&self, ranks: &[(usize, Lengths)]) {
        self.board.change(|wishes| {
            for (rank, lengths) in ranks {
                if let Some(from) = wishes.from.get_mut(*rank) {
                    *from = *lengths;
                }
            }
        });
    }

    /// Nothing will be taken back any more: prints all that is there. Returns when that is out, or after so
    /// long.
    pub(super) fn print_all(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut wishes = self.board.lock();
        wishes.asked += 1;
        let mine = wishes.asked;
        self.board.changed.notify_all();
        while wishes.answered < mine {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
            let waited = self.board.changed.wait_timeout(wishes, left);
            wishes = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No rank will print any more: prints what is there, and ends the thread.
    pub(super) fn finish(&self) {
        self.board.change(|wishes| wishes.is_over = true);
    }
}

/// Starts the thread. `sinks`: where what is printed to stdout goes, and to stderr.
pub(super) fn start<S: Sink>(saved: Arc<Saved>, sinks: [S; 2]) -> io::Result<SavedPrinter> {
    let ranks = saved.files.len();
    let wishes = Wishes {
        up_to: vec![[0; 2]; ranks],
        from: vec![[0; 2]; ranks],
        asked: 0,
        answered: 0,
        is_over: false,
    };
    let board = Arc::new(PrinterRequests { wishes: Mutex::new(wishes), changed: Condvar::new() });
    let printed = saved.printed();
    let printing = PrinterThread {
        board: Arc::clone(&board),
        printed_again: saved.taken_back(&printed),
        printed,
        saved,
        sinks: sinks.map(Some),
        buffer: vec![0; MOST],
    };
    thread::Builder::new().name("printer".into()).spawn(move || printing.run())?;
    Ok(SavedPrinter { board })
}

/// What the thread has.
struct PrinterThread<S> {
    board: Arc<PrinterRequests>,
    saved: Arc<Saved>,
    /// By rank. No byte before it is read again.
    printed: Vec<Lengths>,
    /// Where that was more than there is, since it was taken back: how much there was when ranks went on.
    /// What they print now may be other text, so it is shown from the beginning of a line.
    printed_again: Vec<[Option<u64>; 2]>,
    /// `None`: nobody wants more.
    sinks: [Option<S>; 2],
    buffer: Vec<u8>,
}

impl<S: Sink> PrinterThread<S> {
    fn run(mut self) {
        loop {
            let wishes = self.wait();
            let is_all = wishes.is_over || wishes.asked > wishes.answered;
            for rank in 0..self.printed.len() {
                for stream in 0..2 {
                    let printed = &mut self.printed[rank][stream];
                    *printed = (*printed).max(wishes.from[rank][stream]);
                    let up_to = if is_all { u64::MAX } else { wishes.up_to[rank][stream] };
                    self.print(rank, stream, up_to);
                }
            }
            self.with_sinks(Sink::tick);
            self.board.change(|now| now.answered = wishes.asked);
            if wishes.is_over {
                for rank in (0..).take(self.printed.len()) {
                    self.with_sinks(|sink| sink.take(rank, b""));
                }
                return;
            }
        }
    }

    /// Waits until there is something to do; returns what is wanted now.
    fn wait(&self) -> Wishes {
        let due = self.sinks.iter().flatten().filter_map(Sink::due).min();
        let mut wishes = self.board.lock();
        loop {
            let all = wishes.up_to.iter().flatten().zip(self.printed.iter().flatten());
            let is_wanted = wishes.is_over || wishes.asked > wishes.answered;
            if is_wanted || all.into_iter().any(|(up_to, printed)| up_to > printed) {
                return wishes.clone();
            }
            let changed = &self.board.changed;
            wishes = match due.map(|due| due.checked_duration_since(Instant::now())) {
                None => changed.wait(wishes).unwrap_or_else(PoisonError::into_inner),
                Some(Some(left)) => {
                    changed.wait_timeout(wishes, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(None) => return wishes.clone(),
            };
        }
    }

    fn with_sinks(&mut self, mut act: impl FnMut(&mut S) -> io::Result<()>) {
        for slot in &mut self.sinks {
            if slot.as_mut().is_some_and(|sink| act(sink).is_err()) {
                *slot = None;
            }
        }
    }

    /// Prints what a rank has printed up to there, and gives up its memory. What does not exist counts as
    /// printed: it would have been, if the program had not cut its own output.
    fn print(&mut self, rank: usize, stream: usize, up_to: u64) {
        let printed = &mut self.printed[rank][stream];
        let begin = *printed;
        let Some(file) = self.saved.files[rank].get(stream) else {
            // It is that of stdout, too.
            if up_to != u64::MAX {
                *printed = up_to.max(begin);
            }
            return;
        };
        if let Some(begin) = self.printed_again[rank][stream].filter(|_| *printed < up_to)
            && length_of(file) > *printed
        {
            *printed = line_begin(file, begin, *printed);
            self.printed_again[rank][stream] = None;
        }
        while *printed < up_to {
            let most = usize::try_from(up_to - *printed).unwrap_or(MOST).min(MOST);
            let length = match file.read_at(&mut self.buffer[..most], *printed) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(length @ 1..) => length,
                _ => break,
            };
            *printed += length as u64;
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            let slot = &mut self.sinks[stream];
            if slot.as_mut().is_some_and(|sink| sink.take(rank, &self.buffer[..length]).is_err()) {
                *slot = None;
            }
        }
        if up_to != u64::MAX {
            *printed = up_to.max(*printed);
        }
        if *printed > begin {
            self.saved.note(rank, stream, *printed);
        }
        give_up(file, begin, *printed);
    }
}

fn length_of(file: &File) -> u64 {
    file.metadata().map_or(0, |is| is.len())
}

/// Where the line begins in which this byte is, or `first` if that is behind it.
fn line_begin(file: &File, first: u64, byte: u64) -> u64 {
    let (mut end, mut buffer) = (byte, [0; 4096]);
    while end > first {
        let begin = end.saturating_sub(buffer.len() as u64).max(first);
        let part = &mut buffer[..usize::try_from(end - begin).unwrap_or(0)];
        if file.read_exact_at(part, begin).is_err() {
            return byte;
        }
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return begin + at as u64 + 1;
        }
        end = begin;
    }
    first
}

/// Gives the memory of these bytes back, where whole pages of them are.
fn give_up(file: &File, begin: u64, end: u64) {
    const PAGE: u64 = 4096;
    let (begin, end) = (begin / PAGE * PAGE, end / PAGE * PAGE);
    let (Ok(begin), Ok(length)) = (i64::try_from(begin), i64::try_from(end.saturating_sub(begin))) else {
        return;
    };
    if length > 0 {
        // Without it they take memory until the job ends.
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let _ = fallocate(file, flags, begin, length);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::io::Write;
    use std::os::linux::fs::MetadataExt;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Long enough for any machine.
    const TIMEOUT: Duration = Duration::from_secs(20);

    struct Screen(Sender<(u32, Vec<u8>)>);

    impl Sink for Screen {
        fn take(&mut self, rank: u32, bytes: &[u8]) -> io::Result<()> {
            self.0.send((rank, bytes.to_vec())).map_err(|_| ErrorKind::BrokenPipe.into())
        }
    }

    /// What has come to a screen.
    type Seen = Receiver<(u32, Vec<u8>)>;

    fn printer(saved: &Arc<Saved>) -> (SavedPrinter, [Seen; 2]) {
        let ((out, seen_out), (err, seen_err)) = (channel(), channel());
        (start(Arc::clone(saved), [Screen(out), Screen(err)]).unwrap(), [seen_out, seen_err])
    }

    fn say(saved: &Saved, rank: usize, text: &str) {
        File::from(saved.given(rank).unwrap().stdout.unwrap()).write_all(text.as_bytes()).unwrap();
    }

    fn all(seen: &Seen) -> Vec<(u32, String)> {
        seen.iter().map(|(rank, bytes)| (rank, String::from_utf8(bytes).unwrap())).collect()
    }

    #[test]
    fn what_is_part_of_an_epoch_is_printed_once_and_the_rest_is_taken_back() {
        let saved = Arc::new(Saved::new(2, false).unwrap());
        let (printer, [out, err]) = printer(&saved);
        say(&saved, 0, "one\ntwo\n");
        say(&saved, 1, "other\n");
        printer.print(&[[4, 0], [0, 0]]);
        assert_eq!(out.recv_timeout(TIMEOUT).unwrap(), (0, b"one\n".to_vec()));
        saved.cut(&[[4, 0], [0, 0]]).unwrap();
        say(&saved, 0, "2\n");
        File::from(saved.given(0).unwrap().stderr.unwrap()).write_all(b"error\n").unwrap();
        printer.finish();
        assert_eq!(all(&out), [(0, "2\n".to_owned()), (0, String::new()), (1, String::new())]);
        assert_eq!(all(&err)[0], (0, "error\n".to_owned()));
    }

    /// Output in a directory, as a launcher finds it after one that was killed when it had printed so much.
    fn found(printed: &str, kept: &str) -> (tempfile::TempDir, Arc<Saved>) {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = directory.path().join(name);
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).open(path).unwrap()
        };
        let append = |name| {
            file(name);
            File::options().append(true).read(true).open(directory.path().join(name)).unwrap()
        };
        let saved = Saved { files: vec![vec![append("out")]], first: 0, record: Some(file("printed")) };
        saved.note(0, 0, printed.len() as u64);
        say(&saved, 0, kept);
        (directory, Arc::new(saved))
    }

    #[test]
    fn what_is_printed_anew_goes_on_where_it_was_or_with_a_whole_line_if_it_is_other_text() {
        let long = format!("{}\n", "x".repeat(10_000));
        for (before, kept, again, shown) in [
            ("one\ntwo\n", "one\n", "two\nthree\n", "three\n"),
            ("one\ntwo\n", "one\n", "twenty\nthree\n", "twenty\nthree\n"),
            ("one\ntwenty\n", "one\n", "two\nthree\n", "three\n"),
            ("one\ntw", "one\n", "two\n", "two\n"),
            ("one\ntwo\n", "one\ntw", "enty\n", "enty\n"),
            ("one\ntwo\n", "one\n", "2\n", ""),
            ("one\ntwo\n", "one\n", &long, &long),
        ] {
            let (_directory, saved) = found(before, kept);
            let (printer, [out, _err]) = printer(&saved);
            say(&saved, 0, again);
            printer.finish();
            let seen: Vec<String> = all(&out).into_iter().map(|(_, text)| text).collect();
            assert_eq!(seen.concat(), shown, "{before:?}, {kept:?}, {again:?}");
        }
    }

    #[test]
    fn both_streams_are_one_file_where_ours_are() {
        let saved = Arc::new(Saved::new(1, true).unwrap());
        let (printer, [out, err]) = printer(&saved);
        say(&saved, 0, "out ");
        File::from(saved.given(0).unwrap().stderr.unwrap()).write_all(b"err\n").unwrap();
        printer.print(&[[8, 8]]);
        assert_eq!(out.recv_timeout(TIMEOUT).unwrap(), (0, b"out err\n".to_vec()));
        printer.finish();
        assert_eq!((all(&out).len(), all(&err)), (1, vec![(0, String::new())]));
    }

    #[test]
    fn all_is_printed_when_it_is_asked_for_and_what_is_printed_takes_no_memory() {
        let saved = Arc::new(Saved::new(1, false).unwrap());
        let (printer, [out, _err]) = printer(&saved);
        let text = "x".repeat(1 << 20);
        say(&saved, 0, &text);
        printer.print_all(TIMEOUT);
        assert_eq!(out.try_iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), text.len());
        let deadline = Instant::now() + TIMEOUT;
        while saved.files[0][0].metadata().unwrap().st_blocks() > 16 {
            assert!(Instant::now() < deadline, "it still takes memory");
        }
        say(&saved, 0, "y");
        printer.finish();
        assert_eq!(all(&out)[0], (0, "y".to_owned()));
    }

    #[test]
    fn a_reader_who_goes_away_and_a_program_that_cuts_its_output_hold_up_nobody() {
        let saved = Arc::new(Saved::new(2, false).unwrap());
        let (printer, [out, err]) = printer(&saved);
        drop(out);
        say(&saved, 0, "nobody reads this");
        printer.print(&[[5, 0], [1000, 7]]);
        printer.print_all(TIMEOUT);
        say(&saved, 1, "nor this");
        printer.finish();
        assert_eq!(all(&err).len(), 2);
    }
}
