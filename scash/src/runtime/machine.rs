//! This rank as the [machine](Machine) that orders are carried out on: real frames, twins, a fault engine and
//! an endpoint.

use crate::error::{Error, Result};
use crate::fault::{self, PAGE};
use crate::runtime::Inquiry;
use crate::runtime::context::{RankContext, engine_access, offset, span};
use crate::runtime::frame_sharing::FrameSharing;
use crate::runtime::frames;
use crate::runtime::races::Search;
use crate::runtime::twins::Twins;
use scash_comm::{Caps, Coming, GetRange, PutRange};
use scash_proto::diff::{Changes, PageBytes};
use scash_proto::interpreter::{Answer, MOST_GOT, Machine};
use scash_proto::node::{Node, Violation};
use scash_proto::races::WriteTraces;
use scash_proto::wire::{Kind, StallMessage};
use scash_proto::{Access, Input, Pages, Rank, Transfer};

/// A batch of diffs is sent when it has grown past this, in bytes.
const BATCH: usize = 48 << 10;
/// Changes of a page in more pieces than this are not put one by one.
const FEW: usize = 8;
/// Looks that can be on their way to peers at once: then they are flushed, as each look needs a place.
const LOOKS: usize = 64;

/// What orders work on beside frames and peers. Behind the lock on the core.
pub(crate) struct Tools {
    pub(crate) twins: Twins,
    /// The search for data races, if there is one.
    pub(crate) search: Option<Box<Search>>,
    /// Threads that have got what they wait for, or have not, with the object's number.
    pub(crate) answers: Vec<(u32, u64, Answer)>,
    /// What ranks ask and say of who waits for whom.
    pub(crate) inquiry: Inquiry,
    looks: Looks,
    ranges: Vec<PutRange>,
    gets: Vec<GetRange>,
}

// SAFETY: the raw pointers are those of `ranges` and `gets`, which are empty whenever nobody executes an
// order; `Tools` has no thread affinity.
unsafe impl Send for Tools {}

impl Tools {
    pub(crate) fn new(twins: Twins, search: Option<Box<Search>>) -> Tools {
        Tools {
            twins,
            search,
            answers: Vec::new(),
            inquiry: Inquiry::default(),
            looks: Looks::new(),
            ranges: Vec::with_capacity(PAGE),
            gets: Vec::with_capacity(MOST_GOT),
        }
    }

    /// The rank has come back, with these twins. Threads still have to take their answers. The search goes
    /// on: it knows which pages were zeros and which others have written, what the program has named, and
    /// what was told. Large buffers stay: new ones would not fit into their places in the heap.
    pub(crate) fn renew(&mut self, twins: Twins) {
        self.twins = twins;
        self.inquiry = Inquiry::default();
        self.looks.forget();
        self.ranges.clear();
        self.gets.clear();
    }
}

/// What a look saw. Frames and twins begin with a line of the cache, too: no copy reads two for one.
#[derive(Clone)]
#[repr(align(64))]
struct Look(PageBytes);

/// The last looks at frames. What was put from a look stays as it was until the endpoint has handed it over.
struct Looks {
    pages: Box<[Look]>,
    last: usize,
    /// Something was put from the last one, and may still be on its way.
    lent: bool,
    /// The page whose twin is what the last one saw. What is put then comes from there: the twin is in the
    /// processor's cache until it is compared again, and the same look serves the next page.
    twin: Option<u32>,
    /// Pages from whose twins something was put that may still be on its way: they stay as they are until
    /// then.
    lent_twins: Vec<u32>,
}

impl Looks {
    fn new() -> Looks {
        Looks {
            pages: vec![Look([0; PAGE]); LOOKS].into_boxed_slice(),
            last: 0,
            lent: false,
            twin: None,
            lent_twins: Vec::with_capacity(LOOKS),
        }
    }

    /// Nothing was looked at.
    fn forget(&mut self) {
        (self.lent, self.twin) = (false, None);
        self.lent_twins.clear();
    }

    fn last(&self) -> &PageBytes {
        &self.pages[self.last].0
    }
}

