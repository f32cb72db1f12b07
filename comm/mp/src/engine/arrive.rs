//! What other engines say.

use super::landings::{EAGER, Landing, LandingTarget};
use super::receive::{too_long, whole};
use super::send::OutgoingPayload;
use super::{Arrival, Content, Engine, Offer};
use crate::Status;
use crate::collective::Stamp;
use crate::requests::{Completion, Destination, Request, RequestNumber};
use crate::wire::{self, MessageHead, envelope};
use scash_comm::{Error, Result};

/// What follows from a message, or what is wrong with it.
pub(super) type Checked = std::result::Result<(), &'static str>;

impl Engine {
    /// Takes a message of another engine, or of this one. What a refused one says is passed over.
    ///
    /// # Errors
    /// [`Error::Protocol`]: no correct engine says that. Nothing was done.
    #[inline]
    pub(crate) fn arrived(&mut self, from: u32, kind: u16, message: &[u8]) -> Result<()> {
        let peer = &mut self.peers[from as usize];
        if peer.is_refused {
            return Ok(());
        }
        peer.signs.has_spoken();
        let checked = if let Some((context, tag, body)) = wire::eager(kind, message) {
            self.eager(from, context, tag, body)
        } else {
            match MessageHead::decode(kind, message) {
                Some((head, body)) => self.other(from, head, body),
                None => Err("a message has no known form"),
            }
        };
        checked.map_err(|why| Error::Protocol { rank: from, why: why.to_owned() })
    }

    fn eager(&mut self, from: u32, context: u16, tag: u64, body: &[u8]) -> Checked {
        self.peers[from as usize].messages.owe(body.len())?;
        let status = Status { source: from, tag, len: body.len() };
        match self.expected.take(envelope(from, context, tag)) {
            Some(number) => {
                self.complete(RequestNumber(number), status, body);
                self.was_received(from, body.len());
            }
            None if self.is_in_vain(from, context, tag) => self.was_received(from, body.len()),
            None => {
                let mut bytes = self.spares.take(body.len());
                bytes.extend_from_slice(body);
                let arrival = Arrival { context, status, content: Content::Here(bytes) };
                self.unexpected.push(envelope(from, context, tag), arrival);
            }
        }
        Ok(())
    }

    /// A receive from the expected queue gets its message, which is here as a whole.
    #[inline]
    fn complete(&mut self, receive: RequestNumber, status: Status, body: &[u8]) {
        let Some(entry) = self.requests.get_mut(receive) else { return };
        let Request::Expected { into, .. } = entry else { return };
        *entry = match into {
            Destination::Room(place) if body.len() <= place.len() => {
                place.store(0, body);
                Request::Received(status)
            }
            into => {
                let into = std::mem::replace(into, Destination::Own(Vec::new()));
                Request::Over(whole(&mut self.spares, into, status, body))
            }
        };
    }

    fn other(&mut self, from: u32, head: MessageHead, body: &[u8]) -> Checked {
        // What else one says that is gone, and was on its way meanwhile, would only be waited for or answered
        // in vain.
        if self.peers[from as usize].is_gone
            && !matches!(head, MessageHead::Active { .. } | MessageHead::Abort { .. })
        {
            return Ok(());
        }
        match head {
            MessageHead::Eager { context, tag } => self.eager(from, context, tag, body),
            MessageHead::Here => Ok(()),
            MessageHead::Ask => {
                self.say(from, MessageHead::Here);
                Ok(())
            }
            MessageHead::Offer { context, tag, len, send, address, waits } => {
                self.offer(from, context, tag, length(len)?, Offer { send, address, waits })
            }
            MessageHead::Accept { send, receive } => self.accept(from, RequestNumber(send), receive),
            MessageHead::Data { receive, offset } => self.data(from, RequestNumber(receive), offset, body),
            MessageHead::Done { send } => self.done(from, RequestNumber(send)),
            MessageHead::Reading { send } => self.is_being_read(from, RequestNumber(send)),
            MessageHead::Playing { context, tag } => {
                let stamp = Stamp::of(context, tag).ok_or("a collective operation has no known form")?;
                // Who is through with it has sent what is waited for.
                self.compare(from, stamp);
                Ok(())
            }
            MessageHead::Abort { operation, culprit } => {
                let culprit = u32::try_from(culprit).ok().filter(|&rank| (rank as usize) < self.peers.len());
                let culprit = culprit.ok_or("an operation fails because of a rank that does not exist")?;
                self.aborted(from, operation, culprit);
                Ok(())
            }
            MessageHead::Withdraw { send } => {
                self.withdraw_offer(from, send);
                Ok(())
            }
            MessageHead::Withdrawn { send } => self.withdrawn(from, RequestNumber(send)),
            MessageHead::Push { context, tag, len, push } => {
                self.push(from, context, tag, length(len)?, push)
            }
            MessageHead::Get { get, offset, count, len, stride } => {
                self.asked(from, get, offset, (length(count)?, length(len)?, length(stride)?))
            }
            MessageHead::Mark { mark } => {
                self.was_marked(from, mark);
                Ok(())
            }
            MessageHead::Marked { mark } => self.marked(from, RequestNumber(mark)),
            MessageHead::Active { handler } => self.called(from, handler, body),
            MessageHead::Refill { bytes } => self.refilled(from, bytes),
            MessageHead::Pushed { push } => self.pushed(from, push, body),
            MessageHead::Drained => self.was_drained(from),
            MessageHead::Credit { bytes } => self.peers[from as usize].messages.refill(bytes),
        }
    }

