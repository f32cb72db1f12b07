//! A ring: frames from one sender to one receiver, without locks and without system calls.
//!
//! The intuition: the receiver waits on the very cache line that a short frame travels in, so a short frame
//! costs one cache miss on each side. There is no shared tail: a frame is there when its header is not zero.
//! There is a shared head, but the receiver moves it only every quarter of the ring, and the sender looks at
//! it only when the room that it knows of is used up.
//!
//! Frames start at multiples of 64 bytes ([`SLOT`]):
//!
//! ```text
//!     0        8                     8 + length      next multiple of 64
//!     ┌────────┬─────────────────────┬─ ─ ─ ─ ─ ─ ─ ┬────────
//!     │ header │ payload             │  not used    │ header of the next frame: 0 until it is there
//!     └────────┴─────────────────────┴─ ─ ─ ─ ─ ─ ─ ┴────────
//! ```
//!
//! Header, in the byte order of the machine:
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0–31 | length | bytes of payload, at most a quarter of the ring |
//! | 32–47 | kind | the sender's word for the message |
//! | 48–55 | part | 0: a whole message; 1: the first of several frames, whose payload begins with the total length (8 bytes); 2: a further one; 3: a long message, which begins with its head ([`FRONT`]) |
//! | 56–63 | mark | always `0x5C`: a header is never zero |
//!
//! Positions count bytes from the start of the job and never wrap; a position's place is `position mod ring`.
//!
//! # Protocol
//! **Invariant:** the header at the sender's tail is zero. The sender:
//! 1. Reads the head (acquire) if the room that it knows of is too small; gives up if it still is. Room is
//!    needed for the frame *and the header after it*.
//! 2. Writes the payload.
//! 3. Writes zero to the header after the frame.
//! 4. Writes the frame's header (release). The tail is now the header of step 3.
//!    (If there is room it also asks for the cache lines behind that one, before the next frame needs them.)
//!
//! The receiver:
//! 5. Reads the header at its own position (acquire, pairs with 4): zero means no frame.
//! 6. Checks its copy of the header, copies the payload out, and only then looks at it.
//! 7. Moves its position, and each quarter of the ring writes it to the head (release, pairs with 1: the
//!    bytes are read before they are overwritten).
//!
//! The receiver trusts nothing here: its position is its own, and a header is read once, then checked. The
//! sender checks the head.

use super::copy::{copy, copy_few, own_soon};
use super::inbox::{Inbox, MIN_RING};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames start at multiples of this.
pub(super) const SLOT: usize = 64;
/// Bytes of a frame's header.
const HEADER: usize = 8;
const MARK: u64 = 0x5C;
/// Bytes of the longest frame after which the cache lines of the next one are asked for. More of them are in
/// the way of those that the receiver fetches meanwhile.
const MOST_OWNED: u64 = 20 * SLOT as u64;
/// Bytes of payload that share a cache line with their header: as many as a frame of one slot has.
pub(super) const FEW: usize = SLOT - HEADER;
/// Bytes before a long message's body: the length of its head (1), zeros to 8, the head, zeros to the end.
/// With the frame's header before them the body starts on a cache line.
pub(super) const FRONT: usize = SLOT - HEADER;
/// Where the head is in the front.
pub(super) const HEAD: usize = 8;

// What the receiver has read and not yet told (less than a quarter of the ring), the largest frame (a quarter
// and two slots, rounded) and the header after it fit a ring: a sender that waits for room gets it.
const _: () = assert!(MIN_RING / 4 + (MIN_RING / 4 + 2 * SLOT) + SLOT <= MIN_RING);

/// What follows from bytes that a peer wrote, or what is wrong with them.
pub(super) type Checked<T> = std::result::Result<T, String>;

/// What a frame is to its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePart {
    /// All of it.
    Whole,
    /// The first of several frames.
    First,
    /// A further frame.
    Further,
    /// A long message: [`FRONT`] bytes, then its body.
    Long,
}

/// A header that was read and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Bytes of payload.
    pub(super) len: usize,
    /// The sender's word for the message.
    pub(super) kind: u16,
    /// Its part of the message.
    pub(super) part: FramePart,
}

impl Frame {
    fn encode(self) -> u64 {
        let part = match self.part {
            FramePart::Whole => 0,
            FramePart::First => 1,
            FramePart::Further => 2,
            FramePart::Long => 3,
        };
        self.len as u64 | u64::from(self.kind) << 32 | part << 48 | MARK << 56
    }

    /// The checked content of a header that is not zero.
    fn decode(word: u64, max: usize) -> Checked<Self> {
        let [l0, l1, l2, l3, k0, k1, part, mark] = word.to_le_bytes();
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let part = match part {
            0 => FramePart::Whole,
            1 => FramePart::First,
            2 => FramePart::Further,
            3 => FramePart::Long,
            _ => return Err(format!("a frame has the header {word:#x}")),
        };
        if u64::from(mark) != MARK || len > max {
            return Err(format!("a frame has the header {word:#x}"));
        }
        Ok(Self { len, kind: u16::from_le_bytes([k0, k1]), part })
    }
}

