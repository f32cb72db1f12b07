//! The bytes of a peer's long message, as its receiver takes them.

use super::delivery::PartialMessage;
use super::incoming::{Incoming, Pulled};
use super::peer::Peer;
use super::{Shared, lock};
use crate::Bytes;
use crate::remote::LossReason;

/// What is offered of a long message at one time.
pub(super) struct Taking<'a> {
    peer: &'a Peer,
    shared: &'a Shared,
    part: PartialMessage,
    taken: usize,
    /// How the last reading went; `None`: nothing was asked for.
    pulled: Option<Result<Pulled, LossReason>>,
}

impl<'a> Taking<'a> {
    /// This part.
    pub(super) fn new(peer: &'a Peer, shared: &'a Shared, part: PartialMessage) -> Self {
        Self { peer, shared, part, taken: 0, pulled: None }
    }

    /// Whether there was anything.
    pub(super) fn has_taken(&self) -> bool {
        self.taken > 0
    }

    /// The receiver was asked: what more there may be on the stream.
    pub(super) fn end(self, incoming: &mut Incoming) -> Result<Pulled, LossReason> {
        self.pulled.unwrap_or_else(|| {
            incoming.refuse_part(self.part.end);
            Ok(Pulled::Some)
        })
    }
}

// SAFETY: `take_part` stores as many bytes as it says, which are `most` at most.
unsafe impl Bytes for Taking<'_> {
    unsafe fn take(&mut self, to: *mut u8, most: usize) -> usize {
        let most = most.min(self.part.left - self.taken);
        if most == 0 || matches!(self.pulled, Some(Err(_))) {
            return 0;
        }
        let (stream, segments) = (self.peer.stream(), &self.shared.segments);
        let mut incoming = lock(&self.peer.incoming);
        // SAFETY: passed on to the caller.
        let (count, pulled) = unsafe { incoming.take_part(stream, segments, self.part.end, to, most) };
        if incoming.fence_reached() {
            self.shared.service.ring();
        }
        self.taken += count;
        self.pulled = Some(pulled);
        count
    }
}
