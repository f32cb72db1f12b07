//! The polling thread's work: to look at the streams, deliver what they brought, and sleep on them.
//!
//! With few peers each stream is simply read: the read that finds nothing costs no more than asking whether
//! it would. With many, an epoll set says which streams to read, so that a vain look costs one system call at
//! any size of the job, and one that is not in vain those of the peers that have sent something.

use super::delivery::Delivery;
use super::incoming::{Incoming, Pulled};
use super::peer::Peer;
use super::service::Duty;
use super::sys::{self, Awaited};
use super::taking::Taking;
use super::{Shared, lock};
use crate::Event;
use crate::network::Companion;
use crate::remote::LossReason;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Up to so many peers are looked at one by one.
const FEW: usize = 2;
/// Descriptors besides streams that a thread waits for: its bell and its companion's.
const PLACES: usize = 2;
/// Vain turns after which a thread that waits serves peers in the service thread's place. From then on it
/// learns of what it waits for by one system call more: little against a wait that has taken so many already.
pub(super) const SERVE_AFTER: u32 = 16;
/// Looks in such a turn at most,
const SERVING: u32 = 64;
/// and after it has served someone, who may ask again;
const AFTER_SERVICE: u32 = 400;
/// and how often it offers its core meanwhile.
const POLITE_EVERY: u32 = 32;
/// With few peers most of those looks are at each connection; one in so many asks a poll, which tells of
/// more.
const POLL_EVERY: u32 = 8;
/// Ready streams taken per look.
const BURST: usize = 64;
/// Times that a receiver is asked for a place in one look before other streams get their turn.
const MAX_PARTS: u32 = 64;

/// How to find the streams that have something.
pub(super) enum PollMode {
    /// By looking at each.
    Each,
    /// By asking.
    Set(Epoll),
}

impl PollMode {
    /// The right one for these peers.
    pub(super) fn new(peers: &[Option<Peer>]) -> nix::Result<Self> {
        if peers.iter().flatten().count() <= FEW {
            return Ok(Self::Each);
        }
        let set = sys::epoll()?;
        for peer in peers.iter().flatten() {
            set.add(peer.stream(), EpollEvent::new(EpollFlags::EPOLLIN, peer.rank.into()))?;
        }
        Ok(Self::Set(set))
    }

    /// Ends the watch over a peer that is gone.
    fn forget(&self, peer: &Peer) {
        if let Self::Set(set) = self {
            // It was added, so this cannot fail; and if it did, looks in vain would be the harm.
            let _ = set.delete(peer.stream());
        }
    }
}

/// Sleeps until something arrives, here or at the companion, or `limit` has passed.
pub(super) fn sleep(shared: &Shared, companion: &dyn Companion, limit: Duration) {
    let (mut awaited, count) = streams(shared);
    shared.wakeups.sleep(&mut awaited, count, companion, limit);
}

thread_local! {
    /// Looks that this thread has had while it served in its present wait, beside one in each turn.
    static MORE_LOOKS: Cell<u32> = const { Cell::new(0) };
}

/// Vain looks that this thread has had in its present wait, which has had so many vain turns.
pub(super) fn looks(turn: u32) -> u32 {
    if turn <= SERVE_AFTER {
        MORE_LOOKS.set(0);
    }
    turn.saturating_add(MORE_LOOKS.get())
}

/// Looks until something may have arrived, or [`SERVING`] times in vain. Meanwhile serves peers in the
/// service thread's place, and as long as they go on asking, but not longer than `limit`. The service thread
/// naps meanwhile if it may.
pub(super) fn serve(shared: &Shared, companion: &dyn Companion, limit: Duration, may_nap: bool) {
    let (mut awaited, count) = streams(shared);
    let (before, start) = (MORE_LOOKS.get(), Instant::now());
    let (mut looks, mut most, mut is_last) = (0u32, SERVING, false);
    shared.service.stand_in(shared, may_nap, |requests, has_served| {
        if has_served {
            // What this thread waits for does not wait for those that ask without end.
            is_last |= start.elapsed() >= limit;
            most = looks + AFTER_SERVICE;
        }
        if is_last || looks >= most || shared.wakeups.has_news() || companion.watch() {
            return Duty::Leave;
        }
        looks += 1;
        if before.wrapping_add(looks).is_multiple_of(POLITE_EVERY) {
            sys::yield_core();
        }
        if matches!(shared.watch, PollMode::Each) && !looks.is_multiple_of(POLL_EVERY) {
            return if has_mail(shared) { Duty::Leave } else { Duty::Try };
        }
        awaited[count] = sys::awaited(requests, libc::POLLIN);
        sys::wait(&mut awaited[..=count], Duration::ZERO);
        is_last |= awaited[..count].iter().any(|stream| stream.revents != 0);
        match (awaited[count].revents != 0, is_last) {
            (true, _) => Duty::Serve,
            (false, true) => Duty::Leave,
            (false, false) => Duty::Look,
        }
    });
    MORE_LOOKS.set(before.saturating_add(looks.saturating_sub(1)));
}

/// Whether any peer has something for the thread that polls.
fn has_mail(shared: &Shared) -> bool {
    let mut living = shared.peers.iter().flatten().filter(|peer| !peer.told.load(Ordering::Relaxed));
    living.any(|peer| sys::has_something(peer.stream()))
}

