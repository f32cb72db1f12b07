//! Streams of the C library, locked.

use libc::FILE;

unsafe extern "C" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
}

/// A stream that other threads do not use meanwhile, as in one call of the C library.
pub(crate) struct LockedStream(*mut FILE);

impl LockedStream {
    /// # Safety
    /// The stream is open as long as this lives.
    pub(crate) unsafe fn new(stream: *mut FILE) -> LockedStream {
        // SAFETY: it is open, as the caller says.
        unsafe { flockfile(stream) };
        LockedStream(stream)
    }
}

impl Drop for LockedStream {
    fn drop(&mut self) {
        // SAFETY: it is open, and locked by this thread.
        unsafe { funlockfile(self.0) };
    }
}
