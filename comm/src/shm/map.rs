//! Memfds and shared mappings of them.

use crate::descriptors::out_of_the_way;
use crate::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl, posix_fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::fstat;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A shared, writable mapping of the start of a file, for as long as the value lives. Whoever touches the
/// bytes does so by atomics or by raw copies, under their own rules.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps `len` bytes of `file` without reserving memory or swap for them, so that many times the machine's
    /// memory can be mapped.
    pub(super) fn new(file: impl AsFd, len: usize, what: &str) -> Result<Self> {
        if len == 0 {
            return Err(Error::Invalid(format!("{what} has no bytes to map")));
        }
        let advice = "is the limit on address space (`ulimit -v`) or on mappings (vm.max_map_count) too low?";
        let map = MmapOptions::new().len(len).no_reserve_swap().map_raw(file.as_fd().as_raw_fd());
        map.map(Self).map_err(|error| failed(format!("cannot map {len} bytes of {what}: {advice}"), error))
    }

    /// The first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Makes a memfd of `len` zero bytes whose memory is there (a lack of it is an error here, not a SIGBUS
/// later), and whose size can never change again.
pub(super) fn reserved_memfd(name: &CStr, len: usize) -> Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create(name, flags).map(out_of_the_way).map_err(|errno| {
        failed("cannot make a memfd: is the limit on open files (`ulimit -n`) too low?".to_owned(), errno)
    })?;
    let size =
        libc::off_t::try_from(len).map_err(|_| Error::Invalid(format!("{len} bytes do not fit a file")))?;
    let refused = |advice: &str, errno| {
        failed(format!("cannot reserve {len} bytes of shared memory for messages: {advice}"), errno)
    };
    // The system would not refuse it, but kill the process by SIGXFSZ: ask first.
    if getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(most, _)| most < len as u64) {
        return Err(refused("raise `ulimit -f`", Errno::EFBIG));
    }
    let reserved = loop {
        match posix_fallocate(&fd, 0, size) {
            Err(Errno::EINTR) => {}
            done => break done,
        }
    };
    let advice = "free memory, raise the memory limit of this container or control group, or run fewer ranks";
    reserved.map_err(|errno| refused(advice, errno))?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals))
        .map_err(|errno| failed("cannot seal a memfd".to_owned(), errno))?;
    Ok(fd)
}

/// Whether the file can never become shorter, so that a mapping of it never ends in SIGBUS.
pub(super) fn is_sealed_against_shrinking(fd: impl AsFd) -> bool {
    let seals = fcntl(fd, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate);
    seals.is_ok_and(|seals| seals.contains(SealFlag::F_SEAL_SHRINK))
}

/// The file's length in bytes.
pub(super) fn file_len(fd: impl AsFd) -> Result<u64> {
    let status =
        fstat(fd).map_err(|errno| failed("cannot ask the size of a peer's memory".to_owned(), errno))?;
    Ok(u64::try_from(status.st_size).unwrap_or(0))
}

fn failed(what: String, source: impl Into<io::Error>) -> Error {
    Error::Io { what, source: source.into() }
}
