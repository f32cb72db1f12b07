//! userfaultfd's calls, thin: numbers and structures of `linux/userfaultfd.h`, and one method a call. Decides
//! nothing.
//!
//! Why not the `userfaultfd` crate: it needs libclang to build, and lacks "continue, write-protected",
//! asynchronous write-protection, and SIGBUS together with minor faults.

use scash_comm::descriptors::out_of_the_way;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kernel's feature bits that engines use (`UFFD_FEATURE_*`).
pub(crate) mod feature {
    /// A page without a frame, in a memfd.
    pub(crate) const MISSING_SHMEM: u64 = 1 << 5;
    /// A fault is a SIGBUS in the faulting thread, not a message.
    pub(crate) const SIGBUS: u64 = 1 << 7;
    /// A page with a frame that is not mapped, in a memfd.
    pub(crate) const MINOR_SHMEM: u64 = 1 << 10;
    /// Write protection in a memfd.
    pub(crate) const WP_SHMEM: u64 = 1 << 12;
    /// Write protection that resolves itself and only leaves a trace.
    pub(crate) const WP_ASYNC: u64 = 1 << 15;
}

/// Writes fault (`*_MODE_WP`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteProtect(pub(crate) bool);

#[repr(C)]
struct UffdRange {
    start: u64,
    len: u64,
}

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRegister {
    range: UffdRange,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioCopy {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffdio_zeropage` and `struct uffdio_continue`, which are alike.
#[repr(C)]
struct UffdioFill {
    range: UffdRange,
    mode: u64,
    filled: i64,
}

#[repr(C)]
struct UffdioWriteprotect {
    range: UffdRange,
    mode: u64,
}

const TYPE: u32 = 0xaa;
const USERFAULTFD_IOC_NEW: libc::Ioctl = libc::_IO(TYPE, 0x00);
const UFFDIO_REGISTER: libc::Ioctl = libc::_IOWR::<UffdioRegister>(TYPE, 0x00);
const UFFDIO_UNREGISTER: libc::Ioctl = libc::_IOR::<UffdRange>(TYPE, 0x01);
const UFFDIO_WAKE: libc::Ioctl = libc::_IOR::<UffdRange>(TYPE, 0x02);
const UFFDIO_COPY: libc::Ioctl = libc::_IOWR::<UffdioCopy>(TYPE, 0x03);
const UFFDIO_ZEROPAGE: libc::Ioctl = libc::_IOWR::<UffdioFill>(TYPE, 0x04);
const UFFDIO_WRITEPROTECT: libc::Ioctl = libc::_IOWR::<UffdioWriteprotect>(TYPE, 0x06);
const UFFDIO_CONTINUE: libc::Ioctl = libc::_IOWR::<UffdioFill>(TYPE, 0x07);
const UFFDIO_API: libc::Ioctl = libc::_IOWR::<UffdioApi>(TYPE, 0x3f);

const API: u64 = 0xaa;
const USER_MODE_ONLY: i32 = 1;
/// All kinds of fault: no frame, write-protected, frame not mapped.
const REGISTER_ALL: u64 = 1 | 1 << 1 | 1 << 2;
/// Nobody sleeps on a fault that is a signal, so nobody needs waking. (Copy, zero and continue have it in
/// this place.)
const FILL_DONTWAKE: u64 = 1;
const FILL_WP: u64 = 1 << 1;
const PROTECT_WP: u64 = 1;
const PROTECT_DONTWAKE: u64 = 1 << 1;

// The layouts of linux/userfaultfd.h (also part of each call's number, so a slip would be refused by the
// kernel).
const _: () = assert!(size_of::<UffdioApi>() == 24 && size_of::<UffdioRegister>() == 32);
const _: () = assert!(size_of::<UffdioCopy>() == 40 && size_of::<UffdioFill>() == 32);
const _: () = assert!(size_of::<UffdioWriteprotect>() == 24);

/// One userfaultfd. Ranges that are registered with it fault until their pages are filled; dropping it ends
/// that.
#[derive(Debug)]
pub(crate) struct Userfaultfd {
    file: OwnedFd,
}

impl Userfaultfd {
    /// A context with these features, for faults of user-mode code: that needs no privilege.
    pub(crate) fn new(features: u64) -> io::Result<Self> {
        let context = Self { file: out_of_the_way(open()?) };
        context.handshake(features)?;
        Ok(context)
    }

    /// The features that the kernel has.
    pub(crate) fn features() -> io::Result<u64> {
        Self { file: open()? }.handshake(0)
    }

    fn handshake(&self, features: u64) -> io::Result<u64> {
        let mut api = UffdioApi { api: API, features, ioctls: 0 };
        self.call(UFFDIO_API, &mut api)?;
        Ok(api.features)
    }

    /// Whether the descriptor is a userfaultfd still: asks for something that no other file knows, and that
    /// does nothing (nobody sleeps on a fault that is a signal). `at` is a page under this context.
    pub(crate) fn check(&self, at: *mut u8) -> io::Result<()> {
        self.call(UFFDIO_WAKE, &mut range(at, super::PAGE))
    }

    /// The descriptor's number.
    pub(crate) fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Puts a range of one mapping under this context.
    pub(crate) fn register(&self, at: *mut u8, len: usize) -> io::Result<()> {
        self.call(
            UFFDIO_REGISTER,
            &mut UffdioRegister { range: range(at, len), mode: REGISTER_ALL, ioctls: 0 },
        )
    }

    /// Takes a range out of it. No page of the range is write-protected afterwards.
    pub(crate) fn unregister(&self, at: *mut u8, len: usize) -> io::Result<()> {
        self.call(UFFDIO_UNREGISTER, &mut range(at, len))
    }

    /// Gives frames with the bytes at `src` to pages without frames and maps them. Returns how many bytes it
    /// got through.
    ///
    /// # Safety
    /// `src` points to `len` readable bytes.
    pub(crate) unsafe fn copy(
        &self,
        at: *mut u8,
        src: *const u8,
        len: usize,
        wp: WriteProtect,
    ) -> io::Result<usize> {
        let (dst, src, len) = (at as u64, src as u64, len as u64);
        let mut copy = UffdioCopy { dst, src, len, mode: fill_mode(wp), copied: 0 };
        let answer = self.call(UFFDIO_COPY, &mut copy);
        progress(answer, copy.copied)
    }

    /// Gives zeroed frames to pages without frames and maps them writable. Returns how many bytes it got
    /// through.
    pub(crate) fn zero(&self, at: *mut u8, len: usize) -> io::Result<usize> {
        let mut fill = UffdioFill { range: range(at, len), mode: FILL_DONTWAKE, filled: 0 };
        let answer = self.call(UFFDIO_ZEROPAGE, &mut fill);
        progress(answer, fill.filled)
    }

    /// Maps pages that have frames. Returns how many bytes it got through.
    pub(crate) fn resume(&self, at: *mut u8, len: usize, wp: WriteProtect) -> io::Result<usize> {
        let mut fill = UffdioFill { range: range(at, len), mode: fill_mode(wp), filled: 0 };
        let answer = self.call(UFFDIO_CONTINUE, &mut fill);
        progress(answer, fill.filled)
    }

    /// Sets or clears the write protection of a range, whether its pages are mapped or not.
    pub(crate) fn protect(&self, at: *mut u8, len: usize, wp: WriteProtect) -> io::Result<()> {
        let mode = if wp.0 { PROTECT_WP } else { PROTECT_DONTWAKE };
        loop {
            match self.call(UFFDIO_WRITEPROTECT, &mut UffdioWriteprotect { range: range(at, len), mode }) {
                Err(error) if is_passing(&error) => {}
                answer => return answer,
            }
        }
    }

    fn call<T>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
        // SAFETY: every request above is given the structure that its number is made from. What it does to
        // memory is said at each method: it fills and protects pages of a mapping that no Rust reference
        // points into.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), request, std::ptr::from_mut(argument)) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn range(at: *mut u8, len: usize) -> UffdRange {
    UffdRange { start: at as u64, len: len as u64 }
}

fn fill_mode(wp: WriteProtect) -> u64 {
    FILL_DONTWAKE | if wp.0 { FILL_WP } else { 0 }
}

/// A call that filled a part says EAGAIN and how much; one that must be repeated (the address space was
/// changing) says EAGAIN and nothing.
fn progress(answer: io::Result<()>, bytes: i64) -> io::Result<usize> {
    match (answer, usize::try_from(bytes)) {
        (Ok(()), Ok(done)) => Ok(done),
        (Err(error), done) if is_passing(&error) => Ok(done.unwrap_or(0)),
        (Err(error), _) => Err(error),
        (Ok(()), Err(_)) => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}

/// By the system call or, where only that is open to us, by the device.
fn open() -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
    // SAFETY: makes a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if let Ok(fd @ 0..) = i32::try_from(fd) {
        // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    let refusal = io::Error::last_os_error();
    let Ok(device) = File::options().read(true).write(true).open("/dev/userfaultfd") else {
        return Err(refusal);
    };
    // SAFETY: makes a new descriptor; the argument is the flags.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW, flags) };
    if fd < 0 {
        return Err(refusal);
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