/// The bytes of a ring, seen from either end.
struct Ring {
    inbox: Arc<Inbox>,
    sender: u32,
    base: RingBase,
    /// Bytes; a power of two.
    size: usize,
}

/// Where a ring begins: in the mapping of its inbox, which it keeps.
struct RingBase(*mut u8);

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for RingBase {}

impl Ring {
    fn new(inbox: Arc<Inbox>, sender: u32) -> Self {
        let size = inbox.layout().ring();
        let base = RingBase(inbox.ring(sender));
        Self { inbox, sender, base, size }
    }

    fn head(&self) -> &AtomicU64 {
        self.inbox.head(self.sender)
    }

    /// PeerPart of a position.
    fn place(&self, position: u64) -> usize {
        // The remainder is below `size`, a usize.
        #[allow(clippy::cast_possible_truncation)]
        let place = (position & (self.size as u64 - 1)) as usize;
        place
    }

    fn header(&self, position: u64) -> &AtomicU64 {
        let place = self.place(position) & !(SLOT - 1);
        // SAFETY: a place is inside the ring.
        let word = unsafe { self.base.0.add(place) };
        // SAFETY: inside the ring with the 8 bytes after it and aligned, as SLOT divides place and size; the
        // inbox stays mapped while `self` lives.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// The address of a position, and how many bytes (of `len`) there are before the ring's end.
    fn run(&self, position: u64, len: usize) -> (*mut u8, usize) {
        let place = self.place(position);
        // SAFETY: a place is inside the ring.
        (unsafe { self.base.0.add(place) }, len.min(self.size - place))
    }

    /// Bytes that a frame takes.
    fn span(len: usize) -> u64 {
        (HEADER + len).next_multiple_of(SLOT) as u64
    }

    /// The longest payload.
    fn max(&self) -> usize {
        self.size / 4
    }
}

/// The sender's end.
pub(super) struct Producer {
    ring: Ring,
    /// Where the next frame starts.
    tail: u64,
    /// Where the next byte of the frame under way goes.
    next: u64,
    /// The head when it was last read.
    head: u64,
}

impl Producer {
    /// The end of `sender` in the ring that it has in `inbox`. There is one producer a ring.
    pub(super) fn new(inbox: Arc<Inbox>, sender: u32) -> Self {
        Self { ring: Ring::new(inbox, sender), tail: 0, next: 0, head: 0 }
    }

    /// The longest payload of a frame.
    pub(super) fn max(&self) -> usize {
        self.ring.max()
    }

    /// Turn 1: begins a frame of `len` bytes of payload, which must be written with [`append`](Self::append)
    /// and ended with [`publish`](Self::publish). `false`, and nothing has begun, if there is no room now.
    /// The error says what is wrong with the receiver's head.
    #[inline]
    pub(super) fn begin(&mut self, len: usize) -> Checked<bool> {
        assert!(len <= self.max());
        let need = Ring::span(len) + SLOT as u64;
        self.next = self.tail + HEADER as u64;
        if self.tail + need - self.head <= self.ring.size as u64 { Ok(true) } else { self.look_for(need) }
    }

    /// Turn 1 where the room that is known of is too small.
    #[cold]
    fn look_for(&mut self, need: u64) -> Checked<bool> {
        let head = self.ring.head().load(Ordering::Acquire); // step 1, pairs with step 7
        if head < self.head || head > self.tail {
            return Err(format!("it says that it has read {head} of {} bytes", self.tail));
        }
        self.head = head;
        Ok(self.tail + need - head <= self.ring.size as u64)
    }

    /// Turn 2, for some of the payload.
    #[inline]
    pub(super) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (dst, run) = self.ring.run(self.next, bytes.len());
            // SAFETY: `run` bytes at `dst` are inside the ring; `begin` made sure that the receiver has read
            // what was there.
            unsafe { copy(bytes.as_ptr(), dst, run) };
            self.next += run as u64;
            bytes = &bytes[run..];
        }
    }

    /// Steps 1 to 4 for a whole message of at most [`FEW`] bytes, in two parts: they share one cache line
    /// with their header, and so do not wrap. As [`begin`](Self::begin).
    #[inline]
    pub(super) fn put_few(&mut self, kind: u16, head: &[u8], body: &[u8]) -> Checked<bool> {
        let total = head.len() + body.len();
        assert!(total <= FEW);
        if !self.begin(total)? {
            return Ok(false);
        }
        let start: *mut u8 = self.ring.header(self.tail).as_ptr().cast();
        // SAFETY: a slot has `FEW` bytes behind its header, and these are not more.
        let payload = unsafe { start.add(HEADER) };
        // SAFETY: as above; `begin` made sure that the receiver has read what was there.
        unsafe { copy_few(head.as_ptr(), payload, head.len()) };
        // SAFETY: as above.
        let rest = unsafe { payload.add(head.len()) };
        // SAFETY: as above.
        unsafe { copy_few(body.as_ptr(), rest, body.len()) };
        self.next += total as u64;
        self.publish(kind, FramePart::Whole);
        Ok(true)
    }

    /// Steps 3 and 4: the frame that was begun and written is there for the receiver.
    #[inline]
    pub(super) fn publish(&mut self, kind: u16, part: FramePart) {
        let end = self.next.next_multiple_of(SLOT as u64);
        // The payload is at most a quarter of the ring.
        #[allow(clippy::cast_possible_truncation)]
        let len = (self.next - self.tail) as usize - HEADER;
        self.ring.header(end).store(0, Ordering::Relaxed); // step 3
        let header = Frame { len, kind, part }.encode();
        self.ring.header(self.tail).store(header, Ordering::Release); // step 4
        let span = end - self.tail;
        self.tail = end;
        self.own_next(span);
    }

    /// Asks for the cache lines that the next frame is written to if it is as long as this one, of `span`
    /// bytes, or for that of its step 3 at least. The receiver's processor has had them since the last round:
    /// the stores would wait for them, one after the other, and with those whoever rings the bell.
    fn own_next(&self, span: u64) {
        let after = self.tail + SLOT as u64;
        let span = if span <= MOST_OWNED { span } else { SLOT as u64 };
        if after + span - self.head <= self.ring.size as u64 {
            (after..after + span)
                .step_by(SLOT)
                .for_each(|line| own_soon(self.ring.header(line).as_ptr().cast()));
        }
    }
}

