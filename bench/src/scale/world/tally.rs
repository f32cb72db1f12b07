//! What is counted.

use super::RankState;
use crate::scale::time::Time;
use scash_proto::diff::Diff;
use scash_proto::node::{Counters, Node};
use scash_proto::wire::{Control, Kind, PageBatch, Token};
use scash_proto::{Pages, Rank};
use serde::Serialize;

/// What goes through a port, in one direction. Where memory is accessed directly, what would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Messages, puts, gets and answers to gets.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Traffic {
    /// Counts one of so many bytes, if it belongs to the timed part.
    pub(super) fn add(&mut self, timed: bool, bytes: u64) {
        if timed {
            self.messages += 1;
            self.bytes += bytes;
        }
    }
}

/// What one rank counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: Traffic,
    pub(super) received: Traffic,
    /// Meetings, by the parity of their numbers, and the bytes of what peers said in them: they may be one
    /// ahead.
    held: [(u32, u64); 2],
    /// Most of these bytes, in any meeting.
    most_held: u64,
    /// Most bytes of the directory, after any barrier.
    most_directory: u64,
    /// When the timed part began, and what the node had counted then.
    start: Option<(Time, Counters)>,
    /// The same for its end.
    stop: Option<(Time, Counters)>,
}

impl Tally {
    /// What a message says is held until its meeting is over. Returns how many bytes it brings that are to be
    /// merged into pages.
    pub(super) fn take(&mut self, kind: Kind, bytes: &[u8]) -> u64 {
        let Some(MessageTally { meeting, held, merged }) = said(kind, bytes) else { return 0 };
        let slot = &mut self.held[(meeting % 2) as usize];
        if slot.0 != meeting {
            *slot = (meeting, 0);
        }
        slot.1 += held as u64;
        self.most_held = self.most_held.max(slot.1);
        merged
    }

    pub(super) fn left_barrier(&mut self, node: &Node) {
        self.most_directory = self.most_directory.max(node.directory_bytes() as u64);
    }

    pub(super) fn start(&mut self, clock: Time, counters: Counters) {
        self.start = Some((clock, counters));
        (self.most_held, self.most_directory) = (0, 0);
    }

    pub(super) fn stop(&mut self, clock: Time, counters: Counters) {
        self.stop = Some((clock, counters));
    }

    pub(super) fn is_timed(&self) -> bool {
        self.start.is_some()
    }
}

/// What a message says.
struct MessageTally {
    meeting: u32,
    /// Bytes that its receiver holds.
    held: usize,
    /// Bytes that it merges.
    merged: u64,
}

fn said(kind: Kind, bytes: &[u8]) -> Option<MessageTally> {
    match kind {
        Kind::Token => {
            let token = Token::decode(bytes).ok()?;
            let lists = size_of_val(&token.counts[..]) + size_of_val(&token.notices[..]);
            Some(MessageTally { meeting: token.meeting, held: size_of::<Token>() + lists, merged: 0 })
        }
        Kind::Control => {
            let (meeting, control) = Control::decode(bytes).ok()?;
            let held = size_of::<Control>() + size_of::<Pages>() * runs(&control);
            Some(MessageTally { meeting, held, merged: 0 })
        }
        Kind::Diff | Kind::Update => {
            let (meeting, pages) = PageBatch::read(bytes).ok()?;
            let mut said = MessageTally { meeting, held: 0, merged: 0 };
            for (_, diff) in pages.flatten() {
                said.held += size_of::<u32>() + size_of::<Rank>();
                said.merged += Diff::parse(diff).map_or(0, |diff| diff.changes().bytes() as u64);
            }
            Some(said)
        }
        _ => None,
    }
}

fn runs(control: &Control) -> usize {
    control.stale.len() + control.subscribe.len() + control.leave.len() + control.fresh.len()
}

/// What a run came to, in its timed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// From the first rank that began to the last that ended.
    pub time: Time,
    /// What all ranks sent.
    pub sent: Traffic,
    /// What the busiest rank sent, or received if that is more: messages and bytes each of the rank that has
    /// most.
    pub most: Traffic,
    /// Bytes of the largest directory.
    pub directory: u64,
    /// Most bytes that a rank held of what others said in one meeting.
    pub notices: u64,
    /// Memory barriers.
    pub barriers: u64,
    /// Meetings of all barriers, which are the same at all ranks.
    pub meetings: u64,
    /// Faults of all ranks.
    pub faults: u64,
    /// Pages that all ranks fetched.
    pub fetched: u64,
    /// Pages that homes brought to sharers.
    pub updates: u64,
}

impl Totals {
    pub(super) fn of(ranks: &[RankState]) -> Totals {
        let mut totals = Totals::default();
        let begin = ranks.iter().filter_map(|rank| rank.tally.start).map(|(clock, _)| clock).min();
        for tally in ranks.iter().map(|rank| &rank.tally) {
            let (Some((_, before)), Some((end, after))) = (tally.start, tally.stop) else { continue };
            totals.time = totals.time.max(end - begin.unwrap_or_default());
            totals.sent.messages += tally.sent.messages;
            totals.sent.bytes += tally.sent.bytes;
            totals.most.messages = totals.most.messages.max(tally.sent.messages).max(tally.received.messages);
            totals.most.bytes = totals.most.bytes.max(tally.sent.bytes).max(tally.received.bytes);
            totals.directory = totals.directory.max(tally.most_directory);
            totals.notices = totals.notices.max(tally.most_held);
            totals.barriers = after.barriers - before.barriers;
            totals.meetings = totals.barriers
                + (after.second_meetings - before.second_meetings)
                + (after.third_meetings - before.third_meetings);
            let faults = |c: Counters| c.read_faults + c.write_faults;
            totals.faults += faults(after) - faults(before);
            totals.fetched += after.fetched - before.fetched;
            totals.updates += after.updates - before.updates;
        }
        totals
    }
}
