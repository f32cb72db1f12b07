//! What arrives: packets, of peers and others, and the receives that wait for them.

use super::super::link::after;
use super::super::log;
use super::super::net::PostOutcome;
use super::super::slots::{SLOT, Slot};
use super::super::wire::{HEADER, Header};
use super::{Engine, SlotUse};
use scash_comm::{Error, Result};
use std::ffi::c_int;

impl Engine {
    /// A packet has arrived: a peer's, or somebody's.
    pub(super) fn arrived(&mut self, slot: Slot, len: usize) {
        // SAFETY: its receive is over.
        let bytes = unsafe { self.slots.bytes(slot, len.min(SLOT)) };
        let Some((header, from)) = self.sender(bytes) else {
            self.tell_of_stranger();
            return self.receive_again(slot);
        };
        let credits = self.sizes.credits;
        let link = self.link(from);
        link.moved += 1;
        let mut heard = link.acknowledge(header.taken);
        if header.number == 0 {
            self.receive_again(slot);
        } else if heard.is_ok() {
            heard = link.arrive(header.number, slot, len, credits);
            if heard.is_err() {
                self.receive_again(slot);
            }
        }
        if let Err(fate) = heard {
            return self.lose(from, fate);
        }
        while let Some((slot, len)) = self.link(from).next_arrived() {
            if !self.link(from).park(slot, len) {
                self.take(from, slot, len);
            }
        }
        self.start(from);
    }

    /// Whose packet it is.
    fn sender(&self, packet: &[u8]) -> Option<(Header, u32)> {
        let bytes = packet.first_chunk::<HEADER>()?;
        let header = Header::decode(bytes);
        let link = self.links.get(header.from as usize)?.as_ref()?;
        link.identity.from.is_of(bytes).then_some((header, header.from))
    }

    fn tell_of_stranger(&mut self) {
        if !self.told_of_strangers {
            self.told_of_strangers = true;
            log(format_args!(
                "dropped a packet of somebody who is not of this job (further ones are dropped silently)"
            ));
        }
    }

    /// Hears a packet, and makes its slot ready for another.
    fn take(&mut self, from: u32, slot: Slot, len: usize) {
        // SAFETY: its receive is over.
        let bytes = unsafe { self.slots.bytes(slot, len) };
        let link = self.links[from as usize].as_mut().expect("its packet was taken for a peer's");
        let heard = link.hear(&bytes[HEADER..], &self.segments, &mut self.inbox);
        link.taken = after(link.taken);
        self.receive_again(slot);
        if let Err(fate) = heard {
            self.lose(from, fate);
        }
    }

    /// Ends the hold of a peer, and hears what it has said meanwhile.
    pub(crate) fn release(&mut self, rank: u32) {
        self.link(rank).release();
        while let Some((slot, len)) = self.link(rank).unpark() {
            self.take(rank, slot, len);
        }
        self.link_down(rank);
        self.start(rank);
    }

    pub(super) fn receive(&mut self, slot: Slot) -> Result<()> {
        // SAFETY: the slot is this operation's from now on.
        match unsafe { self.net.receive(self.slots.buffer(slot, SLOT)) } {
            PostOutcome::Yes => {
                self.uses[slot.index()] = SlotUse::Receive;
                Ok(())
            }
            PostOutcome::Busy => Err(self.no_receive(-libc::EAGAIN)),
            PostOutcome::Failed(status) => Err(self.no_receive(status)),
        }
    }

    fn no_receive(&self, status: c_int) -> Error {
        let source = std::io::Error::other(self.net.text(status));
        Error::Io { what: format!("ofi: posting {} receives; run fewer ranks", self.sizes.receives), source }
    }

    /// Posts a receive again. If the provider takes none, the slot is lost; senders run out of credits at
    /// worst, and are told of.
    pub(super) fn receive_again(&mut self, slot: Slot) {
        if let Err(error) = self.receive(slot) {
            log(format_args!("{error}"));
        }
    }
}
