//! The job page: what the launcher knows about every rank's end, readable by all with one load.
//!
//! A memfd that the launcher maps writable and then seals: ranks can map it read-only, and nobody can shrink
//! it. One word a rank:
//!
//! ```text
//!  byte 0            4                8 …                 64      64 + 4·r
//!  +----------------+----------------+-------------------+--------+--------------------+
//!  | size (ranks)   | changes        | 0                 | rank 0 | … rank r's word …  |
//!  +----------------+----------------+-------------------+--------+--------------------+
//!
//!  a rank's word:   31        16 15         8 7          0
//!                   +-----------+------------+------------+
//!                   |     0     |    code    |   state    |   state: 0 runs, 1 finalized, 2 exited, 3 killed, 4 gone
//!                   +-----------+------------+------------+   code: exit status (2) or signal (3)
//! ```
//!
//! **Protocol.** Only the launcher writes (on other hosts than its own the agent, which has a page of its own
//! there), from one thread: (1) it stores the rank's word, once in the job's life (a word that is not 0 never
//! changes again); (2) it adds 1 to `changes` with release order. A rank that sees a new value of `changes`
//! with acquire order (2) sees all words that were stored before (1). A rank's word alone may be read at any
//! time: it carries no other data.
//!
//! Under another launcher ([`external`](super::external)) a thread of a rank writes the page. When that rank
//! dies, all others of its host write so into its word, the same value; nobody else writes then. A rank
//! without any launcher ([`alone`](super::alone)) writes its own.

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use scash_comm::descriptors::out_of_the_way;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

const SIZE_AT: usize = 0;
const CHANGES_AT: usize = 4;
const WORDS_AT: usize = 64;
const WORD: usize = size_of::<AtomicU32>();
// Words are aligned in the page, and do not overlap its head.
const _: () = assert!(WORD == 4 && WORDS_AT.is_multiple_of(WORD) && CHANGES_AT + WORD <= WORDS_AT);

/// Whether a rank is still there, as the launcher saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankState {
    /// It runs.
    Running,
    /// It said that it is done; whatever its process does afterwards does not matter to the job.
    Finalized,
    /// Its process exited with this status without having said so.
    Exited(u8),
    /// Its process was killed by this signal.
    Killed(u8),
    /// Its process has ended without having said so; how, only another launcher knows.
    Gone,
}

impl RankState {
    fn encode(self) -> u32 {
        match self {
            RankState::Running => 0,
            RankState::Finalized => 1,
            RankState::Exited(status) => 2 | u32::from(status) << 8,
            RankState::Killed(signal) => 3 | u32::from(signal) << 8,
            RankState::Gone => 4,
        }
    }

    fn decode(word: u32) -> RankState {
        let [state, code, ..] = word.to_le_bytes();
        match state {
            0 => RankState::Running,
            1 => RankState::Finalized,
            2 => RankState::Exited(code),
            3 => RankState::Killed(code),
            _ => RankState::Gone,
        }
    }
}

/// The page as ranks see it. Clone-free and shareable: every method is a load or two, from any thread or
/// signal handler.
#[derive(Debug)]
pub struct JobPage {
    map: Map,
    size: u32,
}

impl JobPage {
    /// Maps the page behind `fd` for a job of `size` ranks.
    pub(super) fn open(fd: BorrowedFd<'_>, size: u32) -> Result<JobPage, Errno> {
        let length = usize::try_from(nix::sys::stat::fstat(fd)?.st_size).map_err(|_| Errno::EINVAL)?;
        if length < length_for(size) {
            return Err(Errno::EINVAL);
        }
        let map = Map::read_only(fd, length_for(size))?;
        let page = JobPage { map, size };
        if page.map.word(SIZE_AT).load(Ordering::Relaxed) == size { Ok(page) } else { Err(Errno::EINVAL) }
    }

    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether a rank ended without having finished in order.
    pub fn died(&self, rank: u32) -> bool {
        !matches!(self.state(rank), RankState::Running | RankState::Finalized)
    }

    /// What became of `rank`.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn state(&self, rank: u32) -> RankState {
        RankState::decode(self.map.word(word_at(rank, self.size)).load(Ordering::Relaxed))
    }

    /// Whether `rank` runs and has not finalized.
    ///
    /// # Panics
    /// If the job has no such rank.
    pub fn alive(&self, rank: u32) -> bool {
        self.state(rank) == RankState::Running
    }

    /// A number that grows whenever the state of any rank changes: who has looked at all ranks need not do so
    /// again until it does.
    pub fn changes(&self) -> u32 {
        self.map.word(CHANGES_AT).load(Ordering::Acquire)
    }
}

/// The page as the launcher holds it.
#[derive(Debug)]
pub(super) struct PageWriter {
    map: Map,
    size: u32,
    fd: OwnedFd,
}

impl PageWriter {
    /// A page that only this process writes.
    pub(super) fn new(size: u32) -> Result<PageWriter, Errno> {
        // No later mapping will be writable (Linux 5.1; before that ranks are trusted).
        PageWriter::sealed(size, SealFlag::F_SEAL_FUTURE_WRITE | SealFlag::F_SEAL_SEAL)
    }

    /// A page that whoever has its descriptor can write, too.
    pub(super) fn shared(size: u32) -> Result<PageWriter, Errno> {
        PageWriter::sealed(size, SealFlag::empty())
    }

