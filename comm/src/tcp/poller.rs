//! The polling thread's work: to look at the streams, deliver what they brought, and sleep on them.
//!
//! With few peers each stream is simply read: the read that finds nothing costs no more than asking whether
//! it would. With many, an epoll set says which streams to read, so that a vain look costs one system call at
//! any size of the job.

use super::incoming::{Delivery, Pulled};
use super::peer::Peer;
use super::sys::{self, Awaited};
use super::{Shared, lock};
use crate::Event;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Up to so many peers are looked at one by one.
const FEW: usize = 2;
/// Ready streams taken per look.
const BURST: usize = 64;

/// How to find the streams that have something.
pub(super) enum Watch {
    /// By looking at each.
    Each,
    /// By asking.
    Set(Epoll),
}

impl Watch {
    /// The right one for these peers.
    pub(super) fn new(peers: &[Option<Peer>]) -> nix::Result<Self> {
        if peers.iter().flatten().count() <= FEW {
            return Ok(Self::Each);
        }
        let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
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

/// Sleeps until something arrives or `limit` has passed.
pub(super) fn sleep(shared: &Shared, limit: Duration) {
    let nothing = Awaited { fd: -1, events: 0, revents: 0 };
    let mut awaited = [nothing; FEW + 1];
    let count = match &shared.watch {
        Watch::Each => {
            let living = shared.peers.iter().flatten().filter(|peer| !peer.told.load(Ordering::Relaxed));
            let places = awaited.iter_mut().zip(living);
            places.map(|(place, peer)| *place = sys::awaited(peer.stream(), libc::POLLIN)).count()
        }
        Watch::Set(set) => {
            awaited[0] = sys::awaited(set.0.as_fd(), libc::POLLIN);
            1
        }
    };
    shared.mail.sleep(&mut awaited, count, limit);
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

    /// Takes what has arrived and gives it to `sink`; returns how many events there were.
    pub(super) fn poll(
        &mut self,
        me: u32,
        shared: &Shared,
        own: &Mutex<Delivery>,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> usize {
        let has_mail = shared.mail.take();
        let mut events = 0;
        if has_mail {
            std::mem::swap(&mut *lock(own), &mut self.own);
            events += self.own.deliver(&mut |kind, payload| sink(Event::Message { from: me, kind, payload }));
        }
        let ready = match &shared.watch {
            Watch::Set(set) if !has_mail => set.wait(&mut self.ready, EpollTimeout::ZERO).unwrap_or(0),
            _ => {
                for peer in shared.peers.iter().flatten() {
                    events += self.look_at(peer, shared, sink);
                }
                0
            }
        };
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
        let mut events = 0;
        let mut incoming = lock(&peer.incoming);
        let mut pulled = Ok(Pulled::All);
        if incoming.may_pull() {
            pulled = incoming.pull(peer.stream(), &shared.segments);
            if incoming.fence_reached() {
                shared.service.ring();
            }
        }
        while incoming.take(&mut self.delivery) {
            // The sink may call the endpoint, and it may take its time.
            drop(incoming);
            let from = peer.rank;
            events +=
                self.delivery.deliver(&mut |kind, payload| sink(Event::Message { from, kind, payload }));
            incoming = lock(&peer.incoming);
        }
        let has_ended = incoming.has_ended();
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
}
