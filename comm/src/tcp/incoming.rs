//! What one peer sends to this rank on the stream connection: puts go into memory, messages are queued for
//! delivery.
//!
//! Reads go through a **buffer**, of which a frame's header is parsed. While the bytes of puts are due, the
//! read is vectored: first the places in the segments, then the buffer, so that a burst of any size takes few
//! system calls and large puts are not copied. Small bursts fit the buffer as a whole, and copying a page or
//! two from there is cheaper than a second system call: the **window**, the most that one read puts into the
//! buffer, is narrowed only where much was copied.
//!
//! Messages stay in the buffer until they are delivered: [`Incoming::take`] hands the buffer out and carries
//! on with the receiver's last one. A message too large for that gets memory of its own, which grows as its
//! bytes arrive and not as its header promises.
//!
//! A *long* message is read straight to where its receiver wants it, who is asked for that by the thread in
//! `poll`: [`Incoming::pull`] stops there, and [`Incoming::take_part`] goes on. A reader that has nobody to
//! ask, as the service thread, reads it into memory of its own ([`Incoming::pull_all`]).
//!
//! The reader is the thread in `poll`, or the service thread on behalf of a fence; the lock around this value
//! makes it one at a time. Neither reads while this rank has a get from the peer under way
//! ([`Incoming::hold`]); see guarantee 2 in the module `tcp`.
//!
//! Invariants: `start..end` of the buffer is not parsed yet; while the body of a frame is due, that part is
//! empty, or has the first bytes that are due of a long message, but never all; every address comes from
//! [`Segments::piece`], or from who takes a part, and then is used during that call only.

mod parts;

use super::delivery::{BUFFER, Delivery, Message, PartialMessage, Payload};
use super::sealed::Inlet;
use super::sys::{self, IoVec};
use super::wire::{FrameHead, HEAD, MAX_RUN, PutTarget, TARGET};
use crate::LONGEST_HEAD;
use crate::racing;
use crate::remote::{LossReason, Segments};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// Messages up to this length wait in the buffer until they are whole.
const SMALL: usize = 16 << 10;
/// The largest part of a frame that is parsed at once.
const LARGEST_FRAME: usize = HEAD + if SMALL > MAX_RUN * TARGET { SMALL } else { MAX_RUN * TARGET };
const _: () = assert!(LONGEST_HEAD <= SMALL, "a long message's head is parsed at once");
/// Room that a read into the buffer has at least.
const NARROW: usize = 2 << 10;
/// Bytes of puts that are rather copied than read by a second system call.
const WORTH_COPYING: usize = 16 << 10;
/// First piece of memory for a large message.
const FIRST_GROWTH: usize = 64 << 10;
/// System calls in one go before others get their turn.
const MAX_READS: u32 = 64;

const _: () = assert!(
    LARGEST_FRAME + NARROW <= BUFFER / 2,
    "an incomplete frame and a read fit behind a half-full buffer"
);

/// What the bytes that come next belong to.
enum ReceivingBody {
    /// A new frame, through the buffer.
    None,
    /// Puts: the places in `Incoming::places`, of which `left` bytes are due.
    Puts { left: usize },
    /// A large message, of which `left` bytes are due; `rest` if it is what is left of a long one.
    Message { kind: u16, rest: Option<PartialMessage>, bytes: Vec<u8>, left: usize },
    /// A long message: its receiver is to say where the bytes go.
    Part(PartialMessage),
    /// A long message that nobody wants, of which `left` bytes are due.
    Unwanted { left: usize },
}

/// One peer's incoming side.
pub(super) struct Incoming {
    inlet: Inlet,
    now: Delivery,
    start: usize,
    end: usize,
    body: ReceivingBody,
    /// Where the bytes of the run of puts go; those before `place` are done.
    places: Vec<IoVec>,
    place: usize,
    window: usize,
    /// Bytes of puts that the last parse copied.
    copied: usize,
    /// Bytes that ever arrived.
    received: u64,
    /// Full buffers whose messages are not delivered yet.
    waiting: VecDeque<Delivery>,
    /// A buffer for when the current one is full.
    spare: Option<Delivery>,
    /// Gets from the peer that are under way.
    gets: u32,
    /// Whether somebody wanted to read meanwhile.
    was_denied: bool,
    /// The position that the peer's fence asks for.
    fence: Option<u64>,
    ended: bool,
}

// SAFETY: the pointers in `places` are to segments, which stay mapped while the endpoint lives.
unsafe impl Send for Incoming {}

