//! Carrying out the protocol's orders: the only place where [`Node`], frames, twins, the fault engine and the endpoint meet.

use crate::claims::Claims;
use crate::error::Result;
use crate::fault::{self, FaultEngine, PAGE, Region};
use crate::frames;
use crate::marks::Marks;
use crate::races::Search;
use crate::runtime::Inquiry;
use crate::twins::Twins;
use scash_comm::{Caps, Endpoint, Event, GetRange, PutRange, SegmentId};
use scash_proto::diff::{Changes, Diff, MAX_ENCODED, PageBytes};
use scash_proto::node::{Input, MOST_RUNS, Node, Outcome, Output, Violation};
use scash_proto::races::Testimony;
use scash_proto::wire::{Control, Kind, PageBatch, Parcel, ReduceMessage, StallMessage, SyncMessage, Token};
use scash_proto::{Access, Pages, Rank, Strided, Transfer};
use std::ops::Range;
use std::sync::Arc;

/// A batch of diffs is sent when it has grown past this, in bytes.
const BATCH: usize = 48 << 10;
/// Changes of a page in more pieces than this are not put one by one.
const FEW: usize = 8;

/// What the rank has besides its protocol state: usable without the lock on [`Core`].
pub(crate) struct House {
    pub(crate) region: Arc<Region>,
    pub(crate) engine: Box<dyn FaultEngine>,
    pub(crate) endpoint: Box<dyn Endpoint>,
    pub(crate) segment: SegmentId,
    pub(crate) transfer: Transfer,
    pub(crate) claims: Claims,
    pub(crate) marks: Marks,
}

/// Protocol state and what its orders work on. Behind one lock.
pub(crate) struct Core {
    pub(crate) node: Node,
    twins: Twins,
    /// The search for data races, if there is one.
    search: Option<Box<Search>>,
    /// Diffs on their way home, and changes on their way to sharers (transfer by message), by receiver.
    batches: Vec<Batch>,
    /// Ranks that something was put to which nobody has waited for.
    unfenced: Vec<Rank>,
    /// Threads that have got what they wait for, or have not, with the object's number.
    answers: Vec<(u32, u64, bool)>,
    /// What ranks ask and say of who waits for whom.
    pub(crate) inquiry: Inquiry,
    /// Times that a lock was given back, or others were let go on.
    pub(crate) released: u32,
    ranges: Vec<PutRange>,
    page: Box<PageBytes>,
    encoded: Vec<u8>,
}

struct Batch {
    to: Rank,
    kind: Kind,
    bytes: Vec<u8>,
}

// SAFETY: the raw pointers are those of `ranges`, which is empty whenever nobody executes an order; `Core` has no thread affinity.
unsafe impl Send for Core {}

/// What an order leaves to its caller.
pub(crate) enum Step {
    /// Nothing: on to the next one.
    Next,
    /// Fetch these pages, without the lock.
    Get(Rank, Strided),
    /// Wait until another thread has fetched the page.
    Wait(u32),
    /// Ask whose a page is, without the lock.
    Claim(Claim),
    /// Execute an atomic operation, without the lock.
    Operate(Place),
    /// The fault is the program's own.
    Denied,
    /// The collective call is over.
    Done(Outcome),
}

/// An [`Output::Claim`].
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    /// The page that faulted.
    pub(crate) page: u32,
    /// The number of the claim.
    pub(crate) key: u32,
    /// Who keeps it.
    pub(crate) at: Rank,
    /// Whether this rank wants to be the home.
    pub(crate) take: bool,
}

/// An [`Output::Operate`].
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Whose frame holds the word.
    pub(crate) at: Rank,
    /// Whether its page is to be marked there first.
    pub(crate) mark: bool,
}

/// A run of pages as engines take it.
pub(crate) fn span(pages: Pages) -> Range<u32> {
    pages.first..pages.end()
}

fn engine_access(access: Access) -> fault::Access {
    match access {
        Access::Write => fault::Access::Write,
        Access::Read | Access::None => fault::Access::Read,
    }
}

fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE as u64
}

impl House {
    /// Fetches pages from their home and maps them for reading.
    pub(crate) fn fetch(&self, from: Rank, pages: Strided) -> Result<()> {
        let len = pages.first.count as usize * PAGE;
        if self.endpoint.caps_to(from.0).contains(Caps::DIRECT) {
            for run in pages.runs() {
                let (at, mut mapped) = (offset(run.first), Ok(()));
                let mut map = |src| {
                    // SAFETY: the endpoint gives the address of `len` readable bytes: in the peer's runtime view, or a copy.
                    mapped = unsafe { self.engine.map_copy(span(run), src, fault::Access::Read) };
                };
                if run.count == 1 && self.engine.lacks_frame(run.first) {
                    self.endpoint.read_peer_once(from.0, self.segment, at, len, &mut map)?;
                } else {
                    self.endpoint.read_peer(from.0, self.segment, at, len, &mut map)?;
                }
                mapped?;
            }
            return Ok(());
        }
        let mut ranges = [GetRange { offset: 0, len, dst: std::ptr::null_mut() }; MOST_RUNS as usize];
        let mut count = 0;
        for (range, run) in ranges.iter_mut().zip(pages.runs()) {
            (range.offset, range.dst) = (offset(run.first), frames::frame(&self.region, run.first));
            count += 1;
        }
        // SAFETY: the frames of pages that are being fetched belong to the fetching thread: nobody here has them mapped.
        unsafe { self.endpoint.get(from.0, self.segment, &ranges[..count]) }?;
        for run in pages.runs() {
            self.engine.map(span(run), fault::Access::Read)?;
        }
        Ok(())
    }

    /// Gets one page of a peer into private memory.
    fn read_page(&self, from: Rank, page: u32, into: &mut PageBytes) -> Result<()> {
        let range = GetRange { offset: offset(page), len: PAGE, dst: into.as_mut_ptr() };
        // SAFETY: `into` is a page of private memory, borrowed mutably.
        Ok(unsafe { self.endpoint.get(from.0, self.segment, &[range]) }?)
    }

    /// Gives a page again the access that it has, for a fault that found it already served (or swapped out).
    pub(crate) fn restore(&self, page: u32, access: Access) -> Result<()> {
        Ok(self.engine.map(span(Pages::one(page)), engine_access(access))?)
    }
}

impl Core {
    pub(crate) fn new(node: Node, twins: Twins, ranks: u32, search: Option<Box<Search>>) -> Core {
        Core {
            node,
            twins,
            search,
            batches: Vec::new(),
            // Pages may be given up in a fault, where nothing allocates.
            unfenced: Vec::with_capacity(ranks as usize),
            answers: Vec::new(),
            inquiry: Inquiry::default(),
            released: 0,
            ranges: Vec::with_capacity(PAGE),
            page: Box::new([0; PAGE]),
            encoded: Vec::with_capacity(MAX_ENCODED),
        }
    }

