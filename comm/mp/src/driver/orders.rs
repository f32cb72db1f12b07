//! What the engine wants done, done at the endpoint: messages sent, memory read, and pieces taken to where
//! they go.

use super::Shared;
use crate::engine::{Engine, MessageBody, Order, REGISTERED, Reading};
use crate::requests::RequestNumber;
use crate::span::Source;
use crate::wire::{Encoded, eager_head};
use scash_comm::biased::Guard;
use scash_comm::{Bytes, Caps, Error, Result};
use std::mem::MaybeUninit;

/// Bytes that a helper reads of a long message before it looks whether a thread waits, which then reads the
/// rest.
const READ_PIECE: usize = 1 << 20;
/// Bytes of the shortest message that waits for a free way, rather than being copied to wait there.
const WORTH_WAITING: usize = 4 << 10;
/// Bytes at a time of what nobody wants.
const WASTE: usize = 4 << 10;

impl Shared {
    /// Carries out the engine's orders; whether there were any. What is lent for that is handed over.
    pub(super) fn carry_out(&self, engine: &mut Engine) -> bool {
        let (mut any, mut has_lent) = (false, false);
        while let Some(order) = engine.order() {
            any = true;
            match order {
                Order::Send { to, head, body } => {
                    has_lent |= matches!(body, MessageBody::Piece(..));
                    // SAFETY: a piece's bytes stay as they are until they are handed over: below, before
                    // anybody else gets the engine.
                    let sent = unsafe { self.send(to, &head, &body) };
                    self.was_sent(engine, sent);
                }
                Order::Post(mark, count) => {
                    if let Some(board) = self.endpoint.board() {
                        engine.groups().post(board, self.endpoint.rank(), mark, count);
                    }
                }
                Order::Drop(bytes) => {
                    self.hand_over(engine, &mut has_lent);
                    drop(bytes);
                }
                Order::Read(receive) => self.read_rest(engine, receive),
            }
        }
        self.hand_over(engine, &mut has_lent);
        any
    }

    /// Begins to send for a thread that waits for the end of that, or not; `None`: it is over.
    ///
    /// # Errors
    /// The receiver is gone.
    #[inline]
    pub(crate) fn begin_send(
        &self,
        to: u32,
        context: u16,
        tag: u64,
        body: Source,
        waits: bool,
    ) -> Result<Option<RequestNumber>> {
        let mut engine = self.engine();
        if body.len() >= WORTH_WAITING && self.endpoint.is_congested(to) && engine.pushes(to, body.len()) {
            let number = engine.send_piecewise(to, context, tag, body, waits)?;
            self.settle(&mut engine);
            return Ok(Some(number));
        }
        // What most messages are: nothing is to be done before them, and nothing follows.
        if engine.is_quiet() && engine.sends_at_once(to, body.len()) {
            let (kind, head) = eager_head(context, tag);
            // SAFETY: the bytes stay as they are until the send is over, and they are handed over before
            // that.
            let sent = unsafe { self.endpoint.send_long(to, kind, &head, body.piece(0, body.len())) };
            self.was_sent(&mut engine, sent);
            self.settle(&mut engine);
            return Ok(None);
        }
        let number = engine.send(to, context, tag, body, waits)?;
        self.settle(&mut engine);
        Ok(number)
    }

    /// A message was sent, or could not be.
    fn was_sent(&self, engine: &mut Engine, sent: Result<()>) {
        match sent {
            // What it has said before comes first, and then its event.
            Ok(()) | Err(Error::Down { .. } | Error::Protocol { .. }) => {}
            Err(error) => self.lose(engine, &error),
        }
    }

    /// Sends a message.
    ///
    /// # Safety
    /// If the body is a piece, its bytes stay unchanged until the endpoint is flushed.
    unsafe fn send(&self, to: u32, head: &Encoded, body: &MessageBody) -> Result<()> {
        match body {
            // SAFETY: the caller's promise.
            MessageBody::Piece(..) => unsafe {
                self.endpoint.send_long(to, head.kind, head.bytes(), body.bytes())
            },
            _ => self.endpoint.send(to, head.kind, &[head.bytes(), body.bytes()]),
        }
    }

