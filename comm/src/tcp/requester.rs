//! The asking end of a service connection: gets, atomic operations and fences of this rank at one peer.
//!
//! One request is under way at a time (a lock around this value sees to it), so replies need no numbers and
//! what is read from the connection is the reply. It is read straight into the destinations. Nothing is
//! allocated.

use super::pace::Pace;
use super::sealed::{Inlet, Outlet};
use super::sys::{self, IoVec, MAX_PIECES};
use super::wire::{MAX_RANGES, RANGE, Range, Reply, Request, SERVICE_HEAD};
use crate::GetRange;
use crate::remote::{LossReason, Operation};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of the asking end: buffers that are used again for each request.
pub(super) struct Requester {
    outlet: Outlet,
    inlet: Inlet,
    request: Vec<u8>,
    pieces: Vec<IoVec>,
    /// The highest stream position that the peer has confirmed.
    fenced: u64,
    /// Counts what comes.
    moved: Arc<AtomicU64>,
}

// SAFETY: the pointers in `pieces` are used only during the call that stored them.
unsafe impl Send for Requester {}

impl Requester {
    /// Nothing asked yet.
    pub(super) fn new(outlet: Outlet, inlet: Inlet) -> Self {
        Self {
            outlet,
            inlet,
            request: Vec::with_capacity(SERVICE_HEAD + MAX_RANGES * RANGE),
            pieces: Vec::with_capacity(MAX_PIECES),
            fenced: 0,
            moved: Arc::default(),
        }
    }

    /// A number that changes whenever bytes of a reply come.
    pub(super) fn moved(&self) -> &Arc<AtomicU64> {
        &self.moved
    }

    /// Reads `ranges` of the peer's `segment`, as they are after this rank's puts before `position`. Wants at
    /// most [`MAX_RANGES`] of them. `false`, with nothing read, if the peer has not taken this rank's stream
    /// that far: a [`Self::fence`] is due.
    ///
    /// # Safety
    /// The destinations are writable, and nobody relies on their contents during the call.
    pub(super) unsafe fn get(
        &mut self,
        socket: BorrowedFd<'_>,
        pace: Pace,
        segment: u16,
        ranges: &[GetRange],
        position: u64,
    ) -> Result<bool, LossReason> {
        debug_assert!(ranges.len() <= MAX_RANGES, "callers split what is longer");
        self.request.clear();
        self.request.extend_from_slice(&[0; SERVICE_HEAD]);
        self.pieces.clear();
        self.pieces.push(sys::piece(std::ptr::null(), 0));
        let (mut count, mut bytes) = (0, 0);
        for range in ranges.iter().filter(|range| range.len > 0) {
            self.request.extend_from_slice(&Range { offset: range.offset, len: range.len as u64 }.encode());
            self.pieces.push(sys::piece(range.dst, range.len));
            count += 1;
            bytes += range.len as u64;
        }
        if count == 0 {
            return Ok(true);
        }
        self.request[..SERVICE_HEAD].copy_from_slice(&Request::Get { segment, count, position }.encode());
        send_all(&mut self.outlet, socket, &self.request)?;
        // SAFETY: the pieces are the destinations, for which the caller vouches.
        let reply = unsafe { receive_reply(&mut self.inlet, socket, pace, &mut self.pieces, &self.moved) }?;
        match reply {
            Reply::Got { bytes: got } if got == bytes => Ok(true),
            Reply::NotYet { position: behind } if behind == position => Ok(false),
            other => Err(unexpected(other)),
        }
    }

    /// Has the peer execute an operation on a word of its `segment`, as it is after this rank's puts before
    /// `position`, and returns what the word was. `None`, with nothing executed, if the peer has not taken
    /// this rank's stream that far: a [`Self::fence`] is due.
    pub(super) fn atomic(
        &mut self,
        socket: BorrowedFd<'_>,
        pace: Pace,
        segment: u16,
        operation: Operation,
        position: u64,
    ) -> Result<Option<u64>, LossReason> {
        self.request.clear();
        self.request.extend_from_slice(&Request::Atomic { segment, position }.encode());
        self.request.extend_from_slice(&operation.encode());
        send_all(&mut self.outlet, socket, &self.request)?;
        match self.receive_head(socket, pace)? {
            Reply::Was { before } if operation.op.can_return(before) => Ok(Some(before)),
            Reply::NotYet { position: behind } if behind == position => Ok(None),
            other => Err(unexpected(other)),
        }
    }

