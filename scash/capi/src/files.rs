//! Reading and writing files where the buffer is shared memory: through private memory, since a call of the
//! system does not bring pages here.

#![allow(clippy::missing_safety_doc, reason = "the texts are those of the header: C has no section for it")]

use crate::call::call;
use crate::streams::LockedStream;
use libc::{FILE, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK, size_t, ssize_t};
use scash::{Error, Result};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Bytes that are moved at once, where it does not matter how many.
const PIECE: usize = 64 << 10;

/// The most that a call of the system moves.
const MOST: usize = 0x7fff_f000;

/// How a descriptor is read from, or written to.
#[derive(Clone, Copy)]
enum Way {
    /// A place in a file: in any pieces.
    File,
    /// Pipes, and sockets that do not keep messages apart: what is written may be in pieces, and what is read
    /// is what is there now.
    Stream,
    /// One call is one message of a socket, one record at the end of a file, or whatever else there is.
    Whole,
}

impl Way {
    fn of(fd: c_int, writes: bool) -> Way {
        let mut is = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: there is room for what the call tells.
        if unsafe { libc::fstat(fd, is.as_mut_ptr()) } != 0 {
            return Way::Whole;
        }
        // SAFETY: it has told all of it.
        match unsafe { is.assume_init() }.st_mode & S_IFMT {
            S_IFREG if writes && appends(fd) => Way::Whole,
            S_IFREG => Way::File,
            S_IFIFO => Way::Stream,
            S_IFSOCK if is_stream(fd) => Way::Stream,
            _ => Way::Whole,
        }
    }

    /// Bytes of a call.
    fn piece(self, bytes: usize) -> usize {
        match self {
            Way::File | Way::Stream => bytes.min(PIECE),
            Way::Whole => bytes.min(MOST),
        }
    }
}

fn appends(fd: c_int) -> bool {
    // SAFETY: a call with numbers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags & libc::O_APPEND != 0
}

fn is_stream(fd: c_int) -> bool {
    let (mut kind, mut len) = (0 as c_int, 4);
    let told = (&raw mut kind).cast::<c_void>();
    // SAFETY: there is room for a number of 4 bytes, and the call is told so.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, told, &raw mut len) };
    done == 0 && kind == libc::SOCK_STREAM
}

/// Private memory for so many bytes, of no particular values.
fn private(name: &str, bytes: usize) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    let reserved = room.try_reserve_exact(bytes);
    reserved
        .map_err(|_| Error::OutOfSpace(format!("{name}: there is no memory for {bytes} bytes at once")))?;
    Ok(room)
}

