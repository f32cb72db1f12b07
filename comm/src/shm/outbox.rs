//! An outbox: what a rank sends to one peer, including what the peer's ring has no room for yet.
//!
//! Sending never waits. A message that does not fit the ring, or the rest of one, goes to the **backlog**,
//! and everything sent later goes behind it; later calls move the backlog into the ring as room appears.
//! Order is kept because nothing enters the ring while the backlog holds anything.

use super::ring::{Checked, FEW, FRONT, FramePart, HEAD, Producer};
use std::collections::VecDeque;

/// The longest message, in bytes. A receiver believes no announcement of more.
pub(super) const MAX_MESSAGE: u64 = 1 << 32;

/// Bytes of the total length that the first of several frames begins with.
pub(super) const TOTAL: usize = 8;

/// Bytes of the shortest body that goes out of the ring to where it belongs. A shorter one is copied twice in
/// less time than its receiver takes to ask where that is, and lies in fewer cache lines where its head takes
/// none of its own.
const OFFERED: usize = 256;

/// The way to one peer.
pub(super) struct Outbox {
    producer: Producer,
    backlog: VecDeque<Pending>,
    taken: OutboxCounts,
}

/// What an outbox has taken: counted here, where its lock has been paid for.
#[derive(Clone, Copy, Default)]
pub(super) struct OutboxCounts {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// A message on its way into the ring.
struct OutgoingMessage {
    kind: u16,
    /// Its length.
    total: usize,
    /// Bytes of it that are in the ring.
    sent: usize,
}

/// A message, or the rest of one, in the backlog.
struct Pending {
    message: OutgoingMessage,
    /// The bytes that were not in the ring when this was queued.
    bytes: Vec<u8>,
    /// How many of those are in the ring by now.
    gone: usize,
}

/// What is still to be read of a message's parts.
struct PartsReader<'a> {
    parts: &'a [&'a [u8]],
    /// Bytes of the first part that have been read.
    offset: usize,
}

impl Outbox {
    /// The way through `producer`.
    pub(super) fn new(producer: Producer) -> Self {
        Self { producer, backlog: VecDeque::new(), taken: OutboxCounts::default() }
    }

    /// Whether something waits for room.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// What it has taken.
    pub(super) fn taken(&self) -> OutboxCounts {
        self.taken
    }

    /// Takes a message of `total` bytes, the sum of the parts. The error says what is wrong with the
    /// receiver.
    pub(super) fn send(&mut self, kind: u16, parts: &[&[u8]], total: usize) -> Checked<()> {
        self.taken.messages += 1;
        self.taken.bytes += total as u64;
        if self.backlog.is_empty() && total <= self.producer.max() && self.producer.begin(total)? {
            parts.iter().for_each(|part| self.producer.append(part));
            self.producer.publish(kind, FramePart::Whole);
            return Ok(());
        }
        self.send_later(kind, parts, total)
    }

    /// The same of a message that does not fit one frame, or for which there was no room at once.
    #[cold]
    fn send_later(&mut self, kind: u16, parts: &[&[u8]], total: usize) -> Checked<()> {
        self.drain()?;
        let mut message = OutgoingMessage { kind, total, sent: 0 };
        let mut parts = PartsReader { parts, offset: 0 };
        if self.backlog.is_empty() && message.push(&mut self.producer, &mut parts)? {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(total - message.sent);
        parts.read(total - message.sent, |piece| bytes.extend_from_slice(piece));
        self.backlog.push_back(Pending { message, bytes, gone: 0 });
        Ok(())
    }

    /// Takes a long message. Where it is short after all, or has no room in one frame, it becomes a message
    /// like others.
    pub(super) fn send_long(&mut self, kind: u16, head: &[u8], body: &[u8]) -> Checked<()> {
        let total = head.len() + body.len();
        if total <= FEW && self.backlog.is_empty() && self.producer.put_few(kind, head, body)? {
            self.taken.messages += 1;
            self.taken.bytes += total as u64;
            return Ok(());
        }
        let fits =
            head.len() <= FRONT - HEAD && body.len() >= OFFERED && FRONT + body.len() <= self.producer.max();
        if !fits || !self.backlog.is_empty() || !self.producer.begin(FRONT + body.len())? {
            return self.send(kind, &[head, body], total);
        }
        self.taken.messages += 1;
        self.taken.bytes += total as u64;
        let mut front = [0; FRONT];
        front[HEAD..HEAD + head.len()].copy_from_slice(head);
        // At most FRONT.
        front[0] = head.len().to_le_bytes()[0];
        self.producer.append(&front);
        self.producer.append(body);
        self.producer.publish(kind, FramePart::Long);
        Ok(())
    }

    /// Moves as much of the backlog into the ring as there is room for; the receiver's bell has to be rung
    /// then. The error says what is wrong with the receiver.
    pub(super) fn drain(&mut self) -> Checked<()> {
        while let Some(Pending { message, bytes, gone }) = self.backlog.front_mut() {
            let before = message.sent;
            let over =
                message.push(&mut self.producer, &mut PartsReader { parts: &[bytes], offset: *gone })?;
            *gone += message.sent - before;
            if !over {
                break;
            }
            self.backlog.pop_front();
        }
        Ok(())
    }

    /// Forgets the backlog: the receiver is gone.
    pub(super) fn give_up(&mut self) {
        self.backlog = VecDeque::new();
    }
}

impl OutgoingMessage {
    /// Writes as much of the message as the ring has room for; `true` when all of it is there.
    fn push(&mut self, producer: &mut Producer, parts: &mut PartsReader<'_>) -> Checked<bool> {
        if self.total <= producer.max() {
            let fits = producer.begin(self.total)?;
            if fits {
                parts.read(self.total, |piece| producer.append(piece));
                producer.publish(self.kind, FramePart::Whole);
                self.sent = self.total;
            }
            return Ok(fits);
        }
        while self.sent < self.total {
            let (prefix, part) =
                if self.sent == 0 { (TOTAL, FramePart::First) } else { (0, FramePart::Further) };
            let len = (self.total - self.sent).min(producer.max() - prefix);
            if !producer.begin(prefix + len)? {
                return Ok(false);
            }
            producer.append(&(self.total as u64).to_le_bytes()[..prefix]);
            parts.read(len, |piece| producer.append(piece));
            producer.publish(self.kind, part);
            self.sent += len;
        }
        Ok(true)
    }
}

impl PartsReader<'_> {
    /// Gives the next `len` bytes to `take`, piece by piece.
    fn read(&mut self, mut len: usize, mut take: impl FnMut(&[u8])) {
        while len > 0 {
            let [part, later @ ..] = self.parts else { unreachable!("parts are as long as their sum") };
            let piece = &part[self.offset..part.len().min(self.offset + len)];
            take(piece);
            len -= piece.len();
            self.offset += piece.len();
            if self.offset == part.len() {
                (self.parts, self.offset) = (later, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
