//! The endpoint: which member a call goes to, and how a thread looks at both and waits for both.

use super::numbering::{HostExchange, Numbering};
use crate::descriptors::out_of_the_way;
use crate::network::{Companion, Network};
use crate::shm::{ShmEndpoint, ShmOptions};
use crate::{
    Atomic, Board, Caps, Coming, Endpoint, Error, Event, Exchange, GetRange, LocalSegment, Mark, PutRange,
    Result, SegmentId, Stillness, Traffic,
};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

/// Polls in a row that may find something within the host and leave the network, whose look costs a system
/// call, for later.
const MOST_PASSED_OVER: u32 = 8;
/// Vain turns between two looks at whether the host's ranks are alive: one takes microseconds where a thread
/// serves, so that is within some milliseconds.
const LOOK_AFTER: u32 = 64;
/// The longest turn of waiting: bounds how late the death of a rank of this host is noticed.
const LONGEST_TURN: Duration = Duration::from_millis(10);

/// A rank's endpoint to all others, on its host and on others. See the module's documentation.
pub struct CompositeEndpoint<N> {
    numbering: Numbering,
    /// To this host's ranks, by their numbers there.
    host: ShmEndpoint,
    network: N,
    /// Locked by the thread that polls: how many polls have passed over the network.
    polling: Mutex<u32>,
}

/// Who reaches a rank.
#[derive(Clone, Copy)]
enum Route {
    /// Shared memory, where it has this number.
    Host(u32),
    /// The network.
    Network,
}

impl<N: Network> CompositeEndpoint<N> {
    /// Makes the endpoint of `exchange`'s rank, with what `network` makes as its member between hosts.
    /// Collective. `host` is for the ranks of this host; its `alive` is asked by the job's numbers.
    pub fn new(
        exchange: &mut dyn Exchange,
        host: &ShmOptions,
        network: impl FnOnce(&mut dyn Exchange) -> Result<N>,
    ) -> Result<Self> {
        let numbering = Numbering::new(exchange);
        let mut host = host.clone();
        if let Some(is_alive) = host.alive.take() {
            let ranks: Vec<u32> = (0..numbering.size_here()).map(|number| numbering.job(number)).collect();
            host.alive = Some(Arc::new(move |number: u32| is_alive(ranks[number as usize])));
        }
        let alarm = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let alarm = alarm.map_err(|error| Error::Io {
            what: "making the eventfd that wakes this rank (see `ulimit -n`)".to_owned(),
            source: error.into(),
        })?;
        let alarm = out_of_the_way(alarm.into());
        let join = |within: &mut HostExchange<'_>| ShmEndpoint::with_alarm(within, &host, alarm);
        let host = numbering.within_host(exchange, join)?;
        let network = network(exchange)?;
        // Who naps does so where this host's ranks can end it.
        network.on_end_of_nap(Box::new(host.rouser()));
        Ok(Self { numbering, host, network, polling: Mutex::new(0) })
    }

    #[inline]
    fn route(&self, rank: u32) -> Result<Route> {
        Ok(self.numbering.within(rank)?.map_or(Route::Network, Route::Host))
    }

    /// A result from within the host, with the job's numbers.
    #[inline]
    fn translated<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.numbering.translate(error))
    }

    /// Takes what has arrived from this host's ranks.
    fn poll_host(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        let job = |number| self.numbering.job(number);
        let events = self.host.poll(&mut |event| {
            sink(match event {
                Event::Message { from, kind, payload } => Event::Message { from: job(from), kind, payload },
                Event::Part { from, kind, head, at, left, bytes } => {
                    Event::Part { from: job(from), kind, head, at, left, bytes }
                }
                Event::Down { rank } => Event::Down { rank: job(rank) },
            });
        });
        let events = self.translated(events)?;
        if events > 0 {
            self.network.rouse();
        }
        Ok(events)
    }

    /// Takes what has arrived from other hosts.
    fn poll_network(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        let mut events = 0;
        self.network.poll(&mut |event| {
            let (Event::Message { from: rank, .. } | Event::Part { from: rank, .. } | Event::Down { rank }) =
                event;
            if matches!(self.route(rank), Ok(Route::Network)) {
                events += 1;
                sink(event);
            }
        })?;
        Ok(events)
    }
}

// SAFETY: each call goes to one member, as it is, and a flush to both.
unsafe impl<N: Network> Endpoint for CompositeEndpoint<N> {
    fn rank(&self) -> u32 {
        self.numbering.rank()
    }

