//! Put, get and direct reads: copies to and from memory that is mapped here, under the windows' protocol (see
//! [`window`](super::window)). Atomic operations: the processor's own, in the same mappings.

use super::endpoint::{MovedBytes, ShmEndpoint};
use super::inbox::Inbox;
use super::window::{Get, PutWait};
use crate::racing::copy;
use crate::{Atomic, GetRange, PutRange, Result, SegmentId, give_way};
use std::hint::spin_loop;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// Bytes that are read from a file at most.
const PAGE: usize = 4096;
/// Bytes that a get copies before it lets waiting puts pass.
const GRAIN: usize = 64 << 10;
/// Looks at a window before a put gives its core away: the peer's copy takes microseconds, unless its thread
/// has lost its own core.
const LOOKS: u32 = 1_000;
/// Times that a waiting put gives its core away between two looks at whether the peer still lives.
const TURNS: u32 = 64;

impl ShmEndpoint {
    /// [`put`](crate::Endpoint::put).
    ///
    /// # Safety
    /// The source ranges are readable.
    pub(super) unsafe fn copy_out(&self, to: u32, segment: SegmentId, ranges: &[PutRange]) -> Result<()> {
        let place = self.segments.find(to, segment)?;
        ranges.iter().try_for_each(|range| place.at(range.offset, range.len).map(drop))?;
        self.wait_until_puttable(to)?;
        let mut bytes = 0;
        for range in ranges {
            let dst = place.at(range.offset, range.len)?;
            // SAFETY: the caller's promise for the source; the destination is inside the mapping.
            unsafe { copy(range.src, dst, range.len) };
            bytes += range.len;
        }
        self.moved.add(MovedBytes::Puts(ranges.len()), bytes);
        Ok(())
    }

    /// [`get`](crate::Endpoint::get).
    ///
    /// # Safety
    /// The destination ranges are writable.
    pub(super) unsafe fn copy_in(&self, from: u32, segment: SegmentId, ranges: &[GetRange]) -> Result<()> {
        self.peers.alive(from)?;
        let place = self.segments.find(from, segment)?;
        ranges.iter().try_for_each(|range| place.at(range.offset, range.len).map(drop))?;
        let (mut bytes, mut grain) = (0, GRAIN);
        let mut window = self.open(from);
        for range in ranges {
            let mut done = 0;
            while done < range.len {
                if grain == 0 {
                    drop(window);
                    (window, grain) = (self.open(from), GRAIN);
                }
                let len = grain.min(range.len - done);
                let src = place.at(range.offset + done as u64, len)?;
                // SAFETY: `done` is less than the range's length.
                let dst = unsafe { range.dst.add(done) };
                // SAFETY: the caller's promise for the destination; the source is inside the mapping.
                unsafe { copy(src, dst, len) };
                (done, grain, bytes) = (done + len, grain - len, bytes + len);
            }
        }
        drop(window);
        self.moved.add(MovedBytes::Gets(ranges.len()), bytes);
        Ok(())
    }

    /// [`read_peer`](crate::Endpoint::read_peer).
    pub(super) fn show(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<()> {
        self.peers.alive(from)?;
        let src = self.segments.find(from, segment)?.at(offset, len)?;
        let window = self.open(from);
        f(src);
        drop(window);
        self.moved.add(MovedBytes::Gets(1), len);
        Ok(())
    }

    /// [`read_peer_once`](crate::Endpoint::read_peer_once): reads the peer's file. A first look through the
    /// mapping costs a page fault, in which the kernel maps the pages around as well: several times what this
    /// call costs.
    pub(super) fn show_copy(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<()> {
        let mut copy = [MaybeUninit::<u8>::uninit(); PAGE];
        self.peers.alive(from)?;
        let place = self.segments.find(from, segment)?;
        place.at(offset, len)?;
        let window = self.open(from);
        // SAFETY: as many bytes as the call gets are those of `copy`.
        let read = len <= PAGE && unsafe { place.read(offset, copy.as_mut_ptr().cast(), len) };
        if !read {
            drop(window);
            return self.show(from, segment, offset, len, f);
        }
        f(copy.as_ptr().cast());
        drop(window);
        self.moved.add(MovedBytes::Gets(1), len);
        Ok(())
    }

    /// [`atomic`](crate::Endpoint::atomic).
    pub(super) fn operate(&self, to: u32, segment: SegmentId, offset: u64, op: Atomic) -> Result<u64> {
        self.peers.alive(to)?;
        op.check_alignment(offset)?;
        let word = self.segments.find(to, segment)?.at(offset, op.width())?;
        // SAFETY: the word is inside a mapping, which begins with a page, at a multiple of its width; no Rust
        // reference to shared bytes exists (see `copy`).
        let before = unsafe { op.execute(word) };
        self.moved.add(MovedBytes::Atomic, 0);
        Ok(before)
    }

    /// Waits until no get of the peer is under way that may have read this rank's memory before what is put
    /// now.
    pub(super) fn wait_until_puttable(&self, to: u32) -> Result<()> {
        let peer = self.peers.alive(to)?;
        if to != self.rank
            && let Some(wait) = peer.window(self.rank).wait()
        {
            self.wait_for_gets(to, peer, wait)?;
        }
        Ok(())
    }

    /// Opens this rank's window for gets from a peer. A rank needs none to itself.
    fn open(&self, from: u32) -> Option<Get<'_>> {
        (from != self.rank).then(|| self.inbox.window(from).enter())
    }

    /// Turn 6 of the windows' protocol after its first look.
    #[cold]
    fn wait_for_gets(&self, to: u32, peer: &Inbox, wait: PutWait) -> Result<()> {
        let waiting = self.peers.waiting(to);
        waiting.inspect(|count| _ = count.fetch_add(1, Ordering::Relaxed));
        let verdict = self.look_for_gets(to, peer, wait);
        waiting.inspect(|count| _ = count.fetch_sub(1, Ordering::Relaxed));
        verdict
    }

    fn look_for_gets(&self, to: u32, peer: &Inbox, mut wait: PutWait) -> Result<()> {
        let mut looks = 0u32;
        while !wait.is_over(peer.window(self.rank)) {
            looks += 1;
            if looks < LOOKS {
                spin_loop();
                continue;
            }
            let turn = looks - LOOKS;
            give_way(turn);
            if turn.is_multiple_of(TURNS) {
                // A rank that died in the middle of a get never ends it, nor does one that is stopped.
                self.peers.look_closely();
                self.peers.alive(to)?;
            }
        }
        Ok(())
    }
}