    /// Another process's [`shared`](Self::shared) page of a job of `size` ranks.
    pub(super) fn adopt(fd: OwnedFd, size: u32) -> Result<PageWriter, Errno> {
        JobPage::open(fd.as_fd(), size)?;
        let map = Map::writable(fd.as_fd(), length_for(size))?;
        Ok(PageWriter { map, size, fd })
    }

    fn sealed(size: u32, seals: SealFlag) -> Result<PageWriter, Errno> {
        let fd = memfd_create(c"scash-job", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let fd = out_of_the_way(fd);
        let length = length_for(size);
        nix::unistd::ftruncate(&fd, i64::try_from(length).map_err(|_| Errno::EFBIG)?)?;
        let map = Map::writable(fd.as_fd(), length)?;
        let fixed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        if fcntl(&fd, FcntlArg::F_ADD_SEALS(fixed | seals)).is_err() {
            fcntl(&fd, FcntlArg::F_ADD_SEALS(fixed))?;
        }
        map.word(SIZE_AT).store(size, Ordering::Relaxed);
        Ok(PageWriter { map, size, fd })
    }

    /// The memfd, for the ranks.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub(super) fn state(&self, rank: u32) -> RankState {
        RankState::decode(self.map.word(word_at(rank, self.size)).load(Ordering::Relaxed))
    }

    /// Writes what became of `rank`. The first word stays: a rank that finalized is not reported as dead
    /// later.
    pub(super) fn mark(&self, rank: u32, state: RankState) {
        if self.state(rank) == RankState::Running && state != RankState::Running {
            self.map.word(word_at(rank, self.size)).store(state.encode(), Ordering::Relaxed); // step 1
            self.map.word(CHANGES_AT).fetch_add(1, Ordering::Release); // step 2
        }
    }
}

fn length_for(size: u32) -> usize {
    WORDS_AT + WORD * size as usize
}

/// Where the word of `rank` lies.
fn word_at(rank: u32, size: u32) -> usize {
    assert!(rank < size, "rank {rank} of a job of {size}");
    WORDS_AT + WORD * rank as usize
}

/// A shared mapping of the page. Its bytes are accessed through atomics only.
#[derive(Debug)]
struct Map(MmapRaw);

impl Map {
    fn read_only(fd: BorrowedFd<'_>, length: usize) -> Result<Map, Errno> {
        MmapOptions::new().len(length).map_raw_read_only(fd.as_raw_fd()).map(Map).map_err(errno)
    }

    fn writable(fd: BorrowedFd<'_>, length: usize) -> Result<Map, Errno> {
        MmapOptions::new().len(length).map_raw(fd.as_raw_fd()).map(Map).map_err(errno)
    }

    /// The word at byte `at`.
    fn word(&self, at: usize) -> &AtomicU32 {
        let length = self.0.len();
        assert!(at.is_multiple_of(WORD) && at + WORD <= length, "byte {at} of a page of {length}");
        // SAFETY: `at` lies inside the mapping, as asserted above.
        let word = unsafe { self.0.as_mut_ptr().add(at) }.cast::<u32>();
        // SAFETY: it is aligned (the mapping starts at an OS page), lives as long as `self`, cannot be cut
        // off (the file is sealed against shrinking before it is handed out), and every process reads and
        // writes it atomically.
        unsafe { AtomicU32::from_ptr(word) }
    }
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(size: u32) -> (PageWriter, JobPage) {
        let writer = PageWriter::new(size).unwrap();
        let page = JobPage::open(writer.fd().as_fd(), size).unwrap();
        (writer, page)
    }

    #[test]
    fn every_state_is_seen_by_the_ranks() {
        let (writer, page) = both(6);
        let states = [
            RankState::Running,
            RankState::Finalized,
            RankState::Exited(0),
            RankState::Exited(255),
            RankState::Killed(9),
            RankState::Gone,
        ];
        for (rank, state) in (0..).zip(states) {
            writer.mark(rank, state);
            assert_eq!(page.state(rank), state);
            assert_eq!(page.alive(rank), state == RankState::Running);
        }
        assert_eq!(page.changes(), 5);
    }

    #[test]
    fn a_finalized_rank_is_not_declared_dead_later() {
        let (writer, page) = both(1);
        writer.mark(0, RankState::Finalized);
        writer.mark(0, RankState::Killed(9));
        assert_eq!(page.state(0), RankState::Finalized);
        assert_eq!(page.changes(), 1);
    }

    #[test]
    fn a_rank_cannot_write_into_the_page() {
        let (writer, _page) = both(1);
        assert_eq!(Map::writable(writer.fd().as_fd(), 64).unwrap_err(), Errno::EPERM);
        nix::unistd::ftruncate(writer.fd(), 0).unwrap_err();
    }

    #[test]
    fn who_has_a_shared_page_can_write_into_it() {
        let writer = PageWriter::shared(2).unwrap();
        let page = JobPage::open(writer.fd().as_fd(), 2).unwrap();
        let other = PageWriter::adopt(writer.fd().try_clone().unwrap(), 2).unwrap();
        other.mark(1, RankState::Gone);
        assert_eq!((page.state(1), page.changes()), (RankState::Gone, 1));
        PageWriter::adopt(writer.fd().try_clone().unwrap(), 3).unwrap_err();
    }

    #[test]
    fn a_page_of_another_size_is_refused() {
        let writer = PageWriter::new(2).unwrap();
        JobPage::open(writer.fd().as_fd(), 1).unwrap_err();
        JobPage::open(writer.fd().as_fd(), 3).unwrap_err();
    }
}