    /// Returns when the peer has taken this rank's stream up to `position`.
    pub(super) fn fence(
        &mut self,
        socket: BorrowedFd<'_>,
        pace: Pace,
        position: u64,
    ) -> Result<(), LossReason> {
        if self.fenced >= position {
            return Ok(());
        }
        self.ask_fence(socket, position)?;
        match self.receive_head(socket, pace)? {
            Reply::Fenced { position: fenced } if fenced == position => self.fenced = position,
            other => return Err(unexpected(other)),
        }
        Ok(())
    }

    /// Waits for a reply that has no body.
    fn receive_head(&mut self, socket: BorrowedFd<'_>, pace: Pace) -> Result<Reply, LossReason> {
        self.pieces.clear();
        self.pieces.push(sys::piece(std::ptr::null(), 0));
        // SAFETY: there are no destinations.
        unsafe { receive_reply(&mut self.inlet, socket, pace, &mut self.pieces, &self.moved) }
    }

    /// Asks the peer to take this rank's stream up to `position`, and does not wait for the answer: for the
    /// last request of all.
    pub(super) fn ask_fence(&mut self, socket: BorrowedFd<'_>, position: u64) -> Result<(), LossReason> {
        send_all(&mut self.outlet, socket, &Request::Fence { position }.encode())
    }

    /// Asks the peer to have somebody look at this rank's stream, which ends at `position`. There is no
    /// answer to wait for.
    pub(super) fn rouse(&mut self, socket: BorrowedFd<'_>, position: u64) -> Result<(), LossReason> {
        send_all(&mut self.outlet, socket, &Request::Rouse { position }.encode())
    }

    /// Tells the peer, if the socket takes it, that this was all.
    pub(super) fn say_goodbye(&mut self, socket: BorrowedFd<'_>) {
        let word = Request::Goodbye.encode();
        // SAFETY: the piece is `word`. If it does not go through, the peer sees the end without it.
        let _ = unsafe { self.outlet.send(socket, &[sys::piece(word.as_ptr(), word.len())]) };
    }
}

/// Sends a request. The connection is empty at this point, so this waits only if its buffers are tiny.
fn send_all(outlet: &mut Outlet, socket: BorrowedFd<'_>, request: &[u8]) -> Result<(), LossReason> {
    let mut pieces = [sys::piece(request.as_ptr(), request.len())];
    let mut rest = &mut pieces[..];
    while !rest.is_empty() {
        // SAFETY: the piece is a part of `request`.
        match unsafe { outlet.send(socket, rest) }? {
            Some(sent) => rest = sys::advance(rest, sent),
            None => Pace::BLOCKING.pause(socket, libc::POLLOUT, 0),
        }
    }
    Ok(())
}

/// Waits for a reply, whose body, if it has one, goes to `pieces[1..]`; `pieces[0]` is for the header. A
/// reply without a body leaves them alone.
///
/// # Safety
/// The pieces from the second on are writable memory.
unsafe fn receive_reply(
    inlet: &mut Inlet,
    socket: BorrowedFd<'_>,
    pace: Pace,
    pieces: &mut [IoVec],
    moved: &AtomicU64,
) -> Result<Reply, LossReason> {
    let mut head = [0; SERVICE_HEAD];
    pieces[0] = sys::piece((&raw mut head).cast(), SERVICE_HEAD);
    let body: usize = pieces[1..].iter().map(|piece| piece.iov_len).sum();
    let (mut rest, mut missing, mut turn) = (pieces, SERVICE_HEAD + body, 0);
    loop {
        // SAFETY: the caller vouches for the destinations; `head` lives until the return, and is not read
        // while it is being written.
        match unsafe { inlet.receive(socket, rest) }? {
            None => {
                pace.pause(socket, libc::POLLIN, turn);
                turn = turn.saturating_add(1);
            }
            Some(0) => return Err(LossReason::closed()),
            Some(count) => {
                moved.fetch_add(1, Ordering::Relaxed);
                rest = sys::advance(rest, count);
                missing -= count;
                turn = 0;
            }
        }
        if missing <= body {
            let reply = Reply::decode(&head)?;
            let has_body = matches!(reply, Reply::Got { bytes } if bytes == body as u64);
            if missing == if has_body { 0 } else { body } {
                return Ok(reply);
            }
            if !has_body {
                return Err(LossReason::Broke(format!("it sent a body with {reply:?}")));
            }
        }
    }
}

/// What to make of a reply that the request does not call for.
fn unexpected(reply: Reply) -> LossReason {
    match reply {
        Reply::Goodbye => LossReason::Left,
        reply => LossReason::Broke(format!("its answer {reply:?} does not fit the request")),
    }
}

#[cfg(test)]
mod tests;
