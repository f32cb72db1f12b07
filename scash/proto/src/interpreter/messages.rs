//! Messages: pages that leave together, and what peers send.

use super::{Batch, Interpreter, Machine};
use crate::Rank;
use crate::diff::{Changes, Diff};
use crate::node::{Input, Violation};
use crate::wire::{Control, Kind, PageBatch, Parcel, ReduceMessage, SyncMessage, Token};

impl Interpreter {
    /// Writes down the changes of the page that was looked at last.
    pub(super) fn write_down<M: Machine>(&mut self, m: &mut M, changes: &Changes) {
        self.encoded.clear();
        changes.encode(m.seen(), &mut self.encoded);
        m.wrote_diff(changes.bytes());
    }

    /// Appends the diff of a page that was written down to a batch.
    pub(super) fn append<M: Machine>(
        &mut self,
        m: &mut M,
        to: Rank,
        kind: Kind,
        page: u32,
    ) -> Result<(), M::Error> {
        let at = match self.batches.iter().position(|b| b.to == to && b.kind == kind) {
            Some(at) => at,
            None => {
                self.batches.push(Batch { to, kind, bytes: Vec::new() });
                self.batches.len() - 1
            }
        };
        let batch = &mut self.batches[at];
        if batch.bytes.is_empty() {
            PageBatch::begin(&mut batch.bytes, m.node().meeting());
        }
        let encoded = &self.encoded;
        PageBatch::push(&mut batch.bytes, page, true, |out| {
            out.extend_from_slice(encoded);
            encoded.len()
        });
        if m.is_full(batch.bytes.len()) {
            m.send(to, kind, &batch.bytes)?;
            batch.bytes.clear();
        }
        Ok(())
    }

    /// Appends it to the batches of all sharers that were found last.
    pub(super) fn append_for_sharers<M: Machine>(&mut self, m: &mut M, page: u32) -> Result<(), M::Error> {
        let sharers = std::mem::take(&mut self.sharers);
        let appended = sharers.iter().try_for_each(|&to| self.append(m, to, Kind::Update, page));
        self.sharers = sharers;
        appended
    }

    /// Sends what is in the batches.
    pub(super) fn close_batches<M: Machine>(&mut self, m: &mut M) -> Result<(), M::Error> {
        for batch in self.batches.iter_mut().filter(|batch| !batch.bytes.is_empty()) {
            m.send(batch.to, batch.kind, &batch.bytes)?;
            batch.bytes.clear();
        }
        Ok(())
    }

    /// Takes a message.
    ///
    /// # Errors
    /// The machine's; and a peer's, if no correct peer sends that.
    pub fn take<M: Machine>(
        &mut self,
        m: &mut M,
        from: Rank,
        kind: u16,
        payload: &[u8],
    ) -> Result<(), M::Error> {
        let input = match Kind::from_number(kind) {
            Some(Kind::Token) => Input::Token(from, Token::decode(payload)?),
            Some(Kind::Control) => {
                let (meeting, control) = Control::decode(payload)?;
                Input::Control(from, meeting, control)
            }
            Some(Kind::Parcel) => {
                let parcel = Parcel::decode(payload)?;
                Input::Parcel(from, parcel.meeting, parcel.home)
            }
            Some(Kind::Sync) => Input::Sync(from, SyncMessage::decode(payload)?),
            Some(Kind::Reduce) => Input::Reducing(from, ReduceMessage::decode(payload)?),
            Some(Kind::Stall) => return m.stalled(from, payload),
            Some(Kind::WriteTraces) => return m.hear(from, payload),
            Some(kind @ (Kind::Diff | Kind::Update)) => return merge(m, from, kind, payload),
            None => return Err(Violation { rank: from, what: "a message of no known kind" }.into()),
        };
        Ok(m.node().handle(input)?)
    }
}

/// Merges a batch of diffs or updates into frames, and into twins where there are some, so that they are not
/// taken for this rank's own writes.
fn merge<M: Machine>(m: &mut M, from: Rank, kind: Kind, payload: &[u8]) -> Result<(), M::Error> {
    let (meeting, pages) = PageBatch::read(payload)?;
    for item in pages {
        let (page, bytes) = item?;
        let diff = Diff::parse(bytes).map_err(|_| Violation { rank: from, what: "a malformed diff" })?;
        m.node().handle(match kind {
            Kind::Update => Input::Update(from, meeting, page),
            _ => Input::Diff(from, meeting, page),
        })?;
        if kind == Kind::Diff && m.looks_for_races() {
            m.merging(from, meeting, page)?;
        }
        for (run, bytes) in diff.pieces() {
            m.store(page, run.range().start, bytes)?;
        }
        if let Some(twin) = m.twin(page)? {
            diff.apply(twin);
        }
    }
    Ok(m.node().batch_taken()?)
}
