//! What this rank knows about the others: alive, or gone and why.
//!
//! A peer's state only ever goes from alive to gone, and from gone to reported. Three witnesses are asked, in
//! rising order of cost: the peer's bell (it left in an orderly way: one load), the caller's hook (whatever
//! watches the job), and the peer's pidfd (its process ended: a system call, so seldom). Peers hand over
//! their own pidfds with their inboxes, so no process number is ever looked up and the witness holds across
//! PID namespaces; where there is no pidfd (old kernels, seccomp), it is not asked.

use super::inbox::Inbox;
use crate::descriptors::pidfd;
use crate::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Tells whether a rank is still alive, as far as the caller knows.
pub type AliveHook = Arc<dyn Fn(u32) -> bool + Send + Sync>;

const ALIVE: u8 = 0;
const LEFT: u8 = 1;
const EXITED: u8 = 2;
const TOLD: u8 = 3;
const BROKEN: u8 = 4;
const SILENT: u8 = 5;
/// Added to the state when the event has been delivered.
const REPORTED: u8 = 0x80;

/// The ranks of the job and what is known of them.
pub(super) struct Peers {
    me: u32,
    peers: Box<[Peer]>,
    hook: Option<AliveHook>,
    /// Peers that are gone and whose event has not been delivered.
    unreported: AtomicU32,
}

struct Peer {
    inbox: Arc<Inbox>,
    pidfd: Option<OwnedFd>,
    state: AtomicU8,
    /// Threads that wait for the end of its gets.
    waiting: AtomicU32,
}

impl Peers {
    /// The ranks behind `inboxes`, all alive.
    pub(super) fn new(me: u32, inboxes: Vec<(Arc<Inbox>, Option<OwnedFd>)>, hook: Option<AliveHook>) -> Self {
        let peer =
            |(inbox, pidfd)| Peer { inbox, pidfd, state: AtomicU8::new(ALIVE), waiting: AtomicU32::new(0) };
        Self { me, peers: inboxes.into_iter().map(peer).collect(), hook, unreported: AtomicU32::new(0) }
    }

    /// Number of ranks.
    pub(super) fn size(&self) -> u32 {
        // As many as an exchange has ranks, which it counts in a `u32`.
        u32::try_from(self.peers.len()).unwrap_or(u32::MAX)
    }

    /// The inbox of a rank, alive or gone; an error if there is no such rank.
    pub(super) fn inbox(&self, rank: u32) -> Result<&Arc<Inbox>> {
        let size = self.peers.len();
        let peer = self.peers.get(rank as usize);
        peer.map(|peer| &peer.inbox)
            .ok_or_else(|| Error::Invalid(format!("there is no rank {rank} among {size}")))
    }

    /// The inbox of a rank that is needed alive.
    #[inline]
    pub(super) fn alive(&self, rank: u32) -> Result<&Arc<Inbox>> {
        match self.peers.get(rank as usize) {
            Some(Peer { inbox, state, .. })
                if state.load(Ordering::Relaxed) == ALIVE && !inbox.bell().has_left() =>
            {
                Ok(inbox)
            }
            _ => Err(self.absent(rank)),
        }
    }

    /// Why a rank is not there.
    #[cold]
    fn absent(&self, rank: u32) -> Error {
        if let Err(error) = self.inbox(rank) {
            return error;
        }
        self.ask_bells();
        let why = match self.peers[rank as usize].state.load(Ordering::Relaxed) & !REPORTED {
            LEFT => "it left the job",
            EXITED => "its process ended",
            BROKEN => "it broke the protocol",
            SILENT => "it gave no sign of life for too long",
            _ => "it was declared dead",
        };
        Error::Down { rank, why: why.to_owned() }
    }

