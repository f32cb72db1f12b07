//! Memory that a rank can register.

use crate::descriptors::out_of_the_way;
use crate::{Error, LocalSegment, Result};
use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
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
        // A file above the limit would not be refused, but kill the process by SIGXFSZ.
        if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(most, _)| most < len as u64) {
            return Err(failed("raise `ulimit -f`", Errno::EFBIG.into()));
        }
        let fd = memfd_create(c"scash-memory", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING);
        let fd = out_of_the_way(fd.map_err(|errno| failed("memfd_create", errno.into()))?);
        let size = i64::try_from(len).map_err(|_| Error::Invalid(format!("{len} bytes are too many")))?;
        ftruncate(&fd, size).map_err(|errno| failed("ftruncate", errno.into()))?;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(sealed())).map_err(|errno| failed("seal", errno.into()))?;
        if len == 0 {
            // The crate would map a byte that is not there.
            return Err(failed("mmap", Errno::EINVAL.into()));
        }
        Self::map(fd, len).map_err(|error| failed("mmap", error))
    }

    /// Maps what another process has made ([`fd`](Self::fd)). It must be that long, and sealed.
    pub fn open(fd: OwnedFd, len: usize) -> Result<Self> {
        let failed = |source: io::Error| Error::Io {
            what: format!("cannot map {len} bytes of another process's shared memory"),
            source,
        };
        let size = fstat(&fd).map_err(|errno| failed(errno.into()))?.st_size;
        let seals = fcntl(&fd, FcntlArg::F_GET_SEALS).map_err(|errno| failed(errno.into()))?;
        if usize::try_from(size) != Ok(len) || seals & sealed().bits() != sealed().bits() {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        Self::map(out_of_the_way(fd), len).map_err(failed)
    }

    fn map(fd: OwnedFd, len: usize) -> io::Result<Self> {
        let mapping = MmapOptions::new().len(len).no_reserve_swap().map_raw(&fd)?;
        // Of no use to who looks at a core file, and large. A kernel that cannot do it dumps it.
        let _ = mapping.advise(Advice::DontDump);
        Ok(Self { fd, mapping })
    }

    /// The file, for other processes of this host.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Gives whole pages back to the system: their bytes are zero from then on, for whoever maps them.
    pub fn give_back(&self, bytes: Range<usize>) -> Result<()> {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let [at, len] = [bytes.start, bytes.len()].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        fallocate(&self.fd, flags, at, len).map_err(|errno| Error::Io {
            what: format!("cannot give {len} bytes of shared memory back"),
            source: errno.into(),
        })
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

/// Nobody who has the descriptor can make the file shorter under those who map it.
fn sealed() -> SealFlag {
    SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_makes_another_one_maps_if_it_is_as_long_and_sealed() {
        let first = SharedMemory::new(8192).unwrap();
        let open = |len| SharedMemory::open(first.fd().try_clone_to_owned().unwrap(), len);
        let second = open(8192).unwrap();
        first.word(4096).store(7, Ordering::Relaxed);
        assert_eq!(second.word(4096).load(Ordering::Relaxed), 7);
        second.give_back(4096..8192).unwrap();
        assert_eq!(first.word(4096).load(Ordering::Relaxed), 0);
        open(4096).unwrap_err();
        let unsealed = memfd_create(c"unsealed", MFdFlags::MFD_CLOEXEC).unwrap();
        ftruncate(&unsealed, 8192).unwrap();
        SharedMemory::open(unsealed, 8192).unwrap_err();
    }
}
