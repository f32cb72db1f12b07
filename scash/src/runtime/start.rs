//! Joining a job: from the launcher's greeting to the fault handler in place.

use super::crew::Crew;
use super::{RUNTIME, Runtime};
use crate::config::{Config, REGION_BASE, RaceSetting};
use crate::error::{Error, Result};
use crate::fault::{self, PAGE, Region};
use crate::runtime::broken::Broken;
use crate::runtime::claims::Claims;
use crate::runtime::context::RankContext;
use crate::runtime::core::Core;
use crate::runtime::marks::Marks;
use crate::runtime::owned::Owned;
use crate::runtime::page_words::PageWords;
use crate::runtime::races::Search;
use crate::runtime::serve;
use crate::runtime::sharing::{self, Frames};
use crate::runtime::stats::BarrierTime;
use crate::runtime::twins::Twins;
use scash_comm::forked;
use scash_comm::{Caps, Endpoint, Exchange, LocalSegment};
use scash_join::boot::{Identity, Member};
use scash_join::job;
use scash_proto::Rank;
use scash_proto::node::{MIGRATE_AFTER, Node};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Number of the agreement between ranks: what is sent, and what lies in shared memory. Raised whenever
/// either changes.
const ABI: u32 = 10;

/// The largest job in which each rank sends its tokens to all, if they share memory: a round of dissemination
/// costs a switch of ranks where these have no core of their own, a token a tenth of a microsecond.
const ALL_TO_ALL: u32 = 8;

/// Joins the job that this process was started for; one that no launcher has started is a job of one rank.
/// Once a process.
///
/// # Errors
/// Settings that make no sense, a rank that runs another program, no fault engine, no memory.
pub fn init() -> Result<&'static Runtime> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let config = Config::read(|name| std::env::var_os(name))?;
    if forked::is_child() {
        return Err(Error::Join(forked::refusal("dsm_init")));
    }
    let mut member = Member::from_env().map_err(join)?;
    if STARTED.swap(true, Ordering::Relaxed) {
        return Err(Error::Join("this process has joined a job before; that can be done once".to_owned()));
    }
    let identity = Identity::of_this_program(env!("CARGO_PKG_VERSION"), ABI)
        .map_err(|e| Error::Join(format!("cannot read this program's own file: {e}")))?;
    member.hello(&identity).map_err(join)?;
    let kind = fault::choose(config.fault.as_deref()).map_err(|e| Error::Setting(e.to_string()))?;
    let mut region = Region::create(REGION_BASE, config.pages)?;
    let endpoint = job::endpoint(&mut member, &config.network, ABI).map_err(join)?;
    agree(&mut member, &config)?;
    let (frames, objects) = sharing::settle(&mut member, &*endpoint, &config, &mut region)?;
    let kind = frames.engine(kind);
    let region = Arc::new(region);
    let engine = fault::open(kind, region.clone())?;
    // SAFETY: the region's runtime view stays mapped as long as the runtime, which is never freed; frames are
    // only reached by raw pointers.
    let segment = unsafe { endpoint.register(&mut member, whole(&region)) }.map_err(join)?;
    let node = Node::new(node_config(&config, &*endpoint, frames));
    let twins =
        Twins::new(config.pages).map_err(|e| Error::Join(format!("no address space for twins: {e}")))?;
    let claims = Claims(PageWords::new(config.pages, &*endpoint, &mut member)?);
    let marks = Marks(PageWords::new(config.pages, &*endpoint, &mut member)?);
    let (rank, size) = (endpoint.rank(), endpoint.size());
    let (threads, page) = (member.threads(), member.page().clone());
    let context = RankContext {
        region,
        engine,
        endpoint,
        segment,
        transfer: config.transfer,
        claims,
        marks,
        objects,
        frames,
        page,
    };
    let runtime = Box::leak(Box::new(Runtime {
        context,
        core: Owned::new(Core::new(node, twins, size, Search::new(config.races, config.pages))),
        faults: AtomicU64::new(0),
        waiters: AtomicU32::new(0),
        calls: AtomicU32::new(0),
        meeting: Mutex::new(()),
        crew: Crew::default(),
        live: Mutex::default(),
        member: Mutex::new(member),
        rank,
        size,
        threads,
        finalized: AtomicBool::new(false),
        tell_stats: config.stats,
        copies: config.copies,
        block: config.block,
        most_block: if config.cache > 0 { config.cache / 4 } else { config.pages },
        stall: config.stall,
        broken: Broken::default(),
        clock: Mutex::new(BarrierTime::default()),
    }));
    RUNTIME.store(runtime, Ordering::Release);
    // SAFETY: `serve::fault` takes the runtime's locks only, under which nothing touches the view; the
    // runtime, and its region with it, is never freed.
    let handler = unsafe { fault::install(&runtime.context.region, kind, serve::fault) }?;
    fault::forked::watch(runtime.context.region.app_range(), rank);
    // For as long as the process lives: the runtime does so, too.
    std::mem::forget(handler);
    Ok(runtime)
}

/// A region as what peers reach.
fn whole(region: &Region) -> LocalSegment {
    let (base, len) = (region.runtime_base(), region.pages() as usize * PAGE);
    LocalSegment { base, len, fd: region.fd().as_raw_fd() }
}

pub(super) fn join(e: scash_comm::Error) -> Error {
    Error::Join(e.to_string())
}

/// Settings that all ranks must mind alike: where one of them may give pages up that were written, all do;
/// what one asks of an allocation, all do; and what one looks for, all must tell.
fn agree(exchange: &mut dyn Exchange, config: &Config) -> Result<()> {
    let all = [
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

fn node_config(config: &Config, endpoint: &dyn Endpoint, frames: Frames) -> scash_proto::Config {
    let (rank, size) = (endpoint.rank(), endpoint.size());
    let direct = endpoint.caps().contains(Caps::DIRECT);
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
        // A run is a mapping of its own while it is watched, so short ones are not worth it.
        watch_from: if config.watch { 64 } else { 0 },
        races: config.races != RaceSetting::Off,
        most_objects: frames.most_objects(),
        sharing: frames.sharing(),
    }
}
