//! Memory that a rank can register.

use crate::descriptors::out_of_the_way;
use crate::{Error, LocalSegment, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A memfd with a shared mapping of it: what a rank registers. Others may write it at any time, so bytes go
/// in and out through atomics or raw pointers; this type gives no slices of it.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped, and all access is by atomics or by the
// user's raw pointers.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes `len` zero bytes.
    pub fn new(len: usize) -> Result<Self> {
        let io = |what: &str| Error::Io {
            what: format!("cannot make {len} bytes of shared memory: {what}"),
            source: std::io::Error::last_os_error(),
        };
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"scash-memory".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io("memfd_create"));
        }
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let fd = out_of_the_way(unsafe { OwnedFd::from_raw_fd(fd) });
        let size =
            libc::off_t::try_from(len).map_err(|_| Error::Invalid(format!("{len} bytes are too many")))?;
        // SAFETY: plain system call on our own descriptor.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), size) } != 0 {
            return Err(io("ftruncate"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io("mmap"));
        }
        NonNull::new(base.cast()).map(|base| Self { fd, base, len }).ok_or_else(|| io("mmap gave address 0"))
    }

    /// What [`Endpoint::register`](crate::Endpoint::register) takes.
    pub fn segment(&self) -> LocalSegment {
        LocalSegment { base: self.base.as_ptr(), len: self.len, fd: self.fd.as_raw_fd() }
    }

    /// Address of the byte at `offset`.
    ///
    /// # Panics
    /// If `offset` is beyond the end.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "{offset} is beyond the {} bytes of this memory", self.len);
        // SAFETY: checked above; one past the end is a valid address.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Copies `bytes` to `offset`.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().enumerate() {
            self.byte(offset + i).store(byte, Ordering::Relaxed);
        }
    }

    /// Copies `len` bytes at `offset` out.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len).map(|at| self.byte(at).load(Ordering::Relaxed)).collect()
    }

    /// The 8-byte word at `offset`, which must be a multiple of 8.
    ///
    /// # Panics
    /// If the word is not inside, or not aligned.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len, "no word at {offset}");
        // SAFETY: inside the mapping and aligned (checked above, and the mapping is page-aligned); it lives
        // as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len, "no byte at {offset}");
        // SAFETY: inside the mapping (checked above), which lives as long as `self`.
        unsafe { AtomicU8::from_ptr(self.at(offset)) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever registered it promised to drop the endpoint first.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
