//! One order after the other.

use super::{Answer, Claim, Interpreter, MOST_GOT, Machine, Step, WordPlace};
use crate::diff::{Changes, PageBytes};
use crate::node::{Input, Outcome, Output};
use crate::wire::sync::{Brought, SyncBody};
use crate::wire::{Kind, Parcel, SyncMessage};
use crate::{PAGE_SIZE, Pages, Rank, Transfer};

const ZEROS: PageBytes = [0; PAGE_SIZE];

impl Interpreter {
    /// Carries out one order.
    pub fn carry_out<M: Machine>(&mut self, m: &mut M, order: Output) -> Result<Step, M::Error> {
        match order {
            Output::MapZero(pages, access) => m.map_zero(pages, access)?,
            Output::Map(pages, access) => m.map(pages, access)?,
            Output::Protect(pages, access) => m.protect(pages, access)?,
            Output::Unmap(pages) => m.unmap(pages)?,
            Output::Discard(pages) => m.discard(pages)?,
            Output::Watch(pages) => watch(m, pages)?,
            Output::Unwatch(pages) => m.unwatch(pages)?,
            Output::Scan(pages) => self.scan(m, pages)?,
            Output::CompareToZeros(pages) => compare_to_zeros(m, pages)?,
            Output::Twin(page) => m.make_twin(page)?,
            Output::DropTwin(page) => m.drop_twin(page)?,
            Output::Get { from, pages } => return Ok(Step::Get(from, pages)),
            Output::Wait(page) => return Ok(Step::Wait(page)),
            Output::Claim { page, key, at, take } => return Ok(Step::Claim(Claim { page, key, at, take })),
            Output::Operate { page, at, mark } => return Ok(Step::Operate(WordPlace { page, at, mark })),
            Output::Denied(page) => return Ok(Step::Denied(page)),
            Output::Done(outcome) => return done(m, outcome),
            Output::Stage => return Ok(Step::Stage),
            Output::Committed(counts) => return Ok(Step::Committed(counts)),
            Output::Diff { page, to, force } => self.diff(m, page, to, force)?,
            Output::DiffZero { page, to } => self.diff_to_zeros(m, page, to)?,
            Output::Push(page) => self.push(m, page)?,
            Output::PushWhole { page, except } => self.push_whole(m, page, except)?,
            Output::Hand { page, to } => m.put_pages(to, Pages::one(page))?,
            Output::PutPages { pages, to } => m.put_pages(to, pages)?,
            Output::MarkAll(home) => m.mark_all(home)?,
            Output::PutDiff { page, to } => self.put_diff(m, page, to)?,
            Output::Refresh { pages, from, brought } => self.refresh(m, pages, from, &brought)?,
            Output::Report { page, to } => {
                self.encoded.clear();
                self.append(m, to, Kind::Diff, page)?;
            }
            Output::Closed { next } => self.close(m, next)?,
            Output::Flushed => {
                self.close_batches(m)?;
                m.node().handle(Input::Flushed)?;
            }
            Output::Come { call, digest } => m.come(call, digest)?,
            Output::Parcel { to, meeting, home } => {
                m.send(to, Kind::Parcel, &Parcel { meeting, home }.encode())?;
            }
            Output::Control(to, meeting, control) => m.send(to, Kind::Control, &control.encode(meeting))?,
            Output::Token(to, token) => m.send(to, Kind::Token, &token.encode())?,
            Output::Sync(to, message) => send_sync(m, to, message)?,
            Output::Reduce(to, message) => m.send(to, Kind::Reduce, &message.encode())?,
            Output::Acquired { object, who } => m.answer(object, who, Answer::Granted)?,
            Output::Refused { object, who } => m.answer(object, who, Answer::Refused)?,
            Output::Unmade { object, who, user } => m.answer(object, who, Answer::Unmade(user))?,
            Output::Absent { object, who, missing } => m.answer(object, who, Answer::Absent(missing))?,
            Output::ForgetClaims(pages) => m.forget_claims(pages)?,
            Output::SendWrites => m.send_writes()?,
            Output::CompareWrites => m.compare_writes()?,
        }
        Ok(Step::Next)
    }

    /// Tells the node which watched pages were written.
    fn scan<M: Machine>(&mut self, m: &mut M, pages: Pages) -> Result<(), M::Error> {
        self.found.clear();
        m.written(pages, &mut self.found)?;
        Ok(self.found.iter().try_for_each(|&run| m.node().handle(Input::Written(run)))?)
    }

    /// Compares a page with its twin and sends the home what differs.
    fn diff<M: Machine>(&mut self, m: &mut M, page: u32, to: Rank, force: bool) -> Result<(), M::Error> {
        m.look(page)?;
        let changes = m.differences(page)?;
        self.send_diff(m, page, to, &changes, force)
    }

