//! One peer: what is to go to it, what it has said, and what became of it.
//!
//! What goes to a peer waits in one queue, in the order in which it was issued. The queue's head goes when it
//! may:
//! - a packet, while fewer than the peer has receives for are not yet taken (*credits*), and after the writes
//!   in front of it took effect;
//! - a write, after its announcement took effect (see `super`).
//!
//! The queue takes no more than its share of slots. Messages that find no room there wait in the `backlog`,
//! and go into the queue before anything newer.

mod backlog;

use super::inbox::Inbox;
use super::net::RemoteAddress;
use super::slots::{SLOT, Slot, Slots};
use super::wire::{FRAME, Frame, HEADER, MAX_MESSAGE, PacketItem, Token, next_frame, piece_head};
use backlog::Backlog;
use scash_comm::SegmentId;
use scash_comm::remote::{LossReason, Operation, Segments};
use std::collections::VecDeque;

/// What waits in a peer's queue.
#[derive(Clone, Copy)]
pub(super) enum Queued {
    /// Of so many bytes.
    Packet { slot: Slot, len: usize },
    /// The `number`th.
    Write { slot: Slot, len: usize, place: RemoteAddress, number: u64 },
}

/// What a peer is known by.
pub(super) struct Identity {
    /// Its number in the address vector.
    pub(super) address: u64,
    /// Of packets to it,
    pub(super) to: Token,
    /// and from it.
    pub(super) from: Token,
    /// Its words for this rank: see `super::lines`.
    pub(super) line: RemoteAddress,
}

/// A peer.
pub(super) struct PeerLink {
    pub(super) rank: u32,
    pub(super) identity: Identity,
    pub(super) queue: VecDeque<Queued>,
    /// The packet that frames are being put into, and its length so far.
    open: Option<(Slot, usize)>,
    /// Slots that the queue, the open packet and what is under way hold.
    pub(super) slots: usize,
    /// Messages for which there was no room yet.
    backlog: Backlog,
    /// Calls that wait for the peer's endpoint,
    pub(super) waiting: u32,
    /// and how often it has done something that they may wait for.
    pub(super) moved: u64,
    /// Words that answer the peer, for which there was no room yet.
    owes: VecDeque<PacketItem>,
    /// Packets sent, and those of them that the peer has taken.
    pub(super) sent: u32,
    pub(super) acknowledged: u32,
    /// Packets of the peer: the last that arrived, how many were taken, and how many it knows to be.
    pub(super) arrived: u32,
    pub(super) taken: u32,
    pub(super) told: u32,
    /// Writes under way, and announcements of writes.
    pub(super) writing: u32,
    pub(super) announcing: u32,
    /// Packets under way.
    pub(super) sending: u32,
    /// Whether a sign of life is under way.
    pub(super) beating: bool,
    /// Puts issued so far, those of them that are announced, and those that a fence is over for.
    pub(super) issued: u64,
    pub(super) announced: u64,
    pub(super) fenced_puts: u64,
    /// Fences asked for, and answered.
    pub(super) fences: u64,
    pub(super) fenced: u64,
    /// The answer to an atomic operation.
    pub(super) asked: bool,
    pub(super) was: Option<u64>,
    /// Whether this rank gets from the peer: until that is over, nothing that the peer says is heard.
    held: bool,
    parked: VecDeque<(Slot, usize)>,
    /// Packets whose predecessors have not arrived: number, slot, length.
    early: Vec<(u32, Slot, usize)>,
    /// The message that is arriving in pieces.
    partial: Vec<u8>,
    pub(super) fate: Option<LossReason>,
    /// Whether the application was told.
    told_down: bool,
    /// Whether the peer has heard this rank's goodbye.
    pub(super) heard: bool,
    /// Where the peer has its segments.
    pub(super) segments: Vec<RemoteAddress>,
}

