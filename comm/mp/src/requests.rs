//! The operations under way, by number.

use super::Status;
use super::blocks::Blocks;
use super::matching::Slot;
use super::span::{ReceiveBuffer, Source};
use scash_comm::Error;

/// Names an operation. The upper half tells one from another that had the same place before it; 0 names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestNumber(pub(super) u64);

/// How an operation ended.
pub(super) type Outcome = std::result::Result<Completion, Error>;

/// What comes of an operation that went well.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Completion {
    /// Of the message that was received; of a send, what was sent.
    pub(super) status: Status,
    /// The message, if the receive had not brought room for it.
    pub(super) bytes: Vec<u8>,
}

/// Where a received message goes.
#[derive(Debug)]
pub(super) enum Destination {
    /// Room of the application.
    Room(ReceiveBuffer),
    /// Memory that is made when the length is known.
    Own(Vec<u8>),
}

/// An operation.
#[derive(Debug)]
pub(super) enum Request {
    /// A send whose receiver was told of it, and has not yet asked for it; perhaps it was asked to forget it;
    /// perhaps it is to read a long message, and has not said that it does.
    Offered { to: u32, body: Source, status: Status, is_unwanted: bool, is_unheard: bool },
    /// A send that was taken back: nobody has received it.
    Withdrawn,
    /// A send whose bytes leave piece by piece.
    Leaving { to: u32, status: Status },
    /// A receive in the expected queue. `source` is `None` if any rank's message will do, `tag` if one of any
    /// tag will.
    Expected { source: Option<u32>, tag: Option<u64>, slot: Slot, into: Destination },
    /// A receive whose message is being brought, of which so many bytes are here.
    Coming { from: u32, status: Status, into: Destination, here: usize },
    /// A receive whose message is being read from its sender's memory; the send's number and address there,
    /// and whether a thread waits there for its end.
    Read { from: u32, status: Status, into: Destination, send: u64, address: u64, waits: bool },
    /// A get, of which so many bytes are here.
    Get { from: u32, into: Blocks, here: usize },
    /// A question whether all that was put to a rank is in place: everything up to this one.
    Mark { to: u32, upto: u64 },
    /// A collective operation.
    Collective,
    /// A receive that is over and went well; its message is in the application's room. What most are, in few
    /// words.
    Received(Status),
    /// Over.
    Over(Outcome),
}

/// Whom an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// This rank.
    Rank(u32),
    /// Whichever rank it is.
    Any,
}

impl Request {
    /// Whom it waits for; `None`: for nobody, or, if it is a collective operation, for those that its
    /// transfers wait for.
    pub(super) fn awaits(&self) -> Option<Awaited> {
        match self {
            Request::Offered { to, .. } | Request::Leaving { to, .. } | Request::Mark { to, .. } => {
                Some(Awaited::Rank(*to))
            }
            Request::Coming { from, .. } | Request::Read { from, .. } | Request::Get { from, .. } => {
                Some(Awaited::Rank(*from))
            }
            Request::Expected { source, .. } => Some(source.map_or(Awaited::Any, Awaited::Rank)),
            Request::Collective | Request::Withdrawn | Request::Received(_) | Request::Over(_) => None,
        }
    }
}

/// All operations under way.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Vec<RequestSlot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct RequestSlot {
    generation: u32,
    request: Option<Request>,
}

impl Requests {
    /// Takes an operation in.
    pub(super) fn add(&mut self, request: Request) -> RequestNumber {
        self.add_with(|_| request)
    }

