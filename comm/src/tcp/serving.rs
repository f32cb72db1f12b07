//! The serving end of a service connection: one requester, one request at a time.
//!
//! A get is answered with one vectored write, header and ranges, straight out of the segment. If the
//! requester is slow to read, the rest waits for room: the state is here, and the thread serves others
//! meanwhile. An atomic operation is executed when its request is whole, by the thread that serves it.

use super::sealed::{Inlet, Outlet};
use super::sys::{self, IoVec, MAX_PIECES};
use super::wire::{MAX_RANGES, RANGE, Range, Reply, Request, SERVICE_HEAD};
use crate::SegmentId;
use crate::remote::{LossReason, OPERATION, Operation, Segments};
use std::os::fd::BorrowedFd;

/// Bytes of the longest request.
const LONGEST: usize = SERVICE_HEAD + MAX_RANGES * RANGE;

const _: () = assert!(OPERATION <= MAX_RANGES * RANGE, "a request for an operation is not the longest");

/// What one requester wants.
pub(super) struct Serving {
    outlet: Outlet,
    inlet: Inlet,
    request: Vec<u8>,
    filled: usize,
    /// The reply's header. Its address must last while the reply is under way.
    head: Box<[u8; SERVICE_HEAD]>,
    /// The reply: all of it, of which the pieces before `next` have been sent.
    reply: Vec<IoVec>,
    next: usize,
    /// Whether a fence waits for its answer.
    fencing: bool,
    /// A position that the requester's stream is known to have passed: most requests name it again, and need
    /// not ask.
    taken: u64,
    /// The position in the requester's stream that the last rouse named, if nobody has heard of it.
    rouse: Option<u64>,
}

// SAFETY: the pointers in `reply` are to segments, which stay mapped while the endpoint lives.
unsafe impl Send for Serving {}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    /// The requester has not spoken.
    Nothing,
    /// The requester is to speak next.
    Idle,
    /// The socket is full; go on when there is room.
    Full,
    /// The requester asks for a fence: [`Serving::answer_fence`] is due.
    Fence(u64),
}

impl Serving {
    /// Nothing asked yet.
    pub(super) fn new(outlet: Outlet, inlet: Inlet) -> Self {
        Self {
            outlet,
            inlet,
            request: vec![0; LONGEST],
            filled: 0,
            head: Box::new([0; SERVICE_HEAD]),
            reply: Vec::with_capacity(MAX_PIECES),
            next: 0,
            fencing: false,
            taken: 0,
            rouse: None,
        }
    }

    /// The requester's position in its stream as it asked to be looked after, if it has.
    pub(super) fn take_rouse(&mut self) -> Option<u64> {
        self.rouse.take()
    }

    /// Whether a reply is under way.
    pub(super) fn is_replying(&self) -> bool {
        self.next < self.reply.len()
    }

    /// Goes on as far as the socket allows. `has_taken` tells whether the requester's stream is taken up to a
    /// position.
    pub(super) fn advance(
        &mut self,
        socket: BorrowedFd<'_>,
        segments: &Segments,
        has_taken: impl FnOnce(u64) -> Result<bool, LossReason>,
    ) -> Result<RequestState, LossReason> {
        if self.is_replying() {
            return self.send(socket);
        }
        let free = &mut self.request[self.filled..];
        // SAFETY: the piece is the free part of our own buffer, which nobody else uses.
        match unsafe { self.inlet.receive(socket, &[sys::piece(free.as_mut_ptr(), free.len())]) }? {
            None => return Ok(RequestState::Nothing),
            Some(0) => return Err(LossReason::closed()),
            Some(count) => self.filled += count,
        }
        self.hear_rouses()?;
        let Some(request) = self.whole_request()? else { return Ok(RequestState::Idle) };
        self.filled = 0;
        match request {
            Request::Get { segment, count, position } => {
                if self.has_come(position, has_taken)? {
                    self.prepare(segment, count as usize, segments)?;
                } else {
                    self.prepare_head(Reply::NotYet { position });
                }
                self.send(socket)
            }
            Request::Atomic { segment, position } => {
                let reply = if self.has_come(position, has_taken)? {
                    Reply::Was { before: self.execute(segment, segments)? }
                } else {
                    Reply::NotYet { position }
                };
                self.prepare_head(reply);
                self.send(socket)
            }
            Request::Fence { position } => {
                self.fencing = true;
                Ok(RequestState::Fence(position))
            }
            Request::Rouse { .. } => Ok(RequestState::Idle),
            Request::Goodbye => Err(LossReason::Left),
        }
    }

    /// Answers the fence that was asked for.
    pub(super) fn answer_fence(
        &mut self,
        socket: BorrowedFd<'_>,
        position: u64,
    ) -> Result<RequestState, LossReason> {
        self.fencing = false;
        self.prepare_head(Reply::Fenced { position });
        self.send(socket)
    }

