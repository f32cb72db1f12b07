//! Types and constants of the C interface, and what they mean to the runtime.
//!
//! Structures keep their size: what is added later takes the place of `reserved` words, whose value 0 means
//! what is the case today. So a program compiled with an old header runs with a new library, and the other
//! way round.

#![allow(non_camel_case_types, reason = "C's way to name types")]

use scash::{AllocOptions, Error, Placement, Protocol, Result};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;

/// Bytes of a page: the unit in which shared memory is allocated, has homes, and travels between
/// ranks.
pub const DSM_PAGE_SIZE: usize = 4096;
const _: () = assert!(DSM_PAGE_SIZE == scash::fault::PAGE);

/// What `dsm_home` returns for a page that no rank has touched yet; where ranks share frames, for one whose
/// home nobody has named.
pub const DSM_HOME_NONE: c_int = -2;

/// Where the pages of an allocation have their homes. A page's home is the rank whose memory holds
/// it; this rank reads and writes it without communication. Where ranks share frames, all do so, and homes
/// are only told (`dsm_home`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsm_placement_t {
    /// At the rank that touches the page first; nowhere, where ranks share frames. The default.
    DSM_PLACEMENT_FIRST_TOUCH = 0,
    /// In contiguous parts, one a rank, in the order of ranks: the part of rank r of n begins at
    /// page r * pages / n, rounded down.
    DSM_PLACEMENT_BLOCK = 1,
    /// In runs of `cyclic_bytes` that go round the ranks, beginning with the rank `rank`.
    DSM_PLACEMENT_CYCLIC = 2,
    /// All at the rank `rank`.
    DSM_PLACEMENT_RANK = 3,
}

/// How the copies that ranks have of other ranks' pages are kept coherent at memory barriers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dsm_protocol_t {
    /// Each page as it is used: copies that are read again and again are updated, others are
    /// dropped. The default.
    DSM_PROTOCOL_ADAPTIVE = 0,
    /// What was written is sent to all ranks that have a copy.
    DSM_PROTOCOL_UPDATE = 1,
    /// Copies of what was written are dropped, and fetched again when they are touched.
    DSM_PROTOCOL_INVALIDATE = 2,
}

/// What can be asked of an allocation. A structure of zeros asks for the defaults:
///
/// ```c
/// dsm_alloc_options_t options = {0};
/// options.placement = DSM_PLACEMENT_BLOCK;
/// double *a = dsm_alloc_with(n * sizeof *a, &options);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsm_alloc_options_t {
    /// Where pages have their homes.
    pub placement: MaybeUninit<dsm_placement_t>,
    /// How copies are kept coherent.
    pub protocol: MaybeUninit<dsm_protocol_t>,
    /// The home of all pages with DSM_PLACEMENT_RANK, that of the first run with DSM_PLACEMENT_CYCLIC.
    /// Looked at with these only.
    pub rank: c_int,
    /// Bytes of a run, rounded up to whole pages; 0 is one page. Looked at with
    /// DSM_PLACEMENT_CYCLIC only.
    pub cyclic_bytes: usize,
    /// Bytes that are fetched, and touched first, together, rounded up to whole pages; 0 is one
    /// page. Larger blocks suit data that are always used together.
    pub block_bytes: usize,
    /// For later versions: zeros.
    pub reserved: [usize; 4],
}

/// One of the blocks that `dsm_alloc_blocks` allocates.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dsm_block_t {
    /// How long it is.
    pub bytes: usize,
    /// The home of its pages.
    pub rank: c_int,
}

/// What a rank has counted and timed since `dsm_init`. Where ranks share frames, no access to what is
/// allocated faults and no page moves: these counts are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct dsm_stats_t {
    /// Signals taken because an access to shared memory needed work.
    pub faults: u64,
    /// Reads that needed work.
    pub read_faults: u64,
    /// Writes that needed work.
    pub write_faults: u64,
    /// Pages that this rank was the first to touch; one write may open several, in order.
    pub first_touches: u64,
    /// Pages fetched from their homes.
    pub fetched: u64,
    /// Faults that did not happen because a page was fetched or mapped together with its neighbour.
    pub prefetched: u64,
    /// Writes that took no fault because the page was expected to be written.
    pub predicted: u64,
    /// Pages that stayed writable over a memory barrier because no other rank has a copy, added up
    /// over barriers.
    pub avoided: u64,
    /// Copies made of pages before their first write in an interval, to find later what was
    /// written.
    pub twins: u64,
    /// Pages whose changes were sent to their homes.
    pub diffs: u64,
    /// Pages brought up to date at other ranks, counted once for each of them.
    pub updates: u64,
    /// Copies of other ranks' pages given up at memory barriers.
    pub invalidated: u64,
    /// Memory barriers passed.
    pub barriers: u64,
    /// Of these, those in which ranks had to meet twice because some rank wrote pages of other
    /// homes.
    pub second_meetings: u64,
    /// Messages sent.
    pub messages: u64,
    /// Pieces of memory written into other ranks.
    pub puts: u64,
    /// Pieces of memory read from other ranks.
    pub gets: u64,
    /// Bytes moved by messages, puts and gets of this rank.
    pub bytes: u64,
    /// Seconds in memory barriers: waiting until all ranks had come.
    pub sync_seconds: f64,
    /// Seconds in memory barriers: finding what was written, and sending it home.
    pub diff_seconds: f64,
    /// Seconds in memory barriers: bringing pages up to date at other ranks, and dropping stale
    /// ones.
    pub update_seconds: f64,
    /// Data races that this rank has found (SCASH_RACES).
    pub races: u64,
    /// Checkpoints that were committed (scash run --replicas).
    pub checkpoints: u64,
    /// For later versions: zeros today.
    pub reserved: [u64; 6],
}

