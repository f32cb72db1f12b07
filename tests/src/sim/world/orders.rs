//! A rank's driver: carries out what its node orders.

use super::{Result, Step, World, number};
use crate::sim::program::Program;
use scash_proto::node::{Collective, Outcome};
use scash_proto::wire::{Kind, PageBatch, Parcel};
use scash_proto::{Access, Input, Output, Pages, Rank, Transfer};
use std::collections::VecDeque;

/// Bytes after which a batch of diffs is sent.
const FULL: usize = 6000;

impl<P: Program> World<P> {
    /// Carries out one put or order.
    pub(super) fn step_driver(&mut self, rank: usize) -> Result<Step> {
        if let Some(&(to, page, _)) = self.ranks[rank].puts.front() {
            if !self.may_land(to as usize, page) {
                return Ok(Step::Blocked);
            }
            if let Some((to, page, diff)) = self.ranks[rank].puts.pop_front() {
                self.land(rank, to as usize, page, &diff)?;
            }
            return Ok(Step::Moved);
        }
        if self.is_locked(rank) {
            return Ok(Step::Blocked);
        }
        let Some(order) = self.ranks[rank].node.poll_output() else {
            return if self.ends_without_barrier(rank)? { Ok(Step::Moved) } else { self.step_close(rank) };
        };
        self.carry_out(rank, order)?;
        Ok(Step::Moved)
    }

    /// Ends the call that all threads of the rank have come to, if it came to nothing: then it was no memory barrier, and there is no order for its end.
    fn ends_without_barrier(&mut self, rank: usize) -> Result<bool> {
        let me = &mut self.ranks[rank];
        if me.running > 0 {
            return Ok(false);
        }
        let Some(outcome) = me.node.take_reduced() else { return Ok(false) };
        self.done(rank, &outcome)?;
        Ok(true)
    }

    /// Closes an interval, if all that was put has landed.
    fn step_close(&mut self, rank: usize) -> Result<Step> {
        let me = &mut self.ranks[rank];
        if me.closing == 0 {
            me.scheduled = false;
            return Ok(Step::Idle);
        }
        if !self.have_landed(rank) {
            return Ok(Step::Blocked);
        }
        self.ranks[rank].closing -= 1;
        self.tell(rank, Input::Closed)?;
        Ok(Step::Moved)
    }

    /// Bytes that were put arrive in a frame.
    pub(super) fn land(&mut self, from: usize, to: usize, page: u32, diff: &[u8]) -> Result<()> {
        self.trace(|| format!("the put of rank {from} into page {page} of rank {to} lands"));
        let merged = self.ranks[to].frames.merge(page, diff);
        merged.map_err(|e| self.failure(&format!("the driver's own diff: {e}")))
    }

    pub(super) fn carry_out(&mut self, rank: usize, order: Output) -> Result<()> {
        self.note(rank, &order);
        let me = &mut self.ranks[rank];
        match order {
            Output::MapZero(pages, access) | Output::Map(pages, access) | Output::Protect(pages, access) => {
                me.frames.set_rights(pages, access);
            }
            Output::Unmap(pages) => me.frames.set_rights(pages, Access::None),
            Output::Discard(pages) => me.frames.discard(pages),
            Output::Watch(pages) => self.watch(rank, pages)?,
            Output::Unwatch(pages) => {
                if !me.frames.unwatch(pages) {
                    return Err(self.failure_about("an end of a watch that was not kept", rank, pages.first));
                }
            }
            Output::Scan(pages) => self.scan(rank, pages)?,
            Output::Twin(page) => self.make_twin(rank, page)?,
            Output::DropTwin(page) => {
                if !me.frames.drop_twin(page) {
                    return Err(self.failure_about("a twin is dropped that does not exist", rank, page));
                }
            }
            Output::Diff { page, to, force } => self.send_diff(rank, page, to, force, false)?,
            Output::DiffZero { page, to } => self.send_diff(rank, page, to, false, true)?,
            Output::Push(page) => self.push(rank, page)?,
            Output::PushWhole { page, except } => {
                let whole = me.frames.whole(page);
                self.bring_to_sharers(rank, page, except, &whole, self.setup.transfer);
            }
            Output::Hand { page, to } => {
                let whole = me.frames.whole(page);
                self.put(rank, to.0, page, whole);
            }
            Output::PutPages { pages, to } => {
                for page in pages.iter() {
                    let whole = self.ranks[rank].frames.whole(page);
                    self.put(rank, to.0, page, whole);
                }
            }
            Output::Parcel { to, meeting, home } => {
                self.send(rank, to, Kind::Parcel, Parcel { meeting, home }.encode().to_vec());
            }
            Output::Control(to, meeting, control) => {
                self.send(rank, to, Kind::Control, control.encode(meeting));
            }
            Output::Token(to, token) => self.send(rank, to, Kind::Token, token.encode()),
            Output::Flushed => {
                self.close_batches(rank);
                self.tell(rank, Input::Flushed)?;
            }
            Output::Done(outcome) => self.done(rank, &outcome)?,
            Output::Denied(page) => return Err(self.failure_about("an access was denied", rank, page)),
            Output::PutDiff { page, to } => self.put_diff(rank, page, to)?,
            Output::Report { page, to } => self.add_to_batch(rank, Kind::Diff, to, page, &[]),
            Output::Closed => {
                me.closing += 1;
                self.schedule_driver(rank);
            }
            Output::Acquired { who, .. } => drop(me.answers.insert(who, true)),
            Output::Refused { who, .. } => drop(me.answers.insert(who, false)),
            Output::Sync(to, message) => self.send(rank, to, Kind::Sync, message.encode()),
            Output::Reduce(to, message) => self.send(rank, to, Kind::Reduce, message.encode()),
            Output::ForgetClaims(pages) => self.forget_claims(rank, pages),
            Output::Testify => self.testify(rank)?,
            Output::Judge => self.judge(rank)?,
            // Of an acquire: nobody can see its middle, for the rank does nothing else meanwhile.
            Output::Refresh { page, from } => self.renew(rank, page, from)?,
            // Orders of threads.
            _ => return Err(self.failure(&format!("rank {rank} was told to {order:?} in a barrier"))),
        }
        Ok(())
    }

