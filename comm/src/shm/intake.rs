//! The intake: takes frames out of this rank's rings, puts messages together again, and hands them to the
//! caller's sink.

use super::inbox::Inbox;
use super::outbox::{MAX_MESSAGE, TOTAL};
use super::peers::Peers;
use super::ring::{Checked, Consumer, FEW, FRONT, Frame, FramePart, HEAD};
use crate::{Bytes, Error, Event, Result};
use std::hint::spin_loop;
use std::sync::Arc;

/// Frames that are taken from one ring before the next one has its turn.
const BURST: usize = 32;
/// Looks at a ring, of all together, that a vain poll takes with a pause after each round: so few, because
/// each takes the cache line from a sender that may be about to write there, which has to fetch it back.
const LOOKS: usize = 4;
/// Polls in which a rank that is gone is still heard. One that is dead has said less; one that only was
/// declared dead could go on for ever.
const LAST_WORDS: usize = 1 << 16;
/// Capacity that a buffer for long messages keeps between messages.
const KEPT: usize = 1 << 20;

/// The receiving side of an endpoint.
pub(super) struct Intake {
    lines: Vec<SenderIntake>,
    /// The message being delivered, if it came in one frame. Empty otherwise.
    short: Vec<u8>,
}

/// What comes from one sender.
struct SenderIntake {
    consumer: Consumer,
    /// A message of several frames, as far as it has come.
    long: Vec<u8>,
    /// Its length; 0 if there is none.
    expected: usize,
    /// Nothing more is taken from here: the sender broke the protocol, or has been reported gone.
    closed: bool,
    /// Polls that found the sender gone and its ring not empty.
    last_words: usize,
    /// The last look found nothing.
    was_empty: bool,
}

impl Intake {
    /// The receiving side of the owner of `inbox`, among `size` ranks.
    pub(super) fn new(inbox: &Arc<Inbox>, size: u32) -> Self {
        let line = |sender| SenderIntake {
            consumer: Consumer::new(Arc::clone(inbox), sender),
            long: Vec::new(),
            expected: 0,
            closed: false,
            last_words: 0,
            was_empty: true,
        };
        Self { lines: (0..size).map(line).collect(), short: Vec::with_capacity(inbox.layout().ring() / 4) }
    }

    /// Gives back the memory of messages, and nothing else: nobody will poll.
    pub(super) fn give_buffers_back(&mut self) {
        self.short = Vec::new();
        self.lines.iter_mut().for_each(|line| line.long = Vec::new());
    }

    /// Whether a [`poll`](Self::poll) would find a frame.
    pub(super) fn has_any(&self) -> bool {
        self.lines.iter().any(|line| !line.is_empty())
    }

    /// Looks at the rings until there is something, or it has looked often. A thread that polls in vain does
    /// much else before it comes back.
    #[inline]
    fn look(&self) {
        if self.lines.len() == 1 {
            // Nobody else writes there: what a rank waits for that is alone on its host comes by a network.
            return;
        }
        for _ in 0..LOOKS / self.lines.len().max(1) {
            if self.has_any() {
                return;
            }
            spin_loop();
        }
    }

    /// Delivers what has arrived; a peer that is gone is reported when its last message has been delivered.
    pub(super) fn poll(&mut self, peers: &Peers, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        let mut events = 0;
        self.look();
        for (from, line) in (0..).zip(&mut self.lines) {
            // The place of the next frame is a cache line that the sender has just written: a look there
            // costs as much as the frame's own way did. A thread that waited for this one is not made to wait
            // for that, too.
            let most = if line.was_empty { 1 } else { BURST };
            for _ in 0..most {
                line.was_empty = line.is_empty();
                if line.was_empty {
                    break;
                }
                match line.next(from, &mut self.short, sink) {
                    Ok(delivered) => events += usize::from(delivered),
                    Err(why) => {
                        line.closed = true;
                        peers.mark_broken(from);
                        return Err(Error::Protocol { rank: from, why });
                    }
                }
            }
        }
        if peers.any_unreported() {
            // Taken from the state before the look at the ring: whatever a peer sent before it went is seen
            // here.
            peers.report(|rank| {
                let line = &mut self.lines[rank as usize];
                if !line.is_empty() && line.last_words < LAST_WORDS {
                    line.last_words += 1;
                    return false;
                }
                line.closed = true;
                events += 1;
                sink(Event::Down { rank });
                true
            });
        }
        Ok(events)
    }
}