    fn accept(&mut self, from: u32, send: RequestNumber, receive: u64) -> Checked {
        let entry = self.requests.get_mut(send).ok_or("a send is asked for that does not exist")?;
        let Request::Offered { to, body, status, .. } = *entry else {
            return Err("a send is asked for that was not offered");
        };
        if to != from {
            return Err("a send to another rank is asked for");
        }
        *entry = Request::Leaving { to, status };
        self.leave(to, OutgoingPayload::Asked(send, body, receive));
        Ok(())
    }

    fn data(&mut self, from: u32, receive: RequestNumber, offset: u64, bytes: &[u8]) -> Checked {
        if matches!(self.requests.get_mut(receive), Some(Request::Get { .. })) {
            return self.got(from, receive, offset, bytes);
        }
        self.asked_room(from, receive, offset, bytes.len())?.store(0, bytes);
        // SAFETY: just now, as many as there is room for.
        unsafe { self.has_come(receive, bytes.len()) };
        Ok(())
    }

    /// Ends a receive that has all its bytes.
    pub(super) fn end_if_here(&mut self, receive: RequestNumber) {
        let Some(entry) = self.requests.get_mut(receive) else { return };
        let Request::Coming { status, into, here, .. } = entry else { return };
        if *here < status.len {
            return;
        }
        let status = *status;
        *entry = match into {
            Destination::Room(_) => Request::Received(status),
            Destination::Own(bytes) => {
                let bytes = std::mem::take(bytes);
                Request::Over(Ok(Completion { status, bytes }))
            }
        };
    }

    fn done(&mut self, from: u32, send: RequestNumber) -> Checked {
        match self.requests.get_mut(send) {
            Some(Request::Offered { to, status, .. }) if *to == from => {
                let status = *status;
                self.end(send, Ok(Completion { status, bytes: Vec::new() }));
                Ok(())
            }
            _ => Err("the end of a send is told that was not offered"),
        }
    }

    /// A send of this rank is forgotten where it was offered.
    fn withdrawn(&mut self, from: u32, send: RequestNumber) -> Checked {
        let is_it = |entry: &&mut Request| matches!(entry, Request::Offered { to, is_unwanted: true, .. } if *to == from);
        let entry = self.requests.get_mut(send).filter(is_it);
        *entry.ok_or("a send is forgotten that was not to be")? = Request::Withdrawn;
        Ok(())
    }

    fn push(&mut self, from: u32, context: u16, tag: u64, len: usize, push: u64) -> Checked {
        if push == EAGER {
            return Err("a message is pushed under no number");
        }
        if len == 0 {
            return Err("a message of no bytes is pushed");
        }
        self.land(from, context, tag, len, push)
    }

    /// A message begins to come unasked.
    pub(super) fn land(&mut self, from: u32, context: u16, tag: u64, len: usize, push: u64) -> Checked {
        if self.landings.has(from, push) {
            return Err("two messages are pushed under one number");
        }
        self.peers[from as usize].messages.owe(len)?;
        let status = Status { source: from, tag, len };
        let target = match self.expected.take(envelope(from, context, tag)) {
            Some(number) => self.land_at(from, RequestNumber(number), status),
            None if self.is_in_vain(from, context, tag) => LandingTarget::Nobody,
            None => {
                let arrival = Arrival { context, status, content: Content::Landing { push } };
                let at = self.unexpected.push(envelope(from, context, tag), arrival);
                // Bounded by the window, which the account has looked at.
                LandingTarget::Waiting(at, self.spares.take(len))
            }
        };
        self.landings.insert(from, push, Landing::new(len, target));
        Ok(())
    }

    /// It finds a receive.
    fn land_at(&mut self, from: u32, number: RequestNumber, status: Status) -> LandingTarget {
        let Some(entry) = self.requests.get_mut(number) else { return LandingTarget::Nobody };
        let Request::Expected { mut into, .. } =
            std::mem::replace(entry, Request::Over(Ok(Completion::default())))
        else {
            return LandingTarget::Nobody;
        };
        if !self.spares.prepare(&mut into, status.len) {
            *entry = Request::Over(Err(too_long(status.len, &into)));
            return LandingTarget::Nobody;
        }
        *entry = Request::Coming { from, status, into, here: 0 };
        LandingTarget::Receive(number)
    }

    fn pushed(&mut self, from: u32, push: u64, bytes: &[u8]) -> Checked {
        if let Some(room) = self.landing_room(from, push, bytes.len())? {
            room.store(0, bytes);
        }
        // SAFETY: just now, as many as there is room for.
        unsafe { self.has_landed(from, push, bytes.len()) };
        Ok(())
    }

    /// It is here as a whole.
    pub(super) fn landed(&mut self, from: u32, landing: Landing) {
        match landing.target {
            LandingTarget::Waiting(at, bytes) => {
                if let Some(arrival) = self.unexpected.get_mut(at) {
                    arrival.content = Content::Here(bytes);
                }
            }
            LandingTarget::Receive(_) | LandingTarget::Nobody => self.was_received(from, landing.len),
        }
    }
}

/// A length that a peer tells.
fn length(len: u64) -> std::result::Result<usize, &'static str> {
    usize::try_from(len)
        .ok()
        .filter(|&len| isize::try_from(len).is_ok())
        .ok_or("a message is longer than any memory")
}
