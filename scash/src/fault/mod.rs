//! Fault engines: how an access to shared memory that needs work is noticed, and how access is given and
//! taken.
//!
//! The intuition: the kernel keeps, for each page of the **application view**, whether a read or a write goes
//! through. An engine is a way to set that, and to be told when an access does not go through. There are two:
//! [`uffd`](Uffd), which keeps it in page-table entries, and [`mprotect`](Mprotect), which keeps it in
//! mappings and works where userfaultfd is refused. [`Probe`] tells which the kernel has, [`choose`] takes
//! one, [`open`] builds it over a [`Region`], and [`install`] gives the faults that it raises to one
//! function.
//!
//! **Invariant:** an engine knows frames, views and protections. It knows no home, no rank, no protocol.
//!
//! **Invariant:** no engine hands a fault to another thread; the faulting thread serves it (a hand-over costs
//! ten to twenty times as much).
//!
//! **Invariant:** nothing here reads or writes through the application view. Bytes move through the runtime
//! view, which never faults.

use std::ops::Range;
use std::sync::Arc;

mod arch;
pub(crate) mod forked;
mod handler;
pub(crate) mod line;
mod mprotect;
mod page_set;
mod probe;
mod region;
mod scan;
mod uffd;

pub use handler::{Handler, Serve, Verdict, install};
pub use mprotect::Mprotect;
pub use probe::{ChooseError, Finding, Probe, choose};
pub use region::Region;
pub use uffd::Uffd;

/// Bytes of a DSM page.
pub const PAGE: usize = 4096;

/// What the application may do with a page through its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads succeed, writes fault.
    Read,
    /// Neither faults.
    Write,
}

/// What went wrong in an engine, with what the user can do about it.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct EngineError {
    /// What was tried, and the remedy.
    pub what: String,
    /// The system's answer.
    pub source: std::io::Error,
}

impl EngineError {
    pub(crate) fn new(what: impl Into<String>, source: std::io::Error) -> Self {
        Self { what: what.into(), source }
    }

    /// With the calling thread's `errno`: to be called right after the system call that failed.
    pub(crate) fn last(what: impl Into<String>) -> Self {
        let source = std::io::Error::last_os_error();
        Self::new(what, source)
    }

    /// For a request that is wrong in itself; the system was not asked.
    pub(crate) fn invalid(what: impl Into<String>, why: &'static str) -> Self {
        Self::new(what, std::io::Error::new(std::io::ErrorKind::InvalidInput, why))
    }
}

/// The engines, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// userfaultfd: no limit on how pages alternate; faults arrive as SIGBUS.
    Uffd,
    /// Page protection: works everywhere; faults arrive as SIGSEGV.
    Mprotect,
}

impl EngineKind {
    /// Every engine, best first.
    pub const ALL: [EngineKind; 2] = [EngineKind::Uffd, EngineKind::Mprotect];

    /// The name that people and `SCASH_FAULT` use.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Uffd => "uffd",
            EngineKind::Mprotect => "mprotect",
        }
    }

    /// The signal that a fault arrives as, in the faulting thread.
    pub fn signal(self) -> i32 {
        match self {
            EngineKind::Uffd => libc::SIGBUS,
            EngineKind::Mprotect => libc::SIGSEGV,
        }
    }
}

/// Builds an engine over a region of which no page is mapped yet. The region belongs to it from then on: one
/// engine a region.
pub fn open(kind: EngineKind, region: Arc<Region>) -> Result<Box<dyn FaultEngine>, EngineError> {
    Ok(match kind {
        EngineKind::Uffd => Box::new(Uffd::new(region)?),
        EngineKind::Mprotect => Box::new(Mprotect::new(region)?),
    })
}

/// An engine over one region. Pages are numbered from the region's start. Calls may come from several threads
/// and from a fault handler (no allocation on the success path, no lock held while application memory is
/// touched).
///
/// The caller orders calls that concern the same page; calls on different pages need no order. A page is
/// **mapped** when the application view gives some access to it, and **has a frame** when the region's file
/// holds bytes for it; the two are independent. A range that lies outside the region is an error.
pub trait FaultEngine: Send + Sync {
    /// `"uffd"` or `"mprotect"`: for people and for `SCASH_FAULT`.
    fn name(&self) -> &'static str;

