//! Joining a job: from the launcher's greeting to the fault handler in place.

use super::crew::Crew;
use super::{RUNTIME, Runtime};
use crate::config::{Config, RaceSetting};
use crate::error::{Error, Result, join};
use crate::fault::{self, EngineError, EngineKind, PAGE, Region};
use crate::runtime::arrivals::Arrivals;
use crate::runtime::broken::Broken;
use crate::runtime::checkpoint::copies::StoreCopies;
use crate::runtime::checkpoint::{self, Checkpoints};
use crate::runtime::claims::Claims;
use crate::runtime::context::RankContext;
use crate::runtime::core::Core;
use crate::runtime::frame_agreement;
use crate::runtime::frame_sharing::FrameSharing;
use crate::runtime::heap::RankHeap;
use crate::runtime::inject;
use crate::runtime::marks::Marks;
use crate::runtime::owned::Owned;
use crate::runtime::page_words::PageWords;
use crate::runtime::serve;
use crate::runtime::stats::BarrierTime;
use crate::runtime::variables::SharedVariables;
use scash_comm::Renewable;
use scash_comm::forked;
use scash_comm::{Caps, Endpoint, Exchange, LocalSegment};
use scash_ft::store::RankStore;
use scash_join::boot::{Identity, Member};
use scash_join::job;
use scash_proto::node::{MIGRATE_AFTER, Node};
use scash_proto::{AllocOptions, Rank};
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Number of the agreement between ranks: what is sent, and what lies in shared memory. Raised whenever
/// either changes.
const ABI: u32 = 14;

/// The largest job in which each rank sends its tokens to all, if they share memory: a round of dissemination
/// costs a switch of ranks where these have no core of their own, a token a tenth of a microsecond.
const ALL_TO_ALL: u32 = 8;

/// The largest job in which each rank looks at the words of all.
const MOST_ON_BOARD: u32 = 16;
/// Locks that a rank looks ahead at most, over a network.
const MOST_AHEAD: u32 = 32;

/// How long a rank waits that misses another one when they join. There may be no death to be noticed: an
/// address may be wrong, which the user is to know.
const PATIENCE_SECONDS: u32 = 5;

/// Whether ranks of the job of this process can come back (`scash run --replicas`).
pub(super) fn comes_back() -> bool {
    Checkpoints::are_taken(&|name| std::env::var_os(name))
}

/// Joins the job that this process was started for; one that no launcher has started is a job of one rank.
/// Once a process.
///
/// # Errors
/// Settings that make no sense, a rank that runs another program, no fault engine, no memory.
pub fn init() -> Result<&'static Runtime> {
    join_job().map_err(cannot_join)
}

/// Why this rank cannot join. Where ranks come back, one that misses another waits first to be ended and
/// started again with it: a program that is told could end the job before the launcher knows of the death.
pub(super) fn cannot_join(error: Error) -> Error {
    let Error::Lost { rank, why } = error else { return error };
    if comes_back() {
        checkpoint::be_patient(PATIENCE_SECONDS);
    }
    Error::Join(format!("rank {rank} is gone: {why}"))
}