    /// Carries out one order.
    pub(crate) fn execute(&mut self, house: &House, order: Output) -> Result<Step> {
        let engine = &house.engine;
        match order {
            Output::MapZero(p, access) => engine.map_zero(span(p), engine_access(access))?,
            Output::Map(p, access) => engine.map(span(p), engine_access(access))?,
            Output::Protect(p, access) => engine.protect(span(p), engine_access(access))?,
            Output::Unmap(p) => engine.unmap(span(p))?,
            Output::Discard(p) => engine.discard(span(p))?,
            Output::Watch(p) => {
                if !engine.track_async(span(p))? {
                    engine.protect(span(p), fault::Access::Read)?;
                    self.node.handle(Input::Unwatchable(p))?;
                }
            }
            Output::Unwatch(p) => engine.track_sync(span(p))?,
            Output::Scan(p) => self.scan(house, p)?,
            Output::Twin(page) => frames::load(&house.region, page, self.twins.make(page)),
            Output::DropTwin(page) => self.twins.drop_twin(page),
            Output::Get { from, pages } => return Ok(Step::Get(from, pages)),
            Output::Wait(page) => return Ok(Step::Wait(page)),
            Output::Claim { page, key, at, take } => return Ok(Step::Claim(Claim { page, key, at, take })),
            Output::Operate { at, mark, .. } => return Ok(Step::Operate(Place { at, mark })),
            Output::ForgetClaims(p) => house.claims.forget(p)?,
            Output::Testify => self.testify(house)?,
            Output::Judge => self.judge(house),
            Output::Denied(_) => return Ok(Step::Denied),
            Output::Done(outcome) => {
                if let Outcome::Allocated(p) = &outcome {
                    // Someone may have touched the pages when they were nobody's, and survived it.
                    engine.admit(span(*p))?;
                }
                return Ok(Step::Done(outcome));
            }
            Output::Diff { page, to, force } => self.diff(house, page, to, force)?,
            Output::DiffZero { page, to } => self.diff(house, page, to, false)?,
            Output::Push(page) => self.push(house, page)?,
            Output::PushWhole { page, except } => self.push_whole(house, page, except)?,
            Output::Hand { page, to } => put_pages(house, Pages::one(page), to)?,
            Output::PutPages { pages, to } => put_pages(house, pages, to)?,
            Output::PutDiff { page, to } => self.put_diff(house, page, to)?,
            Output::Refresh { page, from } => self.refresh(house, page, from)?,
            Output::Parcel { to, meeting, home } => {
                send(house, to, Kind::Parcel, &Parcel { meeting, home }.encode())?;
            }
            Output::Control(to, meeting, control) => {
                send(house, to, Kind::Control, &control.encode(meeting))?
            }
            Output::Token(to, token) => send(house, to, Kind::Token, &token.encode())?,
            Output::Sync(to, message) => send(house, to, Kind::Sync, &message.encode())?,
            Output::Reduce(to, message) => send(house, to, Kind::Reduce, &message.encode())?,
            Output::Acquired { object, who } => self.answers.push((object, who, true)),
            Output::Refused { object, who } => self.answers.push((object, who, false)),
            Output::Report { page, to } => {
                self.encoded.clear();
                self.append(house, to, Kind::Diff, page)?;
            }
            Output::Closed => {
                self.search.iter_mut().for_each(|search| search.make_room());
                self.fence(house)?;
                self.node.handle(Input::Closed)?;
            }
            Output::Flushed => {
                self.close_batches(house)?;
                self.node.handle(Input::Flushed)?;
            }
        }
        Ok(Step::Next)
    }

    /// Tells the protocol which watched pages were written.
    fn scan(&mut self, house: &House, pages: Pages) -> Result<()> {
        let mut found = Vec::new();
        house.engine.written(span(pages), &mut found)?;
        for run in found {
            let count = run.end - run.start;
            self.node.handle(Input::Written(Pages { first: run.start, count }))?;
        }
        Ok(())
    }

    /// Compares a page with its twin (zeros if it has none) and appends what differs to the batch for its home.
    fn diff(&mut self, house: &House, page: u32, to: Rank, force: bool) -> Result<()> {
        const ZEROS: PageBytes = [0; PAGE];
        frames::load(&house.region, page, &mut self.page);
        let twin = self.twins.get(page).map_or(&ZEROS, |t| &*t);
        let changes = Changes::between(twin, &self.page);
        let changed = !changes.is_empty();
        if let Some(search) = self.search.as_mut().filter(|_| changed) {
            search.note(&self.node, page, [twin, &self.page], &changes, None);
        }
        if changed || force {
            self.encoded.clear();
            changes.encode(&self.page, &mut self.encoded);
            self.append(house, to, Kind::Diff, page)?;
        }
        self.node.handle(Input::Compared { page, changed })?;
        Ok(())
    }

