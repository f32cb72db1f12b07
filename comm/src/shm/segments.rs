//! Registered memory: every rank's, mapped here.
//!
//! Tables are made once, in the order of registration, and never change: looking a segment up takes no lock.
//! A rank's own memory is mapped a second time like any other's, so that there is one way to reach memory.

use super::map::{self, Mapping};
use crate::{Error, Exchange, LocalSegment, Result, SegmentId};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Segments that a job can register.
const MAX: usize = 64;

/// All segments of a job.
pub(super) struct Segments {
    /// Every rank's part, in rank order, for each segment.
    tables: Box<[OnceLock<Vec<SegmentPart>>]>,
    /// Segments registered; locked during a registration.
    count: Mutex<u32>,
}

/// A rank's part of a segment.
struct SegmentPart {
    mapping: Mapping,
    file: OwnedFd,
}

/// A rank's part of a segment, for use.
#[derive(Clone, Copy)]
pub(super) struct PeerPart<'a> {
    part: &'a SegmentPart,
}

impl Segments {
    /// No segments.
    pub(super) fn new() -> Self {
        Self { tables: (0..MAX).map(|_| OnceLock::new()).collect(), count: Mutex::new(0) }
    }

    /// Registers `mem` at this rank and what the others register at the same time.
    pub(super) fn register(&self, exchange: &mut dyn Exchange, mem: LocalSegment) -> Result<SegmentId> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(table) = self.tables.get(*count as usize) else {
            return Err(Error::Invalid(format!("a job can register {MAX} segments, and all are taken")));
        };
        let LocalSegment { len, fd, .. } = mem;
        // SAFETY: `register`'s caller promises that the descriptor is open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        if len == 0 || map::file_len(fd)? < len as u64 {
            return Err(Error::Invalid(format!(
                "a segment of {len} bytes needs a file of that length, and at least one byte"
            )));
        }
        let all = exchange.all_gather(&announce(*count, len), &[fd])?;
        let parts = (0..).zip(all).map(|(rank, (blob, fds))| {
            let broken = |why: String| Error::Protocol { rank, why };
            let [file] = <[OwnedFd; 1]>::try_from(fds)
                .map_err(|fds| broken(format!("{} descriptors came with a segment", fds.len())))?;
            let len = understand(&blob, *count).map_err(broken)?;
            if map::file_len(&file)? < len as u64 {
                return Err(broken(format!("its file is shorter than its segment of {len} bytes")));
            }
            Ok(SegmentPart { mapping: Mapping::new(&file, len, "a rank's registered memory")?, file })
        });
        // Nobody else sets it: `count` is locked.
        let _ = table.set(parts.collect::<Result<_>>()?);
        *count += 1;
        Ok(SegmentId(*count - 1))
    }

    /// The part of `segment` that is `rank`'s.
    #[inline]
    pub(super) fn find(&self, rank: u32, segment: SegmentId) -> Result<PeerPart<'_>> {
        let table = self.tables.get(segment.0 as usize).and_then(OnceLock::get);
        let Some(table) = table else {
            return Err(Error::Invalid(format!("there is no segment {}: register it first", segment.0)));
        };
        let part = table.get(rank as usize);
        let part =
            part.ok_or_else(|| Error::Invalid(format!("there is no rank {rank} among {}", table.len())))?;
        Ok(PeerPart { part })
    }
}

impl PeerPart<'_> {
    /// Reads `len` bytes from `offset` on, by a system call and without mapping them. `false` if they did not
    /// all come.
    ///
    /// # Safety
    /// `dst` is writable for `len` bytes.
    pub(super) unsafe fn read(self, offset: u64, dst: *mut u8, len: usize) -> bool {
        let Ok(offset) = libc::off_t::try_from(offset) else { return false };
        // SAFETY: the caller's promise.
        let read = unsafe { libc::pread(self.part.file.as_raw_fd(), dst.cast(), len, offset) };
        usize::try_from(read) == Ok(len)
    }

    /// The address of `offset`, from where `len` bytes are inside the segment.
    #[inline]
    pub(super) fn at(self, offset: u64, len: usize) -> Result<*mut u8> {
        let size = self.part.mapping.len();
        let inside = usize::try_from(offset).ok().filter(|&offset| offset <= size && len <= size - offset);
        let outside =
            || Error::Invalid(format!("{len} bytes at {offset} are not inside a segment of {size} bytes"));
        let offset = inside.ok_or_else(outside)?;
        // SAFETY: `offset` is at most the mapping's length.
        Ok(unsafe { self.part.mapping.base().add(offset) })
    }
}

fn announce(index: u32, len: usize) -> [u8; 12] {
    let mut blob = [0; 12];
    blob[..4].copy_from_slice(&index.to_le_bytes());
    blob[4..].copy_from_slice(&(len as u64).to_le_bytes());
    blob
}

/// The length of a rank's part, if the announcement is for segment `index`.
fn understand(blob: &[u8], index: u32) -> std::result::Result<usize, String> {
    let (theirs, len) = blob.split_first_chunk().ok_or("its announcement of a segment is too short")?;
    let theirs = u32::from_le_bytes(*theirs);
    if theirs != index {
        return Err(format!("it registers segment {theirs} while this rank registers segment {index}"));
    }
    let len = <[u8; 8]>::try_from(len).map_err(|_| "its announcement of a segment has a wrong length")?;
    match usize::try_from(u64::from_le_bytes(len)) {
        Ok(len) if len > 0 => Ok(len),
        _ => Err("it announces a segment of an impossible length".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_understood_only_for_the_same_segment() {
        assert_eq!(understand(&announce(3, 77), 3), Ok(77));
        assert!(understand(&announce(3, 77), 4).unwrap_err().contains("segment 3"));
        assert!(understand(&announce(3, 0), 3).is_err());
        for len in 0..12 {
            assert!(understand(&announce(3, 77)[..len], 3).is_err());
        }
    }
}
