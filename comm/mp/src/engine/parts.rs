//! Where the bytes of a piece go: asked before they are there, so that they need not be copied, and told when
//! they are.
//!
//! A piece may come in parts. For each, its rank is asked first ([`Engine::room`]) and told then
//! ([`Engine::was_stored`]), with nothing else between the two.

use super::Engine;
use super::landings::{EAGER, LandingTarget};
use crate::requests::{Request, RequestNumber};
use crate::span::ReceiveBuffer;
use crate::wire::{self, MessageHead};
use scash_comm::{Error, Result};

impl Engine {
    /// Where the next bytes go of a piece of which the receiver has `at`, and `left` are to come. `None`:
    /// nobody wants them.
    ///
    /// # Errors
    /// [`Error::Protocol`]: no correct engine sends such a piece. Nothing was done.
    pub(crate) fn room(
        &mut self,
        from: u32,
        kind: u16,
        head: &[u8],
        (at, left): (usize, usize),
    ) -> Result<Option<ReceiveBuffer>> {
        let peer = &self.peers[from as usize];
        if peer.is_refused {
            return Ok(None);
        }
        let room = if let Some((context, tag, [])) = wire::eager(kind, head) {
            self.eager_room(from, (context, tag), (at, left))
        } else {
            match MessageHead::decode(kind, head) {
                // What else one says that was given up, and was on its way meanwhile, is passed over.
                _ if peer.is_gone => Ok(None),
                Some((MessageHead::Data { receive, offset }, [])) => {
                    let offset = offset.checked_add(at as u64).ok_or("data come for no place in any memory");
                    offset
                        .and_then(|offset| self.asked_room(from, RequestNumber(receive), offset, left))
                        .map(Some)
                }
                Some((MessageHead::Pushed { push }, [])) => self.landing_room(from, push, left),
                _ => Err("a message comes in parts that has none"),
            }
        };
        room.map_err(|why| Error::Protocol { rank: from, why: why.to_owned() })
    }

    /// The next `count` bytes of the piece have come.
    ///
    /// # Safety
    /// They were stored where [`Engine::room`] said, if it named a place, and were not more than it asked
    /// about.
    pub(crate) unsafe fn was_stored(&mut self, from: u32, kind: u16, head: &[u8], count: usize) {
        let peer = &mut self.peers[from as usize];
        if peer.is_refused {
            return;
        }
        if count > 0 {
            peer.signs.has_spoken();
        }
        let is_gone = peer.is_gone;
        if wire::eager(kind, head).is_some() {
            // SAFETY: the caller's promise.
            return unsafe { self.has_landed(from, EAGER, count) };
        }
        match MessageHead::decode(kind, head) {
            _ if is_gone => {}
            // SAFETY: the caller's promise.
            Some((MessageHead::Data { receive, .. }, _)) => unsafe {
                self.has_come(RequestNumber(receive), count)
            },
            // SAFETY: as above.
            Some((MessageHead::Pushed { push }, _)) => unsafe { self.has_landed(from, push, count) },
            _ => {}
        }
    }

    /// Room for `len` bytes of a message that was asked for, from `offset` on.
    pub(super) fn asked_room(
        &mut self,
        from: u32,
        receive: RequestNumber,
        offset: u64,
        len: usize,
    ) -> std::result::Result<ReceiveBuffer, &'static str> {
        match self.requests.get_mut(receive) {
            None => Err("data come for no receive"),
            Some(Request::Coming { from: source, status, into, here })
                if *source == from && offset == *here as u64 && len <= status.len - *here =>
            {
                Ok(into.place(*here, len))
            }
            Some(Request::Coming { .. }) => Err("data come that were not asked for"),
            Some(_) => Err("data come for an operation that has not asked for them"),
        }
    }

    /// Room for the next bytes of an eager message, which is matched when the first ones are asked about;
    /// unless nobody wants them.
    fn eager_room(
        &mut self,
        from: u32,
        (context, tag): (u16, u64),
        (at, left): (usize, usize),
    ) -> std::result::Result<Option<ReceiveBuffer>, &'static str> {
        match (self.landings.has(from, EAGER), at) {
            (true, _) => {}
            (false, 0) => self.land(from, context, tag, left, EAGER)?,
            // Its beginning was forgotten when its sender was given up.
            (false, _) if self.peers[from as usize].is_gone => return Ok(None),
            (false, _) => return Err("an eager message has no beginning"),
        }
        self.landing_room(from, EAGER, left)
    }

    /// Room for `len` more bytes of a push, unless nobody wants them.
    pub(super) fn landing_room(
        &mut self,
        from: u32,
        push: u64,
        len: usize,
    ) -> std::result::Result<Option<ReceiveBuffer>, &'static str> {
        let landing = self.landings.get_mut(from, push).ok_or("bytes are pushed of no message")?;
        if len > landing.len - landing.here {
            return Err("more bytes are pushed than were announced");
        }
        Ok(match &mut landing.target {
            LandingTarget::Nobody => None,
            LandingTarget::Waiting(_, own) => Some(ReceiveBuffer::behind(own, len)),
            LandingTarget::Receive(number) => match self.requests.get_mut(*number) {
                Some(Request::Coming { into, here, .. }) => Some(into.place(*here, len)),
                _ => None,
            },
        })
    }

    /// More bytes of a message that was asked for, or that has found its receive, are in their place.
    ///
    /// # Safety
    /// They are, and there was room for them.
    pub(super) unsafe fn has_come(&mut self, receive: RequestNumber, count: usize) {
        if let Some(Request::Coming { into, here, .. }) = self.requests.get_mut(receive) {
            // SAFETY: the caller's promise.
            unsafe { into.is_longer(count) };
            *here += count;
        }
        self.end_if_here(receive);
    }

    /// More bytes of a push have come.
    ///
    /// # Safety
    /// They are where there was room for them, unless nobody wants them.
    pub(super) unsafe fn has_landed(&mut self, from: u32, push: u64, count: usize) {
        let Some(landing) = self.landings.get_mut(from, push) else { return };
        landing.here += count;
        let is_whole = landing.here == landing.len;
        match &mut landing.target {
            LandingTarget::Nobody => {}
            // SAFETY: the caller's promise.
            LandingTarget::Waiting(_, own) => unsafe { own.set_len(own.len() + count) },
            LandingTarget::Receive(number) => {
                let number = *number;
                // SAFETY: as above.
                unsafe { self.has_come(number, count) };
            }
        }
        if is_whole && let Some(landing) = self.landings.remove(from, push) {
            self.landed(from, landing);
        }
    }
}
