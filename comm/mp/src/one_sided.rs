//! Put, get and atomic operations on windows.
//!
//! A **put** is the endpoint's. Where the other rank's memory is mapped here it is a copy, and in place when
//! the call returns; elsewhere the bytes are taken before the call returns, and a mark behind them tells when
//! they are in place.
//!
//! A **get** that its caller waits for is the endpoint's, too: a copy, a reply of the other endpoint's
//! background thread, or a read by the network card. One that nobody waits for yet must not block its caller,
//! as the endpoint's would where memory is not mapped, nor the helper, whose progress others count on. So it
//! is asked for by a message, and the other engine answers with pieces. Its progress is therefore that of
//! messages: made by whoever waits at the other rank, or by its helper.

use super::blocks::{Blocks, Shape};
use super::communicator::{Communicator, Request};
use super::driver::Goal;
use super::window::Window;
use scash_comm::{Atomic, Caps, Error, GetRange, PutRange, Result};
use std::sync::atomic::{Ordering, fence};

/// Ranges that an endpoint is given at once.
const RANGES: usize = 128;
/// Bytes of a put or get that a network is given at once. It is given more of a put when those have left:
/// what it cannot hand over it copies. A peer's signs of life, which come and go by the same way, would wait
/// behind what is longer, and nothing is heard of a peer while something is got from it.
const PIECE: usize = 4 << 20;

/// Blocks of one length on both sides of a put or get, at a distance of its own on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// How many blocks.
    pub count: usize,
    /// Bytes of a block.
    pub len: usize,
    /// Bytes from the start of a block to that of the next one in this rank's memory: `len` or more.
    pub here: usize,
    /// The same in the window.
    pub there: usize,
}

impl Strided {
    /// One block.
    fn whole(len: usize) -> Self {
        Self { count: 1, len, here: len, there: len }
    }

    /// How the blocks lie in this rank's memory, and in the window.
    fn shapes(self) -> Result<(Shape, Shape)> {
        let Self { count, len, here, there } = self;
        let shape = |stride| {
            Shape::new(count, len, stride).ok_or_else(|| {
                Error::Invalid(format!(
                    "{count} blocks of {len} bytes, one every {stride}: they must not overlap, nor be larger than any memory"
                ))
            })
        };
        Ok((shape(here)?, shape(there)?))
    }

    /// Gives `carry` the ranges that `make` makes of offsets here and there and of lengths, some at a time:
    /// so many as an endpoint is given, and `most` bytes in all.
    fn ranges<R>(
        self,
        most: usize,
        make: impl Fn(usize, usize, usize) -> R,
        mut carry: impl FnMut(&[R]) -> Result<()>,
    ) -> Result<()> {
        let Self { count, len, here, there } = self;
        if count == 0 || len == 0 {
            // However many there are.
            return carry(&[make(0, 0, 0)]);
        }
        if count == 1 || here == len && there == len {
            let total = count * len;
            return (0..total).step_by(most).try_for_each(|at| carry(&[make(at, at, most.min(total - at))]));
        }
        let (mut some, mut bytes) = (Vec::with_capacity(RANGES.min(count)), 0usize);
        let parts = (0..count).flat_map(|block| (0..len).step_by(most).map(move |at| (block, at)));
        for (block, at) in parts {
            let part = most.min(len - at);
            if some.len() == RANGES || bytes.saturating_add(part) > most {
                carry(&some)?;
                some.clear();
                bytes = 0;
            }
            some.push(make(block * here + at, block * there + at, part));
            bytes += part;
        }
        carry(&some)
    }
}

impl Communicator {
    /// Puts bytes into a rank's part of a window, and returns when they are in place.
    ///
    /// # Errors
    /// There is no such rank or place in the window, or the rank is gone.
    pub fn put(&self, window: &Window, to: u32, offset: usize, bytes: &[u8]) -> Result<()> {
        let request = self.start_put(window, to, offset, bytes)?;
        self.wait(request).map(drop)
    }