    /// Appends the encoded diff of a page to a batch.
    fn append(&mut self, house: &House, to: Rank, kind: Kind, page: u32) -> Result<()> {
        let at = match self.batches.iter().position(|b| b.to == to && b.kind == kind) {
            Some(at) => at,
            None => {
                self.batches.push(Batch { to, kind, bytes: Vec::with_capacity(BATCH + MAX_ENCODED) });
                self.batches.len() - 1
            }
        };
        let batch = &mut self.batches[at];
        if batch.bytes.is_empty() {
            PageBatch::begin(&mut batch.bytes, self.node.meeting());
        }
        let encoded = &self.encoded;
        PageBatch::push(&mut batch.bytes, page, true, |out| {
            out.extend_from_slice(encoded);
            encoded.len()
        });
        if batch.bytes.len() >= BATCH {
            house.endpoint.send(to.0, kind.number(), &[&batch.bytes])?;
            batch.bytes.clear();
        }
        Ok(())
    }

    fn close_batches(&mut self, house: &House) -> Result<()> {
        for batch in self.batches.iter_mut().filter(|b| !b.bytes.is_empty()) {
            house.endpoint.send(batch.to.0, batch.kind.number(), &[&batch.bytes])?;
            batch.bytes.clear();
        }
        Ok(())
    }

    /// Compares a home page with its twin and brings what differs to its sharers and to the twin.
    fn push(&mut self, house: &House, page: u32) -> Result<()> {
        frames::load(&house.region, page, &mut self.page);
        let Some(twin) = self.twins.get(page) else {
            self.node.handle(Input::Compared { page, changed: false })?;
            return Ok(());
        };
        let changes = Changes::between(twin, &self.page);
        let changed = !changes.is_empty();
        if changed && self.node.pushes_early() && house.marks.is_set(page, self.node.epoch()) {
            self.node.handle(Input::IsMarked { page })?;
            return Ok(());
        }
        let mut by_message = house.transfer == Transfer::Message || self.node.must_message(page);
        if changed {
            *twin = *self.page;
            if !by_message {
                by_message = !self.put_changes(house, page, &changes)?;
            }
            if by_message {
                self.encoded.clear();
                changes.encode(&self.page, &mut self.encoded);
                self.send_to_sharers(house, page, None)?;
            }
        }
        let answer =
            if changed && by_message { Input::Messaged { page } } else { Input::Compared { page, changed } };
        self.node.handle(answer)?;
        Ok(())
    }

    /// Lists the changed runs of a page as ranges of a put of the bytes at `src`.
    fn list_changes(&mut self, src: *const u8, page: u32, changes: &Changes) {
        self.ranges.clear();
        self.ranges.extend(changes.runs().map(|run| PutRange {
            offset: offset(page) + u64::from(run.offset),
            len: usize::from(run.len),
            src: src.wrapping_add(usize::from(run.offset)),
        }));
    }

    /// Puts the changed bytes of a page into the frames of its sharers. `false` if they are in too many pieces for that: nothing was done then.
    fn put_changes(&mut self, house: &House, page: u32, changes: &Changes) -> Result<bool> {
        let few = changes.runs().nth(FEW).is_none();
        let frame = frames::frame(&house.region, page).cast_const();
        if few {
            self.list_changes(frame, page, changes);
        }
        for to in self.node.update_sharers(page) {
            if few {
                // SAFETY: the ranges lie in the page's frame, which stays mapped; this rank is in the barrier, so nobody writes it before
                // the caller's flush.
                unsafe { house.endpoint.put(to.0, house.segment, &self.ranges) }?;
                continue;
            }
            // SAFETY: as above; the masks stand for the bytes of one page.
            let put = unsafe {
                house.endpoint.put_masked(to.0, house.segment, offset(page), frame, changes.masks())
            };
            if !put? {
                return Ok(false);
            }
        }
        self.ranges.clear();
        Ok(true)
    }

    /// Appends the encoded changes of a page to the batches for its sharers.
    fn send_to_sharers(&mut self, house: &House, page: u32, except: Option<Rank>) -> Result<()> {
        let sharers: Vec<Rank> = self.node.update_sharers(page).filter(|&r| Some(r) != except).collect();
        sharers.into_iter().try_for_each(|to| self.append(house, to, Kind::Update, page))
    }