    /// The same for a page that was all zeros, and has no twin.
    fn diff_to_zeros<M: Machine>(&mut self, m: &mut M, page: u32, to: Rank) -> Result<(), M::Error> {
        m.look(page)?;
        let changes = Changes::between(&ZEROS, m.seen());
        self.send_diff(m, page, to, &changes, false)
    }

    fn send_diff<M: Machine>(
        &mut self,
        m: &mut M,
        page: u32,
        to: Rank,
        changes: &Changes,
        force: bool,
    ) -> Result<(), M::Error> {
        let changed = !changes.is_empty();
        if changed && m.looks_for_races() {
            m.note(page, changes, None)?;
        }
        if changed || force {
            self.write_down(m, changes);
            self.append(m, to, Kind::Diff, page)?;
        }
        Ok(m.node().handle(Input::Compared { page, changed })?)
    }

    /// Compares a home page with its twin and brings what differs to its sharers and to the twin.
    fn push<M: Machine>(&mut self, m: &mut M, page: u32) -> Result<(), M::Error> {
        m.look(page)?;
        let changes = m.differences(page)?;
        if changes.is_empty() {
            return Ok(m.node().handle(Input::Compared { page, changed: false })?);
        }
        if m.node().pushes_early() && m.is_marked(page) {
            return Ok(m.node().handle(Input::IsMarked { page })?);
        }
        m.twin_what_was_seen(page)?;
        self.find_sharers(m, page, None);
        let may_put = m.transfer() == Transfer::ZeroCopy && !m.node().must_message(page);
        if may_put && self.put_to_sharers(m, page, &changes)? {
            return Ok(m.node().handle(Input::Compared { page, changed: true })?);
        }
        self.write_down(m, &changes);
        self.append_for_sharers(m, page)?;
        Ok(m.node().handle(Input::Messaged { page })?)
    }

