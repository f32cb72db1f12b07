//! Carrying out what nodes order: the counterpart of the runtime's `core.rs`, with costs for work and sizes for bytes.

use super::{Batch, State, World};
use crate::scale::queue::Freight;
use scash_proto::node::{Input, Outcome, Output};
use scash_proto::wire::{Control, Kind, Token};
use scash_proto::{PAGE_SIZE, Pages, Rank};

const PAGE: u64 = PAGE_SIZE as u64;
/// As in the runtime: a batch of diffs is sent when it has grown past this, in bytes.
const BATCH: u64 = 48 << 10;
/// As in the runtime: changes of a page in more pieces than this are not put one by one.
const FEW: usize = 8;
/// What a batch takes for its meeting, and for each page beside the diff.
const BATCH_HEADER: u64 = 4;
const PAGE_HEADER: u64 = 6;

impl World<'_> {
    /// Carries out everything that the node orders now.
    pub(super) fn carry_out_all(&mut self, rank: usize) {
        while let Some(order) = self.ranks[rank].node.poll_output() {
            self.carry_out(rank, order);
        }
    }

    pub(super) fn carry_out(&mut self, rank: usize, order: Output) {
        let pages = self.machine.pages;
        let me = &mut self.ranks[rank];
        match order {
            Output::MapZero(run, _) => me.clock += pages.call + pages.zero * u64::from(run.count),
            Output::Map(..) | Output::Protect(..) | Output::Unmap(_) => me.clock += pages.call,
            Output::Watch(_) | Output::Unwatch(_) => me.clock += pages.call,
            Output::Scan(run) => self.scan(rank, run),
            Output::Twin(_) => me.clock += pages.copy,
            Output::DropTwin(_) => {}
            Output::Diff { page, to, force } => self.diff(rank, page, to, force),
            Output::DiffZero { page, to } => self.diff(rank, page, to, false),
            Output::Push(page) => self.push(rank, page),
            Output::PushWhole { page, except } => {
                let sharers: Vec<Rank> =
                    me.node.update_sharers(page).filter(|&to| Some(to) != except).collect();
                sharers.into_iter().for_each(|to| self.put(rank, to, PAGE));
            }
            Output::PutPages { pages, to } => self.put(rank, to, u64::from(pages.count) * PAGE),
            Output::Control(to, meeting, control) => self.send_control(rank, to, meeting, control),
            Output::Token(to, token) => self.send_token(rank, to, token),
            Output::Flushed => {
                self.close_batches(rank);
                self.tell(rank, Input::Flushed);
            }
            Output::Done(outcome) => self.finish(rank, outcome),
            Output::Discard(_)
            | Output::Get { .. }
            | Output::Wait(_)
            | Output::Denied(_)
            | Output::Hand { .. }
            | Output::PutDiff { .. }
            | Output::Refresh { .. }
            | Output::Parcel { .. }
            | Output::Report { .. }
            | Output::Closed
            | Output::Acquired { .. }
            | Output::Refused { .. }
            | Output::Sync(..)
            | Output::Claim { .. }
            | Output::ForgetClaims(_)
            | Output::Operate { .. }
            | Output::Reduce(..)
            | Output::Testify
            | Output::Judge => {
                panic!(
                    "rank {rank}: {order:?}, but traces free nothing, move nothing, lock nothing, operate on no words, reduce nothing, and run on one thread"
                )
            }
        }
    }

    fn finish(&mut self, rank: usize, outcome: Outcome) {
        match outcome {
            Outcome::Done => {}
            Outcome::Allocated(pages) => self.ranks[rank].arrays.push(pages.first),
            Outcome::OutOfSpace(_)
            | Outcome::Mismatch(_)
            | Outcome::Made(_)
            | Outcome::InUse(_)
            | Outcome::TooManyObjects
            | Outcome::Reduced(_) => {
                panic!("rank {rank}: all ranks make the same calls, and there is room for them: {outcome:?}")
            }
        }
        assert_eq!(self.ranks[rank].state, State::Meeting, "a collective call ends in a meeting");
        self.leave(rank);
    }

    fn scan(&mut self, rank: usize, run: Pages) {
        self.ranks[rank].clock += self.machine.pages.call;
        for page in run.iter() {
            if self.ranks[rank].written.contains_key(&page) {
                self.tell(rank, Input::Written(Pages::one(page)));
            }
        }
    }

    /// Compares a page that was written away from home, and sends what differs.
    fn diff(&mut self, rank: usize, page: u32, to: Rank, force: bool) {
        let costs = self.machine.pages;
        let me = &mut self.ranks[rank];
        me.clock += costs.compare;
        let written = me.written.get(&page).map(|written| (written.diff(), written.bytes()));
        let (diff, changed) = written.unwrap_or_default();
        if changed > 0 || force {
            me.clock += costs.encoding(changed);
            self.append(rank, to, Kind::Diff, page, diff, changed);
        }
        self.tell(rank, Input::Compared { page, changed: changed > 0 });
    }

    /// Compares a home page, and brings what differs to its sharers.
    fn push(&mut self, rank: usize, page: u32) {
        let costs = self.machine.pages;
        let me = &mut self.ranks[rank];
        me.clock += costs.compare;
        let Some(written) = me.written.get(&page) else {
            return self.tell(rank, Input::Compared { page, changed: false });
        };
        let (changed, few) = (written.bytes(), written.runs() <= FEW);
        let diff = if few { 0 } else { written.diff() };
        // The twin gets the changes too.
        me.clock += costs.copy;
        let by_message = me.node.must_message(page) || !(few || self.machine.network.direct);
        let sharers: Vec<Rank> = me.node.update_sharers(page).collect();
        if !by_message {
            sharers.into_iter().for_each(|to| self.put(rank, to, changed));
            return self.tell(rank, Input::Compared { page, changed: true });
        }
        me.clock += costs.encoding(changed);
        sharers.into_iter().for_each(|to| self.append(rank, to, Kind::Update, page, diff, changed));
        self.tell(rank, Input::Messaged { page });
    }

    /// Adds a page to what leaves for a rank.
    fn append(&mut self, rank: usize, to: Rank, kind: Kind, page: u32, diff: u64, changed: u64) {
        let me = &mut self.ranks[rank];
        let at = me.batches.iter().position(|batch| batch.to == to && batch.kind == kind);
        let at = at.unwrap_or_else(|| {
            me.batches.push(Batch { to, kind, pages: Vec::new(), bytes: BATCH_HEADER, changed: 0 });
            me.batches.len() - 1
        });
        let batch = &mut me.batches[at];
        batch.pages.push(page);
        batch.bytes += PAGE_HEADER + diff;
        batch.changed += changed;
        if batch.bytes >= BATCH {
            let batch = me.batches.remove(at);
            self.send_batch(rank, batch);
        }
    }

    fn close_batches(&mut self, rank: usize) {
        for batch in std::mem::take(&mut self.ranks[rank].batches) {
            self.send_batch(rank, batch);
        }
    }

    fn send_batch(&mut self, rank: usize, batch: Batch) {
        let Batch { to, kind, pages, bytes, changed } = batch;
        let meeting = self.ranks[rank].node.meeting();
        self.send(rank, to, bytes, Freight::Batch { kind, meeting, pages, changed });
    }

    fn send_control(&mut self, rank: usize, to: Rank, meeting: u32, control: Control) {
        let bytes = control.encode(meeting).len() as u64;
        self.send(rank, to, bytes, Freight::Control(meeting, control));
    }

    fn send_token(&mut self, rank: usize, to: Rank, token: Token) {
        let bytes = token.encode().len() as u64;
        self.send(rank, to, bytes, Freight::Token(token));
    }
}