    /// Begins to put bytes into a rank's part of a window. They may be changed when this returns; when the
    /// operation is over, they are in place.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn start_put(&self, window: &Window, to: u32, offset: usize, bytes: &[u8]) -> Result<Request> {
        self.start_put_strided(window, to, offset, bytes, Strided::whole(bytes.len()))
    }

    /// Begins to put blocks, of which the first one begins with `bytes` and at `offset`.
    ///
    /// # Errors
    /// As for [`put`](Self::put); blocks that overlap, or reach beyond the bytes.
    pub fn start_put_strided(
        &self,
        window: &Window,
        to: u32,
        offset: usize,
        bytes: &[u8],
        blocks: Strided,
    ) -> Result<Request> {
        if self.hand_over(window, to, offset, bytes, blocks)? {
            return Ok(Request(None));
        }
        let mut engine = self.shared.engine();
        engine.has_put(to);
        let mark = self.shared.told(engine.mark(to))?;
        self.shared.settle(&mut engine);
        Ok(Request(Some(mark)))
    }

    /// Puts bytes and forgets about it: a [`fence`](Self::fence) tells that they are in place.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn put_and_forget(&self, window: &Window, to: u32, offset: usize, bytes: &[u8]) -> Result<()> {
        self.put_strided_and_forget(window, to, offset, bytes, Strided::whole(bytes.len()))
    }

    /// Puts blocks and forgets about it: a [`fence`](Self::fence) tells that they are in place.
    ///
    /// # Errors
    /// As for [`start_put_strided`](Self::start_put_strided).
    pub fn put_strided_and_forget(
        &self,
        window: &Window,
        to: u32,
        offset: usize,
        bytes: &[u8],
        blocks: Strided,
    ) -> Result<()> {
        if !self.hand_over(window, to, offset, bytes, blocks)? {
            self.shared.engine().has_put(to);
        }
        Ok(())
    }

    /// Gets bytes of a rank's part of a window, as they are after what this rank has put there.
    ///
    /// # Errors
    /// There is no such rank or place in the window, or the rank is gone.
    pub fn get(&self, window: &Window, from: u32, offset: usize, into: &mut [u8]) -> Result<()> {
        self.get_strided(window, from, offset, into, Strided::whole(into.len()))
    }

    /// Gets blocks, of which the first one begins at `offset`, and is to begin with `into`.
    ///
    /// # Errors
    /// As for [`get`](Self::get); blocks that overlap, or reach beyond `into`.
    pub fn get_strided(
        &self,
        window: &Window,
        from: u32,
        offset: usize,
        into: &mut [u8],
        blocks: Strided,
    ) -> Result<()> {
        blocks_fit(blocks.shapes()?.0, into.len())?;
        // SAFETY: the memory is borrowed, and the blocks are inside.
        unsafe { self.fetch(window, from, offset, into.as_mut_ptr(), blocks) }
    }

    /// Begins to get `len` bytes of a rank's part of a window, as they are after what this rank has put
    /// there.
    ///
    /// # Safety
    /// The `len` bytes at `into` are writable, and used by nobody else until the operation is known to be
    /// over, or the communicator is gone.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub unsafe fn start_get(
        &self,
        window: &Window,
        from: u32,
        offset: usize,
        into: *mut u8,
        len: usize,
    ) -> Result<Request> {
        // SAFETY: the caller's promise.
        unsafe { self.start_get_strided(window, from, offset, into, Strided::whole(len)) }
    }

    /// Begins to get blocks, of which the first one begins at `offset`, and is to begin at `into`.
    ///
    /// # Safety
    /// The memory from `into` to the end of the last block is writable, and used by nobody else until the
    /// operation is known to be over, or the communicator is gone.
    ///
    /// # Errors
    /// As for [`get`](Self::get); blocks that overlap.
    pub unsafe fn start_get_strided(
        &self,
        window: &Window,
        from: u32,
        offset: usize,
        into: *mut u8,
        blocks: Strided,
    ) -> Result<Request> {
        if self.is_mapped(from) {
            // SAFETY: the caller's promise.
            return unsafe { self.fetch(window, from, offset, into, blocks) }.map(|()| Request(None));
        }
        let (here, there) = blocks.shapes()?;
        window.check(self)?;
        let offset = window.place(from, offset, there.span())?;
        if here.total() == 0 {
            return Ok(Request(None));
        }
        // SAFETY: the caller's promise.
        let into = unsafe { Blocks::new(into, here) };
        let mut engine = self.shared.engine();
        let request = self.shared.told(engine.get(from, offset as u64, there, into))?;
        self.shared.settle(&mut engine);
        Ok(Request(Some(request)))
    }

    /// Executes an atomic operation on the word at `offset` of a rank's part of a window, and returns what it
    /// was before; see [`Endpoint::atomic`](scash_comm::Endpoint::atomic) and what this crate says of the
    /// order of such operations. It waits for the other rank's endpoint, not for its application.
    ///
    /// # Errors
    /// There is no such rank or place in the window, no word begins there, or the rank is gone.
    pub fn atomic(&self, window: &Window, to: u32, offset: usize, op: Atomic) -> Result<u64> {
        window.check(self)?;
        let offset = window.place(to, offset, op.width())?;
        self.shared.told(self.shared.endpoint().atomic(to, self.heap()?.segment(), offset as u64, op))
    }

    /// Returns when all that this rank has put to another one, or to all of them (`None`), is in place, the
    /// active messages that it has sent there were handled, and the messages that it has sent and forgotten
    /// have arrived (or were received, if they could not be kept there).
    ///
    /// # Errors
    /// There is no such rank; or one is gone, and it is not known whether that was so.
    pub fn fence(&self, rank: Option<u32>) -> Result<()> {
        self.check(rank)?;
        // Where memory is mapped, puts were copies.
        fence(Ordering::SeqCst);
        let ranks = rank.map_or(0..self.size(), |rank| rank..rank + 1);
        let mut engine = self.shared.engine();
        let mut sends: Vec<_> = ranks.clone().flat_map(|rank| engine.forgotten(rank)).collect();
        if !sends.is_empty() {
            drop(engine);
            self.shared.until(Goal::Forgotten, |engine| {
                sends.retain(|&send| engine.is_forgotten(send));
                sends.is_empty().then_some(())
            });
            engine = self.shared.engine();
        }
        let marks: Vec<_> = ranks.filter_map(|rank| engine.fence(rank)).collect();
        self.shared.settle(&mut engine);
        drop(engine);
        let waited = marks.into_iter().map(|mark| self.wait(Request(Some(mark?))).map(drop));
        // All, also if one fails.
        waited.collect::<Vec<_>>().into_iter().collect()
    }

    /// Hands the bytes of a put over; whether they are in place.
    fn hand_over(
        &self,
        window: &Window,
        to: u32,
        offset: usize,
        bytes: &[u8],
        blocks: Strided,
    ) -> Result<bool> {
        let (here, there) = blocks.shapes()?;
        blocks_fit(here, bytes.len())?;
        window.check(self)?;
        let base = window.place(to, offset, there.span())?;
        let (endpoint, segment) = (self.shared.endpoint(), self.heap()?.segment());
        let make = |here, there, len| PutRange {
            offset: (base + there) as u64,
            len,
            src: bytes.as_ptr().wrapping_add(here),
        };
        if self.is_mapped(to) {
            // SAFETY: the ranges are inside the bytes.
            let put = blocks.ranges(usize::MAX, make, |ranges| unsafe { endpoint.put(to, segment, ranges) });
            return self.shared.told(put).map(|()| true);
        }
        let hand_over = |ranges: &[PutRange]| {
            self.shared.make_way(to);
            // SAFETY: the ranges are inside the bytes, which are borrowed until after the flush.
            let put = unsafe { endpoint.put(to, segment, ranges) };
            // Also if not all could be put: what was is borrowed.
            endpoint.flush().and(put)
        };
        self.shared.told(blocks.ranges(PIECE, make, hand_over)).map(|()| false)
    }

    /// Gets by the endpoint.
    ///
    /// # Safety
    /// The memory from `into` to the end of the last block is writable, and nobody else uses it during the
    /// call.
    unsafe fn fetch(
        &self,
        window: &Window,
        from: u32,
        offset: usize,
        into: *mut u8,
        blocks: Strided,
    ) -> Result<()> {
        let (_, there) = blocks.shapes()?;
        window.check(self)?;
        let base = window.place(from, offset, there.span())?;
        let (endpoint, segment) = (self.shared.endpoint(), self.heap()?.segment());
        let make =
            |here, there, len| GetRange { offset: (base + there) as u64, len, dst: into.wrapping_add(here) };
        let most = if self.is_mapped(from) { usize::MAX } else { PIECE };
        // SAFETY: the caller's promise.
        let got = blocks.ranges(most, make, |ranges| unsafe { endpoint.get(from, segment, ranges) });
        self.shared.told(got)
    }

    /// Whether a rank's registered memory is mapped here.
    #[inline]
    fn is_mapped(&self, rank: u32) -> bool {
        self.shared.endpoint().caps_to(rank).contains(Caps::DIRECT)
    }
}