    /// Brings what this rank wrote to the home's frame; the twin now says that it is there.
    fn put_diff(&mut self, rank: usize, page: u32, to: Rank) -> Result<()> {
        let Some(diff) = self.ranks[rank].frames.diff(page) else {
            return Err(self.failure_about("a comparison without a twin", rank, page));
        };
        let changed = !diff.is_empty();
        if changed {
            if let Some(met) = self.look_at_home(rank, page, to)? {
                self.ranks[rank].note_changes(page, Some(&met));
            }
            self.ranks[rank].frames.make_twin(page);
            self.put(rank, to.0, page, diff);
            if self.setup.racy {
                // Between the look at the home's frame and the put the home could write what nobody would ever see.
                self.land_all(rank, to)?;
            }
        }
        self.tell(rank, Input::PutBack { page, changed })
    }

    /// Takes what the home has, but for what was written here. The rank reads what it put, so its puts land first.
    fn renew(&mut self, rank: usize, page: u32, from: Rank) -> Result<()> {
        self.land_all(rank, from)?;
        let bytes = *self.ranks[from.0 as usize].frames.bytes(page);
        self.ranks[rank].frames.refresh(page, &bytes);
        Ok(())
    }

    /// Lands all that a rank has put into another one's frames.
    pub(super) fn land_all(&mut self, rank: usize, at: Rank) -> Result<()> {
        let (home, mut later) = (at.0 as usize, VecDeque::new());
        while let Some((to, page, diff)) = self.ranks[rank].puts.pop_front() {
            if to == at.0 {
                self.land(rank, home, page, &diff)?;
            } else {
                later.push_back((to, page, diff));
            }
        }
        self.ranks[rank].puts = later;
        while let Some(put) = self.net.take_put(number(rank), at.0) {
            self.land(rank, home, put.page, &put.diff)?;
        }
        Ok(())
    }

    fn make_twin(&mut self, rank: usize, page: u32) -> Result<()> {
        let me = &mut self.ranks[rank];
        // Only in a barrier can nothing be lost with the old one.
        if me.running > 0 && me.frames.has_twin(page) {
            return Err(self.failure_about("a written page's twin is overwritten", rank, page));
        }
        me.frames.make_twin(page);
        Ok(())
    }

    /// The claims of these pages that the rank keeps are void.
    fn forget_claims(&mut self, rank: usize, pages: Pages) {
        let size = self.setup.size as usize;
        self.claims.retain(|key, _| !pages.iter().contains(key) || *key as usize % size != rank);
    }

    /// Tells which watched pages were written.
    fn scan(&mut self, rank: usize, pages: Pages) -> Result<()> {
        let written = self.ranks[rank].frames.scan(pages);
        written.into_iter().try_for_each(|page| self.tell(rank, Input::Written(Pages::one(page))))
    }

    /// Watches pages, if the system can: now and then it cannot.
    fn watch(&mut self, rank: usize, pages: Pages) -> Result<()> {
        let me = &mut self.ranks[rank];
        if self.rng.chance(10) {
            me.frames.set_rights(pages, Access::Read);
            return self.tell(rank, Input::Unwatchable(pages));
        }
        if me.frames.watch(pages) {
            return Ok(());
        }
        Err(self.failure_about("a page is watched that is not writable, or twice", rank, pages.first))
    }

