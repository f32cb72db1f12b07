//! Reads of peers' memory.

use super::super::net::RemoteAddress;
use super::super::slots::Slot;
use super::{Engine, ReadState, SlotUse};
use scash_comm::Result;

impl Engine {
    /// Begins to read a peer's memory into a slot. None: not now; but one read begins in any case, however
    /// much there is to send.
    pub(crate) fn read(&mut self, rank: u32, place: RemoteAddress, len: usize) -> Result<Option<Slot>> {
        let (link, slots, share) = self.peer(rank)?;
        if link.slots > share {
            return Ok(None);
        }
        let address = link.identity.address;
        let Some(slot) = slots.claim() else { return Ok(None) };
        link.slots += 1;
        // SAFETY: just claimed, and this operation's from now on.
        let posted = unsafe { self.net.read(address, place, self.slots.buffer(slot, len)) };
        if self.posted(rank, slot, SlotUse::Read { from: rank, state: ReadState::Waited }, &posted) {
            return Ok(Some(slot));
        }
        self.free(rank, slot);
        Ok(None)
    }

    /// Ends a read that is complete, and copies what was read. `false`: it is not.
    ///
    /// # Safety
    /// `to` has room for `len` bytes.
    pub(crate) unsafe fn finish_read(
        &mut self,
        rank: u32,
        slot: Slot,
        to: *mut u8,
        len: usize,
    ) -> Result<bool> {
        match self.uses[slot.index()] {
            SlotUse::Read { state: ReadState::Done, .. } => {
                let from = self.slots.buffer(slot, len).start;
                // SAFETY: the operation is over, so the slot is ours; the destination is the caller's
                // promise.
                unsafe { from.copy_to(to, len) };
                self.uses[slot.index()] = SlotUse::Idle;
                self.free(rank, slot);
                Ok(true)
            }
            _ => self.peer(rank).map(|_| false),
        }
    }

    /// Gives a read up, whose slot is freed when it is over.
    pub(crate) fn abandon_read(&mut self, rank: u32, slot: Slot) {
        match &mut self.uses[slot.index()] {
            SlotUse::Read { state: state @ ReadState::Waited, .. } => *state = ReadState::Abandoned,
            done => {
                *done = SlotUse::Idle;
                self.free(rank, slot);
            }
        }
    }
}