impl PeerLink {
    pub(super) fn new(rank: u32, identity: Identity) -> PeerLink {
        PeerLink {
            rank,
            identity,
            queue: VecDeque::new(),
            open: None,
            slots: 0,
            backlog: Backlog::default(),
            waiting: 0,
            moved: 0,
            owes: VecDeque::new(),
            sent: 0,
            acknowledged: 0,
            arrived: 0,
            taken: 0,
            told: 0,
            writing: 0,
            announcing: 0,
            sending: 0,
            beating: false,
            issued: 0,
            announced: 0,
            fenced_puts: 0,
            fences: 0,
            fenced: 0,
            asked: false,
            was: None,
            held: false,
            parked: VecDeque::new(),
            early: Vec::new(),
            partial: Vec::new(),
            fate: None,
            told_down: false,
            heard: false,
            segments: Vec::new(),
        }
    }

    /// Where a piece of the peer's segment is.
    pub(super) fn place(&self, segment: SegmentId, offset: u64) -> Option<RemoteAddress> {
        let region = self.segments.get(segment.0 as usize)?;
        Some(RemoteAddress { address: region.address.wrapping_add(offset), key: region.key })
    }

    /// Room for `len` bytes in the open packet, if there is a slot for one within `share`.
    fn room(&mut self, slots: &mut Slots, share: usize, len: usize) -> Option<(Slot, usize)> {
        if self.open.is_some_and(|(_, filled)| filled + len > SLOT) {
            self.seal();
        }
        if self.open.is_none() {
            if self.slots >= share {
                return None;
            }
            self.open = Some((slots.claim()?, HEADER));
            self.slots += 1;
        }
        self.open
    }

    /// Appends a word. `false`: there is no room now.
    pub(super) fn say(&mut self, slots: &mut Slots, share: usize, word: PacketItem) -> bool {
        let (bytes, len) = word.encode();
        let Some((slot, filled)) = self.room(slots, share, len) else { return false };
        // SAFETY: the open packet is under way only after it was sealed and posted.
        unsafe { slots.write(slot, filled, &bytes[..len]) };
        self.open = Some((slot, filled + len));
        true
    }

    /// Appends a message; what finds no room is kept until there is some.
    pub(super) fn say_message(
        &mut self,
        slots: &mut Slots,
        share: usize,
        kind: u16,
        parts: &[&[u8]],
        len: usize,
    ) {
        let mut rest = UnsentParts::new(parts, len);
        if self.is_late() || !self.say_all(slots, share, kind, &mut rest) {
            self.backlog.push(kind, rest);
        }
    }

    /// Appends messages that had found no room, as far as there is some now.
    fn catch_up(&mut self, slots: &mut Slots, share: usize) {
        while let Some(late) = self.backlog.take() {
            let parts = late.rest();
            let mut rest = UnsentParts::new(&parts, parts[0].len());
            let is_said = self.say_all(slots, share, late.kind, &mut rest);
            let left = rest.left;
            if !is_said {
                return self.backlog.give_back(late, left);
            }
            if self.backlog.is_empty() {
                // Its flush may have come before.
                self.seal();
            }
        }
    }

    /// Whether there are messages that have found no room: nothing is to be appended before them.
    pub(super) fn is_late(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Bytes of those.
    pub(super) fn late(&self) -> usize {
        self.backlog.len()
    }

    /// Appends the rest of a message, as far as there is room. Whether that was all of it.
    fn say_all(&mut self, slots: &mut Slots, share: usize, kind: u16, rest: &mut UnsentParts<'_>) -> bool {
        while self.say_piece(slots, share, kind, rest) {
            if rest.left == 0 {
                return true;
            }
        }
        false
    }

    /// Appends as much of the rest of a message as a packet takes. `false`: there is no room now.
    fn say_piece(&mut self, slots: &mut Slots, share: usize, kind: u16, rest: &mut UnsentParts<'_>) -> bool {
        // A piece of nothing, but for messages of nothing, would be a waste.
        let least = FRAME + rest.left.min(64);
        let Some((slot, mut filled)) = self.room(slots, share, least) else { return false };
        let len = rest.left.min(SLOT - filled - FRAME);
        let head = piece_head(kind, len == rest.left, u32::try_from(len).expect("at most SLOT"));
        // SAFETY: as in `say`.
        unsafe { slots.write(slot, filled, &head) };
        filled += FRAME;
        rest.take(len, |bytes| {
            // SAFETY: as in `say`.
            unsafe { slots.write(slot, filled, bytes) };
            filled += bytes.len();
        });
        self.open = Some((slot, filled));
        true
    }

    /// Ends the open packet: it goes in its turn.
    pub(super) fn seal(&mut self) {
        if let Some((slot, len)) = self.open.take() {
            self.queue.push_back(Queued::Packet { slot, len });
        }
    }

    /// Says what the peer waits for, and what has waited for room.
    pub(super) fn answer(&mut self, slots: &mut Slots, share: usize) {
        let had = self.owes.len();
        while let Some(&word) = self.owes.front() {
            if !self.say(slots, share, word) {
                break;
            }
            self.owes.pop_front();
        }
        if self.owes.len() < had {
            self.seal();
        }
        self.catch_up(slots, share);
    }

    /// Whether something waits for its turn.
    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.owes.is_empty() || self.is_late()
    }