    /// Hands over what was sent, if some of it was only lent.
    fn hand_over(&self, engine: &mut Engine, has_lent: &mut bool) {
        if std::mem::take(has_lent)
            && let Err(error) = self.endpoint.flush()
        {
            self.lose(engine, &error);
        }
    }

    /// Reads the rest of the long message that is first, for a thread that has the engine; one that waits may
    /// have it brought instead. Whether there was one that nobody reads.
    #[cold]
    pub(super) fn read_on(&self, engine: &mut Engine, waits: bool) -> bool {
        let Some(receive) = engine.next_read() else { return false };
        if !(waits && engine.is_brought(receive, |sender| !self.endpoint.is_asleep(sender))) {
            engine.is_read_at_once(receive);
            self.settle(engine);
            self.read_rest(engine, receive);
        }
        self.settle(engine);
        true
    }

    /// Reads of the long message that is first, for a thread that does not wait, while others have the
    /// engine; whether there was one that nobody reads.
    #[cold]
    pub(super) fn read_aside(&self, mut engine: Guard<'_, Engine>) -> bool {
        if !self.endpoint.caps_to(self.endpoint.rank()).contains(Caps::ROUSED) {
            // Nothing would wake a thread that waits for this message asleep; so it waits for the engine.
            return self.read_on(&mut engine, false);
        }
        let Some((receive, reading)) = engine.claim(READ_PIECE) else { return false };
        drop(engine);
        // SAFETY: the place is claimed: the engine leaves it alone, and the receive is not over, until it is
        // told of the reading.
        let is_done = unsafe { self.read(reading) };
        let mut engine = self.engine();
        // SAFETY: a reading that succeeds has written all of the place.
        unsafe { engine.was_read(receive, is_done.then_some(reading.place.len())) };
        self.settle(&mut engine);
        drop(engine);
        self.endpoint.end_nap(self.endpoint.rank());
        true
    }

    /// Reads the rest of a message.
    fn read_rest(&self, engine: &mut Engine, receive: RequestNumber) {
        let Some(reading) = engine.reading(receive) else { return };
        // SAFETY: the engine vouches for the place, under the lock until it is told of the reading.
        let is_done = unsafe { self.read(reading) };
        // SAFETY: a reading that succeeds has written all of the place.
        unsafe { engine.was_read(receive, is_done.then_some(reading.place.len())) };
    }

    /// Reads another process's memory; whether all of the place was written.
    ///
    /// # Safety
    /// The place is writable, and nobody relies on what is in it.
    unsafe fn read(&self, reading: Reading) -> bool {
        let Reading { from, address, place } = reading;
        if address & REGISTERED == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.memories.read(reading) };
        }
        let Some(heap) = &*self.heap else { return false };
        let (offset, len) = (address & !REGISTERED, place.len());
        // SAFETY: the endpoint gives the address of as many bytes; the caller vouches for the place, which is
        // of another mapping.
        let copy = &mut |bytes: *const u8| unsafe { bytes.copy_to(place.start(), len) };
        self.endpoint.read_peer(from, heap.segment(), offset, len, copy).is_ok_and(|is_mapped| is_mapped)
    }
}

/// Takes the part of a piece that is here to where it goes.
///
/// # Errors
/// [`Error::Protocol`]: no correct engine sends that.
pub(super) fn take_part(
    engine: &mut Engine,
    (from, kind, head): (u32, u16, &[u8]),
    rest: (usize, usize),
    bytes: &mut dyn Bytes,
) -> Result<()> {
    let room = engine.room(from, kind, head, rest)?;
    let mut waste = [MaybeUninit::<u8>::uninit(); WASTE];
    let (to, most) = match room {
        Some(place) => (place.start(), place.len()),
        None => (waste.as_mut_ptr().cast(), WASTE),
    };
    // SAFETY: the engine vouches for the place, as its lock is held; and the waste is ours.
    let count = unsafe { bytes.take(to, most) };
    // SAFETY: as many bytes were stored there.
    unsafe { engine.was_stored(from, kind, head, count) };
    Ok(())
}