/// The number behind an enum that C has given: it can be any `int`, not only one of the enum's.
///
/// # Safety
/// All bytes of `given` are set.
pub(crate) unsafe fn number<T: Copy>(given: MaybeUninit<T>) -> c_int {
    const { assert!(size_of::<T>() == size_of::<c_int>() && align_of::<T>() == align_of::<c_int>()) };
    // SAFETY: the enum is as large as an int (checked above), all of its bytes are set by the caller's word,
    // and any bytes make an int.
    unsafe { given.as_ptr().cast::<c_int>().read() }
}

/// The protocol of this number.
///
/// # Safety
/// All bytes of `given` are set.
pub(crate) unsafe fn protocol(given: MaybeUninit<dsm_protocol_t>) -> Result<Protocol> {
    // SAFETY: by the caller's word.
    match unsafe { number(given) } {
        n if n == dsm_protocol_t::DSM_PROTOCOL_ADAPTIVE as c_int => Ok(Protocol::Adaptive),
        n if n == dsm_protocol_t::DSM_PROTOCOL_UPDATE as c_int => Ok(Protocol::Update),
        n if n == dsm_protocol_t::DSM_PROTOCOL_INVALIDATE as c_int => Ok(Protocol::Invalidate),
        other => Err(Error::Argument(format!("{other} is no dsm_protocol_t: use a DSM_PROTOCOL_ constant"))),
    }
}

/// The number of a rank.
pub(crate) fn rank(number: c_int) -> Result<u32> {
    u32::try_from(number)
        .map_err(|_| Error::Argument(format!("there is no rank {number}: ranks count from 0")))
}

/// The number of pages that hold so many bytes; 0 bytes take one page, too.
fn pages(what: &str, bytes: usize) -> Result<NonZeroU32> {
    u32::try_from(bytes.div_ceil(DSM_PAGE_SIZE).max(1)).ok().and_then(NonZeroU32::new).ok_or_else(|| {
        Error::Argument(format!("{what} = {bytes}: more than any region of shared memory has"))
    })
}

impl dsm_alloc_options_t {
    /// What is asked for, checked.
    ///
    /// # Safety
    /// All bytes of the members `placement` and `protocol` are set.
    pub(crate) unsafe fn checked(&self) -> Result<AllocOptions> {
        if self.reserved.iter().any(|word| *word != 0) {
            return Err(Error::Argument(
                "dsm_alloc_options_t has reserved words that are not 0: set all of it to zeros before \
                 its members (`= {0}`), or run with the library that the program was compiled for"
                    .to_owned(),
            ));
        }
        // SAFETY: by the caller's word.
        let placement = unsafe { number(self.placement) };
        // SAFETY: by the caller's word.
        let protocol = unsafe { protocol(self.protocol) }?;
        Ok(AllocOptions {
            placement: self.placement(placement)?,
            protocol,
            block: pages("block_bytes", self.block_bytes)?.get(),
        })
    }

    /// The placement of this number, with what belongs to it.
    fn placement(&self, number: c_int) -> Result<Placement> {
        match number {
            n if n == dsm_placement_t::DSM_PLACEMENT_FIRST_TOUCH as c_int => Ok(Placement::FirstTouch),
            n if n == dsm_placement_t::DSM_PLACEMENT_BLOCK as c_int => Ok(Placement::Block),
            n if n == dsm_placement_t::DSM_PLACEMENT_CYCLIC as c_int => Ok(Placement::Cyclic {
                pages: pages("cyclic_bytes", self.cyclic_bytes)?,
                first: rank(self.rank)?,
            }),
            n if n == dsm_placement_t::DSM_PLACEMENT_RANK as c_int => Ok(Placement::Rank(rank(self.rank)?)),
            other => {
                Err(Error::Argument(format!("{other} is no dsm_placement_t: use a DSM_PLACEMENT_ constant")))
            }
        }
    }
}

impl From<scash::Stats> for dsm_stats_t {
    fn from(stats: scash::Stats) -> dsm_stats_t {
        let scash::Stats { protocol: p, traffic: t, barrier: b, faults, frames: _, races, checkpoints } =
            stats;
        dsm_stats_t {
            faults,
            read_faults: p.read_faults,
            write_faults: p.write_faults,
            first_touches: p.first_touches,
            fetched: p.fetched,
            prefetched: p.prefetched,
            predicted: p.predicted,
            avoided: p.avoided,
            twins: p.twins,
            diffs: p.diffs,
            updates: p.updates,
            invalidated: p.invalidated,
            barriers: p.barriers,
            second_meetings: p.second_meetings,
            messages: t.messages,
            puts: t.puts,
            gets: t.gets,
            bytes: t.bytes,
            sync_seconds: b.sync.as_secs_f64(),
            diff_seconds: b.diff.as_secs_f64(),
            update_seconds: b.update.as_secs_f64(),
            races,
            checkpoints: checkpoints.map_or(0, |counts| counts.committed),
            reserved: [0; 6],
        }
    }
}

#[cfg(test)]
mod tests;
