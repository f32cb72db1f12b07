//! Memfds and shared mappings of them.

use crate::{Error, Result};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// A shared, writable mapping of the start of a file, for as long as the value lives.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: it is an address and a length; who touches the bytes does so by atomics or by raw copies, under its own rules.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` without reserving memory or swap for them, so that many times the machine's memory can be mapped.
    pub(super) fn new(file: impl AsFd, len: usize, what: &str) -> Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_fd().as_raw_fd(),
                0,
            )
        };
        let advice = "is the limit on address space (`ulimit -v`) or on mappings (vm.max_map_count) too low?";
        let failed = || last_error(format!("cannot map {len} bytes of {what}: {advice}"));
        if base == libc::MAP_FAILED {
            return Err(failed());
        }
        NonNull::new(base.cast()).map(|base| Self { base, len }).ok_or_else(failed)
    }

    /// The first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Makes a memfd of `len` zero bytes whose memory is there (a lack of it is an error here, not a SIGBUS later), and whose size can never change again.
pub(super) fn reserved_memfd(name: &CStr, len: usize) -> Result<OwnedFd> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(last_error(
            "cannot make a memfd: raise the limit on open files (`ulimit -n`)".to_owned(),
        ));
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let size =
        libc::off_t::try_from(len).map_err(|_| Error::Invalid(format!("{len} bytes do not fit a file")))?;
    // SAFETY: a plain system call on our own descriptor. `posix_fallocate` returns its error.
    let refused = unsafe { libc::posix_fallocate(fd.as_raw_fd(), 0, size) };
    if refused != 0 {
        let what = format!(
            "cannot reserve {len} bytes of shared memory for messages: free memory, or run fewer ranks"
        );
        return Err(Error::Io { what, source: io::Error::from_raw_os_error(refused) });
    }
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: a plain system call on our own descriptor.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(last_error("cannot seal a memfd".to_owned()));
    }
    Ok(fd)
}

/// Whether the file can never become shorter, so that a mapping of it never ends in SIGBUS.
pub(super) fn is_sealed_against_shrinking(fd: impl AsFd) -> bool {
    // SAFETY: a plain system call on a borrowed descriptor.
    let seals = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// The file's length in bytes.
pub(super) fn file_len(fd: impl AsFd) -> Result<u64> {
    let failed = |source| Error::Io { what: "cannot ask the size of a peer's memory".to_owned(), source };
    let file = std::fs::File::from(fd.as_fd().try_clone_to_owned().map_err(failed)?);
    Ok(file.metadata().map_err(failed)?.len())
}

fn last_error(what: String) -> Error {
    Error::Io { what, source: io::Error::last_os_error() }
}
