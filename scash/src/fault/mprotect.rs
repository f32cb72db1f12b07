//! The mprotect engine: access is kept in mappings, and a fault is a SIGSEGV in the faulting thread.
//!
//! It works on every kernel and in every container. The price: the system keeps one mapping for each run of
//! pages with the same access, and bounds their number (`vm.max_map_count`, 65,530 by default), so a region
//! of which every other page is protected fails at 256 MiB. The error says so.
//!
//! The system cannot be asked which pages are mapped, so the engine remembers.

use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::page_set::PageSet;
use super::{Access, EngineError, EngineKind, FaultEngine, PAGE, Region};

/// The engine; see the module.
pub struct Mprotect {
    region: Arc<Region>,
    mapped: PageSet,
}

impl Mprotect {
    /// Takes a region of which no page is mapped.
    pub fn new(region: Arc<Region>) -> Result<Self, EngineError> {
        let mapped = PageSet::new(region.pages()).map_err(|e| EngineError::new("map a set of pages", e))?;
        Ok(Self { mapped, region })
    }

    fn set(&self, pages: &Range<u32>, protection: i32) -> Result<(), EngineError> {
        self.region.protect_pages(pages, protection, |error| {
            let remedy = mapping_limit(&error);
            EngineError::new(format!("protect pages {pages:?} of the region by mprotect{remedy}"), error)
        })
    }
}

impl FaultEngine for Mprotect {
    fn abandon(self: Box<Self>) {
        let this = ManuallyDrop::new(*self);
        // SAFETY: the engine is never used or dropped again; its set is private memory of the process, and
        // has come with it.
        drop(unsafe { ptr::read(&raw const this.mapped) });
    }

    fn name(&self) -> &'static str {
        EngineKind::Mprotect.name()
    }

    fn map_zero(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError> {
        self.map(pages, access)
    }

    unsafe fn map_copy(&self, pages: Range<u32>, src: *const u8, access: Access) -> Result<(), EngineError> {
        self.region.app_span(&pages)?;
        // SAFETY: `src` points to the bytes of `pages` (the caller's promise); the runtime view has room for
        // them, and whoever lets us work on these pages keeps others from their bytes.
        unsafe { std::ptr::copy(src, self.region.runtime_page(pages.start), pages.len() * PAGE) };
        self.map(pages, access)
    }

    fn map(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError> {
        self.set(&pages, protection(access))?;
        self.mapped.insert(pages);
        Ok(())
    }

    fn protect(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError> {
        self.region.app_span(&pages)?;
        let mut left = pages;
        while !left.is_empty() {
            let (mapped, end) = self.mapped.run(left.clone());
            if mapped {
                self.set(&(left.start..end), protection(access))?;
            }
            left.start = end;
        }
        Ok(())
    }

    fn unmap(&self, pages: Range<u32>) -> Result<(), EngineError> {
        self.set(&pages, libc::PROT_NONE)?;
        self.mapped.remove(pages);
        Ok(())
    }

    fn discard(&self, pages: Range<u32>) -> Result<(), EngineError> {
        self.unmap(pages.clone())?;
        self.region.punch(&pages)
    }
}

impl Drop for Mprotect {
    /// Nobody serves faults any more. (If it fails, the view stays as it is, which is no worse than before.)
    fn drop(&mut self) {
        let _ = self.region.protect_app(libc::PROT_NONE);
    }
}

fn protection(access: Access) -> i32 {
    match access {
        Access::Read => libc::PROT_READ,
        Access::Write => libc::PROT_READ | libc::PROT_WRITE,
    }
}

/// For an ENOMEM that most likely means "too many mappings": why, and what to do.
pub(crate) fn mapping_limit(error: &io::Error) -> String {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return String::new();
    }
    let limit = max_map_count().map_or_else(|| "unknown".to_owned(), |limit| limit.to_string());
    format!(
        " (each run of pages with the same access needs a mapping of its own, and vm.max_map_count = {limit} bounds \
         them: raise it with `sysctl vm.max_map_count=...`, or use SCASH_FAULT=uffd, which has no such limit)"
    )
}

/// How many mappings a process may have.
pub(crate) fn max_map_count() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}
