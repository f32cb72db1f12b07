//! The rank's runtime: one a process, from `init` to `finalize`. The untyped interface that the Rust and C
//! APIs stand on.

pub(crate) mod alike;
mod answer;
mod arrivals;
mod atomics;
mod blocks;
mod broken;
pub(crate) mod checkpoint;
mod checks;
mod claims;
pub(crate) mod context;
mod core;
mod crew;
mod destroy;
pub(crate) mod frame_agreement;
mod frame_sharing;
mod frames;
mod heap;
mod homes;
mod host_objects;
mod inject;
mod inquiry;
pub(crate) mod live;
mod looks;
mod lost;
mod machine;
mod marks;
mod meeting;
mod message_job;
mod messages;
mod node_objects;
pub(crate) mod objects;
mod own_objects;
mod owned;
mod page_words;
mod races;
mod reduce;
mod serve;
mod stall;
mod start;
pub(crate) mod stats;
mod twins;
mod variables;
pub(crate) mod within;

pub use frame_agreement::frames_asked_for;
pub use frame_sharing::FrameSharing;
pub use heap::HeapUse;
pub(crate) use inquiry::Inquiry;
pub use message_job::{MessageJob, as_of_messages};
pub use scash_join::job::PROVIDERS;
pub use scash_proto::node::ObjectKind;
use start::comes_back;
pub use start::init;

use self::core::Core;
use crate::config::Config;
use crate::error::{Error, Result, join};
use crate::fault::{EngineKind, PAGE, Verdict};
use broken::Broken;
use checkpoint::Checkpoints;
use context::RankContext;
use crew::Crew;
use live::{Generation, Live};
use owned::{Guard, Owned};
use scash_comm::say::{print, say};
use scash_comm::{Renewable, Traffic, forked, give_way};
use scash_join::boot::Member;
use scash_mp::Saver;
use scash_proto::node::{Collective, Input, Outcome};
use scash_proto::{Access, AllocOptions, Pages, Protocol, Rank};
use stats::{BarrierTime, Stats};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest sleep of a thread that waits for peers, so that it notices what no message tells.
const NAP: Duration = Duration::from_millis(10);

/// Every so many collective calls, and after so many looks in vain, a rank sees to it that its fault engine
/// is there still.
const CHECK_EVERY: u32 = 64;
const CHECK_TURN: u32 = 64;

/// A rank of a running job.
pub struct Runtime {
    pub(crate) context: Renewable<RankContext>,
    pub(crate) core: Owned<Core>,
    /// If ranks of this job can come back.
    checkpoints: Option<Mutex<Checkpoints>>,
    /// Message passing of the program's, to be saved with the rest.
    messages: Mutex<Vec<Saver>>,
    /// What the endpoints have moved that this rank had before it came back.
    moved_before: Mutex<Traffic>,
    /// Failures that the user asks for.
    fate: Mutex<Option<inject::RankInjections>>,
    /// What it was started with.
    config: Config,
    kind: EngineKind,
    /// Signals taken for faults in shared memory.
    pub(crate) faults: AtomicU64,
    /// Threads that wait for peers.
    waiters: AtomicU32,
    /// Threads in the endpoint that have not the lock on the core.
    idlers: AtomicU32,
    /// Collective calls of this rank.
    calls: AtomicU32,
    /// Held by the thread that is in a collective call.
    meeting: Mutex<()>,
    /// Threads on their way to a memory barrier of all.
    crew: Crew,
    /// The allocations that handles can be to.
    live: Mutex<Live>,
    /// Objects that single ranks allocate.
    heap: heap::RankHeap,
    member: Mutex<Member>,
    rank: u32,
    size: u32,
    threads: u32,
    finalized: AtomicBool,
    /// Whether a thread of the runtime answers peers, and whether it has come to that.
    attends: AtomicBool,
    answers: AtomicBool,
    /// Say at the end what was counted (`SCASH_STATS`).
    tell_stats: bool,
    /// What `Protocol::Adaptive` means in this job (`SCASH_COPIES`).
    copies: Protocol,
    /// Pages of a coherence block of an allocation that asks for single pages (`SCASH_BLOCK`).
    block: u32,
    /// Pages of the largest block. With a limit on cached pages an instruction must find all blocks that it
    /// touches.
    most_block: u32,
    /// How long a wait is thought to be normal (`SCASH_STALL`).
    stall: Option<Duration>,
    /// Why no further call can succeed.
    broken: Broken,
    clock: Mutex<BarrierTime>,
}

