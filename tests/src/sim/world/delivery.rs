//! What the network brings to a rank.

use super::{Result, Step, World};
use crate::sim::net::Parcel;
use crate::sim::program::Program;
use scash_proto::wire::{self, Control, Kind, PageBatch, Token};
use scash_proto::{Input, Rank};

impl<P: Program> World<P> {
    /// Whether the next parcel of a pair may arrive now.
    pub(super) fn may_arrive(&self, from: usize, to: usize) -> bool {
        match self.net.front(number(from), number(to)) {
            Some(Parcel::Put { page, .. }) => self.may_land(to, *page),
            Some(Parcel::Message { kind: Kind::Update, bytes }) => {
                let pages = PageBatch::read(bytes).into_iter().flat_map(|(_, pages)| pages.flatten());
                pages.into_iter().all(|(page, _)| self.may_land(to, page))
            }
            _ => true,
        }
    }

    /// Delivers the next parcel of a pair.
    pub(super) fn step_channel(&mut self, from: usize, to: usize) -> Result<Step> {
        if !self.may_arrive(from, to) {
            return Ok(Step::Blocked);
        }
        match self.net.take(number(from), number(to)) {
            Some(Parcel::Put { page, diff }) => self.land(from, to, page, &diff)?,
            Some(Parcel::Message { kind, bytes }) => {
                self.trace(|| format!("{kind:?} from rank {from} arrives at rank {to}"));
                self.receive(from, to, kind, &bytes)?;
            }
            None => {}
        }
        let more = self.net.front(number(from), number(to)).is_some();
        Ok(if more { Step::Moved } else { Step::Idle })
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
            Kind::Diff | Kind::Update => {
                let (meeting, pages) = PageBatch::read(bytes).map_err(|e| self.failure(&broken(e)))?;
                for entry in pages {
                    let (page, diff) = entry.map_err(|e| self.failure(&broken(e)))?;
                    let input = match kind {
                        Kind::Diff => Input::Diff(sender, meeting, page),
                        _ => Input::Update(sender, meeting, page),
                    };
                    self.tell(to, input)?;
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

fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}
