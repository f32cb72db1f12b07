//! Files that have the frames of ranks, and outlive their processes. A rank that comes back on this host
//! finds its shared pages where they were: the system neither takes their memory back nor gives it anew,
//! which is most of what a restart with much shared memory would take.

use nix::sys::memfd::{MFdFlags, memfd_create};
use scash_comm::descriptors::out_of_the_way;
use scash_ft::Epoch;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The files, by rank. Ranks make them as long as their regions; nobody reads them here.
#[derive(Debug, Default)]
pub(super) struct FrameFiles(BTreeMap<u32, OwnedFd>);

impl FrameFiles {
    /// The file for a rank that is started from this epoch. From the beginning, all its pages are zeros.
    pub(super) fn of(&mut self, rank: u32, from: Epoch) -> io::Result<RawFd> {
        if from == Epoch(0) {
            self.0.remove(&rank);
        }
        Ok(match self.0.entry(rank) {
            Entry::Occupied(file) => file.get().as_raw_fd(),
            Entry::Vacant(place) => place.insert(empty()?).as_raw_fd(),
        })
    }

    /// The others are not here any more.
    pub(super) fn keep_only(&mut self, ranks: &[u32]) {
        self.0.retain(|rank, _| ranks.contains(rank));
    }
}

fn empty() -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    Ok(out_of_the_way(memfd_create(c"scash-region", flags)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use nix::sys::stat::fstat;
    use nix::unistd::ftruncate;
    use std::os::fd::BorrowedFd;

    fn length(file: RawFd) -> i64 {
        // SAFETY: the file is open: whoever calls has just asked for it.
        fstat(unsafe { BorrowedFd::borrow_raw(file) }).unwrap().st_size
    }

    #[test]
    fn a_rank_finds_its_frames_again_unless_it_begins_anew_or_was_elsewhere() {
        let mut files = FrameFiles::default();
        let file = files.of(3, Epoch(0)).unwrap();
        ftruncate(&files.0[&3], 4096).unwrap();
        assert_eq!((files.of(3, Epoch(2)).unwrap(), length(file)), (file, 4096));
        let other = files.of(4, Epoch(2)).unwrap();
        assert_eq!(length(other), 0);
        files.keep_only(&[3]);
        assert_eq!(files.0.keys().copied().collect::<Vec<_>>(), [3]);
        let anew = files.of(3, Epoch(0)).unwrap();
        assert_eq!(length(anew), 0);
    }
}