/// The process's runtime, for its fault handler. Set once and never freed: a thread may be in the handler at
/// any time.
static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// The process's runtime, if it has joined a job.
pub(crate) fn current() -> Option<&'static Runtime> {
    // SAFETY: the pointer is null or that of a box that was leaked by `init`.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

/// What [`lock`] locks.
pub(crate) trait Lock {
    type Guard<'a>
    where
        Self: 'a;

    fn locked(&self) -> Self::Guard<'_>;
}

impl<T> Lock for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    /// A panic elsewhere does not take it away from us.
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Lock for Owned<T> {
    type Guard<'a>
        = Guard<'a, T>
    where
        T: 'a;

    fn locked(&self) -> Guard<'_, T> {
        self.lock()
    }
}

/// Waits until no other thread has this.
pub(crate) fn lock<L: Lock>(it: &L) -> L::Guard<'_> {
    it.locked()
}

impl Runtime {
    /// This rank, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Application threads that the user asked for in each rank (`scash run --threads`).
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Name of the fault engine; where ranks share frames, `mprotect`.
    pub fn engine(&self) -> &'static str {
        self.context.engine.name()
    }

    /// Whether the ranks of this job share frames.
    pub fn shares_frames(&self) -> bool {
        self.context.frames == FrameSharing::Shared
    }

    /// Name of the provider.
    pub fn provider(&self) -> &'static str {
        self.context.endpoint.provider()
    }

    /// Memory barriers passed.
    pub fn epoch(&self) -> u32 {
        lock(&self.core).node.epoch()
    }

    /// The memory barrier: returns when all ranks have called it, and then every rank sees what any wrote
    /// before. One thread of each rank calls it, while no other thread of the rank touches shared memory.
    pub fn barrier(&self) -> Result<()> {
        self.collective(Collective::Barrier).map(drop)
    }

    /// A memory barrier that all ranks must mean as the publication of the partition whose first state is at
    /// `address`.
    pub(crate) fn publish(&self, address: *const u8) -> Result<()> {
        let page = self.first_page(address)?;
        self.collective(Collective::Publish(page)).map(drop)
    }

    /// Allocates shared memory, zeroed, at the same address on every rank. Collective, and includes a memory
    /// barrier.
    pub fn alloc(&self, bytes: usize, options: AllocOptions) -> Result<*mut u8> {
        self.alloc_live(bytes, options).map(|(address, _)| address)
    }

    /// As [`alloc`](Self::alloc), for handles that are to notice when the allocation is freed.
    pub(crate) fn alloc_live(&self, bytes: usize, options: AllocOptions) -> Result<(*mut u8, Generation)> {
        if bytes == 0 {
            return Err(Error::Argument("dsm_alloc of 0 bytes: ask for at least one".to_owned()));
        }
        let most = self.config.region;
        if options.block == 0 || options.block > most {
            return Err(Error::Argument(format!(
                "a coherence block of {} pages: 1 to {most} are possible",
                options.block
            )));
        }
        options.placement.check(self.size).map_err(|e| Error::Argument(e.to_string()))?;
        let block = if options.block == 1 { self.block } else { options.block }.min(self.most_block);
        let options = AllocOptions { protocol: self.meant(options.protocol), block, ..options };
        self.collective_then(Collective::Alloc(bytes as u64, options), |outcome| match outcome {
            Outcome::Allocated(pages) => Ok((self.address(pages.first), lock(&self.live).add(pages.first))),
            Outcome::OutOfSpace(e) => Err(Error::OutOfSpace(format!(
                "{bytes} bytes of shared memory asked for: {e}; raise SCASH_REGION (now {} MiB)",
                (u64::from(most) * PAGE as u64) >> 20
            ))),
            _ => Err(Error::Broken("the allocation had no outcome".to_owned())),
        })
    }

    /// What a program gets that asks for this.
    fn meant(&self, protocol: Protocol) -> Protocol {
        match protocol {
            Protocol::Adaptive => self.copies,
            Protocol::Update | Protocol::Invalidate => protocol,
        }
    }

    /// Frees what `alloc` returned. Collective. Whoever touches it afterwards is told so, and dies of a
    /// segmentation fault.
    pub fn free(&self, address: *const u8) -> Result<()> {
        let page = self.first_page(address)?;
        self.collective_then(Collective::Free(page), |_| {
            lock(&self.live).remove(page);
            Ok(())
        })
    }

    fn address(&self, page: u32) -> *mut u8 {
        self.context.region.app_base().wrapping_add(page as usize * PAGE)
    }

    /// The page at which an allocation begins that begins at this address.
    pub(crate) fn first_page(&self, address: *const u8) -> Result<u32> {
        let wild = |why: &str| {
            Error::Argument(format!(
                "{address:p} {why}: give an address that dsm_alloc returned and dsm_free did not take"
            ))
        };
        self.refuse_children()?;
        let page =
            self.context.region.page_of(address as usize).ok_or_else(|| wild("is not shared memory"))?;
        if self.is_in_heap(address) {
            return Err(wild("is in the heap, of which single ranks free objects"));
        }
        let core = lock(&self.core);
        let a = core.node.allocation(page).ok_or_else(|| wild("is not allocated"))?;
        if a.first != page || !(address as usize).is_multiple_of(PAGE) {
            return Err(wild("lies inside an allocation, not at its beginning"));
        }
        Ok(page)
    }

    /// The pages that a range of bytes touches; they must belong to one allocation.
    fn pages_of(&self, core: &Core, address: *const u8, len: usize) -> Result<Pages> {
        let outside = || {
            Error::Argument(format!(
                "{len} bytes at {address:p} are not within one allocation of shared memory"
            ))
        };
        let last = (address as usize).checked_add(len.max(1) - 1).ok_or_else(outside)?;
        let first = self.context.region.page_of(address as usize).ok_or_else(outside)?;
        let last = self.context.region.page_of(last).ok_or_else(outside)?;
        let a = core.node.allocation(first).ok_or_else(outside)?;
        if !a.range().contains(&last) {
            return Err(outside());
        }
        Ok(Pages { first, count: last - first + 1 })
    }

    /// As [`pages_of`](Self::pages_of), for who has not locked the core.
    fn pages(&self, address: *const u8, len: usize) -> Result<Pages> {
        self.refuse_children()?;
        self.pages_of(&lock(&self.core), address, len)
    }

    /// The home of the page that holds `address`; `None` while nobody has touched it. Where ranks share
    /// frames it is the rank that the allocation or the program has named; `None` if neither has.
    pub fn home(&self, address: *const u8) -> Result<Option<u32>> {
        self.refuse_children()?;
        let core = lock(&self.core);
        let pages = self.pages_of(&core, address, 1)?;
        Ok(core.node.told_home(pages.first).map(|r| r.0))
    }

    /// From the next memory barrier on, `rank` is the home of all pages that the range touches, and from the
    /// next but one on of those that were touched for the first time since the last. Any rank may ask for it.
    pub fn set_home(&self, address: *const u8, len: usize, rank: u32) -> Result<()> {
        if rank >= self.size {
            return Err(Error::Argument(format!(
                "rank {rank} as a home: there are ranks 0 to {}",
                self.size - 1
            )));
        }
        self.refuse_children()?;
        let mut core = lock(&self.core);
        let pages = self.pages_of(&core, address, len)?;
        Ok(core.node.handle(Input::SetHome(pages, Rank(rank)))?)
    }

    /// From now on the copies that this rank has of the allocation at `address` are kept coherent by
    /// `protocol`. To be called by all ranks.
    pub fn set_protocol(&self, address: *const u8, protocol: Protocol) -> Result<()> {
        self.refuse_children()?;
        let mut core = lock(&self.core);
        let pages = self.pages_of(&core, address, 1)?;
        if self.is_in_heap(address) {
            return Err(Error::Argument(format!(
                "{address:p} is in the heap, whose objects have no protocol of their own: SCASH_COPIES sets that of all, \
                 and dsm_alloc_with that of an allocation"
            )));
        }
        homes::refuse_in_meetings(&core)?;
        Ok(core.node.handle(Input::SetProtocol(pages.first, self.meant(protocol)))?)
    }

    /// Gives the allocation at `address` a name, by which this rank calls it where it tells a data race. To
    /// be called by all ranks.
    pub fn name(&self, address: *const u8, name: &str) -> Result<()> {
        self.refuse_children()?;
        let mut core = lock(&self.core);
        let page = self.pages_of(&core, address, 1)?.first;
        if let Some((search, node)) = core.search() {
            search.name(node, page, name);
        }
        Ok(())
    }

    /// Brings all pages that the range touches to all ranks, so that reading them takes no fault until the
    /// next memory barrier. Collective, and includes a memory barrier. The data go down a tree from each
    /// page's home.
    pub fn broadcast(&self, address: *const u8, len: usize) -> Result<()> {
        let pages = self.pages(address, len)?;
        self.collective(Collective::Broadcast(pages)).map(drop)
    }

    /// Now and then, and at the end, looks whether accesses to shared memory are still noticed. If not, what
    /// was written since may be lost, and what was read may be wrong: so no job ends well without this. To
    /// look at each memory barrier would cost a fifth of an empty one; waits that are long anyway do so, too.
    fn check_engine(&self, call: Collective) -> Result<()> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if call == Collective::Finalize || calls.is_multiple_of(CHECK_EVERY) {
            self.context.engine.check()?;
        }
        Ok(())
    }

    /// Has nothing to do until something arrives: see [`Endpoint::idle`](scash_comm::Endpoint::idle).
    pub(crate) fn idle(&self, turn: u32) {
        if turn == CHECK_TURN
            && let Err(gone) = self.context.engine.check()
        {
            // The next call says so.
            self.broken.note(gone.into());
        }
        let _inside = within::enter(&*self.context.endpoint);
        self.context.endpoint.idle(turn, NAP);
    }

    /// Lets other threads go on: until a page that one of them fetches is here, and once in any case, for it
    /// may be another page's fetch that is waited for.
    ///
    /// `turn`: how often this thread has given way for what it waits for, which is 0 at first.
    pub(crate) fn wait_for<'a>(
        &'a self,
        mut core: Guard<'a, Core>,
        page: u32,
        turn: &mut u32,
    ) -> Guard<'a, Core> {
        within::waits_for(page);
        loop {
            drop(core);
            give_way(*turn);
            *turn += 1;
            core = lock(&self.core);
            if !core.node.is_fetching(page) {
                return core;
            }
        }
    }

    /// Fetches or maps all pages of the range for reading (or writing), as if each had been touched.
    pub fn touch(&self, address: *const u8, len: usize, write: bool) -> Result<()> {
        let pages = self.pages(address, len)?;
        let want = if write { Access::Write } else { Access::Read };
        self.guarded(|| {
            for page in pages.iter() {
                if serve::serve(self, page, want, 0)? == Verdict::NotOurs {
                    return Err(Error::Argument(format!("page {page} is not allocated any more")));
                }
            }
            Ok(())
        })
    }

    /// Ends this rank's part in the job, together with all others. Whoever touches shared memory afterwards
    /// is told so, and dies of a segmentation fault.
    pub fn finalize(&self) -> Result<()> {
        if self.finalized.load(Ordering::Relaxed) {
            return Err(Error::Argument("dsm_finalize was called before".to_owned()));
        }
        // As long as all ranks are there, and share it.
        let memory = if self.tell_stats { stats::shared_memory() } else { None };
        self.collective_then(Collective::Finalize, |_| {
            self.finalized.store(true, Ordering::Relaxed);
            Ok(())
        })?;
        lock(&self.member).finalized().map_err(join)?;
        if let Some(words) = lock(&self.core).search().and_then(|(search, node)| search.last_words(node)) {
            say(&words);
        }
        // The fault handler stays: whoever touches shared memory from now on is told so.
        self.context.engine.unmap(0..self.context.region.pages())?;
        if self.tell_stats {
            let memory =
                memory.map_or(String::new(), |kib| format!("; its part of shared memory: {kib} KiB"));
            print(format!("scash: rank {}: {}{memory}\n", self.rank, self.stats()));
        }
        // This value is never dropped, and with it the endpoint. A thread that polls it has the core.
        let core = lock(&self.core);
        self.context.endpoint.part();
        drop(core);
        Ok(())
    }

    /// Whether `finalize` was called.
    pub fn is_finalized(&self) -> bool {
        self.finalized.load(Ordering::Relaxed)
    }

    /// What this rank has counted and timed so far.
    pub fn stats(&self) -> Stats {
        let races = lock(&self.core).search().map_or(0, |(search, _)| search.found());
        let mut protocol = lock(&self.core).node.counters();
        self.context.objects.add_counts(&mut protocol);
        // One lock at a time: who comes back from a checkpoint takes them in another order.
        let checkpoints = self.checkpoint_stats();
        let barrier = *lock(&self.clock);
        let traffic = *lock(&self.moved_before) + self.context.endpoint.traffic();
        Stats {
            protocol,
            traffic,
            barrier,
            faults: self.faults.load(Ordering::Relaxed),
            frames: self.context.frames,
            races,
            checkpoints,
        }
    }

    /// An error in a child that this rank has forked: it has the rank's descriptors, and could act in its
    /// name. Before any lock: another thread of the rank may have had it when the child was made.
    fn refuse_children(&self) -> Result<()> {
        if forked::is_child() { Err(Error::Argument(forked::refusal("a function of scash"))) } else { Ok(()) }
    }

    /// Runs something that no call can succeed after if it fails.
    fn guarded<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        self.refuse_children()?;
        if self.is_finalized() {
            return Err(Error::Argument("shared memory is gone: dsm_finalize was called".to_owned()));
        }
        // First: a reason that is settled in between is as good as any.
        let settled = self.broken.is_settled();
        match self.broken.why() {
            Some(error) if settled => Err(error),
            // The thread that answers peers met it, or another one that has not told its program yet.
            Some(error) => Err(self.failed(error)),
            None => run().map_err(|error| self.failed(error)),
        }
    }

    /// Notes that something failed after which no call can succeed, if that is so. Returns the error that the
    /// program is told.
    fn failed(&self, error: Error) -> Error {
        let is_over = matches!(error, Error::Lost { .. } | Error::Broken(_));
        if !is_over && !matches!(error, Error::Mismatch(_)) {
            return error;
        }
        if matches!(error, Error::Lost { .. }) {
            self.await_restart();
        }
        // At once: threads that wait need not wait for the launcher's word.
        self.broken.note(error.clone());
        let error = if is_over { self.let_the_dead_be_noticed(error) } else { error };
        self.broken.replace(error.clone());
        if is_over {
            self.tell_cuts(false);
        }
        error
    }

    /// Tells the launcher that the way to a rank broke, if nobody has died. `waits`: this rank waits to be
    /// started again.
    pub(crate) fn tell_cuts(&self, waits: bool) {
        if (0..self.size).any(|rank| self.context.page.died(rank)) {
            return;
        }
        let cut = (0..self.size).find_map(|rank| Some((rank, self.context.endpoint.cut(rank)?)));
        // The holder of the member talks to the launcher already, which will see how this rank ends.
        if let (Some((rank, why)), Ok(mut member)) = (cut, self.member.try_lock()) {
            let _ = member.tell_cut(rank, &why, waits);
        }
    }

    /// Waits until the launcher knows who died, if that is why this rank cannot go on. Returns the error,
    /// which then names that rank.
    pub(crate) fn let_the_dead_be_noticed(&self, error: Error) -> Error {
        lost::let_the_dead_be_noticed(&self.context);
        lost::named(&self.context, error)
    }
}