/// An error if blocks of this rank's memory reach beyond what is given.
fn blocks_fit(here: Shape, given: usize) -> Result<()> {
    if here.span() <= given {
        return Ok(());
    }
    Err(Error::Invalid(format!("blocks that span {} bytes, of {given} that are given", here.span())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_the_blocks_a_few_bytes_at_a_time(
            count in 0..400usize,
            len in 0..40usize,
            gaps in [0..3usize, 0..3usize],
            most in prop_oneof![1..100usize, Just(usize::MAX)],
        ) {
            let blocks = Strided { count, len, here: len + gaps[0], there: len + gaps[1] };
            let mut bytes = Vec::new();
            blocks.ranges(most, |here, there, len| (here, there, len), |ranges| {
                assert!(ranges.len() <= RANGES && ranges.iter().map(|range| range.2).sum::<usize>() <= most);
                let each = |&(here, there, len)| (0..len).map(move |at| (here + at, there + at));
                bytes.extend(ranges.iter().flat_map(each));
                Ok(())
            }).unwrap();
            let expected = (0..count).flat_map(|block| {
                (0..len).map(move |at| (block * blocks.here + at, block * blocks.there + at))
            });
            prop_assert_eq!(bytes, expected.collect::<Vec<_>>());
        }
    }
}
