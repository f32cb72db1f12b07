//! The thread that prints what ranks have saved, as far as it is part of an epoch that all have, and all of
//! it when ranks have ended. Ranks may go on after all, and print some of that anew.

use super::{Lengths, Saved};
use crate::run::output::copy::Sink;
use crate::run::recovery::output_name;
use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes that are printed at once.
const MOST: usize = 64 << 10;
/// Bytes of a file on a disk that are given up together.
const A_PART: u64 = 1 << 20;

/// The thread that prints, as the launcher's sees it.
#[derive(Debug)]
pub(in crate::run::output) struct SavedPrinter {
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
    /// How many times ranks have gone on that had ended.
    times: u64,
    /// How many times everything was asked for that is there, and how many times that was done.
    asked: u64,
    answered: u64,
    /// No rank prints any more: everything is to be printed, and then the thread ends.
    is_over: bool,
    /// It has ended.
    has_ended: bool,
}

impl Wishes {
    /// Whether everything is to be printed that is there.
    fn are_for_all(&self) -> bool {
        self.is_over || self.asked > self.answered
    }
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
    pub(in crate::run::output) fn print(&self, lengths: &[Lengths]) {
        self.board.change(|wishes| {
            for (up_to, lengths) in wishes.up_to.iter_mut().flatten().zip(lengths.iter().flatten()) {
                *up_to = (*up_to).max(*lengths);
            }
        });
    }

    /// So much of what these ranks have printed was printed elsewhere. What is to be printed of it here must
    /// be known before.
    pub(in crate::run::output) fn skip(&self, ranks: &[(usize, Lengths)]) {
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
    pub(in crate::run::output) fn print_all(&self, timeout: Duration) {
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
    pub(in crate::run::output) fn finish(&self) {
        self.board.change(|wishes| wishes.is_over = true);
    }

    /// Ranks will print after all. Returns `false` if it is too late: all is printed, and the thread has
    /// ended.
    pub(in crate::run::output) fn go_on(&self) -> bool {
        let mut wishes = self.board.lock();
        (wishes.is_over, wishes.times) = (false, wishes.times + 1);
        !wishes.has_ended
    }
}

/// Starts the thread. `sinks`: where what is printed to stdout goes, and to stderr.
pub(in crate::run::output) fn start<S: Sink>(saved: Arc<Saved>, sinks: [S; 2]) -> io::Result<SavedPrinter> {
    let ranks = saved.files.len();
    let wishes = Wishes {
        up_to: vec![[0; 2]; ranks],
        from: vec![[0; 2]; ranks],
        times: 0,
        asked: 0,
        answered: 0,
        is_over: false,
        has_ended: false,
    };
    let board = Arc::new(PrinterRequests { wishes: Mutex::new(wishes), changed: Condvar::new() });
    let printed = saved.printed();
    let seen = |(rank, printed): (usize, &Lengths)| {
        [0, 1].map(|stream| saved.take_seen(rank, stream, printed[stream]))
    };
    let printing = PrinterThread {
        board: Arc::clone(&board),
        seen: (0..).zip(&printed).map(seen).collect(),
        printed: printed.iter().map(|lengths| lengths.map(Printed::whole)).collect(),
        times: 0,
        saved,
        sinks: sinks.map(Some),
        buffer: vec![0; MOST],
    };
    thread::Builder::new().name("printer".into()).spawn(move || printing.run())?;
    Ok(SavedPrinter { board })
}

/// How far a stream of a rank is printed.
#[derive(Clone, Copy, Debug, Default)]
struct Printed {
    length: u64,
    /// How much of that is whole lines. The rest may not be seen yet: lines of several ranks wait for their
    /// ends.
    lines: u64,
    /// How much is part of the newest epoch that all ranks have, and of the one before as far as is known:
    /// who goes on with the job may take that, and compares what is behind it.
    epochs: [u64; 2],
    /// How much a disk has given up.
    given_up: u64,
}

impl Printed {
    fn whole(lines: u64) -> Printed {
        Printed { length: lines, lines, ..Printed::default() }
    }

    /// So much is part of an epoch.
    fn commit(&mut self, length: u64) {
        if length > self.epochs[0] {
            self.epochs = [length, self.epochs[0]];
        }
    }

    /// These bytes are next, and are shown now or were before.
    fn pass(&mut self, bytes: &[u8]) {
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            self.lines = self.length + end as u64 + 1;
        }
        self.length += bytes.len() as u64;
    }
}

/// What the thread has.
struct PrinterThread<S> {
    board: Arc<PrinterRequests>,
    saved: Arc<Saved>,
    /// By rank. No byte before it is read again.
    printed: Vec<[Printed; 2]>,
    /// How many times it is known that ranks have gone on that had ended.
    times: u64,
    /// By rank: what the user has seen, in whole lines, of what ranks are to print anew. As far as they do,
    /// it is left out.
    seen: Vec<[Vec<u8>; 2]>,
    /// `None`: nobody wants more.
    sinks: [Option<S>; 2],
    buffer: Vec<u8>,
}

impl<S: Sink> PrinterThread<S> {
    fn run(mut self) {
        loop {
            let wishes = self.wait();
            self.begin_again(&wishes);
            let is_all = wishes.are_for_all();
            for rank in 0..self.printed.len() {
                for stream in 0..2 {
                    self.print(rank, stream, wishes.up_to[rank][stream], is_all);
                }
            }
            self.with_sinks(Sink::tick);
            self.board.change(|now| {
                now.answered = wishes.asked;
                // It may have been taken back meanwhile.
                now.has_ended = wishes.is_over && now.is_over && now.times == self.times;
            });
            if self.board.lock().has_ended {
                for rank in (0..).take(self.printed.len()) {
                    self.with_sinks(|sink| sink.take(rank, b""));
                }
                return;
            }
        }
    }

