//! What this rank sends to one peer on the stream connection: the batch, and the backlog.
//!
//! `put` and `send` only append to the **batch**: headers and message bytes are copied, the bytes of puts and
//! of long messages stay where they are. [`Outgoing::flush`] writes the batch with one vectored call. What
//! the socket does not take is copied to the **backlog**, which leaves before anything newer. So nothing here
//! ever waits for the peer, and the peer sees one sequence of frames.
//!
//! Invariants: bytes leave in the order `backlog`, `parts`; a run of puts is open only while it is the last
//! part of the batch; after `flush`, nothing points to the caller's memory.

use super::sealed::Outlet;
use super::sys::{self, IoVec, MAX_PIECES};
use super::wire::{FrameHead, HEAD, MAX_PADDING, MAX_RUN, MAX_TARGET, PutTarget};
use crate::PutRange;
use std::io;
use std::os::fd::BorrowedFd;

/// A batch of more own bytes than this is handed over before the next flush, to bound its memory.
const LARGE_BATCH: usize = 1 << 20;
/// A batch of more parts than this, likewise.
const MANY_PARTS: usize = 8 * MAX_PIECES;
/// Bytes of a page of the kernel's.
const OS_PAGE: usize = 4096;
/// Bytes by which the target of a copy may be ahead of its source, in their pages, that make it slow,
const NEAR: usize = 64;
/// and that may have come before the batch.
const UNCOUNTED: usize = 512;
/// Buffers that grew beyond this give their memory back when they are empty.
const KEEP: usize = 4 << 20;

/// A part of the batch.
#[derive(Clone, Copy)]
enum BatchPart {
    /// Bytes of `Outgoing::bytes`.
    Own { start: usize, len: usize },
    /// Bytes of a put or of a long message, where the caller has them.
    Lent { at: *const u8, len: usize },
}

/// The run of puts at the end of the batch.
#[derive(Clone, Copy)]
struct PutRun {
    /// Where its header is in `Outgoing::bytes`; its targets follow.
    head: usize,
    /// The part that holds header and targets; its last.
    part: usize,
    /// Targets so far.
    count: u16,
}

/// One peer's outgoing side.
pub(super) struct Outgoing {
    outlet: Outlet,
    bytes: Vec<u8>,
    parts: Vec<BatchPart>,
    run: Option<PutRun>,
    pieces: Vec<IoVec>,
    backlog: Vec<u8>,
    /// Bytes of the backlog that have left.
    gone: usize,
    /// Bytes ever appended: the position in the stream,
    position: u64,
    /// and what it was at the last flush.
    flushed: u64,
    /// The position behind the last put.
    puts_end: u64,
}

