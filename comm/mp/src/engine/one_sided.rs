//! Windows: gets that are answered by messages, and the question whether what was put is in place.
//!
//! Puts are the endpoint's. So are gets, where it has this process's memory mapped, or where the caller wants
//! to wait for them; others are asked for here, and come as the pieces of a long message do: nobody waits for
//! them in a call, and they do not crowd out messages.

use super::arrive::Checked;
use super::send::OutgoingPayload;
use super::{Engine, gone};
use crate::Status;
use crate::blocks::{Blocks, Shape};
use crate::requests::{Completion, Request, RequestNumber};
use crate::span::ReceiveBuffer;
use crate::wire::MessageHead;
use scash_comm::Result;

impl Engine {
    /// This part of registered memory is a window from now on, which others may get from: where it begins
    /// there, and where it is.
    pub(crate) fn open_window(&mut self, offset: usize, place: ReceiveBuffer) {
        // A part without bytes takes no memory, so another window may begin there.
        if place.len() > 0 {
            self.windows.insert(offset, place);
        }
    }

    /// It is none any more, of `len` bytes. Nobody gets from it.
    pub(crate) fn close_window(&mut self, offset: usize, len: usize) {
        if len > 0 {
            self.windows.remove(&offset);
        }
    }

    /// Whether gets of this rank are under way.
    pub(crate) fn has_gets(&mut self) -> bool {
        self.requests.iter_mut().any(|request| matches!(request, Request::Get { .. }))
    }

    /// Begins to get blocks from another rank's registered memory, where they have this shape, which has as
    /// many bytes.
    ///
    /// # Errors
    /// The rank is gone.
    pub(crate) fn get(
        &mut self,
        from: u32,
        offset: u64,
        there: Shape,
        into: Blocks,
    ) -> Result<RequestNumber> {
        if self.peers[from as usize].is_gone {
            return Err(gone(from));
        }
        let number = self.requests.add(Request::Get { from, into, here: 0 });
        let [count, len, stride] = there.numbers();
        self.say(from, MessageHead::Get { get: number.0, offset, count, len, stride });
        Ok(number)
    }

    /// Something was put to a rank, and it is not known whether it is in place.
    pub(crate) fn has_put(&mut self, to: u32) {
        self.peers[to as usize].loose += 1;
    }

    /// Marks what was put to a rank and called there, if it is not known to be done.
    pub(crate) fn fence(&mut self, to: u32) -> Option<Result<RequestNumber>> {
        let peer = &self.peers[to as usize];
        (peer.loose != peer.fenced).then(|| self.mark(to))
    }

    /// Begins to ask whether all that was put to a rank is in place, and active messages to it were handled.
    /// The answer comes when it is, as messages do not overtake puts.
    ///
    /// # Errors
    /// The rank is gone. That is said once of what was put.
    pub(crate) fn mark(&mut self, to: u32) -> Result<RequestNumber> {
        let peer = &mut self.peers[to as usize];
        if peer.is_gone {
            peer.fenced = peer.loose;
            return Err(gone(to));
        }
        let number = self.requests.add(Request::Mark { to, upto: peer.loose });
        self.say_mark(to, number);
        Ok(number)
    }

    /// A mark is answered.
    pub(super) fn marked(&mut self, from: u32, mark: RequestNumber) -> Checked {
        let Some(Request::Mark { to, upto }) = self.requests.get_mut(mark) else {
            return Err("a mark is answered that does not exist");
        };
        if *to != from {
            return Err("a mark for another rank is answered");
        }
        let peer = &mut self.peers[from as usize];
        peer.fenced = peer.fenced.max(*upto);
        self.end(mark, Ok(Completion::default()));
        Ok(())
    }

    /// Another rank gets from a window.
    pub(super) fn asked(
        &mut self,
        from: u32,
        get: u64,
        offset: u64,
        (count, len, stride): (usize, usize, usize),
    ) -> Checked {
        let shape = Shape::new(count, len, stride).filter(|shape| shape.total() > 0);
        let shape = shape.ok_or("blocks are asked for that no memory has")?;
        let offset = usize::try_from(offset).map_err(|_| "bytes are asked for beyond any memory")?;
        let window = self.windows.range(..=offset).next_back();
        let inside = window.map(|(&start, place)| place.part(offset - start, shape.span()));
        let inside = inside.filter(|inside| inside.len() == shape.span());
        let inside = inside.ok_or("bytes are asked for that are in no window")?;
        // SAFETY: a window is readable until it is closed, when all gets from it are over.
        let blocks = unsafe { Blocks::new(inside.start(), shape) };
        self.leave(from, OutgoingPayload::Window(blocks, get));
        Ok(())
    }

    /// The next bytes of a get.
    pub(super) fn got(&mut self, from: u32, get: RequestNumber, offset: u64, bytes: &[u8]) -> Checked {
        let Some(Request::Get { from: source, into, here }) = self.requests.get_mut(get) else {
            return Err("data come for an operation that has not asked for them");
        };
        if *source != from || offset != *here as u64 || bytes.len() > into.total() - *here {
            return Err("data come that were not asked for");
        }
        into.scatter(*here, bytes);
        *here += bytes.len();
        if *here == into.total() {
            let status = Status { source: from, tag: 0, len: *here };
            self.end(get, Ok(Completion { status, bytes: Vec::new() }));
        }
        Ok(())
    }
}
