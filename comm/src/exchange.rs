//! How ranks find each other before they have endpoints.

use crate::{Result, Secret};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Start-up exchange among all ranks of a job: the launcher's line in real jobs, a table in memory in tests.
///
/// # Safety
/// Ranks map the files whose descriptors they get here, and then access them as what the sender has said they
/// are. So an implementation gives what the ranks have given, whole and unchanged, as the work of the rank
/// that gave it; it always gives the same [`rank`](Self::rank) and [`size`](Self::size), the first below the
/// second; and it shows the [`secret`](Self::secret) to nobody else.
pub unsafe trait Exchange {
    /// This rank.
    fn rank(&self) -> u32;
    /// Number of ranks.
    fn size(&self) -> u32;
    /// What all ranks of the job know, and nobody else.
    fn secret(&self) -> &Secret;
    /// The number of the host that a rank runs on, the same at all ranks; hosts are numbered from 0.
    fn host(&self, rank: u32) -> u32;
    /// Gives every rank's blob to every rank, and its file descriptors to every rank of its host: those of
    /// other hosts' ranks stay there. Collective; the result has one entry a rank, in rank order, this rank's
    /// own included (with duplicates of its descriptors).
    fn all_gather(&mut self, blob: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<(Vec<u8>, Vec<OwnedFd>)>>;
}