    /// Tells the requester, if no reply is under way and the socket takes it, that there will be no more.
    pub(super) fn say_goodbye(&mut self, socket: BorrowedFd<'_>) {
        if !self.is_replying() {
            self.prepare_head(Reply::Goodbye);
            // If it does not go through, the requester sees the end without it.
            let _ = self.send(socket);
        }
    }

    /// Takes the rouses that are first in the buffer: they have no reply, so the next request may follow at
    /// once.
    fn hear_rouses(&mut self) -> Result<(), LossReason> {
        while !self.fencing
            && let Some(Request::Rouse { position }) = Request::decode(&self.request[..self.filled])?
        {
            self.rouse = Some(position);
            self.request.copy_within(SERVICE_HEAD..self.filled, 0);
            self.filled -= SERVICE_HEAD;
        }
        Ok(())
    }

    /// The request in the buffer, if it is whole.
    fn whole_request(&self) -> Result<Option<Request>, LossReason> {
        let said = &self.request[..self.filled];
        let Some(request) = Request::decode(said)? else { return Ok(None) };
        let length = match request {
            Request::Get { count, .. } => SERVICE_HEAD + count as usize * RANGE,
            Request::Atomic { .. } => SERVICE_HEAD + OPERATION,
            Request::Fence { .. } | Request::Rouse { .. } | Request::Goodbye => SERVICE_HEAD,
        };
        // Who leaves says so whatever it still waits for.
        let behind = said.get(length..).unwrap_or_default();
        if Request::decode(behind)? == Some(Request::Goodbye) {
            return Err(LossReason::Left);
        }
        if self.filled > length || self.fencing && request != Request::Goodbye {
            return Err(LossReason::Broke("it sent a request before the reply to its last one".into()));
        }
        Ok((self.filled == length).then_some(request))
    }

    /// Whether the requester's stream has come to `position`.
    fn has_come(
        &mut self,
        position: u64,
        has_taken: impl FnOnce(u64) -> Result<bool, LossReason>,
    ) -> Result<bool, LossReason> {
        let has_come = position <= self.taken || has_taken(position)?;
        if has_come {
            self.taken = self.taken.max(position);
        }
        Ok(has_come)
    }

    /// Executes the operation that is asked for. Returns what the word was before.
    fn execute(&self, segment: u16, segments: &Segments) -> Result<u64, LossReason> {
        let bytes = std::array::from_fn(|i| self.request[SERVICE_HEAD + i]);
        let Operation { offset, op } = Operation::decode(&bytes)?;
        let word = segments.word(SegmentId(segment.into()), offset, op);
        let word =
            word.map_err(|why| LossReason::Broke(format!("it asked for the operation {op:?}: {why}")))?;
        // SAFETY: an aligned word inside a segment, which stays mapped and to which there are no Rust
        // references.
        Ok(unsafe { op.execute(word) })
    }

    /// Makes a reply that is only a header.
    fn prepare_head(&mut self, reply: Reply) {
        *self.head = reply.encode();
        self.reply.clear();
        self.next = 0;
        self.reply.push(sys::piece(self.head.as_ptr(), SERVICE_HEAD));
    }

    /// Makes the reply to a get.
    fn prepare(&mut self, segment: u16, count: usize, segments: &Segments) -> Result<(), LossReason> {
        self.prepare_head(Reply::Got { bytes: 0 });
        let mut bytes = 0u64;
        for range in self.request[SERVICE_HEAD..].as_chunks::<RANGE>().0.iter().take(count) {
            let Range { offset, len } = Range::decode(range);
            let place = segments.piece(segment.into(), offset, len);
            let (Some(place), Ok(size)) = (place, usize::try_from(len)) else {
                return Err(LossReason::Broke(format!(
                    "it asked for {len} bytes at offset {offset} of segment {segment}, which is not registered memory"
                )));
            };
            // At most MAX_RANGES lengths of mapped memory: this cannot overflow.
            bytes += len;
            self.reply.push(sys::piece(place, size));
        }
        *self.head = Reply::Got { bytes }.encode();
        Ok(())
    }

    /// Sends what the socket takes of the reply.
    fn send(&mut self, socket: BorrowedFd<'_>) -> Result<RequestState, LossReason> {
        while self.is_replying() {
            // SAFETY: the pieces are the header, of this value, and places in segments, which stay mapped.
            let Some(sent) = unsafe { self.outlet.send(socket, &self.reply[self.next..]) }? else {
                return Ok(RequestState::Full);
            };
            let rest = sys::advance(&mut self.reply[self.next..], sent).len();
            self.next = self.reply.len() - rest;
        }
        self.reply.clear();
        self.next = 0;
        Ok(RequestState::Idle)
    }
}

#[cfg(test)]
mod tests;