fn join_job() -> Result<&'static Runtime> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let mut config = Config::read(|name| std::env::var_os(name))?;
    if forked::is_child() {
        return Err(Error::Join(forked::refusal("dsm_init")));
    }
    let mut member = Member::from_env().map_err(join)?;
    if STARTED.swap(true, Ordering::Relaxed) {
        return Err(Error::Join("this process has joined a job before; that can be done once".to_owned()));
    }
    let var = |name: &str| std::env::var_os(name);
    let mut checkpoints = Checkpoints::from_vars(&var)?;
    let fate = inject::read(&|name| std::env::var_os(name), member.rank())?;
    member.hello(&identity()?).map_err(join)?;
    let chosen = fault::choose(config.fault.as_deref()).map_err(|e| Error::Setting(e.to_string()))?;
    let store = checkpoints.as_ref().map(Checkpoints::store);
    let variables = SharedVariables::of_this_program()?;
    config.base = variables.map_or(config.base, |variables| variables.base);
    let context = assemble(&mut member, &config, chosen, store, &var)?;
    if let Some(checkpoints) = &mut checkpoints {
        checkpoints.has(&context.copies);
    }
    let mut node_config =
        node_config(&config, &*context.endpoint, member.has_several_hosts(), context.frames);
    node_config.replicas = u32::from(checkpoints.is_some());
    let heap = RankHeap::new(&config, node_config.rank, node_config.size);
    let mut node = Node::new(node_config);
    if let Some(pages) = heap.layout().pages() {
        node.reserve(pages, AllocOptions { protocol: config.copies, ..AllocOptions::default() });
    }
    let core = Core::new(node, &config)?;
    let (rank, size, threads) = (context.endpoint.rank(), context.endpoint.size(), member.threads());
    let kind = context.frames.engine(chosen);
    let runtime = Box::leak(Box::new(Runtime {
        context: Renewable::new(context),
        core: Owned::new(core),
        checkpoints: checkpoints.map(Mutex::new),
        messages: Mutex::default(),
        moved_before: Mutex::default(),
        fate: Mutex::new(fate),
        kind: chosen,
        faults: AtomicU64::new(0),
        waiters: AtomicU32::new(0),
        idlers: AtomicU32::new(0),
        calls: AtomicU32::new(0),
        meeting: Mutex::new(()),
        crew: Crew::default(),
        live: Mutex::default(),
        heap,
        member: Mutex::new(member),
        rank,
        size,
        threads,
        finalized: AtomicBool::new(false),
        attends: AtomicBool::new(false),
        answers: AtomicBool::new(false),
        tell_stats: config.stats,
        copies: config.copies,
        block: config.block,
        most_block: if config.cache > 0 { config.cache / 4 } else { config.region },
        stall: config.stall,
        broken: Broken::default(),
        clock: Mutex::new(BarrierTime::default()),
        config,
    }));
    RUNTIME.store(runtime, Ordering::Release);
    // SAFETY: `serve::fault` takes the runtime's locks only, under which nothing touches the view; the
    // runtime, and its region with it, is never freed.
    let handler = unsafe { fault::install(&runtime.context.region, kind, serve::fault) }?;
    fault::forked::watch(runtime.context.region.app_range(), rank);
    // For as long as the process lives: the runtime does so, too.
    std::mem::forget(handler);
    variables.map_or(Ok(()), |variables| runtime.share_variables(variables))?;
    Ok(runtime)
}

/// What this program is, to its peers.
pub(super) fn identity() -> Result<Identity> {
    Identity::of_this_program(env!("CARGO_PKG_VERSION"), ABI)
        .map_err(|e| Error::Join(format!("cannot read this program's own file: {e}")))
}

/// Joins the peers: region, endpoint, engine, and what ranks share. Collective. `chosen` is the engine of
/// ranks with frames of their own; `store` this rank's, if it can come back; `var` knows what the launcher
/// has given.
pub(super) fn assemble(
    member: &mut Member,
    config: &Config,
    chosen: EngineKind,
    store: Option<&RankStore>,
    var: &dyn Fn(&str) -> Option<OsString>,
) -> Result<RankContext> {
    let mut region = match checkpoint::frames(var)? {
        Some(file) => Region::create_in(file, config.base, config.pages)?,
        None => Region::create(config.base, config.pages)?,
    };
    let endpoint = job::endpoint(member, &config.network, ABI).map_err(join)?;
    agree(member, config)?;
    let comes_back = store.is_some();
    let (frames, objects) = frame_agreement::settle(member, &*endpoint, config, &mut region, comes_back)?;
    let region = Arc::new(region);
    let engine = fault::open(frames.engine(chosen), region.clone())?;
    if frames == FrameSharing::Shared {
        // Of all ranks' parts at once, past the engine: there is nothing for it to notice.
        let heap = config.region..config.region + config.heap;
        region.protect_pages(&heap, libc::PROT_READ | libc::PROT_WRITE, |error| {
            EngineError::new(format!("open the heap, pages {heap:?} of the region"), error)
        })?;
    }
    // SAFETY: the region's runtime view stays mapped as long as the runtime, which is never freed; frames are
    // only reached by raw pointers.
    let segment = unsafe { endpoint.register(member, whole(&region)) }.map_err(join)?;
    let claims = Claims(PageWords::new(config.pages, &*endpoint, member)?);
    let marks = Marks::new(config.pages, &*endpoint, member)?;
    let copies = store.map(|store| StoreCopies::join(member, &*endpoint, store, var)).transpose()?;
    let copies = copies.unwrap_or_default();
    let page = member.page().clone();
    let transfer = config.transfer;
    let arrivals = Arrivals::new(config.fetch_most)
        .map_err(|e| Error::Join(format!("no address space for pages that arrive: {e}")))?;
    Ok(RankContext {
        region,
        engine,
        endpoint,
        segment,
        transfer,
        arrivals,
        claims,
        marks,
        objects,
        frames,
        page,
        copies,
    })
}