    /// The inboxes of all ranks, alive or gone, in their order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Inbox>> {
        self.peers.iter().map(|peer| &peer.inbox)
    }

    /// All ranks but this one.
    pub(super) fn others(&self) -> impl Iterator<Item = (u32, &Arc<Inbox>)> {
        (0..).zip(&self.peers).filter(|(rank, _)| *rank != self.me).map(|(rank, peer)| (rank, &peer.inbox))
    }

    /// Whether a rank is known to be gone, or can be seen to have left.
    pub(super) fn misses(&self) -> bool {
        self.ask_bells();
        self.peers.iter().any(|peer| peer.state.load(Ordering::Acquire) != ALIVE)
    }

    /// Whether [`report`](Self::report) has anything to do.
    #[inline]
    pub(super) fn any_unreported(&self) -> bool {
        self.unreported.load(Ordering::Relaxed) > 0
    }

    /// Offers each peer that is gone and not reported yet to `deliver`, which returns whether the event has
    /// been delivered.
    pub(super) fn report(&self, mut deliver: impl FnMut(u32) -> bool) {
        for (rank, peer) in (0..).zip(&self.peers) {
            let state = peer.state.load(Ordering::Acquire);
            if state != ALIVE && state & REPORTED == 0 && deliver(rank) {
                peer.state.store(state | REPORTED, Ordering::Relaxed);
                self.unreported.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Asks the cheap witnesses.
    pub(super) fn look(&self) {
        self.ask_bells();
        if let Some(hook) = &self.hook {
            for (rank, _) in self.living() {
                if !hook(rank) {
                    self.mark(rank, TOLD);
                }
            }
        }
    }

    /// Asks all witnesses.
    pub(super) fn look_closely(&self) {
        self.look();
        // In pieces, so that no memory is allocated: this runs in fault handlers too.
        const PIECE: usize = 64;
        let nothing = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
        for (first, piece) in (0..).step_by(PIECE).zip(self.peers.chunks(PIECE)) {
            let mut asked = [nothing; PIECE];
            for ((rank, peer), ask) in (first..).zip(piece).zip(&mut asked) {
                if let Some(pidfd) = peer.pidfd.as_ref().filter(|_| rank != self.me && peer.is_alive()) {
                    ask.fd = pidfd.as_raw_fd();
                }
            }
            // SAFETY: the array is ours and as long as we say.
            let answers = unsafe { libc::poll(asked.as_mut_ptr(), PIECE as libc::nfds_t, 0) };
            if answers > 0 {
                let ended = (first..).zip(&asked).filter(|(_, ask)| ask.revents & libc::POLLIN != 0);
                ended.for_each(|(rank, _)| self.mark(rank, EXITED));
            }
        }
    }

    /// The rank sent what no correct rank sends: it is treated as gone.
    pub(super) fn mark_broken(&self, rank: u32) {
        self.mark(rank, BROKEN);
    }

    /// The rank is given up.
    pub(super) fn mark_silent(&self, rank: u32) {
        if (rank as usize) < self.peers.len() && rank != self.me {
            self.mark(rank, SILENT);
        }
    }

    /// Threads that wait for something that only this rank can end; `None`: there is no such rank.
    pub(super) fn waiting(&self, rank: u32) -> Option<&AtomicU32> {
        Some(&self.peers.get(rank as usize)?.waiting)
    }

    fn ask_bells(&self) {
        for (rank, peer) in self.living() {
            if peer.inbox.bell().has_left() {
                self.mark(rank, LEFT);
            }
        }
    }

    fn living(&self) -> impl Iterator<Item = (u32, &Peer)> {
        (0..).zip(&self.peers).filter(|(rank, peer)| *rank != self.me && peer.is_alive())
    }

    fn mark(&self, rank: u32, why: u8) {
        // Release: who sees the state sees what the witness saw, that is, all the peer's frames.
        let state = &self.peers[rank as usize].state;
        self.unreported.fetch_add(1, Ordering::Relaxed); // first, so that `report` never subtracts from zero
        if state.compare_exchange(ALIVE, why, Ordering::Release, Ordering::Relaxed).is_err() {
            self.unreported.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Peer {
    fn is_alive(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ALIVE
    }
}

/// A descriptor of this process itself, for peers to watch; `None` where the system gives none.
pub(super) fn own_pidfd() -> Option<OwnedFd> {
    pidfd(nix::unistd::getpid()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::inbox::Layout;
    use std::sync::atomic::AtomicBool;

    fn peers(hook: Option<AliveHook>) -> Peers {
        let layout = Layout::new(3, None);
        let inbox = || Arc::new(Inbox::open(Inbox::create(layout).unwrap(), None, layout, 0).unwrap());
        Peers::new(0, (0..3).map(|_| (inbox(), own_pidfd())).collect(), hook)
    }

    fn reported(peers: &Peers) -> Vec<u32> {
        let mut ranks = Vec::new();
        peers.report(|rank| {
            ranks.push(rank);
            true
        });
        ranks
    }

    #[test]
    fn all_are_alive_until_a_witness_says_otherwise() {
        let peers = peers(None);
        peers.look_closely();
        assert!(!peers.any_unreported());
        assert_eq!(reported(&peers), []);
        assert!((0..3).all(|rank| peers.alive(rank).is_ok()));
    }

    #[test]
    fn a_peer_is_reported_once_whichever_witness_speaks_first() {
        let dead = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&dead);
        let peers = peers(Some(Arc::new(move |rank| rank != 2 || !seen.load(Ordering::Relaxed))));
        dead.store(true, Ordering::Relaxed);
        peers.look();
        peers.inbox(2).unwrap().bell().leave();
        peers.look();
        peers.mark_broken(2);
        assert!(peers.any_unreported());
        assert_eq!(reported(&peers), [2]);
        assert_eq!(reported(&peers), []);
        assert!(!peers.any_unreported());
        assert!(peers.alive(2).unwrap_err().to_string().contains("declared dead"));
    }

    #[test]
    fn a_peer_that_left_is_refused_before_anyone_has_looked() {
        let peers = peers(None);
        peers.inbox(1).unwrap().bell().leave();
        assert!(peers.alive(1).unwrap_err().to_string().contains("left the job"));
        assert!(peers.any_unreported());
    }
}
