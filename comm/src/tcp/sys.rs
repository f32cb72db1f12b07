//! System calls on raw memory: vectored send and receive, and waiting.
//!
//! Pieces of memory are `iovec`s and not slices, because they lie in segments that peers and other threads
//! write at any time: no Rust reference to such bytes may exist. No call here blocks but [`wait`], and none
//! raises SIGPIPE.

use crate::descriptors::out_of_the_way;
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Pieces that one system call takes at most (`IOV_MAX` of Linux).
pub(super) const MAX_PIECES: usize = 1024;

/// One piece of memory in a vectored call.
pub(super) type IoVec = libc::iovec;

/// A piece of `len` bytes at `at`.
pub(super) fn piece(at: *const u8, len: usize) -> IoVec {
    IoVec { iov_base: at.cast_mut().cast(), iov_len: len }
}

/// Takes `done` bytes off the front of `pieces`, and returns what is left.
pub(super) fn advance(mut pieces: &mut [IoVec], mut done: usize) -> &mut [IoVec] {
    while let Some(first) = pieces.first_mut() {
        if done < first.iov_len {
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(done).cast();
            first.iov_len -= done;
            break;
        }
        done -= first.iov_len;
        pieces = &mut pieces[1..];
    }
    pieces
}

/// Copies a piece to the end of a buffer.
///
/// # Safety
/// The piece is readable memory outside of the buffer.
pub(super) unsafe fn append(buffer: &mut Vec<u8>, piece: &IoVec) {
    buffer.reserve(piece.iov_len);
    let end = buffer.len();
    let to = buffer.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    // SAFETY: `reserve` made room for the bytes; the caller vouches for the source.
    unsafe { to.copy_from_nonoverlapping(piece.iov_base.cast(), piece.iov_len) };
    // SAFETY: those bytes are initialised now.
    unsafe { buffer.set_len(end + piece.iov_len) };
}

/// Sends from `pieces` as much as the socket takes now; `None` when it takes nothing.
///
/// # Safety
/// Each piece is mapped memory of this process during the call.
pub(super) unsafe fn send(socket: BorrowedFd<'_>, pieces: &[IoVec]) -> io::Result<Option<usize>> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    again(|| {
        if let [one] = pieces {
            // SAFETY: the caller vouches for the piece; the kernel only reads it.
            return unsafe { libc::send(socket.as_raw_fd(), one.iov_base, one.iov_len, flags) };
        }
        let message = message(pieces);
        // SAFETY: `message` points to `pieces`, for which the caller vouches; the kernel only reads them.
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) }
    })
}

/// Receives into `pieces` what is there; `None` when nothing is, `Some(0)` at the end of the stream.
///
/// # Safety
/// Each piece is writable memory of this process, into which bytes may be written during the call.
pub(super) unsafe fn receive(socket: BorrowedFd<'_>, pieces: &[IoVec]) -> io::Result<Option<usize>> {
    let flags = libc::MSG_DONTWAIT;
    again(|| {
        if let [one] = pieces {
            // SAFETY: the caller vouches for the piece.
            return unsafe { libc::recv(socket.as_raw_fd(), one.iov_base, one.iov_len, flags) };
        }
        let mut message = message(pieces);
        // SAFETY: `message` points to `pieces`, for which the caller vouches.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) }
    })
}

/// Whether a call to receive would find something: bytes, the end, or an error. Takes a third of what asking
/// a poll takes.
pub(super) fn has_something(socket: BorrowedFd<'_>) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    let mut byte = 0u8;
    // SAFETY: the byte is ours, and lives during the call.
    let peek = || unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    !matches!(again(peek), Ok(None))
}

/// Throws away what a socket has received: closing it with unread data would break the connection, and with
/// it what is still on its way to the peer.
pub(super) fn discard(socket: BorrowedFd<'_>) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    let throw_away = || {
        // SAFETY: with MSG_TRUNC a TCP socket's data are not copied, so no buffer is needed.
        unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), 1 << 20, flags) }
    };
    while let Ok(Some(1..)) = again(throw_away) {}
}

/// The kernel's description of a vectored transfer. It does not change the pieces, whatever the pointer's
/// type says.
fn message(pieces: &[IoVec]) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len().min(MAX_PIECES) as _;
    message
}

#[cfg(test)]
thread_local! {
    /// Calls that this thread has made to send and to receive.
    pub(super) static CALLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Repeats a call that a signal interrupted, and tells "not now" from failure.
fn again(mut call: impl FnMut() -> isize) -> io::Result<Option<usize>> {
    #[cfg(test)]
    CALLS.set(CALLS.get() + 1);
    loop {
        if let Ok(bytes) = usize::try_from(call()) {
            return Ok(Some(bytes));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Something to wait for on a descriptor. A negative descriptor is passed over.
pub(super) type Awaited = libc::pollfd;

/// What nothing is waited for with.
pub(super) const NOTHING: Awaited = Awaited { fd: -1, events: 0, revents: 0 };

/// Waits until one of `what` is ready, `limit` has passed, or a signal has come.
pub(super) fn wait(what: &mut [Awaited], limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the pointer and the count describe `what`, and `limit` lives during the call. The answer is not
    // needed: callers look at the descriptors in any case.
    unsafe { libc::ppoll(what.as_mut_ptr(), what.len() as _, &raw const limit, std::ptr::null()) };
}

/// A wait for `events` on `socket`.
pub(super) fn awaited(socket: BorrowedFd<'_>, events: libc::c_short) -> Awaited {
    Awaited { fd: socket.as_raw_fd(), events, revents: 0 }
}

/// A bell: who waits for descriptors can be woken by it.
pub(super) fn bell() -> nix::Result<EventFd> {
    let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
    // SAFETY: the file was made as an eventfd.
    Ok(unsafe { EventFd::from_owned_fd(out_of_the_way(bell.into())) })
}

/// A set of descriptors to be waited for.
pub(super) fn epoll() -> nix::Result<Epoll> {
    Ok(Epoll(out_of_the_way(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?.0)))
}

/// Gives the core to whoever else wants it.
pub(super) fn yield_core() {
    std::thread::yield_now();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advancing_takes_whole_and_partial_pieces_off_the_front() {
        let bytes = [0u8; 30];
        let at = bytes.as_ptr();
        let mut pieces = [piece(at, 10), piece(at, 0), piece(at, 20)];
        let rest = advance(&mut pieces, 15);
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].iov_len, 15);
        assert_eq!(rest[0].iov_base.cast::<u8>().cast_const(), at.wrapping_add(5));
        assert!(advance(rest, 15).is_empty());
    }
}