    /// Puts the changes of a page into the frames of its sharers. `false` if they are better sent.
    fn put_to_sharers<M: Machine>(
        &mut self,
        m: &mut M,
        page: u32,
        changes: &Changes,
    ) -> Result<bool, M::Error> {
        for &to in &self.sharers {
            if !m.put_seen_if_cheap(to, page, changes)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn push_whole<M: Machine>(&mut self, m: &mut M, page: u32, except: Option<Rank>) -> Result<(), M::Error> {
        self.find_sharers(m, page, except);
        if m.transfer() == Transfer::ZeroCopy {
            return self.sharers.iter().try_for_each(|&to| m.put_pages(to, Pages::one(page)));
        }
        m.look(page)?;
        self.write_down(m, &Changes::ALL);
        self.append_for_sharers(m, page)
    }

    fn find_sharers<M: Machine>(&mut self, m: &mut M, page: u32, except: Option<Rank>) {
        self.sharers.clear();
        self.sharers.extend(m.node().update_sharers(page).filter(|&to| Some(to) != except));
    }

    /// Puts what differs from the twin into the home's frame and into the twin. It is there after
    /// [`close`](Self::close).
    fn put_diff<M: Machine>(&mut self, m: &mut M, page: u32, to: Rank) -> Result<(), M::Error> {
        m.look(page)?;
        let changes = m.differences(page)?;
        let changed = !changes.is_empty();
        if changed {
            if m.looks_for_races() {
                m.get_pages(to, &[page], &mut self.theirs[..1])?;
                m.note(page, &changes, Some(&self.theirs[0]))?;
            }
            m.twin_what_was_seen(page)?;
            m.put_seen(to, page, &changes)?;
            m.flush()?;
            if !self.put_to.contains(&to) {
                self.put_to.push(to);
            }
        }
        Ok(m.node().handle(Input::PutBack { page, changed })?)
    }

    /// Gets pages from their home, but for those that have come with a lock and are good enough: as many at
    /// once as pays, and merges them one after the other.
    fn refresh<M: Machine>(
        &mut self,
        m: &mut M,
        mut pages: Vec<u32>,
        from: Rank,
        brought: &Brought,
    ) -> Result<(), M::Error> {
        let together = m.pages_a_get(from).clamp(1, MOST_GOT);
        // Where a get is a copy, it would take a good part of its time to find out.
        let compares = together > 1 && m.node().asks_for_tracking();
        let mut found = Found::default();
        if !brought.is_empty() {
            pages = merge_brought(m, pages, from, brought, compares, &mut found)?;
        }
        for pages in pages.chunks(together) {
            if self.theirs.len() < pages.len() {
                self.theirs.resize(pages.len(), ZEROS);
            }
            m.get_pages(from, pages, &mut self.theirs[..pages.len()])?;
            for (&page, theirs) in pages.iter().zip(&self.theirs) {
                let compares = compares && m.node().counts_in_vain(page, false);
                bring_up_to_date(m, page, theirs, compares, &mut found)?;
            }
        }
        let Found { in_vain, changed } = found;
        if !in_vain.is_empty() || !changed.is_empty() {
            m.node().handle(Input::Refreshed { in_vain, changed, from })?;
        }
        Ok(())
    }

    /// Ends an interval, if all that was put is in place, but for what was put to `next`.
    fn close<M: Machine>(&mut self, m: &mut M, next: Option<Rank>) -> Result<(), M::Error> {
        m.make_room();
        let at = self.put_to.iter().position(|&to| Some(to) == next);
        let behind = at.map(|at| self.put_to.swap_remove(at));
        let closed = m.close(&mut self.put_to, next)?;
        self.put_to.extend(behind);
        if closed {
            m.node().handle(Input::Closed { behind: behind.is_some() })?;
        }
        Ok(())
    }
}

/// Tells the node which pages hold anything but zeros.
fn compare_to_zeros<M: Machine>(m: &mut M, pages: Pages) -> Result<(), M::Error> {
    pages.iter().try_for_each(|page| {
        m.look(page)?;
        let zero = *m.seen() == ZEROS;
        Ok(m.node().handle(Input::IsZero { page, zero })?)
    })
}

/// Sends a message about an object, with what this rank's frames hold of the pages that are to come with it.
fn send_sync<M: Machine>(m: &mut M, to: Rank, mut message: SyncMessage) -> Result<(), M::Error> {
    if let SyncBody::Grant { brought, .. } = &mut message.body {
        if m.pages_a_get(to) == 1 {
            // To get a page is to copy it, there as here.
            *brought = Brought::default();
        }
        for &page in &brought.pages {
            m.look(page)?;
            brought.bytes.extend_from_slice(m.seen());
        }
    }
    m.send(to, Kind::Sync, &message.encode())
}

/// What renewals of copies, as far as they were compared, have found.
#[derive(Default)]
struct Found {
    in_vain: Vec<u32>,
    changed: Vec<u32>,
}

/// Merges what has come with a lock, as far as this rank has not seen anything newer. Returns the other
/// pages.
fn merge_brought<M: Machine>(
    m: &mut M,
    pages: Vec<u32>,
    from: Rank,
    brought: &Brought,
    compares: bool,
    found: &mut Found,
) -> Result<Vec<u32>, M::Error> {
    let mut others = Vec::new();
    for page in pages {
        match brought.page(page).filter(|_| m.node().takes_brought(page, from, &brought.known)) {
            Some(theirs) => {
                let compares = compares && m.node().counts_in_vain(page, true);
                bring_up_to_date(m, page, theirs, compares, found)?;
            }
            None => others.push(page),
        }
    }
    Ok(others)
}

/// Brings a copy up to what its home has. If it `compares`, it notes whether that had changed anything.
fn bring_up_to_date<M: Machine>(
    m: &mut M,
    page: u32,
    theirs: &PageBytes,
    compares: bool,
    found: &mut Found,
) -> Result<(), M::Error> {
    if compares {
        if !would_change(m, page, theirs)? {
            found.in_vain.push(page);
            return Ok(());
        }
        found.changed.push(page);
    }
    take_home_bytes(m, page, theirs)
}

/// Whether a home's page has anything that a copy lacks: compared with its twin, if it has one.
fn would_change<M: Machine>(m: &mut M, page: u32, theirs: &PageBytes) -> Result<bool, M::Error> {
    if let Some(twin) = m.twin(page)? {
        return Ok(*twin != *theirs);
    }
    m.look(page)?;
    Ok(m.seen() != theirs)
}

/// Takes into page and twin what the home has changed since the twin was made: threads of this rank may be
/// writing all else. `theirs`: the home's page.
fn take_home_bytes<M: Machine>(m: &mut M, page: u32, theirs: &PageBytes) -> Result<(), M::Error> {
    let Some(twin) = m.twin(page)? else {
        // Without a twin nobody here may write it.
        return m.store(page, 0, theirs);
    };
    let changes = Changes::between(twin, theirs);
    *twin = *theirs;
    for run in changes.runs() {
        m.store(page, run.range().start, &theirs[run.range()])?;
    }
    Ok(())
}

fn watch<M: Machine>(m: &mut M, pages: Pages) -> Result<(), M::Error> {
    if !m.watch(pages)? {
        m.node().handle(Input::Unwatchable(pages))?;
    }
    Ok(())
}

fn done<M: Machine>(m: &mut M, outcome: Outcome) -> Result<Step, M::Error> {
    if let Outcome::Allocated(pages) = &outcome {
        // Someone may have touched the pages when they were nobody's, and survived it.
        m.admit(*pages)?;
    }
    Ok(Step::Done(outcome))
}
