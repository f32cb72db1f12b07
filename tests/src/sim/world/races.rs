//! The search for data races, as the runtime drives it.

use super::{RankState, Result, World};
use crate::sim::frame::Frames;
use crate::sim::program::Program;
use scash_proto::diff::{Changes, PageBytes};
use scash_proto::races::{Change, Testimony};
use scash_proto::wire::Kind;
use scash_proto::{Input, PAGE_SIZE, Rank};

fn load(frames: &Frames) -> impl Fn(u32, &mut PageBytes) {
    |page, into| *into = *frames.bytes(page)
}

impl RankState {
    /// Notes what a comparison with a page's twin, or with zeros, has found.
    pub(super) fn note_changes(&mut self, page: u32, met: Option<&PageBytes>) {
        const ZEROS: PageBytes = [0; PAGE_SIZE];
        let Some(races) = &mut self.races else { return };
        let (old, new) = (self.frames.twin(page).unwrap_or(&ZEROS), self.frames.bytes(page));
        let changes = &Changes::between(old, new);
        if !changes.is_empty() {
            races.note(&self.node, &Change { page, site: 0, old, new, changes, met });
        }
    }

    /// A diff is about to be merged.
    pub(super) fn note_merge(&mut self, from: Rank, meeting: u32, page: u32) {
        if let Some(races) = &mut self.races {
            races.merging(from, meeting, page, &load(&self.frames));
        }
    }
}

impl<P: Program> World<P> {
    /// What a home's frame holds before something is put there. Puts of one rank land in order, so those before are there.
    pub(super) fn look_at_home(&mut self, rank: usize, page: u32, home: Rank) -> Result<Option<PageBytes>> {
        if self.ranks[rank].races.is_none() {
            return Ok(None);
        }
        self.land_all(rank, home)?;
        Ok(Some(*self.ranks[home.0 as usize].frames.bytes(page)))
    }

    /// Tells homes what a rank has written.
    pub(super) fn testify(&mut self, rank: usize) -> Result<()> {
        let me = &mut self.ranks[rank];
        let Some(races) = &mut me.races else { return Ok(()) };
        let said = races.testify(&me.node, &load(&me.frames), |_| String::new());
        for (to, bytes) in said {
            self.send(rank, to, Kind::Testimony, bytes);
            self.tell(rank, Input::Testified(to))?;
        }
        Ok(())
    }

    /// Takes what a rank has to say.
    pub(super) fn hear(&mut self, from: Rank, to: usize, bytes: &[u8]) -> Result<()> {
        let said = Testimony::decode(from, self.setup.pages, bytes);
        let said = said.map_err(|e| self.failure(&format!("what {from} testifies to rank {to}: {e}")))?;
        self.tell(to, Input::Testimony(from, said.meeting))?;
        if let Some(races) = &mut self.ranks[to].races {
            races.hear(said);
        }
        Ok(())
    }

    /// Finds the races of the interval that ends.
    pub(super) fn judge(&mut self, rank: usize) -> Result<()> {
        let me = &mut self.ranks[rank];
        let Some(races) = &mut me.races else { return Ok(()) };
        let found = races.judge(&me.node, &load(&me.frames), |_| String::new());
        let interval = me.interval;
        if let Some(race) = found.first().filter(|_| !self.setup.racy) {
            let what = format!("rank {rank} finds a data race where there is none: {race:?}");
            return Err(self.failure_about(&what, rank, race.page));
        }
        self.report.races.extend(found.into_iter().map(|race| (interval, race)));
        Ok(())
    }
}
