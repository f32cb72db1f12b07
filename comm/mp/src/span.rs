//! Memory of the application that an operation under way reads or writes.

use std::fmt;
use std::ops::Range;

/// Set in an address that counts from the start of registered memory. No address of a process has it.
pub(super) const REGISTERED: u64 = 1 << 63;

/// Bytes to be sent: readable and unchanged until their operation ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    at: *const u8,
    len: usize,
}

/// Room for bytes to be received: writable, and used by nobody else until its operation ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveBuffer {
    at: *mut u8,
    len: usize,
}

// SAFETY: whoever made it vouches for the memory until the operation ends, whichever thread carries it out.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Send for ReceiveBuffer {}

impl Source {
    /// # Safety
    /// The bytes are readable and unchanged for as long as this value or a copy of it is used.
    pub(super) unsafe fn new(at: *const u8, len: usize) -> Self {
        Self { at, len }
    }

    pub(super) fn len(self) -> usize {
        self.len
    }

    /// `len` bytes of it, from `from` on; less where it ends.
    pub(super) fn part(self, from: usize, len: usize) -> Self {
        let from = from.min(self.len);
        Self { at: self.at.wrapping_add(from), len: len.min(self.len - from) }
    }

    /// Where it begins, for other processes to read; counted from the start of the registered memory at these
    /// addresses, if all of it is there.
    pub(super) fn address(self, registered: &Range<usize>) -> u64 {
        // Who reads there has nothing but the number.
        let at = self.at.expose_provenance();
        if registered.contains(&at) && self.len <= registered.end - at {
            REGISTERED | (at - registered.start) as u64
        } else {
            at as u64
        }
    }

    /// The bytes from `from` on, `len` of them at most.
    pub(super) fn piece(&self, from: usize, len: usize) -> &[u8] {
        let from = from.min(self.len);
        let len = len.min(self.len - from);
        if len == 0 {
            return &[];
        }
        // SAFETY: inside the memory that the maker vouches for, as `from + len <= self.len`.
        let start = unsafe { self.at.add(from) };
        // SAFETY: as above; the bytes stay unchanged while the value is used.
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

impl ReceiveBuffer {
    /// # Safety
    /// The bytes are writable and used by nobody else for as long as this value or a copy of it is used.
    pub(super) unsafe fn new(at: *mut u8, len: usize) -> Self {
        Self { at, len }
    }

    /// Room for `len` bytes behind those of a vector, or for as many as it has; good until the vector is used
    /// again.
    pub(super) fn behind(bytes: &mut Vec<u8>, len: usize) -> Self {
        let spare = bytes.spare_capacity_mut();
        Self { at: spare.as_mut_ptr().cast(), len: spare.len().min(len) }
    }

    pub(super) fn len(self) -> usize {
        self.len
    }

    /// Where it begins, for the kernel to write to.
    pub(super) fn start(self) -> *mut u8 {
        self.at
    }

    /// `len` bytes of it, from `from` on; less where it ends.
    pub(super) fn part(self, from: usize, len: usize) -> Self {
        let from = from.min(self.len);
        Self { at: self.at.wrapping_add(from), len: len.min(self.len - from) }
    }

    /// What is in it, to be sent.
    pub(super) fn source(self) -> Source {
        Source { at: self.at, len: self.len }
    }

    /// Calls `work` with the bytes.
    pub(super) fn change<T>(&mut self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        if self.len == 0 {
            return work(&mut []);
        }
        // SAFETY: the maker vouches that the memory is writable and used by nobody else.
        work(unsafe { std::slice::from_raw_parts_mut(self.at, self.len) })
    }

    /// Stores bytes at a distance from the start; those that do not fit are left out.
    pub(super) fn store(self, offset: usize, bytes: &[u8]) {
        let offset = offset.min(self.len);
        let len = bytes.len().min(self.len - offset);
        if len == 0 {
            return;
        }
        // SAFETY: inside the memory that the maker vouches for.
        let start = unsafe { self.at.add(offset) };
        // SAFETY: as above, `offset + len <= self.len`; the maker vouches that nobody else uses it, so the
        // bytes are not in it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, len) };
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

impl fmt::Debug for ReceiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "room for {} bytes", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_where_the_memory_does() {
        let bytes = [1, 2, 3, 4, 5];
        // SAFETY: the array lives to the end of the test.
        let source = unsafe { Source::new(bytes.as_ptr(), bytes.len()) };
        assert_eq!(source.piece(1, 2), [2, 3]);
        assert_eq!(source.piece(3, 100), [4, 5]);
        assert!(source.piece(5, 1).is_empty());
        assert!(source.piece(usize::MAX, usize::MAX).is_empty());
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut bytes = [0; 4];
        // SAFETY: the array lives to the end of the test, and is looked at only when the place is used no
        // more.
        let place = unsafe { ReceiveBuffer::new(bytes.as_mut_ptr(), 3) };
        place.store(2, &[7, 8, 9]);
        place.store(usize::MAX, &[1]);
        assert_eq!(bytes, [0, 0, 7, 0]);
    }
}