/// One rank, while an order is carried out.
pub(crate) struct RankMachine<'a> {
    pub(crate) context: &'a RankContext,
    pub(crate) node: &'a mut Node,
    pub(crate) tools: &'a mut Tools,
}

impl RankMachine<'_> {
    /// What the last look, which was at this page, saw, where it stays until it is handed over.
    fn seen_to_be_put(&mut self, page: u32) -> *const u8 {
        let Tools { looks, twins, .. } = &mut *self.tools;
        let twin = looks.twin.filter(|twin| *twin == page).and_then(|page| twins.get(page));
        twin.map_or(looks.last().as_ptr(), |twin| twin.as_ptr())
    }

    /// Lists changed runs of the last look as ranges of a put, at most so many.
    fn list_changes(&mut self, page: u32, changes: &Changes, most: usize) {
        let seen = self.seen_to_be_put(page);
        self.tools.ranges.clear();
        self.tools.ranges.extend(changes.runs().take(most).map(|run| PutRange {
            offset: offset(page) + u64::from(run.offset),
            len: usize::from(run.len),
            src: seen.wrapping_add(usize::from(run.offset)),
        }));
    }

    /// Puts the listed ranges.
    fn put_ranges(&mut self, to: Rank) -> Result<()> {
        let context = self.context;
        // SAFETY: the ranges lie in the last look, or in the twin that is equal to it: private memory that is
        // not written again before a flush (`look`, `change_twin`).
        let put = unsafe { context.endpoint.put(to.0, context.segment, &self.tools.ranges) };
        self.tools.ranges.clear();
        put?;
        self.lend(to)
    }

    /// What the last look saw is on its way to a peer, unless it is there already.
    fn lend(&mut self, to: Rank) -> Result<()> {
        if self.context.endpoint.caps_to(to.0).contains(Caps::DIRECT) {
            return Ok(());
        }
        let looks = &mut self.tools.looks;
        let Some(page) = looks.twin else {
            looks.lent = true;
            return Ok(());
        };
        if looks.lent_twins.last() != Some(&page) {
            if looks.lent_twins.len() == LOOKS {
                self.flush()?;
            }
            self.tools.looks.lent_twins.push(page);
        }
        Ok(())
    }

    /// The twin of a page is about to change, or to be forgotten.
    fn change_twin(&mut self, page: u32) -> Result<()> {
        let looks = &mut self.tools.looks;
        looks.twin = looks.twin.filter(|twin| *twin != page);
        if looks.lent_twins.contains(&page) { self.flush() } else { Ok(()) }
    }
}