impl SenderIntake {
    #[inline]
    fn is_empty(&self) -> bool {
        self.consumer.is_empty() || self.closed
    }

    /// Takes the next frame and delivers its message if that is complete.
    fn next(&mut self, from: u32, short: &mut Vec<u8>, sink: &mut dyn FnMut(Event<'_>)) -> Checked<bool> {
        let Some(frame) = self.consumer.peek()? else { return Ok(false) };
        let kind = frame.kind;
        if matches!(frame.part, FramePart::Whole | FramePart::Long) && self.expected > 0 {
            return Err("a message begins inside another".to_owned());
        }
        if frame.part == FramePart::Long {
            return self.offer(from, frame, sink).map(|()| true);
        }
        if frame.part == FramePart::Whole && frame.len <= FEW {
            let few = self.consumer.read_few(frame);
            self.consumer.pass(frame);
            sink(Event::Message { from, kind, payload: &few[..frame.len] });
            return Ok(true);
        }
        if frame.part == FramePart::Whole {
            short.clear();
            self.consumer.take(frame, short);
            sink(Event::Message { from, kind, payload: short });
            return Ok(true);
        }
        self.gather(frame)?;
        if self.long.len() < self.expected {
            return Ok(false);
        }
        // Taken out first: if the sink panics, the line is as good as before.
        let mut message = std::mem::take(&mut self.long);
        self.expected = 0;
        sink(Event::Message { from, kind, payload: &message });
        if message.capacity() <= KEPT {
            message.clear();
            self.long = message;
        }
        Ok(true)
    }

    /// Offers the body of a long message until all of it is taken, or nobody wants it.
    fn offer(&mut self, from: u32, frame: Frame, sink: &mut dyn FnMut(Event<'_>)) -> Checked<()> {
        let Some(len) = frame.len.checked_sub(FRONT) else {
            return Err("a long message has no front".to_owned());
        };
        let mut front = [0; FRONT];
        // SAFETY: the front is as long, and the frame no shorter.
        unsafe { self.consumer.read(0, front.as_mut_ptr(), FRONT) };
        let Some(head) = front[HEAD..].get(..usize::from(front[0])) else {
            return Err("a long message has a head that is too long".to_owned());
        };
        let mut body = LongBody { consumer: &self.consumer, at: 0, len, is_wanted: true };
        while body.at < len && std::mem::take(&mut body.is_wanted) {
            let (at, left) = (body.at, len - body.at);
            sink(Event::Part { from, kind: frame.kind, head, at, left, bytes: &mut body });
        }
        self.consumer.pass(frame);
        Ok(())
    }

    /// Adds a frame to the message that is coming in several. Memory grows with what arrives, not with what
    /// is announced.
    fn gather(&mut self, frame: Frame) -> Checked<()> {
        if (frame.part == FramePart::First) != (self.expected == 0) {
            return Err("the frames of a message are out of order".to_owned());
        }
        let before = self.long.len();
        self.consumer.take(frame, &mut self.long);
        if frame.part == FramePart::First {
            let Some((&total, _)) = self.long.split_first_chunk::<TOTAL>() else {
                return Err("the first frame of a message has no length".to_owned());
            };
            let total = u64::from_le_bytes(total);
            self.long.drain(..TOTAL);
            self.expected = match usize::try_from(total) {
                Ok(expected) if expected > 0 && total <= MAX_MESSAGE => expected,
                _ => return Err(format!("a message of {total} bytes is announced")),
            };
        } else if self.long.len() == before {
            return Err("a frame in the middle of a message is empty".to_owned());
        }
        if self.long.len() > self.expected {
            return Err(format!("a message of {} bytes is longer than that", self.expected));
        }
        Ok(())
    }
}

/// The body of a long message: what is to be taken of it.
struct LongBody<'a> {
    consumer: &'a Consumer,
    at: usize,
    len: usize,
    is_wanted: bool,
}

// SAFETY: the consumer's `read` writes exactly `count` bytes, which are `most` at most.
unsafe impl Bytes for LongBody<'_> {
    unsafe fn take(&mut self, to: *mut u8, most: usize) -> usize {
        let count = most.min(self.len - self.at);
        // SAFETY: the caller's promise; the frame has as many bytes behind its front.
        unsafe { self.consumer.read(FRONT + self.at, to, count) };
        self.at += count;
        self.is_wanted |= count > 0;
        count
    }
}

#[cfg(test)]
mod tests;