/// Moves `bytes` bytes by pieces until one comes short; says how many. After the first bytes an error is for
/// the next call to tell.
fn by_pieces(
    bytes: usize,
    piece: usize,
    mut moves: impl FnMut(Range<usize>) -> Result<usize>,
) -> Result<usize> {
    let mut done = 0;
    while done < bytes {
        let piece = done..bytes.min(done.saturating_add(piece));
        match moves(piece.clone()) {
            Ok(moved) => {
                done += moved;
                if moved < piece.len() {
                    break;
                }
            }
            Err(why) if done == 0 => return Err(why),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Calls the system until no signal is in the way. How many bytes it has moved.
fn uninterrupted(name: &str, fd: c_int, mut attempt: impl FnMut() -> ssize_t) -> Result<usize> {
    loop {
        if let Ok(moved) = usize::try_from(attempt()) {
            return Ok(moved);
        }
        let why = io::Error::last_os_error();
        if why.kind() != io::ErrorKind::Interrupted {
            return Err(Error::Argument(format!("{name} of descriptor {fd}: {why}")));
        }
    }
}

fn buffer(name: &str, at: *const c_void, bytes: usize) -> Result<()> {
    if at.is_null() && bytes > 0 {
        return Err(Error::Argument(format!("{name}(NULL): give it a buffer of {bytes} bytes")));
    }
    Ok(())
}

/// What C gets for a number of bytes, or -1.
fn moved(bytes: Option<usize>) -> ssize_t {
    bytes.map_or(-1, |bytes| ssize_t::try_from(bytes).unwrap_or(ssize_t::MAX))
}

/// A buffer of `count` elements of `size` bytes each, for the standard C library's streams: how many bytes.
fn elements(name: &str, at: *const c_void, size: usize, count: usize, stream: *mut FILE) -> Result<usize> {
    let bytes = size
        .checked_mul(count)
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or_else(|| Error::Argument(format!("{name} of {count} elements of {size} bytes: too many")))?;
    buffer(name, at, bytes)?;
    if stream.is_null() {
        return Err(Error::Argument(format!("{name}(..., NULL): give it an open stream")));
    }
    Ok(bytes)
}

/// Reads up to `bytes` bytes from a descriptor into memory that may be shared: `read` of the system
/// fails with EFAULT where a page is not here. Goes on after signals, and, from a file, until it has all
/// that the file has. From anything else, as a socket, it returns what one `read` does, and from pipes
/// and streams at most 64 KiB.
///
/// Returns how many bytes were read, 0 at the end of a file, or -1 if none could be read (dsm_error has the
/// system's reason).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_read(fd: c_int, into: *mut c_void, bytes: size_t) -> ssize_t {
    let name = "dsm_read";
    moved(call(name, |_| {
        buffer(name, into, bytes)?;
        let way = Way::of(fd, false);
        let most = way.piece(bytes);
        let bytes = if let Way::File = way { bytes } else { most };
        let mut here = private(name, most)?;
        by_pieces(bytes, most, |piece| {
            let room = here.as_mut_ptr();
            // SAFETY: there are at most `most` bytes in a piece, and as many of them in `here`.
            let count = uninterrupted(name, fd, || unsafe { libc::read(fd, room.cast(), piece.len()) })?;
            let to = into.cast::<u8>().wrapping_add(piece.start);
            // SAFETY: by the caller's word all bytes of the piece may be written; `here` is private memory.
            unsafe { std::ptr::copy_nonoverlapping(room, to, count) };
            Ok(count)
        })
    }))
}

/// Writes up to `bytes` bytes of memory that may be shared to a descriptor, as `dsm_read` reads. To
/// sockets that keep messages apart, and to the end of a file that is open with O_APPEND, that is one
/// `write`, for which as much private memory is needed.
///
/// Returns how many bytes were written, or -1 if none could be (dsm_error has the system's reason).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_write(fd: c_int, from: *const c_void, bytes: size_t) -> ssize_t {
    let name = "dsm_write";
    moved(call(name, |_| {
        buffer(name, from, bytes)?;
        let most = Way::of(fd, true).piece(bytes);
        let mut here = private(name, most)?;
        by_pieces(bytes, most, |piece| {
            let room = here.as_mut_ptr();
            let from = from.cast::<u8>().wrapping_add(piece.start);
            // SAFETY: by the caller's word all bytes of the piece may be read; `here` is private memory.
            unsafe { std::ptr::copy_nonoverlapping(from, room, piece.len()) };
            // SAFETY: there are as many bytes.
            uninterrupted(name, fd, || unsafe { libc::write(fd, room.cast(), piece.len()) })
        })
    }))
}

/// `fread` of the C library into memory that may be shared.
///
/// Returns how many whole elements were read: fewer than `count` at the end of the file and after an error
/// (feof and ferror tell which), and 0 if `into` or `stream` is NULL, which dsm_error tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fread(
    into: *mut c_void,
    size: size_t,
    count: size_t,
    stream: *mut FILE,
) -> size_t {
    let name = "dsm_fread";
    let read = call(name, |_| {
        let bytes = elements(name, into, size, count, stream)?;
        let mut here = private(name, bytes.min(PIECE))?;
        // SAFETY: it is open, by the caller's word.
        let _locked = unsafe { LockedStream::new(stream) };
        by_pieces(bytes, PIECE, |piece| {
            let room = here.as_mut_ptr();
            // SAFETY: there are at most `PIECE` bytes in a piece; the stream is open, by the caller's word.
            let count = unsafe { libc::fread(room.cast(), 1, piece.len(), stream) };
            let to = into.cast::<u8>().wrapping_add(piece.start);
            // SAFETY: by the caller's word all bytes of the piece may be written; `here` is private memory.
            unsafe { std::ptr::copy_nonoverlapping(room, to, count) };
            Ok(count)
        })
    });
    read.unwrap_or(0).checked_div(size).unwrap_or(0)
}

/// `fwrite` of the C library from memory that may be shared.
///
/// Returns how many whole elements were written: fewer than `count` after an error (ferror), and 0 if
/// `from` or `stream` is NULL, which dsm_error tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dsm_fwrite(
    from: *const c_void,
    size: size_t,
    count: size_t,
    stream: *mut FILE,
) -> size_t {
    let name = "dsm_fwrite";
    let written = call(name, |_| {
        let bytes = elements(name, from, size, count, stream)?;
        let mut here = private(name, bytes.min(PIECE))?;
        // SAFETY: it is open, by the caller's word.
        let _locked = unsafe { LockedStream::new(stream) };
        by_pieces(bytes, PIECE, |piece| {
            let room = here.as_mut_ptr();
            let from = from.cast::<u8>().wrapping_add(piece.start);
            // SAFETY: by the caller's word all bytes of the piece may be read; `here` is private memory.
            unsafe { std::ptr::copy_nonoverlapping(from, room, piece.len()) };
            // SAFETY: there are as many bytes; the stream is open, by the caller's word.
            Ok(unsafe { libc::fwrite(room.cast(), 1, piece.len(), stream) })
        })
    });
    written.unwrap_or(0).checked_div(size).unwrap_or(0)
}