impl Machine for RankMachine<'_> {
    type Error = Error;

    fn node(&mut self) -> &mut Node {
        self.node
    }

    fn transfer(&self) -> Transfer {
        self.context.transfer
    }

    fn map_zero(&mut self, pages: Pages, access: Access) -> Result<()> {
        self.context.engine.map_zero(span(pages), engine_access(access))?;
        if self.context.frames == FrameSharing::Shared {
            populate(self.context, self.node.rank(), pages)?;
        }
        Ok(())
    }

    fn map(&mut self, pages: Pages, access: Access) -> Result<()> {
        Ok(self.context.engine.map(span(pages), engine_access(access))?)
    }

    fn protect(&mut self, pages: Pages, access: Access) -> Result<()> {
        Ok(self.context.engine.protect(span(pages), engine_access(access))?)
    }

    fn unmap(&mut self, pages: Pages) -> Result<()> {
        Ok(self.context.engine.unmap(span(pages))?)
    }

    fn discard(&mut self, pages: Pages) -> Result<()> {
        Ok(self.context.engine.discard(span(pages))?)
    }

    fn watch(&mut self, pages: Pages) -> Result<bool> {
        let can = self.context.engine.track_async(span(pages))?;
        if !can {
            self.context.engine.protect(span(pages), fault::Access::Read)?;
        }
        Ok(can)
    }

    fn unwatch(&mut self, pages: Pages) -> Result<()> {
        Ok(self.context.engine.track_sync(span(pages))?)
    }

    fn written(&mut self, pages: Pages, found: &mut Vec<Pages>) -> Result<()> {
        let mut runs = Vec::new();
        self.context.engine.written(span(pages), &mut runs)?;
        found.extend(runs.into_iter().map(|run| Pages { first: run.start, count: run.end - run.start }));
        Ok(())
    }

    fn admit(&mut self, pages: Pages) -> Result<()> {
        Ok(self.context.engine.admit(span(pages))?)
    }

    fn look(&mut self, page: u32) -> Result<()> {
        let looks = &mut self.tools.looks;
        looks.twin = None;
        if std::mem::take(&mut looks.lent) {
            looks.last = (looks.last + 1) % LOOKS;
            if looks.last == 0 {
                self.context.endpoint.flush()?;
            }
        }
        frames::load(&self.context.region, page, &mut looks.pages[looks.last].0);
        Ok(())
    }

    fn seen(&self) -> &PageBytes {
        self.tools.looks.last()
    }

    fn differences(&mut self, page: u32) -> Result<Changes> {
        let Some(twin) = self.tools.twins.get(page) else {
            return Err(Error::Broken(format!("page {page} has no twin to be compared with")));
        };
        Ok(Changes::between(twin, self.tools.looks.last()))
    }

    fn store(&mut self, page: u32, offset: usize, bytes: &[u8]) -> Result<()> {
        frames::store(&self.context.region, page, offset, bytes);
        Ok(())
    }

    fn make_twin(&mut self, page: u32) -> Result<()> {
        self.change_twin(page)?;
        frames::load(&self.context.region, page, self.tools.twins.make(page));
        Ok(())
    }

    fn twin(&mut self, page: u32) -> Result<Option<&mut PageBytes>> {
        self.change_twin(page)?;
        Ok(self.tools.twins.get(page))
    }

    fn twin_what_was_seen(&mut self, page: u32) -> Result<()> {
        self.change_twin(page)?;
        // In one copy: an assignment of the array would make another one on the stack.
        self.tools.twins.make(page).copy_from_slice(self.tools.looks.last());
        self.tools.looks.twin = Some(page);
        Ok(())
    }

    fn drop_twin(&mut self, page: u32) -> Result<()> {
        self.change_twin(page)?;
        self.tools.twins.drop_twin(page);
        Ok(())
    }

    fn put_seen(&mut self, to: Rank, page: u32, changes: &Changes) -> Result<()> {
        self.list_changes(page, changes, PAGE);
        self.put_ranges(to)
    }

    fn put_seen_if_cheap(&mut self, to: Rank, page: u32, changes: &Changes) -> Result<bool> {
        self.list_changes(page, changes, FEW + 1);
        if self.tools.ranges.len() <= FEW {
            self.put_ranges(to)?;
            return Ok(true);
        }
        self.tools.ranges.clear();
        let (context, seen) = (self.context, self.seen_to_be_put(page));
        // SAFETY: as in `put_ranges`; the masks stand for the bytes of one page.
        let put = unsafe {
            context.endpoint.put_masked(to.0, context.segment, offset(page), seen, changes.masks())
        }?;
        self.lend(to)?;
        Ok(put)
    }

    fn put_pages(&mut self, to: Rank, pages: Pages) -> Result<()> {
        let context = self.context;
        let src = frames::frame(&context.region, pages.first).cast_const();
        let range = PutRange { offset: offset(pages.first), len: pages.count as usize * PAGE, src };
        // SAFETY: the pages' frames stay mapped, one behind the other; all ranks are in the barrier, so
        // nobody writes it before the caller's flush.
        Ok(unsafe { context.endpoint.put(to.0, context.segment, &[range]) }?)
    }

    fn pages_a_get(&self, from: Rank) -> usize {
        if self.context.endpoint.caps_to(from.0).contains(Caps::DIRECT) { 1 } else { MOST_GOT }
    }

    fn get_pages(&mut self, from: Rank, pages: &[u32], into: &mut [PageBytes]) -> Result<()> {
        self.context.read_pages(from, pages, into, &mut self.tools.gets)
    }

    fn send(&mut self, to: Rank, kind: Kind, bytes: &[u8]) -> Result<()> {
        Ok(self.context.endpoint.send(to.0, kind.number(), &[bytes])?)
    }

    fn come(&mut self, call: u64, digest: Option<u64>) -> Result<()> {
        if let Some(board) = self.context.board() {
            board.come(match digest {
                Some(digest) => Coming::without_words(call, digest),
                None => Coming::with_words(call),
            });
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.context.endpoint.flush()?;
        self.tools.looks.lent = false;
        self.tools.looks.lent_twins.clear();
        Ok(())
    }

    fn close(&mut self, put_to: &mut Vec<Rank>, _: Option<Rank>) -> Result<bool> {
        put_to.drain(..).try_for_each(|to| self.context.endpoint.fence(to.0))?;
        Ok(true)
    }

    fn is_full(&mut self, bytes: usize) -> bool {
        bytes >= BATCH
    }

    fn mark_all(&mut self, home: Rank) -> Result<()> {
        self.context.marks.set_all(&*self.context.endpoint, home, self.node.epoch())
    }

    fn is_marked(&mut self, page: u32) -> bool {
        self.context.marks.is_set(page, self.node.epoch())
    }

    fn forget_claims(&mut self, pages: Pages) -> Result<()> {
        self.context.claims.forget(pages)
    }

    fn answer(&mut self, object: u32, who: u64, answer: Answer) -> Result<()> {
        self.tools.answers.push((object, who, answer));
        Ok(())
    }

    fn stalled(&mut self, from: Rank, payload: &[u8]) -> Result<()> {
        self.tools.inquiry.take(from, StallMessage::decode(payload)?);
        Ok(())
    }

    fn looks_for_races(&self) -> bool {
        self.tools.search.is_some()
    }

    fn note(&mut self, page: u32, changes: &Changes, met: Option<&PageBytes>) -> Result<()> {
        const ZEROS: PageBytes = [0; PAGE];
        let Some(search) = &mut self.tools.search else { return Ok(()) };
        let twin = self.tools.twins.get(page).map_or(&ZEROS, |twin| &*twin);
        search.note(self.node, page, [twin, self.tools.looks.last()], changes, met);
        Ok(())
    }

    fn merging(&mut self, from: Rank, meeting: u32, page: u32) -> Result<()> {
        if let Some(search) = &mut self.tools.search {
            search.merging(&self.context.region, from, meeting, page);
        }
        Ok(())
    }

    fn make_room(&mut self) {
        self.tools.search.iter_mut().for_each(|search| search.make_room());
    }

    fn send_writes(&mut self) -> Result<()> {
        let Some(search) = &mut self.tools.search else { return Ok(()) };
        search.send_writes(self.node, self.context)
    }

    fn compare_writes(&mut self) -> Result<()> {
        if let Some(search) = &mut self.tools.search {
            search.compare_writes(self.node, &self.context.region);
        }
        Ok(())
    }

    fn hear(&mut self, from: Rank, payload: &[u8]) -> Result<()> {
        let said = WriteTraces::decode(from, self.context.region.pages(), payload);
        let said = said.map_err(|_| Violation { rank: from, what: "malformed write traces" })?;
        self.node.handle(Input::WriteTraces(from, said.meeting))?;
        if let Some(search) = &mut self.tools.search {
            search.hear(said);
        }
        Ok(())
    }
}

/// Pages of the largest allocation that gets all its frames at once. A larger one may be used in part.
const POPULATED: u32 = 1 << 12;

/// Gives frames to the pages of a new allocation, if it is small. All ranks do so at once: each begins at
/// another part, lest they wait for each other's pages.
fn populate(context: &RankContext, rank: Rank, pages: Pages) -> Result<()> {
    if pages.count > POPULATED {
        return Ok(());
    }
    let part = u64::from(pages.count) * u64::from(rank.0) / u64::from(context.endpoint.size());
    let middle = pages.first + u32::try_from(part).unwrap_or(0);
    context.region.populate(&(middle..pages.end()))?;
    Ok(context.region.populate(&(pages.first..middle))?)
}
