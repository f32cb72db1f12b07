//! Which pages of private memory were written since the last image: the kernel remembers it (asynchronous
//! write protection by userfaultfd, Linux 6.7), and tells it in the scan that finds the pages. Where it
//! cannot, pages are compared.
//!
//! A page that the kernel calls unwritten is as it was when it was last scanned. So what it says is believed
//! only of mappings that were under protection at the last scan, and only if what was scanned then was
//! committed: after a checkpoint that was left out all pages are compared once.

use super::kernel::{self, SyscallFailure};
use super::maps::Mapping;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const USER_MODE_ONLY: i32 = 1;
const API: u64 = 0xAA;
const UFFDIO_API: usize = 0xC018_AA3F;
const UFFDIO_REGISTER: usize = 0xC020_AA00;
const UFFDIO_WRITEPROTECT: usize = 0xC018_AA06;
const FEATURES: u64 = 1 << 0 | 1 << 13 | 1 << 15;
const MODE_WP: u64 = 1 << 1;
/// Mappings of fewer bytes are compared: they are not worth a system call, and a fault for each page that is
/// written. Besides, a heap that is watched does not grow, but gets another mapping behind it.
const LEAST: usize = 1 << 18;

/// `struct uffdio_api` of `linux/userfaultfd.h`.
#[repr(C)]
struct Handshake {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

/// What a process needs to have its writes remembered. Of no use to one that has come back.
#[derive(Debug)]
pub struct Tracking {
    /// `None` if the kernel cannot.
    fd: Option<OwnedFd>,
    /// Whether what was scanned last was committed.
    is_trusted: bool,
}

impl Tracking {
    /// `out_of_the_way` gives a descriptor a number that programs do not use.
    pub fn new(out_of_the_way: fn(OwnedFd) -> OwnedFd) -> Tracking {
        let flags = kernel::bits(libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY);
        // SAFETY: the call takes flags, and makes a descriptor.
        let fd = unsafe { kernel::call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) };
        // SAFETY: the kernel made it for us just now.
        let fd =
            fd.ok().and_then(|fd| RawFd::try_from(fd).ok()).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let fd = fd.filter(|fd| shake_hands(fd).is_ok()).map(out_of_the_way);
        Tracking { fd, is_trusted: false }
    }

    /// By what the kernel is told, if it can.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(OwnedFd::as_fd)
    }

    /// What was scanned is committed, or it is not and never will be.
    pub fn settle(&mut self, committed: bool) {
        self.is_trusted = committed;
    }

    /// Whether what the kernel says of a mapping that was under protection before can be believed.
    pub(super) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Whether the mapping is of a kind that is put under protection.
    pub(super) fn is_for(&self, mapping: &Mapping<'_>) -> bool {
        let is_plain =
            !mapping.has_file() && mapping.protection & 3 == 3 && !mapping.name.starts_with(b"[stack");
        self.fd.is_some() && is_plain && mapping.range().len() >= LEAST
    }

    /// From now on the kernel remembers which pages of the mapping are written, beginning with all.
    pub(super) fn begin(&self, mapping: &Mapping<'_>) -> Result<(), SyscallFailure> {
        let Some(fd) = &self.fd else { return Err(SyscallFailure(libc::ENOSYS)) };
        let (start, len) = (mapping.start as u64, mapping.range().len() as u64);
        let mut what = Register { start, len, mode: MODE_WP, ioctls: 0 };
        control(fd, UFFDIO_REGISTER, (&raw mut what).expose_provenance())?;
        // Memory that was moved there (mremap) has marks of where it was, on some kernels: it would count as
        // unwritten though it was written since.
        let mut what = WriteProtect { start, len, mode: 0 };
        control(fd, UFFDIO_WRITEPROTECT, (&raw mut what).expose_provenance())
    }
}

fn shake_hands(fd: &OwnedFd) -> Result<(), SyscallFailure> {
    let mut what = Handshake { api: API, features: FEATURES, ioctls: 0 };
    control(fd, UFFDIO_API, (&raw mut what).expose_provenance())
}

fn control(fd: &OwnedFd, number: usize, what: usize) -> Result<(), SyscallFailure> {
    let fd = usize::try_from(fd.as_raw_fd()).unwrap_or(usize::MAX);
    // SAFETY: callers give the structure that belongs to the number.
    unsafe { kernel::call(libc::SYS_ioctl, [fd, number, what, 0, 0, 0]) }.map(drop)
}
