//! What one peer has sent and nobody has been given yet: whole messages in the order of their arrival, and
//! the bytes of long ones.

use crate::{Bytes, Event, LONGEST_HEAD};
use std::ops::Range;

/// Bytes of a buffer.
pub(super) const BUFFER: usize = 64 << 10;

/// Where a message's bytes are.
pub(super) enum Payload {
    /// In the buffer that it arrived in.
    Here(Range<usize>),
    /// In memory of its own.
    Own(Vec<u8>),
    /// The same of a long message, from where its receiver has come.
    Rest(PartialMessage, Vec<u8>),
}

/// A message that is there.
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) payload: Payload,
}

/// Messages in the order of their arrival, and the buffer that most of them are in.
pub(super) struct Delivery {
    pub(super) buffer: Vec<u8>,
    pub(super) messages: Vec<Message>,
}

impl Delivery {
    /// Nothing.
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BUFFER], messages: Vec::with_capacity(64) }
    }

    /// Nothing, and no memory yet: for messages that are [pushed](Self::push).
    pub(super) fn empty() -> Self {
        Self { buffer: Vec::new(), messages: Vec::new() }
    }

    /// Appends a message. Only where no peer's bytes are received into the buffer.
    pub(super) fn push(&mut self, kind: u16, parts: &[&[u8]]) {
        if self.messages.is_empty() {
            self.buffer.clear();
        }
        let start = self.buffer.len();
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        self.messages.push(Message { kind, payload: Payload::Here(start..self.buffer.len()) });
    }

    /// Gives the messages of `from` to `sink`, and forgets them.
    pub(super) fn deliver(&mut self, from: u32, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let count = self.messages.len();
        for Message { kind, payload } in self.messages.drain(..) {
            match payload {
                Payload::Here(range) => sink(Event::Message { from, kind, payload: &self.buffer[range] }),
                Payload::Own(bytes) => sink(Event::Message { from, kind, payload: &bytes }),
                Payload::Rest(part, bytes) => give(from, part, &bytes, sink),
            }
        }
        count
    }
}

/// A long message whose receiver takes it where it wants it, and how far that has come.
#[derive(Clone, Copy)]
pub(super) struct PartialMessage {
    pub(super) kind: u16,
    head: [u8; LONGEST_HEAD],
    head_len: usize,
    /// Bytes of its body that are taken.
    at: usize,
    /// Bytes that are not.
    pub(super) left: usize,
    /// The position in the stream behind it, which no other message has.
    pub(super) end: u64,
}

impl PartialMessage {
    /// Nothing of the body, of `left` bytes, is taken. The head is no longer than [`LONGEST_HEAD`].
    pub(super) fn new(kind: u16, head: &[u8], left: usize, end: u64) -> Self {
        let mut bytes = [0; LONGEST_HEAD];
        bytes[..head.len()].copy_from_slice(head);
        Self { kind, head: bytes, head_len: head.len(), at: 0, left, end }
    }

    /// So many bytes more are taken.
    pub(super) fn advance(&mut self, count: usize) {
        self.at += count;
        self.left -= count;
    }

    /// What its receiver is asked.
    pub(super) fn event<'a>(&'a self, from: u32, bytes: &'a mut dyn Bytes) -> Event<'a> {
        let (kind, head) = (self.kind, &self.head[..self.head_len]);
        Event::Part { from, kind, head, at: self.at, left: self.left, bytes }
    }
}

/// Gives the rest of a long message that is here as a whole, as long as it is taken.
fn give(from: u32, mut part: PartialMessage, bytes: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
    while part.left > 0 {
        let mut kept = Remainder { bytes: &bytes[bytes.len() - part.left..], taken: 0 };
        sink(part.event(from, &mut kept));
        if kept.taken == 0 {
            break;
        }
        part.advance(kept.taken);
    }
}

/// Bytes of which the first ones are taken.
struct Remainder<'a> {
    bytes: &'a [u8],
    taken: usize,
}

// SAFETY: it copies `count` bytes, which are `most` at most.
unsafe impl Bytes for Remainder<'_> {
    unsafe fn take(&mut self, to: *mut u8, most: usize) -> usize {
        let rest = &self.bytes[self.taken..];
        let count = rest.len().min(most);
        // SAFETY: the caller vouches for what they go to, which is not the memory that they are in: nobody
        // else has that.
        unsafe { to.copy_from_nonoverlapping(rest.as_ptr(), count) };
        self.taken += count;
        count
    }
}