    fn push_whole(&mut self, house: &House, page: u32, except: Option<Rank>) -> Result<()> {
        match house.transfer {
            Transfer::ZeroCopy => {
                let sharers = self.node.update_sharers(page).filter(|&r| Some(r) != except);
                for to in sharers {
                    put_pages(house, Pages::one(page), to)?;
                }
                Ok(())
            }
            Transfer::Message => {
                frames::load(&house.region, page, &mut self.page);
                self.encoded.clear();
                Changes::ALL.encode(&self.page, &mut self.encoded);
                self.send_to_sharers(house, page, except)
            }
        }
    }

    /// Puts what differs from the twin into the home's frame and into the twin. It is there after [`fence`](Self::fence).
    fn put_diff(&mut self, house: &House, page: u32, to: Rank) -> Result<()> {
        frames::load(&house.region, page, &mut self.page);
        let Some(twin) = self.twins.get(page) else { return Ok(()) };
        let changes = Changes::between(twin, &self.page);
        let changed = !changes.is_empty();
        if changed {
            if let Some(search) = &mut self.search {
                let mut met = [0; PAGE];
                house.read_page(to, page, &mut met)?;
                search.note(&self.node, page, [twin, &self.page], &changes, Some(&met));
            }
            *twin = *self.page;
            // What was compared is what is put. The frame may have other bytes by now: were they put, and the program then wrote what the twin has, the
            // next comparison would find nothing, and the home would keep what nobody wrote last.
            self.list_changes(self.page.as_ptr(), page, &changes);
            // SAFETY: the ranges lie in `self.page`, which nobody writes before the flush that follows.
            unsafe { house.endpoint.put(to.0, house.segment, &self.ranges) }?;
            self.ranges.clear();
            house.endpoint.flush()?;
            if !self.unfenced.contains(&to) {
                self.unfenced.push(to);
            }
        }
        self.node.handle(Input::PutBack { page, changed })?;
        Ok(())
    }

    /// Waits until all that was put is in place.
    fn fence(&mut self, house: &House) -> Result<()> {
        self.unfenced.drain(..).try_for_each(|to| Ok(house.endpoint.fence(to.0)?))
    }

