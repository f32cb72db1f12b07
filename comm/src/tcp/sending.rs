//! What sends and puts have in common: who it is for, and when it is handed over.

use super::outgoing::Outgoing;
use super::peer::{Flushed, Peer};
use super::{TcpEndpoint, wire};
use crate::{Error, Result};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// Backlog towards one peer beyond which a flush waits until the peer's service thread has taken it. Large
/// enough never to matter to a job whose peers poll, small enough not to exhaust a host.
pub(super) const MOST_BACKLOG: usize = 64 << 20;

impl TcpEndpoint {
    /// The receiver of a message of so many bytes, which is counted; none if it is this rank.
    pub(super) fn receiver(&self, to: u32, len: usize) -> Result<Option<&Peer>> {
        if len > wire::MAX_MESSAGE {
            return Err(Error::Invalid(format!(
                "a message of {len} bytes is longer than {}: put it, or send it in pieces",
                wire::MAX_MESSAGE
            )));
        }
        let peer = self.peer(to)?;
        self.traffic.count(&self.traffic.messages, 1, len);
        Ok(peer)
    }

    /// Something was appended to the batch for a peer, which is handed over now if it is large.
    pub(super) fn has_appended(&self, peer: &Peer, outgoing: MutexGuard<'_, Outgoing>) {
        peer.has_batch.store(true, Ordering::Release);
        let is_large = outgoing.is_large();
        drop(outgoing);
        if is_large {
            self.flush_peer(peer);
        }
    }

    /// Hands over what was put and sent to a peer, and bounds what the peer leaves lying. Returns where the
    /// last put ends that was handed over.
    pub(super) fn flush_peer(&self, peer: &Peer) -> u64 {
        let Flushed { backlog, position, puts } = peer.flush();
        if backlog > 0 {
            self.shared.service.watch_for_room(peer);
        }
        if backlog > MOST_BACKLOG {
            // If the peer is lost meanwhile, that is its fate and no failure of the flush.
            let _ = self.fence_at(peer, position);
        }
        puts
    }

    /// Returns when the peer has taken this rank's stream up to `position`.
    pub(super) fn fence_at(&self, peer: &Peer, position: u64) -> Result<()> {
        peer.fence(self.waits.served, position).map_err(|fate| peer.lost(fate))
    }
}
