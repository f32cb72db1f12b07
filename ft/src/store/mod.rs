//! Stores: where the images of a rank and the shared pages that it answers for are kept
//! (docs/fault-tolerance.md).
//!
//! A store is a file (a memfd, or one on disk) of **slots** of a page each, two **indices** that say which
//! slot holds what, and a **mark** for each index. Epoch e has index and mark number e mod 2. A checkpoint
//! writes what has changed into slots that epoch e does not use, then the other index, then its mark; so
//! epoch e stays whole until e + 1 is. What runs the job makes the file and hands it to the rank, which
//! writes it ([`RankStore`]); the maker reads the header alone ([`Store`]), and interprets nothing else.
//!
//! ```text
//!  0         1 MiB      16 MiB                                                         (of `Geometry`)
//!  +---------+----------+---------------------+---------------------+------------- - -
//!  | header  | bit maps | index 0             | index 1             | slots, 4 KiB each
//!  +---------+----------+---------------------+---------------------+------------- - -
//!                       | 16 MiB description, |
//!                       | then the entries    |
//! ```
//!
//! The file is as long as its address space, and takes memory where something was written.
//!
//! Copies on other hosts (`copies`) are the same, byte by byte.
//!
//! A store on disk (`disk`) is the same, and more careful: what an epoch consists of is on the disk before
//! its mark is, and each page has a sum in its entry, so that what a disk has lost is found out.

mod copies;
mod disk;
mod extents;
mod geometry;
mod header;
mod printed;
mod rank;
mod staged;

pub use copies::{FileRange, HeldCopy};
pub use extents::HEADER;
pub use geometry::{Geometry, PAGE};
pub use rank::{Entry, Key, Pages, RankStore};
pub use staged::{Staged, UnmarkedEpoch, Unsaved};

use crate::{Base, Epoch, Mark};
use header::Header;
use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The environment variables by which a rank finds its store, and the epoch to go on from.
pub mod vars {
    /// The descriptor of the store.
    pub const STORE: &str = "SCASH_STORE";
    /// The descriptor of the file that has this rank's frames: that of its former process, or an empty one.
    pub const FRAMES: &str = "SCASH_FRAMES";
    /// The stores of other ranks of which this one holds a copy: rank and descriptor of each,
    /// `4:1234,5:1235`.
    pub const HELD: &str = "SCASH_HELD";
    /// Which start of the job this is, from 0.
    pub const INCARNATION: &str = "SCASH_INCARNATION";
    /// The epoch to go on from; 0 is the beginning.
    pub const EPOCH: &str = "SCASH_EPOCH";
    /// When a checkpoint is due.
    pub const CHECKPOINT: &str = "SCASH_CHECKPOINT";
    /// Seconds after which, on average, something fails.
    pub const MTBF: &str = "SCASH_MTBF";
    /// Failures to be injected.
    pub const INJECT: &str = "SCASH_INJECT";
    /// A file: a rank adds a line to it before it kills itself as an injection says. Only tests set it.
    pub const INJECTED: &str = "SCASH_INJECTED";
    /// The descriptors of the files in which standard output and error are kept: `1234,1235`.
    pub const PRINTS: &str = "SCASH_PRINTS";
    /// The descriptor of an eventfd, to which rank 0 adds [`AN_EPOCH`](super::AN_EPOCH) for each committed
    /// epoch, and [`A_RESTART`](super::A_RESTART) when all ranks go on again.
    pub const COMMITTED: &str = "SCASH_COMMITTED";
    /// Where ranks are started again: when the launcher learnt that one was lost, and when all had ended, as
    /// [`Moment`](crate::Moment)s with a comma between them.
    pub const LOST: &str = "SCASH_LOST";
    /// When a process that comes back began, as a [`Moment`](crate::Moment). It tells itself.
    pub const BEGAN: &str = "SCASH_BEGAN";
}

/// What rank 0 adds to tell the launcher of a committed epoch.
pub const AN_EPOCH: u64 = 1;
/// What it adds when all ranks go on from an epoch.
pub const A_RESTART: u64 = 1 << 32;

/// How much memory, or of a disk, the file of a store takes: bytes.
pub fn bytes_taken(store: BorrowedFd<'_>) -> u64 {
    fstat(store).map_or(0, |file| file.st_blocks.unsigned_abs()) * 512
}

/// A store, as whoever keeps it for a rank sees it.
#[derive(Debug)]
pub struct Store {
    file: OwnedFd,
    header: Header,
}

impl Store {
    /// Makes the empty store of a rank in memory. Processes that it starts inherit the descriptor if the
    /// caller lets them.
    ///
    /// # Errors
    /// The system has no descriptor or no address space left, or files may not be as long (`ulimit -f`).
    pub fn create(rank: u32, size: u32) -> io::Result<Store> {
        let file = memfd_create(c"scash-store", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let most = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(most, _)| most);
        let geometry = Geometry::within(most)?;
        ftruncate(&file, i64::try_from(geometry.len()).unwrap_or(i64::MAX))?;
        // Whoever maps it may rely on its length.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let header = Header::new(map_header(&file)?);
        header.set_up(rank, size, geometry, None);
        Ok(Store { file, header })
    }

    /// Opens a store that was made before.
    ///
    /// # Errors
    /// The file is no store, or of another version, or was cut short.
    pub fn open(file: OwnedFd) -> io::Result<Store> {
        let len = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if len < PAGE as u64 {
            return Err(io::Error::other("it is no store: it is shorter than a store's header"));
        }
        let header = Header::new(map_header(&file)?);
        header.check(len).map_err(io::Error::other)?;
        Ok(Store { file, header })
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The rank whose store it is.
    pub fn rank(&self) -> u32 {
        self.header.rank()
    }

    /// Ranks of the job whose store it is.
    pub fn size(&self) -> u32 {
        self.header.size()
    }

    /// The number of the job whose store it is, if it is a file.
    pub fn job(&self) -> u64 {
        self.header.job()
    }

    /// What the marks say that are whole: at most two epochs, in no order.
    pub fn marks(&self) -> [Option<Mark>; 2] {
        [0, 1].map(|number| self.header.mark(number).map(|marked| marked.mark))
    }

    /// The incarnation that runs or ran last, and the epoch that it began from.
    pub fn base(&self) -> Base {
        self.header.base()
    }

    /// Says which incarnation begins now, and from which epoch.
    pub fn set_base(&self, base: Base) {
        self.header.set_base(base);
    }

    /// How many bytes of the rank's standard output and error belong to an epoch, if it is here. Of the
    /// incarnation that it belongs to nothing is asked.
    pub fn outputs(&self, epoch: Epoch) -> Option<[u64; 2]> {
        self.marked(epoch).map(|marked| marked.outputs)
    }

    /// The memory barrier at which an epoch was taken, counted from the job's beginning, if it is here.
    pub fn barrier(&self, epoch: Epoch) -> Option<u64> {
        self.marked(epoch).map(|marked| marked.barrier)
    }

    fn marked(&self, epoch: Epoch) -> Option<header::Marked> {
        self.header.mark(epoch.0 % 2).filter(|marked| marked.mark.epoch == epoch)
    }
}

fn map_header(file: &OwnedFd) -> io::Result<MmapRaw> {
    MmapOptions::new().len(PAGE).map_raw(file)
}

#[cfg(test)]
mod tests;
