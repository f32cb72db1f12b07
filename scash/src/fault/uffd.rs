//! The userfaultfd engine: access is kept in page-table entries, and a fault is a SIGBUS in the faulting
//! thread.
//!
//! The intuition: the whole application view is one mapping, readable and writable, under a userfaultfd that
//! must be asked before an entry is made in its page table. So there is no limit on how pages with different
//! access alternate, and a change touches entries only. What an entry can be:
//!
//! ```text
//!             no entry               write-protected            writable
//! access      faults                 Read                       Write
//! made by     unmap, discard         copy+WP, resume+WP         zero, copy, resume
//! changed by                         protect(Read)              protect(Write)
//! ```
//!
//! To map a page, the kernel wants to be told what it cannot find out for us: **fill** a page that has no
//! frame (`copy`, `zero`), **resume** one that has (`UFFDIO_CONTINUE`). The wrong one is refused, with
//! nothing changed. So the engine remembers which pages have frames. That is a guess, since peers write to
//! frames through views of their own: a refusal corrects it, and the next try is right.
//!
//! A page that is refused is a mapping of its own that allows no access: the system looks at that before it
//! asks the userfaultfd, and raises SIGSEGV.
//!
//! A page that is not mapped may carry a leftover mark "write-protected". It has no effect: mapping the page
//! replaces it.
//!
//! **Invariant:** no page is mapped before its bytes are in its frame.
//!
//! **Invariant:** an entry is made with its final protection; it is never writable for a moment.

use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) mod sys;

use memmap2::MmapMut;

use super::page_set::PageSet;
use super::scan::Pagemap;
use super::{Access, EngineError, FaultEngine, PAGE, Region};
use sys::{Userfaultfd, WriteProtect, feature};

/// What the engine cannot do without.
pub(crate) const NEEDED: u64 =
    feature::SIGBUS | feature::MISSING_SHMEM | feature::MINOR_SHMEM | feature::WP_SHMEM;

/// Bytes that one call copies at most.
const FILL: usize = 64 * PAGE;

/// The engine; see the module.
pub struct Uffd {
    region: Arc<Region>,
    /// Every page is under this one, but those that are tracked.
    context: Userfaultfd,
    tracking: Option<Tracking>,
    /// Zero bytes to copy from, which are never written: one physical page, however long. It stays in the
    /// processor's cache.
    zeroes: MmapMut,
    /// Pages that have frames, as far as we know.
    frames: PageSet,
    /// Whether any page was ever refused. (Which ones, their mappings know.)
    has_refused: AtomicBool,
}

/// Writes are remembered, not refused. A context is asynchronous as a whole, so this is a second one.
struct Tracking {
    context: Userfaultfd,
    pagemap: Pagemap,
}

/// Where the bytes of a page come from that is to be mapped.
#[derive(Clone, Copy)]
enum Source {
    /// The page's frame, or zero if it has none.
    Frame,
    /// These bytes: readable for as many pages as it is used for, as `map_copy` and `fill` were promised.
    Bytes(*const u8),
}

impl Uffd {
    /// Takes a region of which no page is mapped.
    pub fn new(region: Arc<Region>) -> Result<Self, EngineError> {
        let context = Userfaultfd::new(NEEDED)
            .map_err(|e| EngineError::new("open a userfaultfd (see `scash info`)", e))?;
        let engine = Self {
            context,
            tracking: Tracking::new().ok(),
            zeroes: MmapMut::map_anon(FILL).map_err(|e| EngineError::new("map some zeroes", e))?,
            frames: PageSet::new(region.pages()).map_err(|e| EngineError::new("map a set of pages", e))?,
            has_refused: AtomicBool::new(false),
            region,
        };
        let (base, len) = engine.region.app_span(&(0..engine.region.pages()))?;
        let put = engine.context.register(base, len);
        put.map_err(|e| EngineError::new("put the region under userfaultfd (see `scash info`)", e))?;
        // Only now: from the first moment on, an access faults.
        engine.region.protect_app(libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(engine)
    }

    fn map_from(&self, pages: Range<u32>, source: Source, access: Access) -> Result<(), EngineError> {
        self.region.app_span(&pages)?;
        let mut left = pages.clone();
        while !left.is_empty() {
            let source = source.at(left.start - pages.start);
            let (framed, end) = self.frames.run(left.clone());
            let run = left.start..end;
            left.start = if framed {
                self.resume(run, source, access)?
            } else {
                self.new_frames(run, source, access)?
            };
        }
        Ok(())
    }

    /// Maps pages that, as far as we know, have no frame. Returns the page that it came to: none at all if
    /// the first one has a frame, as is known then.
    fn new_frames(&self, pages: Range<u32>, source: Source, access: Access) -> Result<u32, EngineError> {
        let wp = protection(access);
        let filled = self.longest(&pages, |at, len| match source {
            Source::Bytes(bytes) => {
                let len = len.min(FILL);
                // SAFETY: `source` points to the bytes of `pages`, by the contracts of `map_copy` and `fill`.
                unsafe { touch(bytes, len) };
                // SAFETY: as above.
                unsafe { self.context.copy(at, bytes, len, wp) }
            }
            Source::Frame if access == Access::Write => self.context.zero(at, len),
            // There is no "zero, write-protected".
            // SAFETY: there are FILL zeroes.
            Source::Frame => unsafe { self.context.copy(at, self.zeroes.as_ptr(), len.min(FILL), wp) },
        });
        match filled {
            Ok(end) => {
                self.frames.insert(pages.start..end);
                Ok(end)
            }
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.frames.insert(pages.start..pages.start + 1);
                Ok(pages.start)
            }
            Err(error) => Err(failed("fill", &pages, error)),
        }
    }

