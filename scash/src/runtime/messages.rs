//! Message passing beside shared memory.

use super::{Runtime, join, lock};
use crate::error::{Error, Result};
use scash_mp::{Communicator, Options, Saver, Saving};

impl Runtime {
    /// Message passing among the ranks of this job, on an endpoint of its own: the two know nothing of each
    /// other. Collective. To be dropped before [`finalize`](Self::finalize).
    ///
    /// Messages are sent from memory of the program's own, and received into it, not from or into shared
    /// memory ([`is_shared`](Self::is_shared)): the system would be handed pages that are not there yet.
    ///
    /// # Errors
    /// Options or settings that make no sense, or ranks that do not reach each other.
    pub fn communicator(&self, options: Options) -> Result<Communicator> {
        if self.is_finalized() {
            return Err(Error::Join("dsm_finalize was called".to_owned()));
        }
        let comes_back = self.checkpoints.is_some();
        let met = Communicator::of_job(&mut lock(&self.member), options, comes_back);
        // A program of which no rank comes back may go on without messages.
        let told = |error| if comes_back { self.failed(error) } else { error };
        let communicator = met.map_err(|error| told(join(error)))?;
        if comes_back {
            lock(&self.messages).push(communicator.saver());
        }
        Ok(communicator)
    }

    /// The communicators that there are, to be paused for a checkpoint.
    pub(super) fn to_be_saved(&self) -> Vec<Saving> {
        let mut savers = lock(&self.messages);
        let there = savers.iter().filter_map(Saver::saving).collect();
        savers.retain(|saver| saver.saving().is_some());
        there
    }

    /// Whether any of these bytes lies where shared memory does, allocated or not.
    pub fn is_shared(&self, address: *const u8, len: usize) -> bool {
        let (region, begin) = (self.context.region.app_range(), address as usize);
        len > 0 && begin < region.end && begin.saturating_add(len) > region.start
    }
}