    fn size(&self) -> u32 {
        self.numbering.size()
    }

    fn provider(&self) -> &'static str {
        "composite"
    }

    fn caps(&self) -> Caps {
        if self.numbering.is_one_host() { self.host.caps() } else { self.host.caps() & self.network.caps() }
    }

    fn caps_to(&self, rank: u32) -> Caps {
        match self.route(rank) {
            Ok(Route::Host(rank)) => self.host.caps_to(rank),
            Ok(Route::Network) => self.network.caps_to(rank),
            Err(_) => self.caps(),
        }
    }

    unsafe fn register(&self, exchange: &mut dyn Exchange, mem: LocalSegment) -> Result<SegmentId> {
        // SAFETY: the caller's promise is the same.
        let between = unsafe { self.network.register(exchange, mem) }?;
        // SAFETY: as above.
        let register = |within: &mut HostExchange<'_>| unsafe { self.host.register(within, mem) };
        let within = self.numbering.within_host(exchange, register)?;
        if within != between {
            return Err(Error::Invalid(format!(
                "this is segment {} on this host and segment {} between hosts: a registration before it has failed",
                within.0, between.0
            )));
        }
        Ok(within)
    }

    unsafe fn put(&self, to: u32, segment: SegmentId, ranges: &[PutRange]) -> Result<()> {
        match self.route(to)? {
            // SAFETY: the caller's promise is the same.
            Route::Host(to) => self.translated(unsafe { self.host.put(to, segment, ranges) }),
            // SAFETY: as above.
            Route::Network => unsafe { self.network.put(to, segment, ranges) },
        }
    }

    unsafe fn put_masked(
        &self,
        to: u32,
        segment: SegmentId,
        offset: u64,
        src: *const u8,
        masks: &[u64],
    ) -> Result<bool> {
        match self.route(to)? {
            Route::Host(to) => {
                // SAFETY: the caller's promise is the same.
                self.translated(unsafe { self.host.put_masked(to, segment, offset, src, masks) })
            }
            // SAFETY: as above.
            Route::Network => unsafe { self.network.put_masked(to, segment, offset, src, masks) },
        }
    }

    unsafe fn get(&self, from: u32, segment: SegmentId, ranges: &[GetRange]) -> Result<()> {
        match self.route(from)? {
            // SAFETY: the caller's promise is the same.
            Route::Host(from) => self.translated(unsafe { self.host.get(from, segment, ranges) }),
            // SAFETY: as above.
            Route::Network => unsafe { self.network.get(from, segment, ranges) },
        }
    }

    fn atomic(&self, to: u32, segment: SegmentId, offset: u64, op: Atomic) -> Result<u64> {
        match self.route(to)? {
            Route::Host(to) => self.translated(self.host.atomic(to, segment, offset, op)),
            Route::Network => self.network.atomic(to, segment, offset, op),
        }
    }

    fn read_peer(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<bool> {
        match self.route(from)? {
            Route::Host(from) => self.translated(self.host.read_peer(from, segment, offset, len, f)),
            Route::Network => self.network.read_peer(from, segment, offset, len, f),
        }
    }

    fn read_peer_once(
        &self,
        from: u32,
        segment: SegmentId,
        offset: u64,
        len: usize,
        f: &mut dyn FnMut(*const u8),
    ) -> Result<bool> {
        match self.route(from)? {
            Route::Host(from) => self.translated(self.host.read_peer_once(from, segment, offset, len, f)),
            Route::Network => self.network.read_peer_once(from, segment, offset, len, f),
        }
    }

    fn send(&self, to: u32, kind: u16, parts: &[&[u8]]) -> Result<()> {
        match self.route(to)? {
            Route::Host(to) => self.translated(self.host.send(to, kind, parts)),
            Route::Network => self.network.send(to, kind, parts),
        }
    }

    unsafe fn send_long(&self, to: u32, kind: u16, head: &[u8], body: &[u8]) -> Result<()> {
        match self.route(to)? {
            // SAFETY: the caller's promise is the same.
            Route::Host(to) => self.translated(unsafe { self.host.send_long(to, kind, head, body) }),
            // SAFETY: as above.
            Route::Network => unsafe { self.network.send_long(to, kind, head, body) },
        }
    }

    fn flush(&self) -> Result<()> {
        // Both, also if one fails.
        let within = self.host.flush();
        self.network.flush().and(self.translated(within))
    }

    fn is_congested(&self, to: u32) -> bool {
        match self.route(to) {
            Ok(Route::Host(to)) => self.host.is_congested(to),
            Ok(Route::Network) => self.network.is_congested(to),
            Err(_) => false,
        }
    }

    fn fence(&self, to: u32) -> Result<()> {
        match self.route(to)? {
            Route::Host(to) => self.translated(self.host.fence(to)),
            Route::Network => self.network.fence(to),
        }
    }

    fn poll(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        let mut passed_over = match self.polling.try_lock() {
            Ok(passed_over) => passed_over,
            Err(TryLockError::Poisoned(passed_over)) => passed_over.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        let events = self.poll_host(sink)?;
        if events > 0 && *passed_over < MOST_PASSED_OVER {
            *passed_over += 1;
            return Ok(events);
        }
        *passed_over = 0;
        Ok(events + self.poll_network(sink)?)
    }

    fn idle(&self, turn: u32, limit: Duration) {
        if turn % LOOK_AFTER == LOOK_AFTER - 1 {
            self.host.look_after_peers();
        }
        if !self.host.watch() {
            self.network.idle_with(&self.host, turn, limit.min(LONGEST_TURN));
        } else if self.polling.try_lock().is_err() {
            // The thread that takes the news may be waiting for this one's core.
            std::thread::yield_now();
        }
    }

    fn board(&self) -> Option<&dyn Board> {
        Some(self)
    }

    fn cores_are_scarce(&self) -> bool {
        self.host.cores_are_scarce()
    }

    fn nap(&self, limit: Duration) -> bool {
        self.host.nap(limit)
    }

    fn end_nap(&self, rank: u32) {
        match self.route(rank) {
            Ok(Route::Host(rank)) => self.host.end_nap(rank),
            Ok(Route::Network) => self.network.end_nap(rank),
            Err(_) => {}
        }
    }

    fn is_asleep(&self, rank: u32) -> bool {
        match self.route(rank) {
            Ok(Route::Host(rank)) => self.host.is_asleep(rank),
            Ok(Route::Network) => self.network.is_asleep(rank),
            Err(_) => false,
        }
    }

    fn waits_for(&self, rank: u32) -> Option<u64> {
        match self.route(rank) {
            Ok(Route::Host(rank)) => self.host.waits_for(rank),
            Ok(Route::Network) => self.network.waits_for(rank),
            Err(_) => None,
        }
    }

    fn look_after_peers(&self) {
        self.host.look_after_peers();
        self.network.look_after_peers();
    }

    fn hold_still(&self) -> Option<Stillness<'_>> {
        Some(self.host.hold_still()?.and(self.network.hold_still()?))
    }

    fn misses(&self) -> bool {
        self.host.misses() || self.network.misses()
    }

    fn abandon(self: Box<Self>) {
        let Self { host, network, .. } = *self;
        Box::new(host).abandon();
        Box::new(network).abandon();
    }

    fn part(&self) {
        self.host.part();
        self.network.part();
    }

    fn cut(&self, rank: u32) -> Option<String> {
        // Within a host nothing can be cut.
        if matches!(self.route(rank), Ok(Route::Network)) { self.network.cut(rank) } else { None }
    }

    fn give_up(&self, rank: u32, why: &str) {
        match self.route(rank) {
            Ok(Route::Host(rank)) => self.host.give_up(rank, why),
            Ok(Route::Network) => self.network.give_up(rank, why),
            Err(_) => {}
        }
    }

    fn traffic(&self) -> Traffic {
        self.host.traffic() + self.network.traffic()
    }
}

/// The host's board. A rank's place on it is its number there.
impl<N: Network> Board for CompositeEndpoint<N> {
    fn ranks(&self) -> Vec<u32> {
        (0..self.numbering.size_here()).map(|number| self.numbering.job(number)).collect()
    }

    fn post(&self, mark: Mark, count: u64) -> u64 {
        self.host.post(mark, count)
    }

    fn reached(&self, mark: Mark) -> u64 {
        self.host.reached(mark)
    }

    fn wake(&self, place: usize) {
        self.host.wake(place);
    }

    fn expect(&self, mark: Mark, count: Option<u64>) {
        self.host.expect(mark, count);
    }

    fn noticed(&self) {
        self.host.noticed();
        self.network.rouse();
    }

    fn come(&self, coming: Coming) {
        self.host.come(coming);
    }

    fn agreed(&self) -> Option<bool> {
        self.host.agreed()
    }
}

impl<N> std::fmt::Debug for CompositeEndpoint<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompositeEndpoint")
            .field("rank", &self.numbering.rank())
            .field("size", &self.numbering.size())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