    /// Whether none of these pages has a frame, as far as is known without asking the system, and
    /// [`fill`](Self::fill) would give them some.
    fn lack_frames(&self, pages: Range<u32>) -> bool {
        let _ = pages;
        false
    }

    /// Gives zeroed frames to pages that have none, or keeps the frames that they have, and maps them. The
    /// range may be mixed, and pages that are mapped get the access asked for.
    fn map_zero(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError>;

    /// Fills pages that are not mapped with the bytes at `src` (whether or not they have frames) and maps
    /// them. The bytes are in place before any thread can see the page.
    ///
    /// # Safety
    /// `src` points to `pages.len()` readable pages, outside the application view.
    unsafe fn map_copy(&self, pages: Range<u32>, src: *const u8, access: Access) -> Result<(), EngineError>;

    /// Gives frames with the bytes at `src` to pages that are not mapped, and maps them, up to the first one
    /// that has a frame already, which it leaves alone. Returns the page that it came to. The system need not
    /// fill such frames with zeros first.
    ///
    /// # Safety
    /// As for [`map_copy`](Self::map_copy).
    unsafe fn fill(&self, pages: Range<u32>, src: *const u8, access: Access) -> Result<u32, EngineError> {
        let _ = (src, access);
        Ok(pages.start)
    }

    /// Maps pages that are not mapped and whose frames already hold their contents. A page without a frame
    /// reads as zero; pages that are mapped get the access asked for.
    fn map(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError>;

    /// Changes the access of pages that are mapped. Pages of the range that are not mapped stay so.
    fn protect(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError>;

    /// Whether the engine still notices accesses. One that goes by a descriptor does so no longer when the
    /// program closes that.
    fn check(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Ends an engine that has come here in an image of another process: what it had of the system is not
    /// there any more, and its region's addresses are another one's. Memory of its own is given back.
    fn abandon(self: Box<Self>);

    /// Takes the pages out of the application's view: the next access faults. Frames and their contents stay.
    fn unmap(&self, pages: Range<u32>) -> Result<(), EngineError>;

    /// `unmap`, and gives the frames back to the system; their contents are gone.
    fn discard(&self, pages: Range<u32>) -> Result<(), EngineError>;

    /// From here on, accesses to this page, which is not mapped, raise SIGSEGV and do not get to the
    /// [`Handler`]: as if there were no memory. `false`, and nothing changed, where what gets to the handler
    /// is a SIGSEGV already.
    fn refuse(&self, page: u32) -> Result<bool, EngineError> {
        let _ = page;
        Ok(false)
    }

    /// Ends [`refuse`](Self::refuse) for those of the pages that were refused. To be called before any of
    /// them is mapped.
    fn admit(&self, pages: Range<u32>) -> Result<(), EngineError> {
        let _ = pages;
        Ok(())
    }

    /// From here on, writes to these pages do not fault but are remembered, until
    /// [`track_sync`](Self::track_sync); ask [`written`](Self::written) which pages had one. Counts from this
    /// call on: a write before it is not reported. `false`, and nothing changed, where the engine or the
    /// kernel has no such tracking.
    ///
    /// Every page of the range must be mapped with [`Access::Write`], and stay mapped as long as it is
    /// tracked: for a moment, the range is under no engine at all. While it is tracked, `protect` has no
    /// effect on it that may be relied on. Each tracked range is a mapping of its own, so track long runs:
    /// the system's `vm.max_map_count` bounds their number.
    fn track_async(&self, pages: Range<u32>) -> Result<bool, EngineError> {
        let _ = pages;
        Ok(false)
    }

    /// Appends to `out`, in order, the runs of pages that were written since `track_async` or the last call,
    /// and forgets the writes that it reports. The whole range must be tracked. A write that races with the
    /// call is reported by it or by the next one.
    fn written(&self, pages: Range<u32>, out: &mut Vec<Range<u32>>) -> Result<(), EngineError> {
        let _ = (pages, out);
        Err(EngineError::new("track writes without faults", std::io::ErrorKind::Unsupported.into()))
    }

    /// Ends `track_async` for these pages, which must all be mapped. They have [`Access::Write`] afterwards.
    fn track_sync(&self, pages: Range<u32>) -> Result<(), EngineError> {
        let _ = pages;
        Err(EngineError::new("end tracking of writes without faults", std::io::ErrorKind::Unsupported.into()))
    }
}
