//! Descriptors by which a rank is saved. A program that closes those that it has not opened, as daemons do,
//! may have files of its own under their numbers; then nothing is saved.

use super::Checkpoints;
use crate::runtime::context::RankContext;
use scash_comm::descriptors::is_out_of_the_way;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Their numbers.
pub(super) struct OwnDescriptors([Option<RawFd>; 7]);

/// Why nothing is saved.
pub(super) const CLOSED: &str = "a descriptor of scash's, which it is saved by, was closed by the program";

impl OwnDescriptors {
    /// All by which this rank is saved.
    pub(super) fn of(checkpoints: &Checkpoints, context: &RankContext) -> OwnDescriptors {
        let Checkpoints { store, tracking, given, .. } = checkpoints;
        let words = context.objects.words();
        let all = [
            Some(store.file()),
            Some(context.region.fd()),
            words.as_ref().map(|words| words.fd()),
            tracking.descriptor(),
            given.tells.as_ref().map(AsFd::as_fd),
            Some(given.prints[0].as_fd()),
            Some(given.prints[1].as_fd()),
        ];
        OwnDescriptors(all.map(|fd| fd.map(|fd| fd.as_raw_fd())))
    }

    /// Whether they still are what they were. Allocates nothing.
    pub(super) fn are_ours(&self) -> bool {
        self.0.iter().flatten().all(|fd| is_out_of_the_way(*fd))
    }
}
