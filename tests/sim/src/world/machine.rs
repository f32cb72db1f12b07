//! A simulated rank as the [machine](Machine) that orders are carried out on: frames are vectors, and each
//! step can be torn.
//!
//! Between two steps, and in the middle of those that copy bytes, everything goes on that needs nothing of
//! the rank's node: plain accesses of all threads, of this rank and of others, gets that are under way, and
//! puts that land ([`World::meanwhile`]).

use super::{Failure, Result, World};
use crate::frame::Frames;
use crate::program::Program;
use scash_comm::Coming;
use scash_proto::diff::{Changes, PageBytes};
use scash_proto::interpreter::{Answer, Interpreter, Machine, Step};
use scash_proto::node::{Node, Violation};
use scash_proto::races::{Change, WriteTraces};
use scash_proto::wire::Kind;
use scash_proto::{Access, Input, Output, PAGE_SIZE, Pages, Rank, Transfer};

/// Bytes after which a batch of diffs is sent.
const FULL: usize = 6000;

/// Why a step of a machine failed.
pub(super) enum Trouble {
    /// The run is over.
    Failure(Failure),
    /// The node, or who reads a message, says so.
    Said(String),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failure(failure)
    }
}

impl From<Violation> for Trouble {
    fn from(violation: Violation) -> Self {
        Trouble::Said(violation.to_string())
    }
}

impl From<scash_proto::codec::Malformed> for Trouble {
    fn from(malformed: scash_proto::codec::Malformed) -> Self {
        Trouble::Said(malformed.to_string())
    }
}

/// One rank, while an order is carried out or a message is taken.
pub(super) struct RankMachine<'a, P> {
    world: &'a mut World<P>,
    rank: usize,
}

type Done<T> = std::result::Result<T, Trouble>;

impl<P: Program> World<P> {
    /// Carries out an order.
    pub(super) fn carry_out(&mut self, rank: usize, order: Output) -> Result<Step> {
        self.note(rank, &order);
        self.interpret(rank, |interpreter, machine| interpreter.carry_out(machine, order))
    }

    /// Takes a message.
    pub(super) fn take(&mut self, rank: usize, from: Rank, kind: Kind, bytes: &[u8]) -> Result<()> {
        self.interpret(rank, |interpreter, machine| interpreter.take(machine, from, kind.number(), bytes))
    }

    fn interpret<T>(
        &mut self,
        rank: usize,
        run: impl FnOnce(&mut Interpreter, &mut RankMachine<'_, P>) -> Done<T>,
    ) -> Result<T> {
        let mut interpreter = self.ranks[rank].interpreter.take().expect("a rank does one thing at a time");
        let done = run(&mut interpreter, &mut RankMachine { world: self, rank });
        self.ranks[rank].interpreter = Some(interpreter);
        let done = done.map_err(|trouble| match trouble {
            Trouble::Failure(failure) => failure,
            Trouble::Said(what) => self.failure(&format!("rank {rank}: {what}")),
        })?;
        self.check_words(rank)?;
        Ok(done)
    }
}

impl<P: Program> RankMachine<'_, P> {
    fn frames(&mut self) -> &mut Frames {
        &mut self.world.ranks[self.rank].frames
    }

    fn trouble(&self, what: &str, page: u32) -> Trouble {
        self.world.failure_about(what, self.rank, page).into()
    }

    fn set_rights(&mut self, pages: Pages, access: Access) -> Done<()> {
        self.world.meanwhile(self.rank)?;
        self.frames().set_rights(pages, access);
        Ok(())
    }

    /// Copies a frame in two pieces, between which others may store.
    fn copy(&mut self, of: usize, page: u32, into: &mut PageBytes) -> Done<()> {
        self.world.meanwhile(self.rank)?;
        let cut = self.world.tears.between(0, 4096) as usize;
        into[..cut].copy_from_slice(&self.world.frames(of).bytes(page)[..cut]);
        self.world.meanwhile(self.rank)?;
        into[cut..].copy_from_slice(&self.world.frames(of).bytes(page)[cut..]);
        Ok(())
    }

    /// Puts bytes of the last look.
    fn put(&mut self, to: Rank, page: u32, changes: &Changes) -> Done<()> {
        self.world.meanwhile(self.rank)?;
        let mut diff = Vec::new();
        changes.encode(self.seen(), &mut diff);
        self.world.put(self.rank, to.0, page, diff);
        Ok(())
    }
}

