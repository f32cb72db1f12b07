//! Messages that their receivers read out of their senders' memory.
//!
//! A short one is read at once, by whoever has the engine. A long one is left to a thread that has the time:
//! one that waits reads it to its end; a helper reads it piece by piece, without the engine
//! ([`Engine::claim`]), so that it is in nobody's way, and leaves the rest to a thread that comes to wait. So
//! a receive costs the application that begins it no time of the reading, which goes on while it computes.
//!
//! The sender of a long one that waits for its end is told when a thread that waits reads it
//! ([`MessageHead::Reading`]). As long as it is not, the receiver's application may be computing: then the
//! sender rouses the receiver's helper, and leaves its core to it.
//!
//! If both have nothing else to do, nobody reads: what a rank sends that waits for its end until it has sent
//! it, a receiver that waits asks for, where messages travel through shared memory. Then each copies half of
//! the way, which takes less time than the kernel's one copy. Not so of a non-blocking send: while its sender
//! computes there is nobody to copy its half.

use super::arrive::Checked;
use super::{Engine, Order, REGISTERED, Reading, gone};
use crate::requests::{Completion, Request, RequestNumber};
use crate::wire::MessageHead;
use std::collections::VecDeque;

/// Bytes of the shortest message that is long: reading it takes longer than waking the thread that does.
pub(crate) const LONG: usize = 1 << 20;

/// Long messages that are to be read, by their receives.
#[derive(Debug, Default)]
pub(super) struct Reads {
    queue: VecDeque<RequestNumber>,
    /// How many bytes are here of the first one. (Not in its request: short messages would have to be moved
    /// with it.)
    here: usize,
    /// Its sender and that one's number for it, while a thread that does not have the engine writes its next
    /// bytes.
    claimed: Option<(u32, u64)>,
}

impl Reads {
    /// Whether somebody writes to where this message goes.
    pub(super) fn is_claimed(&self, request: &Request) -> bool {
        matches!(request, Request::Read { from, send, .. } if self.claimed == Some((*from, *send)))
    }

    fn is_first(&self, receive: RequestNumber) -> bool {
        self.queue.front() == Some(&receive)
    }

    /// Nothing is to be read any more of the first one.
    fn pass(&mut self) {
        self.queue.pop_front();
        self.here = 0;
    }
}

impl Engine {
    /// Has a message of that length read.
    pub(super) fn order_read(&mut self, receive: RequestNumber, len: usize) {
        if len < LONG {
            self.orders.push_back(Order::Read(receive));
        } else {
            self.reads.queue.push_back(receive);
        }
    }

    /// Whether long messages are to be read.
    #[inline]
    pub(crate) fn has_reads(&self) -> bool {
        !self.reads.queue.is_empty()
    }

    /// The receive whose long message is to be read next, if nobody reads it now.
    pub(crate) fn next_read(&mut self) -> Option<RequestNumber> {
        while let Some(&receive) = self.reads.queue.front() {
            if matches!(self.requests.get_mut(receive), Some(Request::Read { .. })) {
                return self.reads.claimed.is_none().then_some(receive);
            }
            // Its sender is gone.
            self.reads.pass();
        }
        None
    }

    /// The sender of that message.
    pub(crate) fn next_sender(&mut self) -> Option<u32> {
        let receive = self.next_read()?;
        match self.requests.get_mut(receive) {
            Some(Request::Read { from, .. }) => Some(*from),
            _ => None,
        }
    }

    /// The next bytes of that message, `most` at most, for a thread that does not keep the engine meanwhile:
    /// until it [says](Self::was_read) that it has read them, the receive is not over, whatever happens.
    pub(crate) fn claim(&mut self, most: usize) -> Option<(RequestNumber, Reading)> {
        let receive = self.next_read()?;
        let mut reading = self.reading(receive)?;
        reading.place = reading.place.part(0, most);
        if let Some(Request::Read { from, send, .. }) = self.requests.get_mut(receive) {
            self.reads.claimed = Some((*from, *send));
        }
        Some((receive, reading))
    }

    /// A thread that waits has the message brought that is to be read next, if a thread waits for its end at
    /// its sender, and `is_awake`; whether it does.
    pub(crate) fn is_brought(&mut self, receive: RequestNumber, is_awake: impl FnOnce(u32) -> bool) -> bool {
        let Some(&mut Request::Read { from, address, waits, .. }) = self.requests.get_mut(receive) else {
            return false;
        };
        let is_half_read = self.reads.here > 0;
        let is_near = address & REGISTERED == 0 && self.groups.includes(from);
        let is_brought = waits && is_near && !is_half_read && is_awake(from);
        if is_brought {
            self.reads.pass();
            self.ask(receive);
        }
        is_brought
    }

