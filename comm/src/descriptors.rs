//! Descriptors of ours in a program that has descriptors of its own.
//!
//! The system gives a new file the lowest number that is free. A program that closes what it has not opened
//! (all from 3 on, as daemons do) may so get a file under a number of ours, and what we read and write by
//! that number would be the program's file. So ours lie high, where files of programs seldom come to: then
//! such a program takes descriptors away, which is an error of the next call that needs one, or finds none of
//! them in its way.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit, rlim_t};
use nix::sys::stat::fstat;
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// From here on, if there may be twice as many. (The system keeps a table as long as the highest number, of 8
/// bytes for each.)
const FIRST: rlim_t = 4096;

/// The same file under a number that is out of the program's way; under its own if there is no such number.
#[must_use]
pub fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    let Ok(first) = RawFd::try_from(FIRST.min(most() / 2)) else { return fd };
    if fd.as_raw_fd() >= first {
        note(fd.as_fd());
        return fd;
    }
    let Ok(high) = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(first)) else {
        note(fd.as_fd());
        return fd;
    };
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let high = unsafe { OwnedFd::from_raw_fd(high) };
    note(high.as_fd());
    high
}

/// Room for descriptors that are known. Of two whose numbers are so far apart the later one is.
const ROOM: usize = 1 << 13;

/// Descriptors that [`out_of_the_way`] has given, by number: number and a sum over what file it is, if that
/// was asked for ([`remember`]), or 0. A program may have files under numbers as high.
static GIVEN: [AtomicU64; ROOM] = [const { AtomicU64::new(0) }; ROOM];

/// Whether it is noted which files they are: a system call for each.
static REMEMBERS: AtomicBool = AtomicBool::new(false);

/// From now on [`is_out_of_the_way`] knows descriptors. To be called before the program may have put files of
/// its own under their numbers.
pub fn remember() {
    REMEMBERS.store(true, Ordering::Relaxed);
    for given in &GIVEN {
        if let Ok(number @ 1..) = RawFd::try_from(given.load(Ordering::Relaxed) >> 32) {
            // SAFETY: it is not -1; if it is not open, the call fails.
            note(unsafe { BorrowedFd::borrow_raw(number) });
        }
    }
}

fn note(fd: BorrowedFd<'_>) {
    let number = u64::from(fd.as_raw_fd().cast_unsigned()) << 32;
    let word = if REMEMBERS.load(Ordering::Relaxed) { word(fd) } else { Some(number) };
    if let (Some(place), Some(word)) = (place(fd.as_raw_fd()), word) {
        place.store(word, Ordering::Relaxed);
    }
}

fn place(fd: RawFd) -> Option<&'static AtomicU64> {
    GIVEN.get(usize::try_from(fd).ok()? % ROOM)
}

fn word(fd: BorrowedFd<'_>) -> Option<u64> {
    let is = fstat(fd).ok()?;
    let file = (is.st_ino ^ is.st_dev.rotate_left(32) ^ u64::from(is.st_mode).rotate_left(16))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Some(u64::from(fd.as_raw_fd().cast_unsigned()) << 32 | file >> 32)
}

/// Whether a descriptor is one that [`out_of_the_way`] has given, and still is that file; where that is to be
/// [known](remember). Allocates nothing, and waits for no lock.
pub fn is_out_of_the_way(fd: RawFd) -> bool {
    let Some(known) = place(fd).map(|place| place.load(Ordering::Relaxed)) else { return false };
    // Of most files of the program's the number says it, without a system call.
    if known >> 32 != u64::from(fd.cast_unsigned()) {
        return false;
    }
    // SAFETY: it is not -1, which has no place; if it is not open, the call fails.
    let given = unsafe { BorrowedFd::borrow_raw(fd) };
    word(given) == Some(known)
}

/// A descriptor that becomes readable when the process ends (Linux 5.3). Of several that ended, an epoll
/// returns the first first.
///
/// # Errors
/// There is no such process, the kernel is older, or there are no descriptors left.
pub fn pidfd(pid: Pid) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes a number and flags.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How many descriptors this process may have.
fn most() -> rlim_t {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(most, _)| most)
}

/// Whether a call failed because this process, or the system, has no descriptor left.
pub(crate) fn are_used_up(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::fs::File;
    use std::io::Read;

    #[test]
    fn a_file_is_the_same_under_a_high_number_and_closed_under_its_own() {
        let low = OwnedFd::from(File::open("/proc/self/comm").unwrap());
        let high = out_of_the_way(low);
        remember();
        assert!(rlim_t::try_from(high.as_raw_fd()).unwrap() >= FIRST.min(most() / 2));
        assert!(is_out_of_the_way(high.as_raw_fd()));
        let again = out_of_the_way(high);
        assert_eq!(fcntl(&again, FcntlArg::F_GETFD), Ok(libc::FD_CLOEXEC));
        let mut text = String::new();
        let number = again.as_raw_fd();
        File::from(again).read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
        assert!(!is_out_of_the_way(number), "it is closed");
        let other = File::open("/dev/null").unwrap();
        let other = fcntl(&other, FcntlArg::F_DUPFD_CLOEXEC(number)).unwrap();
        assert_eq!(other, number, "a file of the program's has the number now");
        assert!(!is_out_of_the_way(other));
    }
}