impl<P: Program> Machine for RankMachine<'_, P> {
    type Error = Trouble;

    fn node(&mut self) -> &mut Node {
        &mut self.world.ranks[self.rank].node
    }

    fn transfer(&self) -> Transfer {
        self.world.setup.transfer
    }

    fn map_zero(&mut self, pages: Pages, access: Access) -> Done<()> {
        self.set_rights(pages, access)
    }

    fn map(&mut self, pages: Pages, access: Access) -> Done<()> {
        self.set_rights(pages, access)
    }

    fn protect(&mut self, pages: Pages, access: Access) -> Done<()> {
        self.set_rights(pages, access)
    }

    fn unmap(&mut self, pages: Pages) -> Done<()> {
        self.set_rights(pages, Access::None)
    }

    fn discard(&mut self, pages: Pages) -> Done<()> {
        self.world.meanwhile(self.rank)?;
        self.world.check_closed(pages)?;
        self.world.frames(self.rank).discard(pages);
        self.frames().set_rights(pages, Access::None);
        Ok(())
    }

    /// Now and then the system cannot.
    fn watch(&mut self, pages: Pages) -> Done<bool> {
        if self.world.rng.chance(10) {
            self.frames().set_rights(pages, Access::Read);
            return Ok(false);
        }
        if self.frames().watch(pages) {
            return Ok(true);
        }
        Err(self.trouble("a page is watched that is not writable, or twice", pages.first))
    }

    fn unwatch(&mut self, pages: Pages) -> Done<()> {
        if self.frames().unwatch(pages) {
            return Ok(());
        }
        Err(self.trouble("an end of a watch that was not kept", pages.first))
    }

    fn written(&mut self, pages: Pages, found: &mut Vec<Pages>) -> Done<()> {
        self.world.meanwhile(self.rank)?;
        found.extend(self.frames().scan(pages).into_iter().map(Pages::one));
        Ok(())
    }

    fn look(&mut self, page: u32) -> Done<()> {
        let mut seen = [0; PAGE_SIZE];
        self.copy(self.rank, page, &mut seen)?;
        *self.world.ranks[self.rank].seen = seen;
        Ok(())
    }

    fn seen(&self) -> &PageBytes {
        &self.world.ranks[self.rank].seen
    }

    fn differences(&mut self, page: u32) -> Done<Changes> {
        let me = &self.world.ranks[self.rank];
        let Some(twin) = me.frames.twin(page) else {
            return Err(self.trouble("a comparison without a twin", page));
        };
        Ok(Changes::between(twin, &me.seen))
    }

    fn store(&mut self, page: u32, offset: usize, bytes: &[u8]) -> Done<()> {
        self.world.meanwhile(self.rank)?;
        let rank = self.rank;
        self.world.frames(rank).bytes_mut(page)[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn make_twin(&mut self, page: u32) -> Done<()> {
        let me = &mut self.world.ranks[self.rank];
        // Only in a barrier can nothing be lost with the old one.
        if me.running > 0 && me.frames.twin(page).is_some() {
            return Err(self.trouble("a written page's twin is overwritten", page));
        }
        let mut twin = Box::new([0; PAGE_SIZE]);
        self.copy(self.rank, page, &mut twin)?;
        self.frames().set_twin(page, twin);
        Ok(())
    }

    fn twin(&mut self, page: u32) -> Done<Option<&mut PageBytes>> {
        Ok(self.frames().twin_mut(page))
    }

    fn twin_what_was_seen(&mut self, page: u32) -> Done<()> {
        let seen = self.world.ranks[self.rank].seen.clone();
        self.frames().set_twin(page, seen);
        Ok(())
    }

    fn drop_twin(&mut self, page: u32) -> Done<()> {
        if self.frames().drop_twin(page) {
            return Ok(());
        }
        Err(self.trouble("a twin is dropped that does not exist", page))
    }

    fn put_seen(&mut self, to: Rank, page: u32, changes: &Changes) -> Done<()> {
        self.put(to, page, changes)?;
        if self.world.setup.racy {
            // Between the look at the home's frame and the put the home could write what nobody would ever
            // see.
            self.world.land_all(self.rank, to)?;
        }
        Ok(())
    }

    fn put_seen_if_cheap(&mut self, to: Rank, page: u32, changes: &Changes) -> Done<bool> {
        if self.world.rng.chance(self.world.setup.messaged) {
            return Ok(false);
        }
        self.put(to, page, changes)?;
        Ok(true)
    }

    fn put_pages(&mut self, to: Rank, pages: Pages) -> Done<()> {
        for page in pages.iter() {
            let mut whole = Vec::new();
            Changes::ALL.encode(self.frames().bytes(page), &mut whole);
            self.world.put(self.rank, to.0, page, whole);
        }
        Ok(())
    }

    fn pages_a_get(&self, _: Rank) -> usize {
        self.world.setup.most_got
    }

    /// Nothing is put into any of the pages before all are there.
    fn get_pages(&mut self, from: Rank, pages: &[u32], into: &mut [PageBytes]) -> Done<()> {
        self.world.land_all(self.rank, from)?;
        let (rank, home) = (self.rank, from.0 as usize);
        if self.world.is_counted(rank, from.0) {
            let interval = self.world.ranks[rank].interval;
            self.world.report.period(interval).traffic.refreshes += 1;
        }
        pages.iter().for_each(|&page| self.world.ranks[rank].copying[page as usize] += 1);
        let mut places = pages.iter().zip(into);
        let copied = places.try_for_each(|(&page, into)| self.copy(home, page, into));
        pages.iter().for_each(|&page| self.world.ranks[rank].copying[page as usize] -= 1);
        copied
    }

    fn send(&mut self, to: Rank, kind: Kind, bytes: &[u8]) -> Done<()> {
        self.world.send(self.rank, to, kind, bytes.to_vec());
        Ok(())
    }

    fn come(&mut self, call: u64, digest: Option<u64>) -> Done<()> {
        self.world.meanwhile(self.rank)?;
        let coming = match digest {
            Some(digest) => Coming::without_words(call, digest),
            None => Coming::with_words(call),
        };
        self.world.ranks[self.rank].coming = Some(coming);
        Ok(())
    }

    fn flush(&mut self) -> Done<()> {
        Ok(self.world.meanwhile(self.rank)?)
    }

    /// The driver tells the node when the puts have landed: those to the ranks that it is told of, as a rank
    /// fences no others.
    fn close(&mut self, put_to: &mut Vec<Rank>, next: Option<Rank>) -> Done<bool> {
        let far = put_to.iter().filter(|to| self.world.is_counted(self.rank, to.0)).count();
        let interval = self.world.ranks[self.rank].interval;
        self.world.report.period(interval).traffic.fences += far as u64;
        let me = &mut self.world.ranks[self.rank];
        me.closing.push_back(next);
        me.closing_waits_for.append(put_to);
        self.world.schedule_driver(self.rank);
        Ok(false)
    }

    fn is_full(&mut self, bytes: usize) -> bool {
        bytes > FULL || self.world.rng.chance(20)
    }

    fn mark_all(&mut self, home: Rank) -> Done<()> {
        let epoch = self.world.ranks[self.rank].node.epoch();
        self.world.ranks[home.0 as usize].marks.insert(u32::MAX, epoch);
        Ok(())
    }

    fn is_marked(&mut self, page: u32) -> bool {
        let me = &self.world.ranks[self.rank];
        [page, u32::MAX].iter().any(|page| me.marks.get(page) == Some(&me.node.epoch()))
    }

    fn forget_claims(&mut self, pages: Pages) -> Done<()> {
        let (size, rank) = (self.world.setup.size as usize, self.rank);
        self.world.claims.retain(|key, _| !pages.iter().contains(key) || *key as usize % size != rank);
        Ok(())
    }

    fn answer(&mut self, _: u32, who: u64, answer: Answer) -> Done<()> {
        self.world.ranks[self.rank].answers.insert(who, answer);
        Ok(())
    }

    fn stalled(&mut self, _: Rank, _: &[u8]) -> Done<()> {
        Err(self.world.failure("a node asks what others do, which is the runtime's affair").into())
    }

    fn looks_for_races(&self) -> bool {
        self.world.ranks[self.rank].races.is_some()
    }

    fn note(&mut self, page: u32, changes: &Changes, met: Option<&PageBytes>) -> Done<()> {
        const ZEROS: PageBytes = [0; PAGE_SIZE];
        let me = &mut self.world.ranks[self.rank];
        let Some(races) = &mut me.races else { return Ok(()) };
        let (old, new) = (me.frames.twin(page).unwrap_or(&ZEROS), &*me.seen);
        races.note(&me.node, &Change { page, site: 0, old, new, changes, met });
        Ok(())
    }

    fn merging(&mut self, from: Rank, meeting: u32, page: u32) -> Done<()> {
        let me = &mut self.world.ranks[self.rank];
        if let Some(races) = &mut me.races {
            races.merging(from, meeting, page, &load(&me.frames));
        }
        Ok(())
    }

    fn send_writes(&mut self) -> Done<()> {
        let me = &mut self.world.ranks[self.rank];
        let Some(races) = &mut me.races else { return Ok(()) };
        let said = races.send_writes(&me.node, &load(&me.frames), |_| String::new());
        for (to, bytes) in said {
            self.world.send(self.rank, to, Kind::WriteTraces, bytes);
            self.node().handle(Input::WritesSent(to))?;
        }
        Ok(())
    }

    fn compare_writes(&mut self) -> Done<()> {
        let me = &mut self.world.ranks[self.rank];
        let Some(races) = &mut me.races else { return Ok(()) };
        let found = races.compare_writes(&me.node, &load(&me.frames), |_| String::new());
        let interval = me.interval;
        if let Some(race) = found.first().filter(|_| !self.world.setup.racy) {
            let what = format!("rank {} finds a data race where there is none: {race:?}", self.rank);
            return Err(self.trouble(&what, race.page));
        }
        self.world.report.races.extend(found.into_iter().map(|race| (interval, race)));
        Ok(())
    }

    fn hear(&mut self, from: Rank, payload: &[u8]) -> Done<()> {
        let said = WriteTraces::decode(from, self.world.setup.pages, payload);
        let said = said.map_err(|_| Violation { rank: from, what: "malformed write traces" })?;
        self.node().handle(Input::WriteTraces(from, said.meeting))?;
        if let Some(races) = &mut self.world.ranks[self.rank].races {
            races.hear(said);
        }
        Ok(())
    }
}

/// Reads frames for the search for data races.
fn load(frames: &Frames) -> impl Fn(u32, &mut PageBytes) {
    |page, into| *into = *frames.bytes(page)
}
