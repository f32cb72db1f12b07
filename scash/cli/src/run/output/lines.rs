//! Lines of several ranks on their way to one file, as a value: bytes of ranks go in, whole lines come out.
//! No IO.
//!
//! A line leaves when its end has come, or when its rank has ended. On a terminal, the **beginning** of a
//! line is shown after [`WHILE`], so that a question or a progress bar is seen; what the same rank says next
//! goes on behind it. If another rank has a line to say meanwhile, it comes in a line of its own, and the one
//! that was broken is shown again from its beginning: no line is ever part of another one.
//!
//! A rank that is alone has nobody to be mixed with: unless it is labelled, what it prints goes out as it
//! comes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A line longer than this does not wait for its end.
const LONGEST: usize = 64 << 20;
/// How long a line may have no end until its beginning is shown, on a terminal.
const WHILE: Duration = Duration::from_millis(100);

/// What goes where lines of several ranks meet.
#[derive(Debug)]
pub(in crate::run) struct Lines {
    /// Whether the rank's number stands before each line.
    label: bool,
    /// Whether a single rank prints.
    alone: bool,
    /// Whether somebody looks at what has no end yet.
    is_terminal: bool,
    /// The line of each rank whose end has not come.
    begun: BTreeMap<u32, UnfinishedLine>,
    /// The rank whose line was the last to go out, and has no end yet.
    open: Option<u32>,
}

/// The beginning of a line.
#[derive(Debug)]
struct UnfinishedLine {
    text: Vec<u8>,
    /// Since when it waits.
    since: Instant,
}

impl Lines {
    pub(in crate::run) fn new(label: bool, alone: bool, is_terminal: bool) -> Lines {
        Lines { label, alone: alone && !label, is_terminal, begun: BTreeMap::new(), open: None }
    }

    /// Takes what a rank has printed, or word that it prints no more if that is nothing; returns what goes
    /// out.
    pub(super) fn take(&mut self, rank: u32, bytes: &[u8], now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        if bytes.is_empty() {
            self.finish(rank, now, &mut out);
        } else if self.alone {
            self.open = (!bytes.ends_with(b"\n")).then_some(rank);
            out.extend_from_slice(bytes);
        } else {
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let (whole, rest) = bytes.split_at(end);
            self.push_whole(rank, whole, now, &mut out);
            self.push_rest(rank, rest, now, &mut out);
        }
        out
    }

    /// A line of the launcher's own.
    pub(super) fn say(&mut self, line: &str, now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        self.close(now, &mut out);
        out.extend_from_slice(line.as_bytes());
        out
    }

    /// When [`tick`](Self::tick) is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.to_be_shown().map(|(_, begun)| begun.since + WHILE).min()
    }

    /// Time has passed; returns what goes out.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        let due = self.to_be_shown().find(|(_, begun)| begun.since + WHILE <= now);
        if let Some((rank, _)) = due {
            self.show(rank, now, &mut out);
        }
        out
    }

    /// Lines whose beginning may be shown. One at a time; but rank 0 can be typed an answer, and has
    /// precedence.
    fn to_be_shown(&self) -> impl Iterator<Item = (u32, &UnfinishedLine)> {
        let may = |rank: u32| match self.open {
            None => true,
            Some(open) => rank == 0 && open != 0,
        };
        let begun = self.begun.iter().map(|(rank, begun)| (*rank, begun));
        begun.filter(move |(rank, _)| self.is_terminal && may(*rank))
    }

    /// Takes lines that have their ends.
    fn push_whole(&mut self, rank: u32, whole: &[u8], now: Instant, out: &mut Vec<u8>) {
        if whole.is_empty() {
            return;
        }
        let begun = self.begun.remove(&rank);
        if self.open.take_if(|open| *open == rank).is_none() {
            self.begin(rank, now, out);
            out.extend_from_slice(begun.as_ref().map_or(&[], |begun| &begun.text));
        }
        if !self.label {
            return out.extend_from_slice(whole);
        }
        for (index, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.push_label(rank, out);
            }
            out.extend_from_slice(line);
        }
    }

    /// Takes the beginning of a line, or more of it.
    fn push_rest(&mut self, rank: u32, rest: &[u8], now: Instant, out: &mut Vec<u8>) {
        if rest.is_empty() {
            return;
        }
        let begun = self.begun.entry(rank).or_insert_with(|| UnfinishedLine { text: Vec::new(), since: now });
        begun.text.extend_from_slice(rest);
        let is_too_long = begun.text.len() > LONGEST;
        if self.open == Some(rank) {
            out.extend_from_slice(rest);
            self.forget(rank);
        } else if is_too_long {
            self.show(rank, now, out);
        }
    }

    /// A rank prints no more.
    fn finish(&mut self, rank: u32, now: Instant, out: &mut Vec<u8>) {
        if self.begun.contains_key(&rank) && self.open != Some(rank) {
            self.show(rank, now, out);
        }
        self.begun.remove(&rank);
        if self.label && self.open == Some(rank) {
            self.close(now, out);
        }
    }

    /// Shows a line that has no end.
    fn show(&mut self, rank: u32, now: Instant, out: &mut Vec<u8>) {
        self.begin(rank, now, out);
        out.extend_from_slice(self.begun.get(&rank).map_or(&[], |begun| &begun.text));
        self.open = Some(rank);
        self.forget(rank);
    }

    /// Forgets what need not be shown again of a line that is being shown: what has been overwritten, and
    /// what is too long; in a file, all.
    fn forget(&mut self, rank: u32) {
        let Some(begun) = self.begun.get_mut(&rank) else { return };
        let text = &mut begun.text;
        let overwritten = text.iter().rposition(|byte| *byte == b'\r').unwrap_or(0);
        let is_kept = self.is_terminal && text.len() - overwritten <= LONGEST;
        text.drain(..if is_kept { overwritten } else { text.len() });
    }

    /// Begins a line.
    fn begin(&mut self, rank: u32, now: Instant, out: &mut Vec<u8>) {
        self.close(now, out);
        self.push_label(rank, out);
    }

    /// Ends the line that is open, if any is. It is shown again in a while.
    fn close(&mut self, now: Instant, out: &mut Vec<u8>) {
        let Some(rank) = self.open.take() else { return };
        out.push(b'\n');
        if let Some(begun) = self.begun.get_mut(&rank) {
            begun.since = now;
        }
    }

    fn push_label(&self, rank: u32, out: &mut Vec<u8>) {
        if self.label {
            out.extend_from_slice(format!("[{rank}] ").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
