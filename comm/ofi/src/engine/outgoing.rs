//! What goes to a peer, when it may.

use super::super::lines::PeerLines;
use super::super::link::{Queued, after};
use super::super::net::{PostOutcome, RemoteAddress};
use super::super::slots::Slot;
use super::super::wire::{HEADER, Header};
use super::{Engine, MOST_ANNOUNCING, SlotUse};
use scash_comm::remote::LossReason;

impl Engine {
    /// Starts what may go to a peer; the rest goes in time.
    pub(crate) fn start(&mut self, rank: u32) {
        self.pump(rank);
        if self.has_work(rank) && !self.todo.contains(&rank) {
            self.todo.push(rank);
        }
    }

    /// Whether something waits to go to a peer.
    pub(super) fn has_work(&mut self, rank: u32) -> bool {
        self.link(rank).has_work() || self.owes_acknowledgement(rank)
    }

    /// Whether a peer may run out of credits unless it is told how much was taken.
    fn owes_acknowledgement(&mut self, rank: u32) -> bool {
        let due = self.sizes.credits / 2;
        let link = self.link(rank);
        link.taken.wrapping_sub(link.told) >= due && link.fate.is_none()
    }

    /// Whether something waits for its turn.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.todo.is_empty()
    }

    /// Hands over all that was put and sent so far.
    pub(crate) fn flush(&mut self) {
        for rank in 0..self.links.len() {
            let Some(link) = &mut self.links[rank] else { continue };
            link.seal();
            if link.has_work() {
                let rank = link.rank;
                self.start(rank);
            }
        }
    }

    pub(super) fn pump(&mut self, rank: u32) {
        let Some(link) = &mut self.links[rank as usize] else { return };
        link.answer(&mut self.slots, self.sizes.share);
        while let Some(step) = self.link(rank).queue.front().copied() {
            let went = match step {
                Queued::Packet { slot, len } => self.pump_packet(rank, slot, len),
                Queued::Write { slot, len, place, number } => self.pump_write(rank, slot, len, place, number),
            };
            if !went {
                break;
            }
            self.link(rank).queue.pop_front();
        }
        self.acknowledge(rank);
    }

    /// Sends a packet, if it may go. `true`: its step is over.
    fn pump_packet(&mut self, rank: u32, slot: Slot, len: usize) -> bool {
        let (ordered, credits) = (self.net.ordered, self.sizes.credits);
        let link = self.link(rank);
        let waits_for_writes = !ordered && link.writing > 0;
        if waits_for_writes || link.sent.wrapping_sub(link.acknowledged) >= credits {
            return false;
        }
        let number = after(link.sent);
        let went = self.send(rank, slot, len, number);
        if went {
            self.link(rank).sent = number;
        }
        went
    }

    /// Posts a packet of this number.
    fn send(&mut self, rank: u32, slot: Slot, len: usize, number: u32) -> bool {
        let from = self.rank;
        let link = self.link(rank);
        let (address, taken) = (link.identity.address, link.taken);
        let header = Header { from, number, taken }.encode(link.identity.to);
        // SAFETY: the packet is not posted yet.
        unsafe { self.slots.write(slot, 0, &header) };
        // SAFETY: the slot is this operation's from now on.
        let posted = unsafe { self.net.send(address, self.slots.buffer(slot, len)) };
        let went = self.posted(rank, slot, SlotUse::Packet(rank), &posted);
        if went {
            let link = self.link(rank);
            link.told = taken;
            link.sending += 1;
        }
        went
    }

    /// Writes, if that may be done; announces it first. `true`: its step is over.
    fn pump_write(&mut self, rank: u32, slot: Slot, len: usize, place: RemoteAddress, number: u64) -> bool {
        if self.link(rank).announced < number && !self.announce(rank) {
            return false;
        }
        let ordered = self.net.ordered;
        let link = self.link(rank);
        if !ordered && link.announcing > 0 {
            return false;
        }
        let address = link.identity.address;
        // SAFETY: the slot is this operation's from now on.
        let posted = unsafe { self.net.write(address, place, self.slots.buffer(slot, len)) };
        let went = self.posted(rank, slot, SlotUse::Write(rank), &posted);
        if went {
            self.link(rank).writing += 1;
        }
        went
    }

    /// Announces all puts that were issued so far.
    fn announce(&mut self, rank: u32) -> bool {
        let link = self.link(rank);
        let (issued, line) = (link.issued, link.identity.line);
        if link.announcing >= MOST_ANNOUNCING {
            return false;
        }
        let went = self.write_word(rank, line, issued, SlotUse::Announcement(rank));
        if went {
            let link = self.link(rank);
            link.announced = issued;
            link.announcing += 1;
        }
        went
    }

    /// Gives a sign of life.
    pub(crate) fn beat(&mut self, rank: u32, beat: u64) {
        let link = self.link(rank);
        if link.fate.is_some() || link.beating {
            return;
        }
        let place = PeerLines::beat_place(link.identity.line);
        if self.write_word(rank, place, beat, SlotUse::Beat(rank)) {
            self.link(rank).beating = true;
        }
    }

    /// Writes a word of a peer's.
    fn write_word(&mut self, rank: u32, place: RemoteAddress, word: u64, what: SlotUse) -> bool {
        let Some(slot) = self.slots.claim() else { return false };
        // SAFETY: just claimed.
        unsafe { self.slots.write(slot, 0, &word.to_ne_bytes()) };
        let address = self.link(rank).identity.address;
        // SAFETY: the slot is this operation's from now on.
        let posted = unsafe { self.net.write(address, place, self.slots.buffer(slot, size_of::<u64>())) };
        let went = self.posted(rank, slot, what, &posted);
        if !went {
            self.slots.release(slot);
        }
        went
    }

    /// Notes what a slot is for, once its operation was posted. What cannot be posted shows that the peer is
    /// lost.
    pub(super) fn posted(&mut self, rank: u32, slot: Slot, what: SlotUse, posted: &PostOutcome) -> bool {
        match posted {
            PostOutcome::Yes => {
                self.uses[slot.index()] = what;
                return true;
            }
            PostOutcome::Busy => {}
            PostOutcome::Failed(status) => {
                let why = self.net.text(*status);
                self.lose(rank, LossReason::Lost(format!("nothing can be sent to it: {why}")));
            }
        }
        false
    }

    /// Tells a peer how much was taken, if nothing else does.
    fn acknowledge(&mut self, rank: u32) {
        if !self.owes_acknowledgement(rank) {
            return;
        }
        let Some(slot) = self.slots.claim() else { return };
        if self.send(rank, slot, HEADER, 0) {
            self.link(rank).slots += 1;
        } else {
            self.slots.release(slot);
        }
    }
}