    /// A thread that waits is about to read a message to its end.
    pub(crate) fn is_read_at_once(&mut self, receive: RequestNumber) {
        if let Some(&mut Request::Read { from, send, .. }) = self.requests.get_mut(receive)
            && self.reads.here == 0
        {
            self.say(from, MessageHead::Reading { send });
        }
    }

    /// What is yet to be read of a message; `None`: it is of no use any more.
    pub(crate) fn reading(&mut self, receive: RequestNumber) -> Option<Reading> {
        let here = if self.reads.is_first(receive) { self.reads.here } else { 0 };
        match self.requests.get_mut(receive)? {
            Request::Read { from, status, into, address, .. } => {
                let place = into.place(here, status.len - here);
                Some(Reading { from: *from, address: address.wrapping_add(here as u64), place })
            }
            _ => None,
        }
    }

    /// As many bytes of that were read; or it could not be: then the sender is asked for the message, and its
    /// memory is not read again.
    ///
    /// # Safety
    /// As many bytes of the place were written, and there were so many.
    pub(crate) unsafe fn was_read(&mut self, receive: RequestNumber, count: Option<usize>) {
        let Some(Request::Read { from, status, into, .. }) = self.requests.get_mut(receive) else { return };
        let (from, len) = (*from, status.len);
        // SAFETY: the caller's promise.
        unsafe { into.is_longer(count.unwrap_or(0)) };
        let mut here = count.unwrap_or(0);
        let is_gone = self.peers[from as usize].is_gone;
        if self.reads.is_first(receive) {
            here += self.reads.here;
            self.reads.claimed = None;
            if here < len && count.is_some() && !is_gone {
                self.reads.here = here;
                return;
            }
            self.reads.pass();
        }
        if here == len {
            self.is_here(receive);
        } else if is_gone {
            self.end(receive, Err(gone(from)));
        } else {
            self.ask_instead(receive);
        }
    }

    /// All of a message was read.
    fn is_here(&mut self, receive: RequestNumber) {
        let Some(entry) = self.requests.get_mut(receive) else { return };
        let over = Request::Over(Ok(Completion::default()));
        if let Request::Read { from, status, into, send, .. } = std::mem::replace(entry, over) {
            self.say(from, MessageHead::Done { send });
            self.end(receive, Ok(Completion { status, bytes: into.bytes() }));
        }
    }

    /// A message cannot be read: its sender is asked for it.
    fn ask_instead(&mut self, receive: RequestNumber) {
        let Some(&mut Request::Read { from, address, .. }) = self.requests.get_mut(receive) else { return };
        let readable = &mut self.peers[from as usize].readable;
        if address & REGISTERED != 0 {
            readable.registered = false;
        } else {
            readable.all = false;
        }
        self.ask(receive);
    }

    /// The sender of a message that was to be read is asked for it.
    fn ask(&mut self, receive: RequestNumber) {
        let Some(entry) = self.requests.get_mut(receive) else { return };
        let over = Request::Over(Ok(Completion::default()));
        let Request::Read { from, status, mut into, send, .. } = std::mem::replace(entry, over) else {
            return;
        };
        into.clear();
        *entry = Request::Coming { from, status, into, here: 0 };
        self.say(from, MessageHead::Accept { send, receive: receive.0 });
    }

    /// The other rank of a long message that waits for that one: to read it, and it has not said that it
    /// does; or to send it as it was asked to, and nothing has come.
    pub(crate) fn unheard(&mut self, operation: RequestNumber) -> Option<u32> {
        match self.requests.get_mut(operation) {
            Some(Request::Offered { to, is_unheard: true, .. }) => Some(*to),
            Some(Request::Coming { from, status, here: 0, .. }) if status.len >= LONG => Some(*from),
            _ => None,
        }
    }

    /// A thread of the receiver's that waits reads a send.
    pub(super) fn is_being_read(&mut self, from: u32, send: RequestNumber) -> Checked {
        match self.requests.get_mut(send) {
            Some(Request::Offered { to, is_unheard, .. }) if *to == from => {
                *is_unheard = false;
                Ok(())
            }
            _ => Err("a send is read that was not offered"),
        }
    }
}