/// What a [`Incoming::pull`] left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// Nothing more is there.
    All,
    /// There may be more.
    Some,
    /// A long message is next, whose receiver is to be asked.
    Part,
}

impl Incoming {
    /// Nothing has arrived.
    pub(super) fn new(inlet: Inlet) -> Self {
        Self {
            inlet,
            now: Delivery::new(),
            start: 0,
            end: 0,
            body: ReceivingBody::None,
            places: Vec::with_capacity(MAX_RUN + 1),
            place: 0,
            window: BUFFER,
            copied: 0,
            received: 0,
            waiting: VecDeque::new(),
            spare: None,
            gets: 0,
            was_denied: false,
            fence: None,
            ended: false,
        }
    }

    /// A get from the peer starts: until its [`Self::release`], nothing is read.
    pub(super) fn hold(&mut self) {
        self.gets += 1;
    }

    /// A get has ended. Returns whether a fence has been waiting for that.
    pub(super) fn release(&mut self) -> bool {
        self.gets -= 1;
        self.gets == 0 && self.fence.is_some()
    }

    /// Whether gets forbid reading.
    pub(super) fn is_held(&self) -> bool {
        self.gets > 0
    }

    /// Whether the caller may [`Self::pull`]. If not, the next get will do it on the caller's behalf before
    /// it starts, so that gets without a pause cannot starve the stream.
    pub(super) fn may_pull(&mut self) -> bool {
        self.was_denied = self.is_held();
        !self.was_denied
    }

    /// Whether somebody was not allowed to pull since the last pull.
    pub(super) fn was_denied(&self) -> bool {
        self.was_denied
    }

    /// The peer wants to know when its stream is taken up to `position`.
    pub(super) fn ask_fence(&mut self, position: u64) {
        self.fence = Some(position);
    }

    /// Whether the fence that was asked for is reached.
    pub(super) fn fence_reached(&self) -> bool {
        self.fence.is_some_and(|position| self.has_taken(position))
    }

    /// Whether the stream has taken effect up to `position`.
    pub(super) fn has_taken(&self, position: u64) -> bool {
        self.received - (self.end - self.start) as u64 >= position
    }

    /// The position in the stream up to which it has been read.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The position that the peer's fence asks for.
    pub(super) fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// The fence is answered.
    pub(super) fn end_fence(&mut self) {
        self.fence = None;
    }

    /// Whether the connection is at its end: nothing will come any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes what the socket has, up to a long message: puts into memory, messages into the queue. Never
    /// waits.
    pub(super) fn pull(&mut self, socket: BorrowedFd<'_>, segments: &Segments) -> Result<Pulled, LossReason> {
        self.pull_some(socket, segments, false)
    }

    /// Takes what the socket has, long messages too. Never waits.
    pub(super) fn pull_all(
        &mut self,
        socket: BorrowedFd<'_>,
        segments: &Segments,
    ) -> Result<Pulled, LossReason> {
        self.pull_some(socket, segments, true)
    }

    fn pull_some(
        &mut self,
        socket: BorrowedFd<'_>,
        segments: &Segments,
        all: bool,
    ) -> Result<Pulled, LossReason> {
        debug_assert!(!self.is_held(), "a held stream is not read");
        self.was_denied = false;
        let pulled = self.read_some(socket, segments, all);
        self.ended |= pulled.is_err();
        pulled
    }

    fn read_some(
        &mut self,
        socket: BorrowedFd<'_>,
        segments: &Segments,
        all: bool,
    ) -> Result<Pulled, LossReason> {
        if self.ended {
            return Ok(Pulled::All);
        }
        let mut reads = 0;
        // What the inlet holds is taken now: no poll of the socket would tell of it.
        while reads < MAX_READS || self.inlet.holds() {
            if all {
                self.keep_part();
            } else if self.part().is_some() {
                return Ok(Pulled::Part);
            }
            reads += 1;
            let asked = self.aim();
            // SAFETY: the pieces are places in segments (registered memory that stays mapped), the spare room
            // of a message, and the free part of the buffer: nobody else uses them while this value is
            // locked.
            let read = unsafe { self.inlet.receive(socket, &self.places[self.place..]) };
            let window = self.lower();
            match read? {
                None => return Ok(Pulled::All),
                Some(0) => return Err(LossReason::closed()),
                Some(count) => {
                    self.arrived(count, window, segments)?;
                    if count < asked && !self.inlet.holds() && (all || self.part().is_none()) {
                        return Ok(Pulled::All);
                    }
                }
            }
        }
        Ok(Pulled::Some)
    }