    /// Maps pages that, as far as we know, have a frame. Returns the page that it came to.
    fn resume(&self, pages: Range<u32>, source: Source, access: Access) -> Result<u32, EngineError> {
        if let Source::Bytes(bytes) = source {
            let to = self.region.runtime_page(pages.start);
            // SAFETY: `bytes` points to the bytes of `pages`, by the contract of `map_copy`; the runtime view
            // has room for them, at another address; and whoever lets us work on these pages keeps others
            // from their bytes.
            unsafe { std::ptr::copy(bytes, to, pages.len() * PAGE) };
        }
        let mut left = pages.clone();
        while !left.is_empty() {
            match self.longest(&left, |at, len| self.context.resume(at, len, protection(access))) {
                Ok(end) => left.start = end,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EEXIST) => {
                        self.protect(left.start..left.start + 1, access)?;
                        left.start += 1;
                    }
                    Some(libc::EFAULT) => {
                        self.frames.remove(left.start..left.start + 1);
                        return Ok(left.start);
                    }
                    _ => return Err(failed("map", &left, error)),
                },
            }
        }
        Ok(pages.end)
    }

    /// Calls `call` on the pages, or on as many of the first of them as lie in one mapping: the view is cut
    /// where tracked ranges begin, and a call across a cut is refused with ENOENT. Returns the page that it
    /// came to.
    fn longest(
        &self,
        pages: &Range<u32>,
        call: impl Fn(*mut u8, usize) -> io::Result<usize>,
    ) -> io::Result<u32> {
        let at = self.region.app_base().wrapping_add(pages.start as usize * PAGE);
        let mut count = pages.len();
        loop {
            match call(at, count * PAGE) {
                Ok(0) => {}
                // Not more than was asked for, so it fits.
                Ok(done) => return Ok(pages.start + u32::try_from(done / PAGE).unwrap_or(0)),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) && count > 1 => count /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    fn move_between(
        &self,
        pages: &Range<u32>,
        from: &Userfaultfd,
        to: &Userfaultfd,
    ) -> Result<(), EngineError> {
        let (at, len) = self.region.app_span(pages)?;
        from.unregister(at, len).map_err(|e| tracking_failed(pages, e))?;
        to.register(at, len).map_err(|e| tracking_failed(pages, e))
    }

    /// Sets the protection that is asked before the userfaultfd is.
    fn set(&self, pages: &Range<u32>, protection: i32) -> Result<(), EngineError> {
        self.region.protect_pages(pages, protection, |error| {
            let remedy = super::mprotect::mapping_limit(&error);
            EngineError::new(
                format!("open or close pages {pages:?} of the region by mprotect{remedy}"),
                error,
            )
        })
    }
}

impl FaultEngine for Uffd {
    fn abandon(self: Box<Self>) {
        let this = ManuallyDrop::new(*self);
        // SAFETY: the engine is never used or dropped again; these are private memory of the process, and
        // have come with it.
        drop(unsafe { ptr::read(&raw const this.zeroes) });
        // SAFETY: as above.
        drop(unsafe { ptr::read(&raw const this.frames) });
    }

    fn name(&self) -> &'static str {
        super::EngineKind::Uffd.name()
    }

    fn lack_frames(&self, pages: Range<u32>) -> bool {
        let end = pages.end;
        !pages.is_empty() && end <= self.region.pages() && self.frames.run(pages) == (false, end)
    }

    unsafe fn fill(&self, pages: Range<u32>, src: *const u8, access: Access) -> Result<u32, EngineError> {
        self.region.app_span(&pages)?;
        let mut left = pages.clone();
        while !left.is_empty() {
            let source = Source::Bytes(src).at(left.start - pages.start);
            match self.new_frames(left.clone(), source, access)? {
                end if end == left.start => break,
                end => left.start = end,
            }
        }
        Ok(left.start)
    }

    fn map_zero(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError> {
        self.map_from(pages, Source::Frame, access)
    }

    unsafe fn map_copy(&self, pages: Range<u32>, src: *const u8, access: Access) -> Result<(), EngineError> {
        self.map_from(pages, Source::Bytes(src), access)
    }

    fn map(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError> {
        self.region.app_span(&pages)?;
        // Most likely these have frames, whoever wrote to them: spare the refusal.
        self.frames.insert(pages.clone());
        self.map_from(pages, Source::Frame, access)
    }

    fn protect(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError> {
        let (at, len) = self.region.app_span(&pages)?;
        if len == 0 {
            return Ok(());
        }
        self.context.protect(at, len, protection(access)).map_err(|e| failed("protect", &pages, e))
    }

    fn check(&self) -> Result<(), EngineError> {
        self.context.check(self.region.app_base()).map_err(|e| {
            let number = self.context.number();
            EngineError::new(
                format!(
                    "notice accesses to shared memory: descriptor {number}, a userfaultfd of scash, was closed by the program \
                     (let it close only what it has opened, or do so before dsm_init)"
                ),
                e,
            )
        })
    }

    fn unmap(&self, pages: Range<u32>) -> Result<(), EngineError> {
        let (at, len) = self.region.app_span(&pages)?;
        // LOCKED: for programs that lock all their memory (mlockall).
        // SAFETY: takes entries out of the view's page table; the bytes stay in the file's frames.
        let answer = unsafe { libc::madvise(at.cast(), len, libc::MADV_DONTNEED_LOCKED) };
        if answer == 0 { Ok(()) } else { Err(EngineError::last(format!("unmap pages {pages:?} (madvise)"))) }
    }

    fn discard(&self, pages: Range<u32>) -> Result<(), EngineError> {
        self.region.punch(&pages)?;
        self.frames.remove(pages);
        Ok(())
    }

    fn refuse(&self, page: u32) -> Result<bool, EngineError> {
        self.has_refused.store(true, Ordering::Relaxed);
        self.set(&(page..page + 1), libc::PROT_NONE)?;
        Ok(true)
    }

    fn admit(&self, pages: Range<u32>) -> Result<(), EngineError> {
        if !self.has_refused.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.set(&pages, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn track_async(&self, pages: Range<u32>) -> Result<bool, EngineError> {
        let Some(tracking) = &self.tracking else { return Ok(false) };
        self.move_between(&pages, &self.context, &tracking.context)?;
        let (at, len) = self.region.app_span(&pages)?;
        let protected = tracking.context.protect(at, len, WriteProtect(true));
        protected.map_err(|e| tracking_failed(&pages, e))?;
        Ok(true)
    }

    fn written(&self, pages: Range<u32>, out: &mut Vec<Range<u32>>) -> Result<(), EngineError> {
        let tracking = self.tracking.as_ref().ok_or_else(no_tracking)?;
        let (at, len) = self.region.app_span(&pages)?;
        let base = self.region.app_base() as u64;
        let page = |addr: u64| u32::try_from((addr - base) / PAGE as u64).unwrap_or(u32::MAX);
        let first = at as u64;
        let scan = tracking.pagemap.take_written(first..first + len as u64, |run| {
            let run = page(run.start)..page(run.end);
            match out.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => out.push(run),
            }
        });
        scan.map_err(|e| tracking_failed(&pages, e))
    }

    fn track_sync(&self, pages: Range<u32>) -> Result<(), EngineError> {
        let tracking = self.tracking.as_ref().ok_or_else(no_tracking)?;
        self.move_between(&pages, &tracking.context, &self.context)
    }
}

impl Drop for Uffd {
    /// Without the userfaultfd, the view would be ordinary memory: close it first. (It only fails if the view
    /// is cut so finely that the system has no mapping left to give; then it stays open, which is no worse
    /// than before.)
    fn drop(&mut self) {
        let _ = self.region.protect_app(libc::PROT_NONE);
    }
}

impl Source {
    /// The same source, `pages` further on.
    fn at(self, pages: u32) -> Self {
        match self {
            Source::Frame => Source::Frame,
            Source::Bytes(bytes) => Source::Bytes(bytes.wrapping_add(pages as usize * PAGE)),
        }
    }
}

impl Tracking {
    fn new() -> io::Result<Self> {
        let pagemap = Pagemap::open()?;
        pagemap.check()?;
        Ok(Self { context: Userfaultfd::new(NEEDED | feature::WP_ASYNC)?, pagemap })
    }
}

/// Brings bytes that are about to be copied into this process's page table. Otherwise the kernel tries to
/// copy, finds that it may not fault there, lets go of its locks, and begins again: half a microsecond for a
/// page of a peer.
///
/// # Safety
/// `bytes` points to `len` readable bytes.
unsafe fn touch(bytes: *const u8, len: usize) {
    for offset in (0..len).step_by(PAGE) {
        // SAFETY: one of those bytes.
        unsafe { bytes.wrapping_add(offset).read_volatile() };
    }
}

fn protection(access: Access) -> WriteProtect {
    WriteProtect(access == Access::Read)
}

fn failed(action: &str, pages: &Range<u32>, error: io::Error) -> EngineError {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOSPC) => {
            " (out of memory: raise the limit of the job's cgroup, or share less)"
        }
        _ => "",
    };
    EngineError::new(format!("{action} pages {pages:?} of the region by userfaultfd{remedy}"), error)
}

fn tracking_failed(pages: &Range<u32>, error: io::Error) -> EngineError {
    let remedy = super::mprotect::mapping_limit(&error);
    EngineError::new(format!("track writes to pages {pages:?} of the region{remedy}"), error)
}

fn no_tracking() -> EngineError {
    EngineError::new("track writes without faults (see `scash info`)", io::ErrorKind::Unsupported.into())
}