    /// Takes note of what others have printed, and of ranks that have gone on.
    fn begin_again(&mut self, wishes: &Wishes) {
        for (printed, from) in self.printed.iter_mut().flatten().zip(wishes.from.iter().flatten()) {
            if *from > printed.length {
                *printed = Printed::whole(*from);
            }
        }
        self.times = wishes.times;
    }

    /// Whether everything is still wanted that is there: ranks may go on after all.
    fn is_all_wanted(&self) -> bool {
        let wishes = self.board.lock();
        wishes.are_for_all() && wishes.times == self.times
    }

    /// Waits until there is something to do; returns what is wanted now.
    fn wait(&self) -> Wishes {
        let due = self.sinks.iter().flatten().filter_map(Sink::due).min();
        let mut wishes = self.board.lock();
        loop {
            let all = wishes.up_to.iter().flatten().zip(self.printed.iter().flatten());
            if wishes.are_for_all() || all.into_iter().any(|(up_to, printed)| *up_to > printed.length) {
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

    /// Prints what a rank has printed that is part of an epoch which all have, or all of it, and gives up its
    /// memory. What does not exist counts as printed: it would have been, if the program had not cut its own
    /// output.
    fn print(&mut self, rank: usize, stream: usize, committed: u64, is_all: bool) {
        let before = self.printed[rank][stream];
        let was_seen = !self.seen[rank][stream].is_empty();
        self.printed[rank][stream].commit(committed);
        let saved = Arc::clone(&self.saved);
        let Some(file) = saved.files[rank].get(stream) else {
            // It is that of stdout, too.
            if !is_all {
                self.printed[rank][stream].length = committed.max(before.length);
            }
            return;
        };
        let up_to = if is_all { u64::MAX } else { committed };
        while self.printed[rank][stream].length < up_to && (!is_all || self.is_all_wanted()) {
            let at = self.printed[rank][stream].length;
            let most = usize::try_from(up_to - at).unwrap_or(MOST).min(MOST);
            match file.read_at(&mut self.buffer[..most], at) {
                Ok(0) => break,
                Ok(length) => self.take(rank, stream, length),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.fail(rank, stream, &error);
                    break;
                }
            }
        }
        if !is_all && self.printed[rank][stream].length < committed {
            self.printed[rank][stream].length = committed;
            self.seen[rank][stream].clear();
        }
        let now = &mut self.printed[rank][stream];
        // Who goes on compares nothing to it that comes behind other text.
        if was_seen && self.seen[rank][stream].is_empty() {
            saved.forget_seen(rank, stream);
        }
        let is_noted = now.lines == before.lines || saved.note(rank, stream, now.lines).is_ok();
        match &saved.record {
            // Who goes on shows the line from its beginning, and must not find that it is gone and was not
            // noted: files are given up in parts, when the note is on the disk.
            Some(record) => {
                let end = now.lines.min(now.epochs[1]) / A_PART * A_PART;
                if is_noted && end > now.given_up && record.sync_data().is_ok() {
                    give_up(file, now.given_up, end);
                    now.given_up = end;
                }
            }
            None if saved.is_kept => {}
            None => give_up(file, before.length, now.length),
        }
    }

    /// Shows what was read, unless the user has seen it.
    fn take(&mut self, rank: usize, stream: usize, length: usize) {
        let (bytes, seen) = (&self.buffer[..length], &mut self.seen[rank][stream]);
        let at = &mut self.printed[rank][stream];
        if !seen.is_empty() {
            let same = bytes.iter().zip(seen.iter()).take_while(|(byte, seen)| byte == seen).count();
            at.pass(&bytes[..same]);
            if same == bytes.len().min(seen.len()) {
                seen.drain(..same);
            } else {
                // It is other text, from the beginning of this line on.
                seen.clear();
                at.length = at.lines;
            }
            return;
        }
        let slot = &mut self.sinks[stream];
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        if slot.as_mut().is_some_and(|sink| sink.take(number, bytes).is_err()) {
            *slot = None;
        }
        // Who goes on with the job shows what has gone nowhere.
        if slot.as_ref().is_some_and(|sink| !sink.has_failed()) {
            at.pass(bytes);
        } else {
            at.length += length as u64;
        }
    }

    /// What a rank has printed cannot be read: no more is shown of this stream.
    fn fail(&mut self, rank: usize, stream: usize, error: &io::Error) {
        if let Some(mut sink) = self.sinks[stream].take() {
            let rank = self.saved.first + u32::try_from(rank).unwrap_or(u32::MAX);
            crate::say(&format!("{}: {error}", output_name(rank, stream)));
            sink.fail(error);
        }
    }
}

/// Gives the memory of these bytes back, where whole pages of them are.
pub(super) fn give_up(file: &File, begin: u64, end: u64) {
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