    /// Nothing that the peer says is heard from now on.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// Ends a hold.
    pub(super) fn release(&mut self) {
        self.held = false;
    }

    /// Takes a packet that has arrived, of which at most `credits` may be under way. Packets are matched in
    /// the order they were sent, but a long one may be complete after a shorter one behind it.
    pub(super) fn arrive(
        &mut self,
        number: u32,
        slot: Slot,
        len: usize,
        credits: u32,
    ) -> Result<(), LossReason> {
        let ahead = number.wrapping_sub(self.arrived);
        if number == 0 || ahead == 0 || ahead > credits || self.early.iter().any(|early| early.0 == number) {
            return Err(LossReason::Broke(format!("its packet {number} came after {}", self.arrived)));
        }
        self.early.push((number, slot, len));
        Ok(())
    }

    /// The next packet in their order, if it is there.
    pub(super) fn next_arrived(&mut self) -> Option<(Slot, usize)> {
        let next = after(self.arrived);
        let at = self.early.iter().position(|early| early.0 == next)?;
        self.arrived = next;
        let (_, slot, len) = self.early.swap_remove(at);
        Some((slot, len))
    }

    /// Keeps a packet for later, if it must not be heard now.
    pub(super) fn park(&mut self, slot: Slot, len: usize) -> bool {
        if self.held {
            self.parked.push_back((slot, len));
        }
        self.held
    }

    /// The next packet that was kept.
    pub(super) fn unpark(&mut self) -> Option<(Slot, usize)> {
        if self.held { None } else { self.parked.pop_front() }
    }

    /// Hears a packet's frames.
    pub(super) fn hear(
        &mut self,
        mut frames: &[u8],
        segments: &Segments,
        inbox: &mut Inbox,
    ) -> Result<(), LossReason> {
        while let Some(frame) = next_frame(&mut frames)? {
            match frame {
                Frame::Word(PacketItem::Heard) => self.heard = true,
                // What a peer had said before it was lost still counts.
                _ if matches!(self.fate, Some(LossReason::Left | LossReason::Broke(_))) => {}
                Frame::Piece { kind, last, bytes } => self.hear_piece(kind, last, bytes, inbox)?,
                Frame::Word(word) => self.hear_word(word, segments)?,
            }
        }
        Ok(())
    }

    fn hear_piece(
        &mut self,
        kind: u16,
        last: bool,
        bytes: &[u8],
        inbox: &mut Inbox,
    ) -> Result<(), LossReason> {
        if self.partial.len() + bytes.len() > MAX_MESSAGE {
            return Err(LossReason::Broke(format!("it sent a message of more than {MAX_MESSAGE} bytes")));
        }
        if !last {
            self.partial.extend_from_slice(bytes);
            return Ok(());
        }
        inbox.message(self.rank, kind, &[&self.partial, bytes]);
        // A long message's memory is not kept: it may be the only one.
        self.partial = Vec::new();
        Ok(())
    }

