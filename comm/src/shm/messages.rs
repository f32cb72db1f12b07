//! Messages: into the peers' rings, out of our own.

use super::endpoint::ShmEndpoint;
use super::inbox::Inbox;
use super::outbox::{MAX_MESSAGE, Outbox};
use super::ring::Checked;
use crate::biased::Guard;
use crate::{Board, Error, Event, Result};
use std::sync::atomic::Ordering;

/// Vain polls between two looks at the peers' bells and at the caller's hook.
const LOOK: u32 = 1 << 10;
/// Vain polls between two looks at the peers' processes, which cost a system call.
const LOOK_CLOSELY: u32 = 1 << 14;

impl ShmEndpoint {
    /// [`send`](crate::Endpoint::send).
    pub(super) fn write(&self, to: u32, kind: u16, parts: &[&[u8]]) -> Result<()> {
        let peer = self.peers.alive(to)?;
        let total = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()));
        let Some(total) = total.filter(|&total| total as u64 <= MAX_MESSAGE) else {
            return Err(Error::Invalid(format!(
                "a message is longer than {MAX_MESSAGE} bytes: send it in pieces"
            )));
        };
        let mut outbox = self.outbox(to);
        self.tend(to, &mut outbox, |outbox| outbox.send(kind, parts, total))?;
        drop(outbox);
        Self::wake(peer);
        Ok(())
    }

    /// [`send_long`](crate::Endpoint::send_long). Nothing is left behind of the body: what has no room is
    /// copied.
    pub(super) fn write_long(&self, to: u32, kind: u16, head: &[u8], body: &[u8]) -> Result<()> {
        if body.len() > self.inbox.layout().ring() {
            return self.write(to, kind, &[head, body]);
        }
        let peer = self.peers.alive(to)?;
        let mut outbox = self.outbox(to);
        self.tend(to, &mut outbox, |outbox| outbox.send_long(kind, head, body))?;
        drop(outbox);
        Self::wake(peer);
        Ok(())
    }

    /// [`flush`](crate::Endpoint::flush): moves backlogs into rings as far as there is room.
    #[inline]
    pub(super) fn drain(&self) -> Result<()> {
        if self.backlogs.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.drain_all()
    }

    #[cold]
    fn drain_all(&self) -> Result<()> {
        let mut verdict = Ok(());
        for (to, outbox) in (0..).zip(&self.outboxes) {
            // The thread that holds the lock is sending, and drains first.
            let Some(mut outbox) = outbox.try_lock() else { continue };
            if !outbox.has_backlog() {
                continue;
            }
            let peer = match self.peers.alive(to) {
                Ok(peer) => peer,
                Err(Error::Down { .. }) => {
                    // Its event tells the caller; a flush for the others is no place to fail for it.
                    self.tend(to, &mut outbox, |outbox| {
                        outbox.give_up();
                        Ok(())
                    })?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            verdict = self.tend(to, &mut outbox, Outbox::drain).and(verdict);
            drop(outbox);
            Self::wake(peer);
        }
        verdict
    }

    /// Works at an outbox, keeping count of those with a backlog. A receiver that breaks the protocol is
    /// given up.
    fn tend(
        &self,
        to: u32,
        outbox: &mut Outbox,
        work: impl FnOnce(&mut Outbox) -> Checked<()>,
    ) -> Result<()> {
        let before = outbox.has_backlog();
        let verdict = work(outbox).map_err(|why| {
            outbox.give_up();
            self.peers.mark_broken(to);
            Error::Protocol { rank: to, why }
        });
        match (before, outbox.has_backlog()) {
            (false, true) => _ = self.backlogs.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.backlogs.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        verdict
    }

    /// [`poll`](crate::Endpoint::poll).
    pub(super) fn deliver(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        self.drain()?;
        let Some(mut intake) = self.intake.try_lock() else { return Ok(0) };
        let events = intake.poll(&self.peers, sink)?;
        drop(intake);
        if events > 0 {
            // What was delivered may be what another thread of this rank sleeps for.
            self.noticed();
        } else {
            self.look_now_and_then();
        }
        Ok(events)
    }

    #[inline]
    fn look_now_and_then(&self) {
        // Not a read-modify-write: if threads overwrite each other's counts, a look comes a little later.
        let vain = self.vain.load(Ordering::Relaxed).wrapping_add(1);
        self.vain.store(vain, Ordering::Relaxed);
        if vain.is_multiple_of(LOOK) {
            if vain.is_multiple_of(LOOK_CLOSELY) {
                self.peers.look_closely();
            } else {
                self.peers.look();
            }
        }
    }

    /// Whether messages to a rank wait for room in its ring.
    pub(super) fn has_backlog(&self, to: u32) -> bool {
        self.outbox(to).has_backlog()
    }

    pub(super) fn outbox(&self, to: u32) -> Guard<'_, Outbox> {
        // An outbox is consistent wherever its owner can panic.
        self.outboxes[to as usize].lock()
    }

    /// Steps 5 to 7 of the bell's protocol, for a rank for which something was published.
    #[inline]
    pub(super) fn wake(peer: &Inbox) {
        if peer.bell().ring() {
            peer.wake_all();
        }
    }
}