    fn send_diff(&mut self, rank: usize, page: u32, to: Rank, force: bool, zeros: bool) -> Result<()> {
        self.ranks[rank].note_changes(page, None);
        let frames = &self.ranks[rank].frames;
        let diff = if zeros { Some(frames.diff_to_zeros(page)) } else { frames.diff(page) };
        let Some(diff) = diff else {
            return Err(self.failure_about("a comparison without a twin", rank, page));
        };
        if force || !diff.is_empty() {
            self.add_to_batch(rank, Kind::Diff, to, page, &diff);
        }
        self.tell(rank, Input::Compared { page, changed: !diff.is_empty() })
    }

    /// What the home itself wrote goes to its sharers.
    fn push(&mut self, rank: usize, page: u32) -> Result<()> {
        let Some(diff) = self.ranks[rank].frames.diff(page) else {
            return Err(self.failure_about("a comparison without a twin", rank, page));
        };
        if diff.is_empty() {
            return self.tell(rank, Input::Compared { page, changed: false });
        }
        let me = &self.ranks[rank];
        if me.node.pushes_early() && me.marks.get(&page) == Some(&me.node.epoch()) {
            return self.tell(rank, Input::IsMarked { page });
        }
        let messaged = self.setup.transfer == Transfer::ZeroCopy
            && (self.ranks[rank].node.must_message(page) || self.rng.chance(self.setup.messaged));
        let transfer = if messaged { Transfer::Message } else { self.setup.transfer };
        self.bring_to_sharers(rank, page, None, &diff, transfer);
        self.ranks[rank].frames.make_twin(page);
        self.tell(
            rank,
            if messaged { Input::Messaged { page } } else { Input::Compared { page, changed: true } },
        )
    }

    /// Brings bytes to all sharers of a page but one.
    fn bring_to_sharers(
        &mut self,
        rank: usize,
        page: u32,
        except: Option<Rank>,
        diff: &[u8],
        transfer: Transfer,
    ) {
        let sharers = self.ranks[rank].node.update_sharers(page);
        let sharers: Vec<Rank> = sharers.filter(|&r| Some(r) != except).collect();
        for to in sharers {
            match transfer {
                Transfer::ZeroCopy => self.put(rank, to.0, page, diff.to_vec()),
                Transfer::Message => self.add_to_batch(rank, Kind::Update, to, page, diff),
            }
        }
    }

    fn add_to_batch(&mut self, rank: usize, kind: Kind, to: Rank, page: u32, diff: &[u8]) {
        let me = &mut self.ranks[rank];
        let meeting = me.node.meeting();
        let batch = me.batches.entry((kind.number(), to)).or_default();
        if batch.is_empty() {
            PageBatch::begin(batch, meeting);
        }
        PageBatch::push(batch, page, true, |out| {
            out.extend_from_slice(diff);
            diff.len()
        });
        let full = batch.len() > FULL || self.rng.chance(20);
        if full && let Some(bytes) = self.ranks[rank].batches.remove(&(kind.number(), to)) {
            self.send(rank, to, kind, bytes);
        }
    }

    fn close_batches(&mut self, rank: usize) {
        for ((kind, to), bytes) in std::mem::take(&mut self.ranks[rank].batches) {
            let kind = Kind::from_number(kind).expect("batches are filed under numbers of kinds");
            self.send(rank, to, kind, bytes);
        }
    }

    /// A rank with a limit holds no more pages of other homes than it says, and a broadcast's at most beyond the limit.
    fn check_cache(&self, rank: usize) -> Result<()> {
        let me = &self.ranks[rank];
        // Who lies may bring a rank bytes of any page.
        if self.setup.cache == 0 || self.setup.lies > 0 {
            return Ok(());
        }
        let others = |&page: &u32| me.frames.is_there(page) && me.node.home(page) != Some(Rank(number(rank)));
        let held: Vec<u32> = (0..self.setup.pages).filter(others).collect();
        if held.len() <= me.node.cached() as usize {
            return Ok(());
        }
        let words: Vec<String> =
            held.iter().map(|&p| format!("  page {p}: {}\n", me.node.describe(p))).collect();
        let said = me.node.cached();
        Err(self.failure(&format!(
            "rank {rank} holds cached pages {held:?}, and says {said}\n{}",
            words.concat()
        )))
    }

    /// A rank leaves the barrier.
    fn done(&mut self, rank: usize, outcome: &Outcome) -> Result<()> {
        let left = self.ranks[rank].interval;
        let expected = &self.interval(rank).outcome;
        if outcome != expected {
            return Err(self.failure(&format!("rank {rank} was told {outcome:?} instead of {expected:?}")));
        }
        let destroyed =
            outcome == &Outcome::Done && matches!(self.interval(rank).end, Collective::Destroy { .. });
        self.report.destroyed += u64::from(destroyed);
        self.report.in_use += u64::from(matches!(outcome, Outcome::InUse(_)));
        self.check_rights(rank, scash_proto::Pages { first: 0, count: self.setup.pages })?;
        self.check_cache(rank)?;
        self.count(rank, left);
        self.ranks[rank].interval += 1;
        self.forget_intervals();
        self.begin_interval(rank);
        Ok(())
    }
}
