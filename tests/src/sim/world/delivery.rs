//! What the network brings to a rank.

use super::{Result, Step, World, number};
use crate::sim::program::Program;
use scash_proto::wire::{self, Control, Kind, PageBatch, Token};
use scash_proto::{Input, Rank};

impl<P: Program> World<P> {
    /// Whether the next put of a pair may land now.
    pub(super) fn may_land_next(&self, from: usize, to: usize) -> bool {
        self.net.next_put(number(from), number(to)).is_some_and(|put| self.may_land(to, put.page))
    }

    /// Whether the next message of a pair may arrive now. Updates wait for gets of their pages.
    pub(super) fn may_arrive(&self, from: usize, to: usize) -> bool {
        let Some(message) = self.net.next_message(number(from), number(to)) else { return false };
        if self.is_locked(to) {
            return false;
        }
        if message.kind != Kind::Update {
            return true;
        }
        let mut pages = PageBatch::read(&message.bytes).into_iter().flat_map(|(_, pages)| pages.flatten());
        pages.all(|(page, _)| self.may_land(to, page))
    }

    /// Delivers the next put or message of a pair.
    pub(super) fn step_channel(&mut self, from: usize, to: usize) -> Result<Step> {
        // A renewal may have taken all that was on its way.
        if self.net.is_empty(number(from), number(to)) {
            return Ok(Step::Idle);
        }
        let put = self.may_land_next(from, to);
        let message = self.may_arrive(from, to);
        if !put && !message {
            return Ok(Step::Blocked);
        }
        if put && (!message || self.rng.chance(50)) {
            if let Some(put) = self.net.take_put(number(from), number(to)) {
                self.land(from, to, put.page, &put.diff)?;
            }
        } else if let Some(message) = self.net.take_message(number(from), number(to)) {
            self.trace(|| format!("{:?} from rank {from} arrives at rank {to}", message.kind));
            self.receive(from, to, message.kind, &message.bytes)?;
        }
        Ok(if self.net.is_empty(number(from), number(to)) { Step::Idle } else { Step::Moved })
    }

    fn receive(&mut self, from: usize, to: usize, kind: Kind, bytes: &[u8]) -> Result<()> {
        let sender = Rank(number(from));
        let broken = |e| format!("a message of rank {from} to rank {to}: {e}");
        match kind {
            Kind::Token => {
                let token = Token::decode(bytes).map_err(|e| self.failure(&broken(e)))?;
                self.tell(to, Input::Token(sender, token))?;
            }
            Kind::Control => {
                let (meeting, control) = Control::decode(bytes).map_err(|e| self.failure(&broken(e)))?;
                self.tell(to, Input::Control(sender, meeting, control))?;
            }
            Kind::Parcel => {
                let parcel = wire::Parcel::decode(bytes).map_err(|e| self.failure(&broken(e)))?;
                self.tell(to, Input::Parcel(sender, parcel.meeting, parcel.home))?;
            }
            Kind::Sync => {
                let message = wire::SyncMessage::decode(bytes).map_err(|e| self.failure(&broken(e)))?;
                self.tell(to, Input::Sync(sender, message))?;
            }
            Kind::Reduce => {
                let message = wire::ReduceMessage::decode(bytes).map_err(|e| self.failure(&broken(e)))?;
                self.tell(to, Input::Reducing(sender, message))?;
            }
            Kind::Stall => {
                return Err(self.failure("a node asks what others do, which is the runtime's affair"));
            }
            Kind::Testimony => self.hear(sender, to, bytes)?,
            Kind::Diff | Kind::Update => {
                let (meeting, pages) = PageBatch::read(bytes).map_err(|e| self.failure(&broken(e)))?;
                for entry in pages {
                    let (page, diff) = entry.map_err(|e| self.failure(&broken(e)))?;
                    let input = match kind {
                        Kind::Diff => Input::Diff(sender, meeting, page),
                        _ => Input::Update(sender, meeting, page),
                    };
                    self.tell(to, input)?;
                    if kind == Kind::Diff {
                        self.ranks[to].note_merge(sender, meeting, page);
                    }
                    let merged = self.ranks[to].frames.merge_with_twin(page, diff);
                    merged.map_err(|e| self.failure(&format!("rank {from} sent a diff: {e}")))?;
                }
                let taken = self.ranks[to].node.batch_taken();
                taken.map_err(|v| self.failure(&format!("rank {to}: {v}")))?;
            }
        }
        self.schedule_driver(to);
        Ok(())
    }
}
