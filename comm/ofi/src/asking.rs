//! What a rank asks of one peer and waits for: gets, atomic operations and fences.

use super::OfiEndpoint;
use super::engine::Engine;
use super::lock;
use super::slots::{SLOT, Slot};
use super::wire::PacketItem;
use scash_comm::remote::Operation;
use scash_comm::{Atomic, GetRange, Result, SegmentId};

/// Reads under way at a time, and so the bytes that are read again if a put comes between.
const GROUP: usize = 6;

/// The rest of a get.
#[derive(Clone, Copy)]
struct Rest<'a> {
    ranges: &'a [GetRange],
    /// How much of the first range is done.
    done: usize,
}

impl Iterator for Rest<'_> {
    type Item = GetRange;

    /// The next piece that fits a slot.
    fn next(&mut self) -> Option<GetRange> {
        loop {
            let range = self.ranges.first()?;
            let len = (range.len - self.done).min(SLOT);
            if len == 0 {
                self.ranges = &self.ranges[1..];
                self.done = 0;
                continue;
            }
            let dst = range.dst.wrapping_add(self.done);
            let piece = GetRange { offset: range.offset + self.done as u64, len, dst };
            self.done += len;
            return Some(piece);
        }
    }
}

impl OfiEndpoint {
    /// Reads ranges of a peer's memory.
    ///
    /// # Safety
    /// The destinations are writable, and nobody relies on their contents during the call.
    pub(super) unsafe fn get_from(&self, from: u32, segment: SegmentId, ranges: &[GetRange]) -> Result<()> {
        let _asking = lock(&self.askers[from as usize]);
        if self.shared.run(|engine| engine.peer(from).map(|(link, ..)| link.fenced_puts < link.issued))? {
            self.fence_asking(from)?;
        }
        let mut rest = Rest { ranges, done: 0 };
        while rest.clone().next().is_some() {
            // What has arrived is heard first: so holds that follow each other keep nothing back for ever.
            self.shared.run(|engine| {
                engine.progress();
                engine.peer(from).map(|(link, ..)| link.hold())
            })?;
            // SAFETY: passed on to the caller.
            let read = unsafe { self.read_undisturbed(from, segment, &mut rest) };
            self.shared.run(|engine| engine.release(from));
            read?;
        }
        Ok(())
    }

    /// Reads the next pieces, until no put came between. Meanwhile the peer is held.
    ///
    /// # Safety
    /// As for [`Self::get_from`].
    unsafe fn read_undisturbed(&self, from: u32, segment: SegmentId, rest: &mut Rest<'_>) -> Result<()> {
        let group = *rest;
        loop {
            *rest = group;
            let before = self.shared.run(|engine| engine.lines().announced(from));
            // SAFETY: passed on to the caller.
            unsafe { self.read_group(from, segment, rest) }?;
            if self.shared.run(|engine| engine.lines().announced(from)) == before {
                return Ok(());
            }
        }
    }

    /// Reads the next pieces.
    ///
    /// # Safety
    /// As for [`Self::get_from`].
    unsafe fn read_group(&self, from: u32, segment: SegmentId, rest: &mut Rest<'_>) -> Result<()> {
        let mut reads: [Option<(Slot, GetRange)>; GROUP] = [None; GROUP];
        let mut result = Ok(());
        for (nth, read) in reads.iter_mut().enumerate() {
            let before = *rest;
            let Some(piece) = rest.next() else { break };
            match self.begin_read(from, segment, piece, nth == 0) {
                Ok(Some(slot)) => *read = Some((slot, piece)),
                // Those that have begun end first, which need not wait for what others take.
                Ok(None) => {
                    *rest = before;
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        for (slot, piece) in reads.into_iter().flatten() {
            if result.is_ok() {
                result = self.shared.until_of(from, |engine| {
                    // SAFETY: the destination is the caller's promise.
                    let finished = unsafe { engine.finish_read(from, slot, piece.dst, piece.len) }?;
                    Ok(finished.then_some(()))
                });
                if result.is_ok() {
                    continue;
                }
            }
            self.shared.run(|engine| engine.abandon_read(from, slot));
        }
        result
    }

    /// Begins to read a piece. None: that cannot be now, and is not waited for.
    fn begin_read(
        &self,
        from: u32,
        segment: SegmentId,
        piece: GetRange,
        waits: bool,
    ) -> Result<Option<Slot>> {
        let begin = |engine: &mut Engine| {
            let place = engine.link(from).place(segment, piece.offset);
            let place = place.ok_or_else(|| super::not_registered(segment))?;
            engine.read(from, place, piece.len)
        };
        if waits { self.shared.until_of(from, begin).map(Some) } else { self.shared.run(begin) }
    }

    /// Has a peer execute an operation.
    pub(super) fn atomic_at(&self, to: u32, segment: SegmentId, offset: u64, op: Atomic) -> Result<u64> {
        let _asking = lock(&self.askers[to as usize]);
        let word = PacketItem::Atomic { segment: segment.0, operation: Operation { offset, op } };
        self.ask(to, word)?;
        self.shared.until_of(to, |engine| {
            let link = engine.link(to);
            match link.was.take() {
                None => engine.peer(to).map(|_| None),
                was => Ok(was),
            }
        })
    }

    /// Returns when the peer has all earlier puts.
    pub(super) fn fence_at(&self, to: u32) -> Result<()> {
        let _asking = lock(&self.askers[to as usize]);
        self.fence_asking(to)
    }

    /// As [`Self::fence_at`], for who has the peer's asking lock.
    fn fence_asking(&self, to: u32) -> Result<()> {
        let (number, puts) = self.shared.run(|engine| {
            let (link, ..) = engine.peer(to)?;
            link.fences += 1;
            Ok((link.fences, link.issued))
        })?;
        self.ask(to, PacketItem::Fence(number))?;
        self.shared.until_of(to, |engine| {
            let link = engine.link(to);
            if link.fenced < number {
                return engine.peer(to).map(|_| None);
            }
            link.fenced_puts = link.fenced_puts.max(puts);
            Ok(Some(()))
        })
    }

    /// Says a word behind all that was issued, and sends it.
    fn ask(&self, to: u32, word: PacketItem) -> Result<()> {
        self.shared.until_of(to, |engine| {
            let (link, slots, share) = engine.peer(to)?;
            let said = !link.is_late() && link.say(slots, share, word);
            link.seal();
            link.asked |= said && matches!(word, PacketItem::Atomic { .. });
            engine.start(to);
            Ok(said.then_some(()))
        })
    }
}