    /// Swaps the oldest undelivered messages into `out`, whose own have been delivered. `false` if there are
    /// none.
    pub(super) fn take(&mut self, out: &mut Delivery) -> bool {
        debug_assert!(out.messages.is_empty(), "messages must not be lost");
        if let Some(oldest) = self.waiting.pop_front() {
            self.spare = Some(std::mem::replace(out, oldest));
            return true;
        }
        if self.now.messages.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.now, out);
        self.carry_over(out);
        true
    }

    /// Whether messages wait for delivery.
    pub(super) fn has_messages(&self) -> bool {
        !self.waiting.is_empty() || !self.now.messages.is_empty()
    }

    /// Appends to `places` what the next read goes into behind the places of puts; the buffer's window is
    /// always the last, if only with no bytes. Returns how many bytes the read asks for.
    fn aim(&mut self) -> usize {
        self.make_room();
        let due = match &mut self.body {
            ReceivingBody::None | ReceivingBody::Part(_) | ReceivingBody::Unwanted { .. } => 0,
            ReceivingBody::Puts { left } => *left,
            ReceivingBody::Message { bytes, left, .. } => {
                let room = (*left).min(bytes.len().max(FIRST_GROWTH));
                bytes.reserve(room);
                let spare = &mut bytes.spare_capacity_mut()[..room];
                self.places.push(sys::piece(spare.as_ptr().cast(), room));
                if room < *left {
                    // More of this message comes before anything for the buffer.
                    self.places.push(sys::piece(std::ptr::null(), 0));
                    return room;
                }
                room
            }
        };
        let window = self.window.min(BUFFER - self.end);
        // The pointer may write: it is derived from a unique borrow.
        self.places.push(sys::piece(self.now.buffer[self.end..].as_mut_ptr(), window));
        due + window
    }

    /// Takes back what `aim` appended. Returns the length of the buffer's window.
    fn lower(&mut self) -> usize {
        let window = self.places.pop().map_or(0, |piece| piece.iov_len);
        if let ReceivingBody::Message { .. } = self.body {
            self.places.clear();
        }
        window
    }

    /// Makes sure that the buffer has room for the frame that it ends in, and for a read.
    fn make_room(&mut self) {
        if self.start == self.end && self.now.messages.is_empty() {
            (self.start, self.end) = (0, 0);
        } else if BUFFER - self.start < LARGEST_FRAME + NARROW {
            if self.now.messages.is_empty() {
                self.now.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                let next = self.spare.take().unwrap_or_else(Delivery::new);
                let full = std::mem::replace(&mut self.now, next);
                self.carry_over(&full);
                self.waiting.push_back(full);
            }
        }
    }

    /// Copies what is not parsed yet from the buffer that goes to the one that comes.
    fn carry_over(&mut self, gone: &Delivery) {
        let rest = &gone.buffer[self.start..self.end];
        self.now.buffer[..rest.len()].copy_from_slice(rest);
        (self.start, self.end) = (0, rest.len());
    }

    /// Books `count` bytes that a read brought, and parses what went into the buffer's window.
    fn arrived(&mut self, mut count: usize, window: usize, segments: &Segments) -> Result<(), LossReason> {
        self.received += count as u64;
        match &mut self.body {
            ReceivingBody::None | ReceivingBody::Part(_) | ReceivingBody::Unwanted { .. } => {}
            ReceivingBody::Puts { left } => {
                let placed = count.min(*left);
                *left -= placed;
                count -= placed;
                let rest = sys::advance(&mut self.places[self.place..], placed).len();
                self.place = self.places.len() - rest;
            }
            ReceivingBody::Message { bytes, left, .. } => {
                let room = (*left).min(bytes.len().max(FIRST_GROWTH));
                let placed = count.min(room);
                *left -= placed;
                count -= placed;
                // SAFETY: `aim` reserved `room` bytes behind the length, and the read has filled `placed` of
                // them.
                unsafe { bytes.set_len(bytes.len() + placed) };
            }
        }
        self.end += count;
        self.finish_body();
        self.parse_window(count, window, segments)
    }

    /// Parses what a read brought into the buffer's window, and sets the next one.
    fn parse_window(&mut self, count: usize, window: usize, segments: &Segments) -> Result<(), LossReason> {
        self.copied = 0;
        self.parse(segments)?;
        if self.copied > WORTH_COPYING {
            self.window = NARROW;
        } else if self.copied == 0 && count == window && count > 0 {
            self.window = BUFFER;
        }
        Ok(())
    }

    /// Closes the body that was due, if it is whole.
    fn finish_body(&mut self) {
        match &mut self.body {
            ReceivingBody::Puts { left: 0 } => {
                self.places.clear();
                self.place = 0;
                self.body = ReceivingBody::None;
            }
            ReceivingBody::Message { kind, rest, bytes, left: 0 } => {
                let bytes = std::mem::take(bytes);
                let payload = match *rest {
                    None => Payload::Own(bytes),
                    Some(part) => Payload::Rest(part, bytes),
                };
                self.now.messages.push(Message { kind: *kind, payload });
                self.body = ReceivingBody::None;
            }
            ReceivingBody::Unwanted { .. } => self.drop_unwanted(),
            _ => {}
        }
    }

    /// Takes whole frames out of the buffer.
    fn parse(&mut self, segments: &Segments) -> Result<(), LossReason> {
        while matches!(self.body, ReceivingBody::None) {
            let Some(head) = FrameHead::decode(&self.now.buffer[self.start..self.end])? else { break };
            let whole = match head {
                FrameHead::Message { kind, len } => self.message(kind, len),
                FrameHead::Long { kind, head, len } => self.long(kind, head.into(), len),
                FrameHead::Puts { count } => self.puts(count, segments)?,
                FrameHead::Padding { len } => self.padding(len.into()),
                FrameHead::Goodbye => return Err(LossReason::Left),
            };
            if !whole {
                break;
            }
        }
        Ok(())
    }

    /// Takes a message. `false` if the buffer must first receive more of it.
    fn message(&mut self, kind: u16, len: usize) -> bool {
        let (from, there) = (self.start + HEAD, self.end - self.start - HEAD);
        if there >= len {
            self.start = from + len;
            self.now.messages.push(Message { kind, payload: Payload::Here(from..from + len) });
            return true;
        }
        if len <= SMALL {
            return false;
        }
        let mut bytes = Vec::with_capacity(len.min(FIRST_GROWTH));
        bytes.extend_from_slice(&self.now.buffer[from..self.end]);
        self.start = self.end;
        self.body = ReceivingBody::Message { kind, rest: None, bytes, left: len - there };
        true
    }

    /// Passes over padding. `false` if the buffer must first receive more of it.
    fn padding(&mut self, len: usize) -> bool {
        let is_whole = self.end - self.start >= HEAD + len;
        if is_whole {
            self.start += HEAD + len;
        }
        is_whole
    }

    /// Takes a run of puts. `false` if the buffer must first receive more of its targets.
    fn puts(&mut self, count: u16, segments: &Segments) -> Result<bool, LossReason> {
        let table = self.start + HEAD..self.start + HEAD + usize::from(count) * TARGET;
        if self.end < table.end {
            return Ok(false);
        }
        let mut left = 0;
        for target in self.now.buffer[table.clone()].as_chunks::<TARGET>().0 {
            let target = PutTarget::decode(target)?;
            let place =
                segments.piece(target.segment.into(), target.offset, target.len.into()).ok_or_else(|| {
                    LossReason::Broke(format!("it put outside of the registered memory: {target:?}"))
                })?;
            self.places.push(sys::piece(place, target.len as usize));
            left += target.len as usize;
        }
        self.start = table.end;
        let copied = left.min(self.end - self.start);
        self.copy_to_places(copied);
        self.body = ReceivingBody::Puts { left: left - copied };
        self.finish_body();
        Ok(true)
    }

    /// Copies the first bytes of a run of puts from the buffer to their places.
    fn copy_to_places(&mut self, count: usize) {
        self.copied += count;
        let mut left = count;
        for place in &mut self.places {
            let len = place.iov_len.min(left);
            let from = self.now.buffer[self.start..self.start + len].as_ptr();
            // SAFETY: the place is `iov_len` bytes inside a segment (`Segments::piece`), which no Rust
            // reference covers (promise of `register`); the source is `len` bytes of our own buffer, so they
            // do not overlap.
            unsafe { racing::copy(from, place.iov_base.cast(), len) };
            self.start += len;
            left -= len;
            if left == 0 {
                break;
            }
        }
        let rest = sys::advance(&mut self.places, count).len();
        self.place = self.places.len() - rest;
    }
}

#[cfg(test)]
mod tests;