    /// The ranks that something was put to which nobody has waited for. The caller does.
    pub(crate) fn take_unfenced(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.unfenced)
    }

    /// Whether a thread has got what it waits for, once that is decided. Says so once.
    pub(crate) fn take_answer(&mut self, object: u32, who: u64) -> Option<bool> {
        let at = self.answers.iter().position(|&(o, w, _)| (o, w) == (object, who))?;
        Some(self.answers.swap_remove(at).2)
    }

    /// Gets the page from its home; what the home has changed since the twin was made goes into the page and the twin, and no other byte is stored: threads of
    /// this rank may be writing them.
    fn refresh(&mut self, house: &House, page: u32, from: Rank) -> Result<()> {
        let mut theirs = [0; PAGE];
        house.read_page(from, page, &mut theirs)?;
        let Some(twin) = self.twins.get(page) else {
            frames::store(&house.region, page, 0, &theirs);
            return Ok(());
        };
        for run in Changes::between(twin, &theirs).runs() {
            frames::store(&house.region, page, run.range().start, &theirs[run.range()]);
        }
        *twin = theirs;
        Ok(())
    }

    /// Takes what a peer sent.
    pub(crate) fn take(&mut self, house: &House, event: Event<'_>) -> Result<()> {
        let (from, kind, payload) = match event {
            Event::Message { from, kind, payload } => (Rank(from), kind, payload),
            Event::Part { from, .. } => {
                let why = "it sent a message to be taken in parts, which no rank does".to_owned();
                return Err(scash_comm::Error::Protocol { rank: from, why }.into());
            }
            Event::Down { rank } => {
                let why = "it ended, or its connection broke; its end is reported by scash run".to_owned();
                return Err(scash_comm::Error::Down { rank, why }.into());
            }
        };
        match Kind::from_number(kind) {
            Some(Kind::Token) => self.node.handle(Input::Token(from, Token::decode(payload)?))?,
            Some(Kind::Control) => {
                let (meeting, control) = Control::decode(payload)?;
                self.node.handle(Input::Control(from, meeting, control))?;
            }
            Some(Kind::Parcel) => {
                let parcel = Parcel::decode(payload)?;
                self.node.handle(Input::Parcel(from, parcel.meeting, parcel.home))?;
            }
            Some(Kind::Sync) => self.node.handle(Input::Sync(from, SyncMessage::decode(payload)?))?,
            Some(Kind::Reduce) => {
                self.node.handle(Input::Reducing(from, ReduceMessage::decode(payload)?))?;
            }
            Some(Kind::Stall) => self.inquiry.take(from, StallMessage::decode(payload)?),
            Some(Kind::Testimony) => self.hear(house, from, payload)?,
            Some(kind @ (Kind::Diff | Kind::Update)) => self.merge(house, from, kind, payload)?,
            None => return Err(Violation { rank: from, what: "a message of no known kind" }.into()),
        }
        Ok(())
    }

    /// Answers those that asked what this rank does.
    pub(crate) fn answer_inquiries(&mut self, house: &House) -> Result<()> {
        if self.inquiry.is_asked() { self.inquiry.answer(house, self.node.doings()) } else { Ok(()) }
    }

    /// Takes what a peer has written, for the search for data races.
    fn hear(&mut self, house: &House, from: Rank, payload: &[u8]) -> Result<()> {
        let said = Testimony::decode(from, house.region.pages(), payload);
        let said = said.map_err(|_| Violation { rank: from, what: "a malformed testimony" })?;
        self.node.handle(Input::Testimony(from, said.meeting))?;
        if let Some(search) = &mut self.search {
            search.hear(said);
        }
        Ok(())
    }

    fn testify(&mut self, house: &House) -> Result<()> {
        let Some(search) = &mut self.search else { return Ok(()) };
        search.testify(&mut self.node, house)
    }

    fn judge(&mut self, house: &House) {
        if let Some(search) = &mut self.search {
            search.judge(&self.node, &house.region);
        }
    }

    /// The search for data races, if there is one, with what it works on.
    pub(crate) fn search(&mut self) -> Option<(&mut Search, &Node)> {
        Some((self.search.as_mut()?, &self.node))
    }

    /// Merges a batch of diffs or updates into frames, and into twins where there are some, so that they are not
    /// taken for this rank's own writes.
    fn merge(&mut self, house: &House, from: Rank, kind: Kind, payload: &[u8]) -> Result<()> {
        let (meeting, pages) = PageBatch::read(payload)?;
        for item in pages {
            let (page, bytes) = item?;
            let diff = Diff::parse(bytes).map_err(|_| Violation { rank: from, what: "a malformed diff" })?;
            self.node.handle(match kind {
                Kind::Update => Input::Update(from, meeting, page),
                _ => Input::Diff(from, meeting, page),
            })?;
            if let Some(search) = self.search.as_mut().filter(|_| kind == Kind::Diff) {
                search.merging(&house.region, from, meeting, page);
            }
            frames::merge(&house.region, page, &diff);
            if let Some(twin) = self.twins.get(page) {
                diff.apply(twin);
            }
        }
        self.node.batch_taken()?;
        Ok(())
    }
}

/// Sends a message of the protocol.
fn send(house: &House, to: Rank, kind: Kind, bytes: &[u8]) -> Result<()> {
    Ok(house.endpoint.send(to.0, kind.number(), &[bytes])?)
}

/// Puts whole pages into a peer's frames.
fn put_pages(house: &House, pages: Pages, to: Rank) -> Result<()> {
    let src = frames::frame(&house.region, pages.first).cast_const();
    let range = PutRange { offset: offset(pages.first), len: pages.count as usize * PAGE, src };
    // SAFETY: the pages' frames stay mapped, one behind the other; all ranks are in the barrier, so nobody writes it before the caller's flush.
    Ok(unsafe { house.endpoint.put(to.0, house.segment, &[range]) }?)
}