/// A region as what peers reach.
fn whole(region: &Region) -> LocalSegment {
    let (base, len) = (region.runtime_base(), region.pages() as usize * PAGE);
    LocalSegment { base, len, fd: region.fd().as_raw_fd() }
}

/// Settings that all ranks must mind alike: addresses follow from sizes; where one of them may give pages
/// up that were written, all do; what one asks of an allocation, all do; and what one looks for, all must
/// tell.
fn agree(exchange: &mut dyn Exchange, config: &Config) -> Result<()> {
    let all = [
        ("SCASH_REGION", config.region),
        ("SCASH_HEAP", config.heap),
        ("SCASH_CACHE", config.cache),
        ("SCASH_COPIES", config.copies as u32),
        ("SCASH_BLOCK", config.block),
        ("SCASH_RACES", config.races as u32),
        ("SCASH_SHARE", config.share.into()),
    ];
    for (name, mine) in all {
        let all = exchange.all_gather(&mine.to_le_bytes(), &[]).map_err(join)?;
        if let Some(rank) = all.iter().position(|(theirs, _)| *theirs != mine.to_le_bytes()) {
            return Err(Error::Setting(format!(
                "{name} is not the same at rank {} and rank {rank}: set it for the whole job",
                exchange.rank()
            )));
        }
    }
    Ok(())
}

fn node_config(
    config: &Config,
    endpoint: &dyn Endpoint,
    has_several_hosts: bool,
    frames: FrameSharing,
) -> scash_proto::Config {
    let (rank, size) = (endpoint.rank(), endpoint.size());
    // What ranks know of each other goes with them to other hosts, where there are some.
    let direct = endpoint.caps().contains(Caps::DIRECT) && !has_several_hosts;
    scash_proto::Config {
        rank: Rank(rank),
        size,
        base: if direct && size <= ALL_TO_ALL { size } else { 2 },
        pages: config.pages,
        puts_at_once: direct,
        transfer: config.transfer,
        // Where a fetch is a round trip, a few more pages cost little beside it.
        fetch_first: if direct { 1 } else { 8.min(config.fetch_most) },
        fetch_most: config.fetch_most,
        predict: config.predict,
        cache: config.cache,
        eviction: config.eviction,
        migrate_after: if config.migrate { MIGRATE_AFTER } else { 0 },
        // Where to renew a copy is a round trip, one in vain costs more.
        renewals: if !config.renew {
            0
        } else if direct {
            15
        } else {
            3
        },
        // To track a page, and to notice a write of it, costs its home about what so many renewals cost.
        bring: config.renew && !direct,
        exact_after: if config.exact && config.renew && !direct { 7 } else { 0 },
        ahead: if config.ahead && !direct { MOST_AHEAD } else { 0 },
        // A run is a mapping of its own while it is watched, so short ones are not worth it.
        watch_from: if config.watch { 64 } else { 0 },
        races: config.races != RaceSetting::Off,
        most_objects: frame_agreement::most_objects(frames),
        sharing: frames.sharing(),
        board: frames == FrameSharing::Shared && size <= MOST_ON_BOARD && endpoint.board().is_some(),
        replicas: 0,
    }
}