    fn hear_word(&mut self, word: PacketItem, segments: &Segments) -> Result<(), LossReason> {
        match word {
            PacketItem::Fence(number) => self.owe(PacketItem::Fenced(number))?,
            PacketItem::Fenced(number) if number > self.fenced && number <= self.fences => {
                self.fenced = number
            }
            PacketItem::Atomic { segment, operation: Operation { offset, op } } => {
                let word = segments.word(SegmentId(segment), offset, op);
                let word =
                    word.map_err(|error| LossReason::Broke(format!("it operates on no word: {error}")))?;
                // SAFETY: an aligned word inside a segment, which is mapped and to which there are no Rust
                // references.
                self.owe(PacketItem::Was(unsafe { op.execute(word) }))?;
            }
            PacketItem::Was(before) if self.asked => {
                self.asked = false;
                self.was = Some(before);
            }
            PacketItem::Goodbye => {
                self.owe(PacketItem::Heard)?;
                return Err(LossReason::Left);
            }
            PacketItem::Fenced(_) | PacketItem::Was(_) | PacketItem::Heard => {
                return Err(LossReason::Broke("it answered what nobody had asked".into()));
            }
        }
        Ok(())
    }

    fn owe(&mut self, word: PacketItem) -> Result<(), LossReason> {
        // A rank asks one thing of each kind at a time.
        if self.owes.len() >= MOST_OWED {
            return Err(LossReason::Broke("it asks on and on and waits for no answer".into()));
        }
        self.owes.push_back(word);
        Ok(())
    }

    /// Notes how many packets the peer has taken.
    pub(super) fn acknowledge(&mut self, taken: u32) -> Result<(), LossReason> {
        let outstanding = self.sent.wrapping_sub(self.acknowledged);
        let news = taken.wrapping_sub(self.acknowledged);
        // What overtook a newer packet says nothing new.
        if news <= outstanding {
            self.acknowledged = taken;
        } else if self.acknowledged.wrapping_sub(taken) > u32::MAX / 2 {
            return Err(LossReason::Broke("it has taken more packets than were sent".into()));
        }
        Ok(())
    }

    /// Keeps the first reason why the peer is gone, and drops what was to go to it.
    pub(super) fn lose(&mut self, fate: LossReason, slots: &mut Slots) {
        if self.fate.is_some() {
            return;
        }
        // Who leaves is still told that this was heard.
        self.owes.retain(|word| matches!((word, &fate), (PacketItem::Heard, LossReason::Left)));
        self.seal();
        for step in self.queue.drain(..) {
            let (Queued::Packet { slot, .. } | Queued::Write { slot, .. }) = step;
            slots.release(slot);
            self.slots -= 1;
        }
        self.backlog.clear();
        self.partial = Vec::new();
        self.fate = Some(fate);
    }

    /// Tells the application once, when all is delivered that came before.
    pub(super) fn tell_down(&mut self, inbox: &mut Inbox) {
        if self.fate.is_some() && !self.told_down && !self.held && self.parked.is_empty() {
            self.told_down = true;
            inbox.down(self.rank);
        }
    }
}

/// The number of the packet behind this one. 0 stands for none.
pub(super) fn after(number: u32) -> u32 {
    number.checked_add(1).unwrap_or(1)
}

/// Answers that a peer may wait for at once: to its fences, its operations and its goodbye, with room for a
/// change of mind.
const MOST_OWED: usize = 64;

/// The rest of a message that is being said.
struct UnsentParts<'a> {
    parts: &'a [&'a [u8]],
    /// Where in the first of them the rest begins.
    at: usize,
    /// How long it is.
    left: usize,
}

impl<'a> UnsentParts<'a> {
    /// All of a message of `len` bytes.
    fn new(parts: &'a [&'a [u8]], len: usize) -> Self {
        UnsentParts { parts, at: 0, left: len }
    }

    fn take(&mut self, mut len: usize, mut each: impl FnMut(&[u8])) {
        self.left -= len;
        while len > 0 {
            let part = &self.parts[0][self.at..];
            let now = part.len().min(len);
            each(&part[..now]);
            len -= now;
            self.at += now;
            if self.at == self.parts[0].len() {
                self.parts = &self.parts[1..];
                self.at = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