// SAFETY: the pointers are to memory that the callers of `put` and `long` keep readable, from any thread,
// until the flush.
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// Nothing to send.
    pub(super) fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            bytes: Vec::with_capacity(16 << 10),
            parts: Vec::with_capacity(64),
            run: None,
            pieces: Vec::with_capacity(64),
            backlog: Vec::new(),
            gone: 0,
            position: 0,
            flushed: 0,
            puts_end: 0,
        }
    }

    /// Appends a message. `parts` are at most [`super::wire::MAX_MESSAGE`] bytes, `len`, together.
    pub(super) fn message(&mut self, kind: u16, len: usize, parts: &[&[u8]]) {
        self.close_run();
        self.own(&FrameHead::Message { kind, len }.encode());
        for part in parts {
            self.own(part);
        }
    }

    /// Appends a long message. Head and body are at most [`super::wire::MAX_MESSAGE`] bytes together.
    ///
    /// # Safety
    /// The body stays readable and unchanged until the next flush.
    pub(super) unsafe fn long(&mut self, kind: u16, head: &[u8], body: &[u8]) {
        self.close_run();
        let before = usize::try_from(self.position - self.flushed).unwrap_or(0) + HEAD + head.len();
        if let Some(len) = padding(before, body.as_ptr().addr()) {
            self.own(&FrameHead::Padding { len }.encode());
            self.own(&[0; MAX_PADDING][..len.into()]);
        }
        let length = u8::try_from(head.len()).expect("bounded by LONGEST_HEAD");
        self.own(&FrameHead::Long { kind, head: length, len: head.len() + body.len() }.encode());
        self.own(head);
        self.parts.push(BatchPart::Lent { at: body.as_ptr(), len: body.len() });
        self.position += body.len() as u64;
    }

    /// Appends a put.
    ///
    /// # Safety
    /// The range's source stays readable and unchanged until the next flush.
    pub(super) unsafe fn put(&mut self, segment: u16, range: PutRange) {
        let mut done = 0;
        while done < range.len {
            let len = (range.len - done).min(MAX_TARGET);
            let target = PutTarget {
                segment,
                len: u32::try_from(len).expect("MAX_TARGET fits"),
                offset: range.offset + done as u64,
            };
            self.target(target, range.src.wrapping_add(done));
            done += len;
        }
        self.puts_end = self.position;
    }

    /// Appends the last frame of all.
    pub(super) fn goodbye(&mut self) {
        self.close_run();
        self.own(&FrameHead::Goodbye.encode());
    }

    /// Whether the batch is so large that it should be handed over now.
    pub(super) fn is_large(&self) -> bool {
        self.bytes.len() > LARGE_BATCH || self.parts.len() > MANY_PARTS
    }

    /// Bytes that the socket has not taken.
    pub(super) fn backlog(&self) -> usize {
        self.backlog.len() - self.gone
    }

    /// The position in the stream behind the last put.
    pub(super) fn puts_end(&self) -> u64 {
        self.puts_end
    }

    /// The position in the stream behind everything.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Hands the backlog and the batch to the socket, and keeps what it does not take as the backlog.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.drain(socket)?;
        if self.parts.is_empty() {
            return Ok(());
        }
        self.close_run();
        self.pieces.clear();
        for part in &self.parts {
            self.pieces.push(match *part {
                BatchPart::Own { start, len } => sys::piece(self.bytes[start..start + len].as_ptr(), len),
                BatchPart::Lent { at, len } => sys::piece(at, len),
            });
        }
        let mut rest = &mut self.pieces[..];
        if self.backlog.is_empty() {
            // SAFETY: the pieces are in `bytes`, which does not change here, or sources of puts and bodies of
            // long messages, readable until now.
            rest = unsafe { transmit(&mut self.outlet, socket, rest) }?;
        }
        for piece in rest.iter() {
            // SAFETY: as above; and what is copied to is a buffer of ours, so the two do not overlap.
            unsafe { sys::append(&mut self.backlog, piece) };
        }
        self.clear_batch();
        Ok(())
    }

    /// Hands over what it can of the backlog.
    pub(super) fn drain(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let left = &self.backlog[self.gone..];
        let mut pieces = [sys::piece(left.as_ptr(), left.len())];
        // SAFETY: the piece is the backlog, which is not touched during the call.
        let rest = unsafe { transmit(&mut self.outlet, socket, &mut pieces) }?;
        let rest = rest.first().map_or(0, |piece| piece.iov_len);
        self.gone = self.backlog.len() - rest;
        if rest == 0 {
            self.gone = 0;
            empty(&mut self.backlog);
        } else if self.gone > self.backlog.len() / 2 {
            self.backlog.drain(..self.gone);
            self.gone = 0;
        }
        Ok(())
    }

    /// Forgets everything that has not left: the peer is gone.
    pub(super) fn abandon(&mut self) {
        self.clear_batch();
        empty(&mut self.backlog);
        self.gone = 0;
    }

    /// Appends a target to the open run, or opens one.
    fn target(&mut self, target: PutTarget, at: *const u8) {
        let len = target.len as usize;
        if self.run.is_some_and(|run| usize::from(run.count) == MAX_RUN) {
            self.close_run();
        }
        let run = match self.run {
            Some(run) => run,
            None => {
                let run = PutRun { head: self.bytes.len(), part: self.parts.len(), count: 0 };
                self.parts.push(BatchPart::Own { start: run.head, len: 0 });
                self.extend_own(run.part, &[0; HEAD]);
                run
            }
        };
        self.extend_own(run.part, &target.encode());
        self.parts.push(BatchPart::Lent { at, len });
        self.position += len as u64;
        self.run = Some(PutRun { count: run.count + 1, ..run });
    }

    /// Writes the header of the open run, now that its count is known.
    fn close_run(&mut self) {
        if let Some(PutRun { head, count, .. }) = self.run.take() {
            self.bytes[head..head + HEAD].copy_from_slice(&FrameHead::Puts { count }.encode());
        }
    }

    /// Appends bytes of our own at the end of the batch.
    fn own(&mut self, bytes: &[u8]) {
        let last = match self.parts.last() {
            Some(BatchPart::Own { .. }) => self.parts.len() - 1,
            _ => {
                self.parts.push(BatchPart::Own { start: self.bytes.len(), len: 0 });
                self.parts.len() - 1
            }
        };
        self.extend_own(last, bytes);
    }

    /// Appends bytes to the part at `index`, which is the last one that has bytes of our own.
    fn extend_own(&mut self, index: usize, bytes: &[u8]) {
        if let BatchPart::Own { len, .. } = &mut self.parts[index] {
            *len += bytes.len();
        }
        self.bytes.extend_from_slice(bytes);
        self.position += bytes.len() as u64;
    }

    fn clear_batch(&mut self) {
        self.run = None;
        self.flushed = self.position;
        self.parts.clear();
        self.pieces.clear();
        empty(&mut self.bytes);
    }
}

/// The length of the padding, if some is due, before the frame of a long message whose body begins so many
/// bytes behind the beginning of the batch, and lies there in memory.
///
/// The kernel copies the body to pages of its own, which it begins anew where the connection was idle.
/// Processors copy at half their speed to an address that is in its page a few bytes *behind* where they copy
/// from is in its: each load then seems to need a store before it. That is so of a body at the beginning of a
/// mapping, as most long ones are (allocators put 16 bytes before them), behind a head of 24 bytes. If other
/// bytes came before, it is a little more than was counted: so what is a little less than that is moved, too.
fn padding(before: usize, body: usize) -> Option<u16> {
    let ahead = before.wrapping_sub(body) % OS_PAGE;
    let is_near = (ahead + UNCOUNTED) % OS_PAGE < UNCOUNTED + NEAR;
    let len = (2 * NEAR + OS_PAGE - HEAD - ahead) % OS_PAGE;
    is_near.then(|| u16::try_from(len).expect("less than a page"))
}

/// Clears a buffer, and gives back its memory if there is much of it.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEEP {
        *buffer = Vec::new();
    }
}

/// Sends until all is gone or the socket is full; returns what is left.
///
/// # Safety
/// The pieces are readable memory.
unsafe fn transmit<'p>(
    outlet: &mut Outlet,
    socket: BorrowedFd<'_>,
    mut pieces: &'p mut [IoVec],
) -> io::Result<&'p mut [IoVec]> {
    while !pieces.is_empty() {
        let now = &pieces[..pieces.len().min(MAX_PIECES)];
        let asked: usize = now.iter().map(|piece| piece.iov_len).sum();
        // SAFETY: the caller vouches for the pieces.
        let Some(sent) = unsafe { outlet.send(socket, now) }? else { break };
        pieces = sys::advance(pieces, sent);
        if sent < asked {
            break;
        }
    }
    Ok(pieces)
}

#[cfg(test)]
pub(super) mod tests;
