//! Fault engines: how an access to shared memory that needs work is noticed, and how access is given and taken.
//!
//! Boundary (DESIGN §4): an engine knows frames, views and protections. It knows no home, no rank, no protocol.

use std::ops::Range;

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

/// An engine over one region. Pages are numbered from the region's start. Calls may come from several threads and from a
/// fault handler (no allocation on the success path, no lock held while application memory is touched).
pub trait FaultEngine: Send + Sync {
    /// `"uffd"` or `"mprotect"`: for people and for `SCASH_FAULT`.
    fn name(&self) -> &'static str;

    /// Gives zeroed frames to pages that have none, or keeps the frames that they have, and maps them.
    fn map_zero(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError>;

    /// Fills pages that are not mapped with the bytes at `src` (whether or not they have frames) and maps them. The bytes
    /// are in place before any thread can see the page.
    ///
    /// # Safety
    /// `src` points to `pages.len()` readable pages.
    unsafe fn map_copy(&self, pages: Range<u32>, src: *const u8, access: Access) -> Result<(), EngineError>;

    /// Maps pages that are not mapped and whose frames already hold their contents.
    fn map(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError>;

    /// Changes the access of pages that are mapped. Pages of the range that are not mapped stay so.
    fn protect(&self, pages: Range<u32>, access: Access) -> Result<(), EngineError>;

    /// Takes the pages out of the application's view: the next access faults. Frames and their contents stay.
    fn unmap(&self, pages: Range<u32>) -> Result<(), EngineError>;

    /// `unmap`, and gives the frames back to the system; their contents are gone.
    fn discard(&self, pages: Range<u32>) -> Result<(), EngineError>;
}
