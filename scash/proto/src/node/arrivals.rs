//! What peers send for a meeting: checked, and kept until this rank is there.

use super::dissemination::Dissemination;
use super::{Node, Violation};
use crate::wire::{Control, Token};
use crate::{Pages, Rank};

/// What has arrived for one meeting.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Tokens by step.
    pub(super) tokens: Vec<Option<Token>>,
    /// Items that have arrived.
    pub(super) items: u64,
    pub(super) controls: Vec<(Rank, Control)>,
    /// Pages of ours that others wrote, with the writer.
    pub(super) merged: Vec<(u32, Rank)>,
}

impl Slot {
    pub(super) fn new(topology: Dissemination) -> Self {
        let tokens = vec![None; topology.steps()];
        Slot { tokens, items: 0, controls: Vec::new(), merged: Vec::new() }
    }

    /// The pages that sharers fetched in this interval, with the sharer.
    pub(super) fn fresh(&self) -> Vec<(Rank, Pages)> {
        self.controls.iter().flat_map(|(from, c)| c.fresh.iter().map(|&pages| (*from, pages))).collect()
    }

    /// The pages that others have operated on in this interval.
    pub(super) fn operated(&self) -> Vec<Pages> {
        self.controls.iter().flat_map(|(_, c)| c.operated.iter().copied()).collect()
    }
}

impl Node {
    /// Where something that belongs to a meeting is to be kept.
    fn slot_for(&mut self, from: Rank, meeting: u32) -> Result<&mut Slot, Violation> {
        let ahead = meeting.wrapping_sub(self.meetings.meeting);
        if ahead > 1 || from.0 >= self.cfg.size {
            return Err(Violation { rank: from, what: "a message for a meeting that is over or far away" });
        }
        Ok(&mut self.meetings.slots[(meeting % 2) as usize])
    }

    /// Notes that something has arrived that was counted.
    pub(super) fn item_for(&mut self, from: Rank, meeting: u32) -> Result<(), Violation> {
        self.slot_for(from, meeting)?.items += 1;
        Ok(())
    }

    pub(super) fn token(&mut self, from: Rank, token: Token) -> Result<(), Violation> {
        let (me, size) = (self.cfg.rank.0, self.cfg.size);
        let step = u32::from(token.step);
        if self.meetings.topology.distance(step).is_none_or(|distance| (from.0 + distance) % size != me) {
            return Err(Violation { rank: from, what: "a token that is not for this rank" });
        }
        let pages = self.table.len();
        let known = |r: Rank| r.0 < size;
        let sound = token.counts.iter().all(|c| known(c.0))
            && token.span.iter().all(|a| known(a.rank))
            && token.notices.iter().all(|n| {
                known(n.origin)
                    && n.news.home().is_none_or(known)
                    && n.pages.end() <= pages
                    && n.pages.count > 0
            });
        if !sound {
            return Err(Violation {
                rank: from,
                what: "a token that names ranks or pages that do not exist",
            });
        }
        if (token.due || token.left_out) && self.cfg.replicas == 0 {
            return Err(Violation { rank: from, what: "a checkpoint in a job that has none" });
        }
        let place = &mut self.slot_for(from, token.meeting)?.tokens[step as usize];
        if place.is_some() {
            return Err(Violation { rank: from, what: "the same token twice" });
        }
        *place = Some(token);
        self.token_in_reduction();
        self.advance()
    }

    pub(super) fn control(&mut self, from: Rank, meeting: u32, control: Control) -> Result<(), Violation> {
        let pages = self.table.len();
        let mut all = control
            .stale
            .iter()
            .chain(&control.leave)
            .chain(&control.fresh)
            .chain(&control.operated)
            .chain(&control.ask)
            .chain(control.subscribe.iter().map(|(p, _)| p));
        if all.any(|p| p.end() > pages) {
            return Err(Violation { rank: from, what: "a page outside of the region" });
        }
        let slot = self.slot_for(from, meeting)?;
        slot.items += 1;
        slot.controls.push((from, control));
        self.advance()
    }

    pub(super) fn diff(&mut self, from: Rank, meeting: u32, page: u32) -> Result<(), Violation> {
        // A disputed first touch is settled by the meeting that this diff follows: the writer may know of it
        // before we do.
        let mine = page < self.table.len() && (self.is_home(page) || self.home(page).is_none());
        if !mine {
            return Err(Violation { rank: from, what: "a diff for a page whose home is elsewhere" });
        }
        let slot = self.slot_for(from, meeting)?;
        slot.items += 1;
        slot.merged.push((page, from));
        Ok(())
    }

    pub(super) fn update(&mut self, from: Rank, meeting: u32, page: u32) -> Result<(), Violation> {
        if page >= self.table.len() || self.is_home(page) {
            return Err(Violation { rank: from, what: "changes of a page that is not cached here" });
        }
        self.slot_for(from, meeting)?.items += 1;
        Ok(())
    }

    /// To be called when everything of a batch of diffs or updates has been taken.
    pub fn batch_taken(&mut self) -> Result<(), Violation> {
        self.advance()
    }
}
