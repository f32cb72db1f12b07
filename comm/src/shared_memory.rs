//! Memory that a rank can register.

use crate::descriptors::out_of_the_way;
use crate::{Error, LocalSegment, Result};
use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A memfd with a shared mapping of it: what a rank registers. Others may write it at any time, so bytes go
/// in and out through atomics or raw pointers; this type gives no slices of it.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    mapping: MmapRaw,
}

impl SharedMemory {
    /// Makes `len` zero bytes.
    pub fn new(len: usize) -> Result<Self> {
        let failed = |what: &str, source: io::Error| Error::Io {
            what: format!("cannot make {len} bytes of shared memory: {what}"),
            source,
        };
        let fd = memfd_create(c"scash-memory", MFdFlags::MFD_CLOEXEC);
        let fd = out_of_the_way(fd.map_err(|errno| failed("memfd_create", errno.into()))?);
        let size = i64::try_from(len).map_err(|_| Error::Invalid(format!("{len} bytes are too many")))?;
        ftruncate(&fd, size).map_err(|errno| failed("ftruncate", errno.into()))?;
        if len == 0 {
            // The crate would map a byte that is not there.
            return Err(failed("mmap", Errno::EINVAL.into()));
        }
        let mapping = MmapOptions::new().len(len).no_reserve_swap().map_raw(&fd);
        Ok(Self { mapping: mapping.map_err(|error| failed("mmap", error))?, fd })
    }

    /// What [`Endpoint::register`](crate::Endpoint::register) takes.
    pub fn segment(&self) -> LocalSegment {
        LocalSegment { base: self.mapping.as_mut_ptr(), len: self.len(), fd: self.fd.as_raw_fd() }
    }

    /// Address of the byte at `offset`.
    ///
    /// # Panics
    /// If `offset` is beyond the end.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len(), "{offset} is beyond the {} bytes of this memory", self.len());
        // SAFETY: checked above; one past the end is a valid address.
        unsafe { self.mapping.as_mut_ptr().add(offset) }
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
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len(), "no word at {offset}");
        // SAFETY: inside the mapping and aligned (checked above, and the mapping is page-aligned); it lives
        // as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len(), "no byte at {offset}");
        // SAFETY: inside the mapping (checked above), which lives as long as `self`.
        unsafe { AtomicU8::from_ptr(self.at(offset)) }
    }

    fn len(&self) -> usize {
        self.mapping.len()
    }
}