/// The receiver's end.
pub(super) struct Consumer {
    ring: Ring,
    /// Where the next frame starts.
    position: u64,
    /// The head as it was last written.
    told: u64,
}

impl Consumer {
    /// The end of the owner of `inbox` in the ring of `sender`. There is one consumer a ring.
    pub(super) fn new(inbox: Arc<Inbox>, sender: u32) -> Self {
        Self { ring: Ring::new(inbox, sender), position: 0, told: 0 }
    }

    /// Turn 5 without a look at what is there.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.header(self.position).load(Ordering::Acquire) == 0
    }

    /// Steps 5 and 6: the next frame, if there is one. Its payload is read with [`take`](Self::take).
    #[inline]
    pub(super) fn peek(&self) -> Checked<Option<Frame>> {
        match self.ring.header(self.position).load(Ordering::Acquire) {
            0 => Ok(None),
            word => Frame::decode(word, self.ring.max()).map(Some),
        }
    }

    /// Steps 6 and 7: appends the payload of the frame that [`peek`](Self::peek) gave to `into`, and moves
    /// on.
    pub(super) fn take(&mut self, frame: Frame, into: &mut Vec<u8>) {
        into.reserve(frame.len);
        // SAFETY: as many bytes were reserved.
        unsafe { self.read(0, into.spare_capacity_mut().as_mut_ptr().cast(), frame.len) };
        // SAFETY: `frame.len` bytes were reserved and have been written.
        unsafe { into.set_len(into.len() + frame.len) };
        self.pass(frame);
    }

    /// Turn 6 for `len` bytes of the payload from `at` on, of the frame that [`peek`](Self::peek) gave, which
    /// has as many.
    ///
    /// # Safety
    /// They may be written at `to`.
    #[inline]
    pub(super) unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        let mut done = 0;
        while done < len {
            let (src, run) = self.ring.run(self.position + (HEADER + at + done) as u64, len - done);
            // SAFETY: the caller's promise: `done` is at most `len`.
            let dst = unsafe { to.add(done) };
            // SAFETY: `run` bytes at `src` are inside the ring, and at the destination by the caller's
            // promise.
            unsafe { copy(src, dst, run) };
            done += run;
        }
    }

    /// Turn 6 for the payload of the frame that [`peek`](Self::peek) gave, if that is a cache line's: at most
    /// [`FEW`] bytes. Whatever lies behind it there comes with it.
    #[inline]
    pub(super) fn read_few(&self, frame: Frame) -> [u8; FEW] {
        const WORD: usize = 16;
        assert!(frame.len <= FEW);
        let start: *const u8 = self.ring.header(self.position).as_ptr().cast();
        // SAFETY: a slot has `FEW` bytes behind its header.
        let payload = unsafe { start.add(HEADER) };
        let mut few = [0; FEW];
        // SAFETY: as above.
        unsafe { copy(payload, few.as_mut_ptr(), FEW) };
        // The end once more, as one word: who loads a short body, which lies across two of those above, would
        // wait for them to reach the cache.
        if let Some(from) = frame.len.checked_sub(WORD) {
            // SAFETY: as above, as `from + WORD` is at most `FEW`.
            let end = unsafe { payload.add(from) };
            // SAFETY: as above.
            unsafe { copy(end, few[from..from + WORD].as_mut_ptr(), WORD) };
        }
        few
    }

    /// Turn 7: moves on behind the frame that [`peek`](Self::peek) gave.
    #[inline]
    pub(super) fn pass(&mut self, frame: Frame) {
        self.position += Ring::span(frame.len);
        if self.position - self.told >= (self.ring.size / 4) as u64 {
            self.ring.head().store(self.position, Ordering::Release); // step 7
            self.told = self.position;
        }
    }
}

#[cfg(test)]
mod tests;
