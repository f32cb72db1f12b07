//! Receives: from the unexpected queue, or into the expected one.

use super::landings::LandingTarget;
use super::{Arrival, Content, Engine, Offer, Spares, gone};
use crate::Status;
use crate::matching::Pattern;
use crate::requests::{Completion, Destination, Outcome, Request, RequestNumber};
use crate::wire::MessageHead;
use scash_comm::{Error, Result};

impl Engine {
    /// Begins to receive.
    ///
    /// # Errors
    /// The rank that it should come from is gone, and has left nothing that fits.
    pub(crate) fn receive(&mut self, pattern: Pattern, into: Destination) -> Result<RequestNumber> {
        if let Some(at) = self.unexpected.find(pattern)
            && let Some(arrival) = self.unexpected.remove(at)
        {
            return Ok(self.receive_arrived(arrival, into));
        }
        if let Some(source) = pattern.source.filter(|&source| self.peers[source as usize].is_gone) {
            return Err(gone(source));
        }
        let Self { requests, expected, .. } = self;
        Ok(requests.add_with(|number| {
            let slot = expected.post(pattern, number.0);
            Request::Expected { source: pattern.source, tag: pattern.tag, slot, into }
        }))
    }

    /// The first message in the unexpected queue that would be received so.
    pub(crate) fn probe(&self, pattern: Pattern) -> Option<Status> {
        Some(self.unexpected.get(self.unexpected.find(pattern)?)?.status)
    }

    fn receive_arrived(
        &mut self,
        Arrival { status, content, .. }: Arrival,
        mut into: Destination,
    ) -> RequestNumber {
        let from = status.source;
        match content {
            Content::Here(bytes) => {
                self.was_received(from, bytes.len());
                let outcome = match into {
                    Destination::Own(_) => Ok(Completion { status, bytes }),
                    into => {
                        let outcome = whole(&mut self.spares, into, status, &bytes);
                        self.spares.give(bytes);
                        outcome
                    }
                };
                self.requests.add(Request::Over(outcome))
            }
            Content::Offered(offer) => {
                self.offers.remove(&(from, offer.send));
                let number = self.requests.add(Request::Over(Ok(Completion::default())));
                self.fetch(number, status, into, offer);
                number
            }
            Content::Landing { push } => {
                let fits = match &into {
                    Destination::Room(place) => status.len <= place.len(),
                    Destination::Own(_) => true,
                };
                let number = self.requests.add(Request::Over(Err(too_long(status.len, &into))));
                let Some(landing) = self.landings.get_mut(from, push) else { return number };
                let LandingTarget::Waiting(_, bytes) =
                    std::mem::replace(&mut landing.target, LandingTarget::Nobody)
                else {
                    return number;
                };
                if !fits {
                    return number;
                }
                landing.target = LandingTarget::Receive(number);
                // What has been asked for from now on takes no room of the window.
                let here = landing.here;
                match &mut into {
                    Destination::Own(own) => *own = bytes,
                    Destination::Room(place) => {
                        place.store(0, &bytes);
                        self.spares.give(bytes);
                    }
                }
                if let Some(entry) = self.requests.get_mut(number) {
                    *entry = Request::Coming { from, status, into, here };
                }
                number
            }
        }
    }

    /// Has the message of an offer brought.
    pub(super) fn fetch(
        &mut self,
        number: RequestNumber,
        status: Status,
        mut into: Destination,
        Offer { send, address, waits }: Offer,
    ) {
        let from = status.source;
        let fits = self.spares.prepare(&mut into, status.len);
        if !fits || status.len == 0 {
            self.say(from, MessageHead::Done { send });
            let outcome = if fits {
                whole(&mut self.spares, into, status, &[])
            } else {
                Err(too_long(status.len, &into))
            };
            return self.end(number, outcome);
        }
        let request = if self.peers[from as usize].readable.includes(address) {
            self.order_read(number, status.len);
            Request::Read { from, status, into, send, address, waits }
        } else {
            self.say(from, MessageHead::Accept { send, receive: number.0 });
            Request::Coming { from, status, into, here: 0 }
        };
        if let Some(entry) = self.requests.get_mut(number) {
            *entry = request;
        }
    }

    /// A message that was sent unasked was received: its room is the sender's again.
    pub(super) fn was_received(&mut self, from: u32, len: usize) {
        if let Some(bytes) = self.peers[from as usize].messages.was_received(len) {
            self.say(from, MessageHead::Credit { bytes });
        }
    }
}

/// The outcome of a receive whose message is here as a whole.
pub(super) fn whole(spares: &mut Spares, mut into: Destination, status: Status, bytes: &[u8]) -> Outcome {
    if !spares.prepare(&mut into, bytes.len()) {
        return Err(too_long(bytes.len(), &into));
    }
    into.store(0, bytes);
    Ok(Completion { status, bytes: into.bytes() })
}

/// The message has no room where it was to be received.
pub(super) fn too_long(len: usize, into: &Destination) -> Error {
    match into {
        Destination::Room(place) => Error::TooLong { len, room: place.len() },
        Destination::Own(_) => no_memory(len, "a message"),
    }
}

/// The system has no memory for something.
pub(crate) fn no_memory(len: usize, what: &str) -> Error {
    let what = format!("making memory of {len} bytes for {what}");
    Error::Io { what, source: std::io::ErrorKind::OutOfMemory.into() }
}
