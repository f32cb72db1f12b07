//! What others offer, and take back.
//!
//! An offer that no receive awaits lies in the unexpected queue, where receives find it by what they ask for.
//! Who takes it back names it by its number instead, so it is kept by that as well: neither searches.

use super::arrive::Checked;
use super::{Arrival, Content, Engine};
use crate::Status;
use crate::requests::{Completion, Request, RequestNumber};
use crate::wire::{MessageHead, envelope};

/// A message that a rank offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// The send's number there,
    pub(super) send: u64,
    /// and where the bytes are; 0: not to be read.
    pub(super) address: u64,
    /// Whether a thread there waits for its end.
    pub(super) waits: bool,
}

impl Engine {
    /// A message is offered.
    pub(super) fn offer(&mut self, from: u32, context: u16, tag: u64, len: usize, offer: Offer) -> Checked {
        let status = Status { source: from, tag, len };
        match self.expected.take(envelope(from, context, tag)) {
            Some(number) => {
                let number = RequestNumber(number);
                if let Some(entry) = self.requests.get_mut(number)
                    && let Request::Expected { into, .. } =
                        std::mem::replace(entry, Request::Over(Ok(Completion::default())))
                {
                    self.fetch(number, status, into, offer);
                }
            }
            None if self.is_in_vain(from, context, tag) => {
                self.say(from, MessageHead::Done { send: offer.send })
            }
            None => {
                if self.offers.contains_key(&(from, offer.send)) {
                    return Err("two messages are offered under one number");
                }
                let arrival = Arrival { context, status, content: Content::Offered(offer) };
                let at = self.unexpected.push(envelope(from, context, tag), arrival);
                self.offers.insert((from, offer.send), at);
            }
        }
        Ok(())
    }

    /// An offer is taken back. If a receive has it already, its sender has been told, or will be, and goes
    /// on.
    pub(super) fn withdraw_offer(&mut self, from: u32, send: u64) {
        if let Some(at) = self.offers.remove(&(from, send)) {
            self.unexpected.remove(at);
            self.say(from, MessageHead::Withdrawn { send });
        }
    }
}