/// What there is to be awaited of streams, how many descriptors that are, and places behind them.
fn streams(shared: &Shared) -> ([Awaited; FEW + PLACES], usize) {
    let mut awaited = [sys::NOTHING; FEW + PLACES];
    let count = match &shared.watch {
        PollMode::Each => {
            let living = shared.peers.iter().flatten().filter(|peer| !peer.told.load(Ordering::Relaxed));
            let places = awaited.iter_mut().zip(living);
            places.map(|(place, peer)| *place = sys::awaited(peer.stream(), libc::POLLIN)).count()
        }
        PollMode::Set(set) => {
            awaited[0] = sys::awaited(set.0.as_fd(), libc::POLLIN);
            1
        }
    };
    (awaited, count)
}

/// What the polling thread keeps from one look to the next.
pub(super) struct Poller {
    delivery: Delivery,
    own: Delivery,
    ready: Vec<EpollEvent>,
}

impl Poller {
    /// Has not looked yet.
    pub(super) fn new() -> Self {
        Self { delivery: Delivery::new(), own: Delivery::empty(), ready: vec![EpollEvent::empty(); BURST] }
    }

    /// Never looks.
    pub(super) fn empty() -> Self {
        Self { delivery: Delivery::empty(), own: Delivery::empty(), ready: Vec::new() }
    }

    /// Takes what has arrived and gives it to `sink`; returns how many events there were.
    pub(super) fn poll(
        &mut self,
        me: u32,
        shared: &Shared,
        own: &Mutex<Delivery>,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> usize {
        let has_mail = shared.wakeups.take();
        let mut events = 0;
        if has_mail {
            std::mem::swap(&mut *lock(own), &mut self.own);
            events += self.own.deliver(me, sink);
        }
        let peers = shared.peers.iter().flatten();
        let PollMode::Set(set) = &shared.watch else {
            return events + peers.map(|peer| self.look_at(peer, shared, sink)).sum::<usize>();
        };
        if has_mail {
            let posted = peers.filter(|peer| peer.has_mail.swap(false, Ordering::AcqRel));
            events += posted.map(|peer| self.look_at(peer, shared, sink)).sum::<usize>();
        }
        let ready = set.wait(&mut self.ready, EpollTimeout::ZERO).unwrap_or(0);
        for index in 0..ready {
            let rank = usize::try_from(self.ready[index].data()).unwrap_or(usize::MAX);
            if let Some(Some(peer)) = shared.peers.get(rank) {
                events += self.look_at(peer, shared, sink);
            }
        }
        events
    }

    /// Takes what one peer's stream has.
    fn look_at(&mut self, peer: &Peer, shared: &Shared, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        if peer.told.load(Ordering::Relaxed) {
            return 0;
        }
        if peer.has_backlog.load(Ordering::Relaxed) {
            // The service thread does this, too; but it may be waiting for a core, while this one has nothing
            // better to do.
            peer.drain(&mut lock(&peer.outgoing));
        }
        let (mut events, mut parts) = (0, 0);
        let mut incoming = lock(&peer.incoming);
        let mut pulled = pull(&mut incoming, peer, shared);
        loop {
            let (count, unlocked) = self.deliver(incoming, peer, sink);
            (events, incoming) = (events + count, unlocked);
            let part = incoming.part().filter(|_| pulled == Ok(Pulled::Part));
            let Some(part) = part.filter(|_| parts < MAX_PARTS || incoming.holds()) else { break };
            drop(incoming);
            parts += 1;
            let mut taking = Taking::new(peer, shared, part);
            sink(part.event(peer.rank, &mut taking));
            events += usize::from(taking.has_taken());
            incoming = lock(&peer.incoming);
            pulled = match taking.end(&mut incoming) {
                Ok(Pulled::Some) => pull(&mut incoming, peer, shared),
                pulled => pulled,
            };
        }
        let has_ended = incoming.has_ended();
        if incoming.holds() {
            // A get forbids to read it now, and the socket does not tell of it when the get is over.
            peer.post(shared);
        }
        drop(incoming);
        if let Err(fate) = pulled {
            peer.lose(fate);
        }
        if has_ended {
            peer.told.store(true, Ordering::Relaxed);
            shared.watch.forget(peer);
            sink(Event::Down { rank: peer.rank });
            events += 1;
        }
        events
    }

    /// Gives `sink` the messages that have come. How many there were.
    fn deliver<'a>(
        &mut self,
        mut incoming: MutexGuard<'a, Incoming>,
        peer: &'a Peer,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> (usize, MutexGuard<'a, Incoming>) {
        let mut events = 0;
        while incoming.take(&mut self.delivery) {
            // The sink may call the endpoint, and it may take its time.
            drop(incoming);
            events += self.delivery.deliver(peer.rank, sink);
            incoming = lock(&peer.incoming);
        }
        (events, incoming)
    }
}

/// Takes what the stream has, up to a long message, unless a get forbids it.
fn pull(incoming: &mut Incoming, peer: &Peer, shared: &Shared) -> Result<Pulled, LossReason> {
    if !incoming.may_pull() {
        return Ok(Pulled::All);
    }
    let pulled = incoming.pull(peer.stream(), &shared.segments);
    if incoming.fence_reached() {
        shared.service.ring();
    }
    pulled
}
