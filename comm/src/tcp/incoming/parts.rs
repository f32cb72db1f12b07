//! Long messages, whose bytes go from the socket to where their receiver wants them.

use super::*;

impl Incoming {
    /// The long message whose bytes are to be taken next.
    pub(in super::super) fn part(&self) -> Option<PartialMessage> {
        match self.body {
            ReceivingBody::Part(part) if !self.ended => Some(part),
            _ => None,
        }
    }

    /// Whether something has come that the socket does not tell of any more, and that nobody has read.
    pub(in super::super) fn holds(&self) -> bool {
        self.inlet.holds()
    }

    /// Stores the next bytes of that message, which ends at position `end`, at `to`: those that are here and
    /// may be read, and `most` at most. Returns how many there were, and whether the socket may have more. If
    /// it is not the next message any more, there are none.
    ///
    /// # Safety
    /// `most` bytes at `to` are writable, and nobody relies on what they are during the call.
    pub(in super::super) unsafe fn take_part(
        &mut self,
        socket: BorrowedFd<'_>,
        segments: &Segments,
        end: u64,
        to: *mut u8,
        most: usize,
    ) -> (usize, Result<Pulled, LossReason>) {
        let Some(part) = self.part().filter(|part| part.end == end) else { return (0, Ok(Pulled::Some)) };
        let most = most.min(part.left);
        // SAFETY: no more than the caller vouches for.
        let here = unsafe { self.take_here(to, most) };
        if here == most {
            return (here, Ok(Pulled::Some));
        }
        if !self.may_pull() {
            return (here, Ok(Pulled::All));
        }
        // SAFETY: what follows that, and is the caller's as well.
        let (count, pulled) = unsafe { self.read_part(socket, segments, to.wrapping_add(here), most - here) };
        self.ended |= pulled.is_err();
        (here + count, pulled)
    }

    /// Nobody wants the message that ends at position `end`.
    pub(in super::super) fn refuse_part(&mut self, end: u64) {
        if let Some(part) = self.part().filter(|part| part.end == end) {
            self.body = ReceivingBody::Unwanted { left: part.left };
            self.drop_unwanted();
        }
    }

    /// Passes over those bytes of an unwanted message that have come.
    pub(super) fn drop_unwanted(&mut self) {
        let ReceivingBody::Unwanted { left } = &mut self.body else { return };
        let there = (*left).min(self.end - self.start);
        self.start += there;
        *left -= there;
        if *left == 0 {
            self.body = ReceivingBody::None;
        }
    }

    /// Has what is left of a long message come into memory of its own.
    pub(super) fn keep_part(&mut self) {
        let Some(part) = self.part() else { return };
        let mut bytes = Vec::with_capacity(part.left.min(FIRST_GROWTH));
        bytes.extend_from_slice(&self.now.buffer[self.start..self.end]);
        self.start = self.end;
        let left = part.left - bytes.len();
        self.body = ReceivingBody::Message { kind: part.kind, rest: Some(part), bytes, left };
    }

    /// Takes a long message, or its head. `false` if the buffer must first receive more of it.
    pub(super) fn long(&mut self, kind: u16, head: usize, len: usize) -> bool {
        let (from, there) = (self.start + HEAD, self.end - self.start - HEAD);
        if there >= len {
            return self.message(kind, len);
        }
        if there < head {
            return false;
        }
        let body = from + head;
        // What is in the buffer is not parsed yet.
        let end = self.received - there as u64 + len as u64;
        self.body =
            ReceivingBody::Part(PartialMessage::new(kind, &self.now.buffer[from..body], len - head, end));
        self.start = body;
        self.copied += self.end - body;
        true
    }

    /// Copies the first bytes of a long message from the buffer. Returns how many.
    ///
    /// # Safety
    /// See [`Self::take_part`].
    unsafe fn take_here(&mut self, to: *mut u8, most: usize) -> usize {
        let ReceivingBody::Part(part) = &mut self.body else { return 0 };
        let here = &self.now.buffer[self.start..self.end];
        let count = here.len().min(most);
        // SAFETY: the caller vouches for the place; the source is our own buffer, so they do not overlap.
        unsafe { to.copy_from_nonoverlapping(here.as_ptr(), count) };
        self.start += count;
        part.advance(count);
        count
    }

    /// Reads the next bytes of a long message, of which the buffer has none, and what follows it into the
    /// buffer. Returns how many bytes of it there were, also if what follows is the stream's end.
    ///
    /// # Safety
    /// See [`Self::take_part`].
    unsafe fn read_part(
        &mut self,
        socket: BorrowedFd<'_>,
        segments: &Segments,
        to: *mut u8,
        most: usize,
    ) -> (usize, Result<Pulled, LossReason>) {
        self.make_room();
        let ReceivingBody::Part(part) = &mut self.body else { return (0, Ok(Pulled::Some)) };
        let window = if part.left == most { self.window.min(BUFFER - self.end) } else { 0 };
        let behind = sys::piece(self.now.buffer[self.end..].as_mut_ptr(), window);
        let pieces = [sys::piece(to, most), behind];
        // SAFETY: the caller vouches for the first piece; the other one is the free part of the buffer, which
        // nobody uses while this value is locked.
        let read = unsafe { self.inlet.receive(socket, &pieces[..1 + usize::from(window > 0)]) };
        let count = match read {
            Ok(None) => return (0, Ok(Pulled::All)),
            Ok(Some(0)) => return (0, Err(LossReason::closed())),
            Ok(Some(count)) => count,
            Err(fate) => return (0, Err(fate)),
        };
        let taken = count.min(most);
        part.advance(taken);
        let is_over = part.left == 0;
        self.received += count as u64;
        self.end += count - taken;
        let mut parsed = Ok(());
        if is_over {
            self.body = ReceivingBody::None;
            parsed = self.parse_window(count - taken, window, segments);
        }
        let is_drained = count < most + window && !self.inlet.holds();
        (taken, parsed.map(|()| if is_drained { Pulled::All } else { Pulled::Some }))
    }
}