    /// The same of one that is made when its number is known.
    #[inline]
    pub(super) fn add_with(&mut self, make: impl FnOnce(RequestNumber) -> Request) -> RequestNumber {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(RequestSlot { generation: 1, request: None });
            u32::try_from(self.slots.len() - 1).expect("operations fit memory")
        });
        let slot = &mut self.slots[at as usize];
        let number = RequestNumber(u64::from(slot.generation) << 32 | u64::from(at));
        slot.request = Some(make(number));
        number
    }

    /// The operation of that number, if it exists.
    pub(super) fn get_mut(&mut self, number: RequestNumber) -> Option<&mut Request> {
        self.slot(number)?.request.as_mut()
    }

    /// Takes the operation of that number out. The number names nothing then.
    pub(super) fn remove(&mut self, number: RequestNumber) -> Option<Request> {
        self.remove_if(number, |_| true)
    }

    /// The same, if it is of some kind.
    #[inline]
    pub(super) fn remove_if(
        &mut self,
        number: RequestNumber,
        is_it: impl FnOnce(&Request) -> bool,
    ) -> Option<Request> {
        let slot = self.slot(number)?;
        let request = slot.request.take_if(|request| is_it(request))?;
        self.vacate(number);
        Some(request)
    }

    /// The status of a receive that is [over and went well](Request::Received). Its number names nothing
    /// then.
    #[inline]
    pub(super) fn received(&mut self, number: RequestNumber) -> Option<Status> {
        let slot = self.slot(number)?;
        let Some(Request::Received(status)) = slot.request else { return None };
        slot.request = None;
        self.vacate(number);
        Some(status)
    }

    /// Makes the place of an operation that was taken out the next one's.
    #[inline]
    fn vacate(&mut self, number: RequestNumber) {
        let [a, b, c, d, ..] = number.0.to_le_bytes();
        let at = u32::from_le_bytes([a, b, c, d]);
        let slot = &mut self.slots[at as usize];
        // A number that comes back after four thousand million operations at one place is nobody's any more.
        // Never 0.
        slot.generation = slot.generation.wrapping_add(1).max(1);
        self.free.push(at);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All of them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.slots.iter_mut().filter_map(|slot| slot.request.as_mut())
    }

    #[inline]
    fn slot(&mut self, number: RequestNumber) -> Option<&mut RequestSlot> {
        let [a, b, c, d, e, f, g, h] = number.0.to_le_bytes();
        let slot = self.slots.get_mut(u32::from_le_bytes([a, b, c, d]) as usize)?;
        (slot.generation == u32::from_le_bytes([e, f, g, h])).then_some(slot)
    }
}

impl Destination {
    /// Stores the bytes that follow the first `here`.
    pub(super) fn store(&mut self, here: usize, bytes: &[u8]) {
        match self {
            Destination::Room(place) => place.store(here, bytes),
            Destination::Own(own) => own.extend_from_slice(bytes),
        }
    }

    /// The place for the `len` bytes that follow the first `here`, which are there. It has been prepared for
    /// them. Good until this value is used again.
    pub(super) fn place(&mut self, here: usize, len: usize) -> ReceiveBuffer {
        match self {
            Destination::Room(place) => place.part(here, len),
            Destination::Own(bytes) => ReceiveBuffer::behind(bytes, len),
        }
    }

    /// `count` bytes were written to the beginning of that place.
    ///
    /// # Safety
    /// They were, and it had room for them.
    pub(super) unsafe fn is_longer(&mut self, count: usize) {
        if let Destination::Own(bytes) = self {
            // SAFETY: the caller's promise; `place` is no longer than the capacity.
            unsafe { bytes.set_len(bytes.len() + count) };
        }
    }

    /// Forgets what is in it.
    pub(super) fn clear(&mut self) {
        if let Destination::Own(bytes) = self {
            bytes.clear();
        }
    }

    /// The bytes, if they are not in the application's room.
    pub(super) fn bytes(self) -> Vec<u8> {
        match self {
            Destination::Room(_) => Vec::new(),
            Destination::Own(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_operation_and_no_later_one() {
        let mut requests = Requests::default();
        let over = || Request::Over(Ok(Completion::default()));
        let first = requests.add(over());
        assert_eq!(requests.len(), 1);
        assert!(requests.remove(first).is_some());
        assert_eq!(requests.len(), 0);
        let second = requests.add(over());
        assert_ne!(first, second);
        assert!(requests.get_mut(first).is_none() && requests.remove(first).is_none());
        assert!(matches!(requests.get_mut(second), Some(Request::Over(_))));
        for wrong in [0, 7, u64::MAX, second.0 + 1] {
            assert!(requests.get_mut(RequestNumber(wrong)).is_none());
        }
    }
}
