//! The provider `tcp`: ranks anywhere that TCP reaches.
//!
//! # Connections
//! Each pair of ranks has three, for two purposes whose needs contradict each other:
//! - One **stream**, both ways, for what is pushed: puts and messages, in order. It is read by the thread
//!   that polls, which in practice is the thread that waits in a barrier, and which spins: a thread that
//!   sleeps takes tens of microseconds to wake.
//! - Two **service connections**, one for each direction of asking, for gets, atomic operations and fences.
//!   They are served by a background thread, because the peer's application may compute for minutes. The
//!   thread sleeps, and stream traffic does not wake it. An application thread that spins in a wait serves
//!   them, too, and sooner (`service`).
//!
//! # The way of the bytes
//! ```text
//! put, send ──► outgoing: batch ─ flush ─► stream ─ poll ─► incoming ──► segment (puts)
//!                 backlog ◄─┘ when full        └─ service thread, for a fence  └──► sink (messages)
//! get, atomic, fence ─► requester ─► service connection ─► serving (service thread) ─► segment
//! ```
//! `wire` has the bytes, `handshake` who may connect, `refusal` why not, `join`, `calling` and `reception`
//! how; `links` are what they make. If traffic is encrypted, `noise` makes the keys, and `sealed` stands
//! before each socket. `peer` holds the pieces of one peer together, `wakeups` wakes sleepers for what did
//! not come by a socket, `pace` says how long to spin.
//!
//! # Why the guarantees hold
//! 1. *Order.* Puts and messages to a rank share one stream, written and parsed in order: by the time a
//!    message is parsed, the puts before it are in memory. A backlog leaves before anything newer. Messages
//!    that a fence met are queued before those that come later.
//! 2. *A put is never overwritten by an older get.* Let S get from H. S first marks H's stream as held
//!    (`Incoming::hold`), under the lock under which stream data are taken, and only then sends its request.
//!    So (a) stream data that S took before had left H before H read its memory for the reply, and the reply
//!    is the newer; (b) until the mark is off, S takes nothing more of the stream. The mark comes off when
//!    the reply is in place. So a put that H issued after the reading lands after the reply, and on top.
//!    Neither the polling thread nor the service thread waits for the mark: they leave the stream for later.
//! 3. *No waiting for applications.* Flush and poll never block: what the socket does not take becomes the
//!    backlog, which the service thread writes when there is room. Get, atomic and fence wait for the peer's
//!    service thread, which itself never waits for anything but the kernel. A backlog beyond `MOST_BACKLOG`
//!    makes flush wait, too, but for the peer's service thread: it takes the stream as for a fence.
//! 4. *Death.* A stream's end, an error, a goodbye or garbage is the peer's `LossReason`, kept once. A lost
//!    peer's connections are shut down, which wakes whoever waits on them. `poll` delivers what had arrived,
//!    and then [`Event::Down`]. The kernel shows the end of a process at once, and a host that is cut off
//!    after ten seconds (`peer`): by probes of the service connections, which are idle most of the time, and
//!    by a limit for what is unacknowledged there. A process that is stopped it does not show.
//! 5. *A rank reads what it wrote*, although gets and puts go by different connections. A get carries the
//!    position of the last flushed put in the stream; a server that has not come that far, and does not by
//!    taking what has arrived, says so, and the requester fences and asks again (with the mark of guarantee 2
//!    off while it waits). An atomic operation does likewise, and is not executed before the server has come
//!    that far.
//! 6. *Atomic operations come one after the other.* A word's owner executes all operations on it, its own
//!    and, in the thread that serves, its peers', as instructions of its processor on one mapping. A request
//!    is sent again only after the answer "not that far yet", which means that nothing was done: so each
//!    operation is executed once.
//! 7. *A word announces what was put before it*, because of 5: the puts are in memory when the operation is
//!    executed there, and a later operation on the word, and a get that is asked for after that, are served
//!    in the same memory.

mod calling;
mod congestion;
mod delivery;
mod handshake;
mod incoming;
mod interface;
mod join;
mod links;
mod nap;
mod noise;
mod outgoing;
mod pace;
mod peer;
mod poller;
mod reception;
mod refusal;
mod requester;
mod sealed;
mod sending;
mod service;
mod serving;
pub mod star;
mod sys;
mod taking;
mod waiting;
mod wakeups;
mod wire;

use crate::endpoint::FAREWELL;
use crate::network::NoCompanion;
use crate::racing;
use crate::remote::{Counters, LossReason, Operation, Segments};
use crate::{
    Atomic, Caps, Endpoint, Error, Event, Exchange, GetRange, LONGEST_HEAD, LocalSegment, PutRange, Result,
    SegmentId, Stillness, Traffic,
};
pub use congestion::Congestion;
use delivery::Delivery;
pub use interface::address_of;
use join::PeerSet;
use nap::IdleSleep;
use pace::Waits;
use peer::Peer;
use poller::{PollMode, Poller};
use service::Service;
use std::fmt::Arguments;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wakeups::Wakeups;

/// Longest sleep in [`Endpoint::idle`].
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Bytes of a body that are rather copied into the batch, and with their message's others out of a buffer,
/// than given a part of their own at both ends.
const WORTH_COPYING: usize = 8 << 10;
/// How a rank's tcp endpoint is to be made.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The one interface to listen on: an address or a name of this host, the name of an interface, or a
    /// network (`10.0.0.0/24`).
    pub bind: String,
    /// Port to listen on, which no other rank of this host may have; 0 for any.
    pub port: u16,
    /// Number of the agreement between ranks on what messages and segments mean. Ranks that differ do not
    /// form a job.
    pub abi: u32,
    /// Ranks of the job on the processors that this one may use. If the threads that they keep busy outnumber
    /// the cores, waiting threads do not spin.
    pub ranks_here: u32,
    /// Threads that each of them keeps busy; 0 counts as 1.
    pub threads: u32,
    /// Time for all ranks to be connected.
    pub timeout: Duration,
    /// Whether everything between ranks is encrypted, which all of them must want alike. Noise with keys of
    /// the job's secret: see `docs/decisions/0042-encryption.md`.
    pub encrypt: bool,
    /// How fast connections send.
    pub congestion: Congestion,
    /// Whether ranks that cannot reach each other are started again, elsewhere if need be. Then a rank to
    /// which there is no way is called until the time is up, and all tell at the same time whom they miss.
    pub comes_back: bool,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1".into(),
            port: 0,
            abi: 0,
            ranks_here: 1,
            threads: 1,
            timeout: Duration::from_secs(30),
            encrypt: false,
            congestion: Congestion::default(),
            comes_back: false,
        }
    }
}

impl TcpOptions {
    /// Busy threads of the job on this host.
    fn busy(&self) -> u32 {
        self.ranks_here.saturating_mul(self.threads.max(1))
    }
}

/// What the endpoint's threads share.
struct Shared {
    segments: Segments,
    /// By rank; none for this one, and for those that are not to be reached.
    peers: Vec<Option<Peer>>,
    service: Service,
    wakeups: Wakeups,
    nap: IdleSleep,
    watch: PollMode,
}

impl Shared {
    /// As [`Endpoint::abandon`].
    fn abandon(self) {
        let Self { peers, service, wakeups, nap, watch, .. } = self;
        peers.into_iter().flatten().for_each(Peer::abandon);
        service.abandon();
        std::mem::forget((wakeups, nap, watch));
    }
}

/// A rank's endpoint over TCP. See the module's documentation.
pub struct TcpEndpoint {
    rank: u32,
    shared: Arc<Shared>,
    /// This rank's messages to itself.
    own: Mutex<Delivery>,
    poller: Mutex<Poller>,
    waits: Waits,
    /// Whether ranks to which it has connections compete with it for cores.
    shares_cores: bool,
    traffic: Counters,
    thread: Option<JoinHandle<()>>,
}

impl TcpEndpoint {
    /// Connects this rank with all others. Collective.
    pub fn new(exchange: &mut dyn Exchange, options: &TcpOptions) -> Result<Self> {
        Self::connect(exchange, options, PeerSet::All)
    }

    /// Connects this rank with the ranks of other hosts, and with those only: calls that name another rank of
    /// this host are refused. Collective. For a [`CompositeEndpoint`](crate::composite::CompositeEndpoint).
    pub fn between_hosts(exchange: &mut dyn Exchange, options: &TcpOptions) -> Result<Self> {
        Self::connect(exchange, options, PeerSet::OtherHosts)
    }

    fn connect(exchange: &mut dyn Exchange, options: &TcpOptions, reach: PeerSet) -> Result<Self> {
        let rank = exchange.rank();
        let links = join::join(exchange, options, reach)?;
        let peers =
            (0..).zip(links).map(|(peer, links)| links.map(|links| Peer::new(rank, peer, links)).transpose());
        let peers = peers.collect::<Result<Vec<_>>>()?;
        let (peers, clients): (Vec<_>, Vec<_>) = peers.into_iter().map(Option::unzip).unzip();
        let shared = Arc::new(Shared {
            watch: PollMode::new(&peers).map_err(no_resources)?,
            segments: Segments::default(),
            peers,
            service: Service::new(clients).map_err(no_resources)?,
            wakeups: Wakeups::new().map_err(no_resources)?,
            nap: IdleSleep::default(),
        });
        let has_peers = shared.peers.iter().any(Option::is_some);
        let thread = has_peers.then(|| start_service(&shared)).transpose()?;
        let waits = Waits::new(options.busy());
        Ok(Self {
            rank,
            shared,
            own: Mutex::new(Delivery::empty()),
            poller: Mutex::new(Poller::new()),
            shares_cores: waits.is_scarce && options.ranks_here > 1 && reach == PeerSet::All,
            waits,
            traffic: Counters::default(),
            thread,
        })
    }

    /// The peer of that rank, or nothing if it is this rank.
    fn peer(&self, rank: u32) -> Result<Option<&Peer>> {
        let peer = self.shared.peers.get(rank as usize).ok_or_else(|| {
            Error::Invalid(format!("there is no rank {rank}: the job has {}", self.shared.peers.len()))
        })?;
        match peer {
            Some(peer) => peer.check()?,
            None if rank == self.rank => {}
            None => {
                let why = "runs on this host, to which this endpoint has no connections: ask one that has";
                return Err(Error::Invalid(format!("rank {rank} {why}")));
            }
        }
        Ok(peer.as_ref())
    }
}

// SAFETY: what is lent to a peer's queue is sent or copied by `flush`; a get stores only what was asked for,
// and returns when all of it is here; ranges of peers are checked against the registered segments. It gives
// no addresses of peers' memory.
unsafe impl Endpoint for TcpEndpoint {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        u32::try_from(self.shared.peers.len()).expect("made of a u32")
    }

    fn provider(&self) -> &'static str {
        "tcp"
    }

    fn caps(&self) -> Caps {
        Caps::UNCOPIED | Caps::ROUSED
    }

    fn shares_cores(&self) -> bool {
        self.shares_cores
    }

    unsafe fn register(&self, exchange: &mut dyn Exchange, mem: LocalSegment) -> Result<SegmentId> {
        let id = self.shared.segments.add(&mem)?;
        // When the exchange is over, all ranks have added theirs: puts and gets may come.
        let mut card = id.0.to_le_bytes().to_vec();
        card.extend((mem.len as u64).to_le_bytes());
        for (rank, (theirs, _)) in (0..).zip(exchange.all_gather(&card, &[])?) {
            if theirs != card {
                return Err(unequal(rank, id, mem.len, &theirs));
            }
        }
        Ok(id)
    }

    unsafe fn put(&self, to: u32, segment: SegmentId, ranges: &[PutRange]) -> Result<()> {
        let mut bytes = 0;
        for range in ranges {
            self.shared.segments.check(segment, range.offset, range.len)?;
            bytes += range.len;
        }
        let peer = self.peer(to)?;
        self.traffic.count(&self.traffic.puts, ranges.len(), bytes);
        let Some(peer) = peer else {
            for range in ranges {
                let place = self.shared.segments.check(segment, range.offset, range.len)?;
                // SAFETY: the source is readable (caller); the place is inside a segment, to which there are
                // no Rust references.
                unsafe { racing::copy(range.src, place, range.len) };
            }
            return Ok(());
        };
        let segment = wire_segment(segment);
        let mut outgoing = lock(&peer.outgoing);
        for range in ranges {
            // SAFETY: the caller keeps the source unchanged until the flush.
            unsafe { outgoing.put(segment, *range) };
        }
        self.has_appended(peer, outgoing);
        Ok(())
    }

    unsafe fn get(&self, from: u32, segment: SegmentId, ranges: &[GetRange]) -> Result<()> {
        let mut bytes = 0;
        for range in ranges {
            self.shared.segments.check(segment, range.offset, range.len)?;
            bytes += range.len;
        }
        let peer = self.peer(from)?;
        self.traffic.count(&self.traffic.gets, ranges.len(), bytes);
        if let Some(peer) = peer {
            // SAFETY: passed on to the caller.
            let got = unsafe { peer.get(&self.shared, self.waits.served, wire_segment(segment), ranges) };
            return got.map_err(|fate| peer.lost(fate));
        }
        for range in ranges {
            let place = self.shared.segments.check(segment, range.offset, range.len)?;
            // SAFETY: the destination is writable (caller); the source is inside a segment, which is mapped.
            unsafe { racing::copy(place, range.dst, range.len) };
        }
        Ok(())
    }

    fn atomic(&self, to: u32, segment: SegmentId, offset: u64, op: Atomic) -> Result<u64> {
        let word = self.shared.segments.word(segment, offset, op)?;
        let peer = self.peer(to)?;
        self.traffic.count(&self.traffic.atomics, 1, 0);
        let Some(peer) = peer else {
            // SAFETY: an aligned word inside a segment, which is mapped and to which there are no Rust
            // references.
            return Ok(unsafe { op.execute(word) });
        };
        let operation = Operation { offset, op };
        let done = peer.atomic(self.waits.served, wire_segment(segment), operation);
        done.map_err(|fate| peer.lost(fate))
    }

    fn read_peer(
        &self,
        _: u32,
        _: SegmentId,
        _: u64,
        _: usize,
        _: &mut dyn FnMut(*const u8),
    ) -> Result<bool> {
        Ok(false)
    }

    fn send(&self, to: u32, kind: u16, parts: &[&[u8]]) -> Result<()> {
        let len = parts.iter().map(|part| part.len()).sum();
        let Some(peer) = self.receiver(to, len)? else {
            lock(&self.own).push(kind, parts);
            self.shared.wakeups.post();
            return Ok(());
        };
        let mut outgoing = lock(&peer.outgoing);
        outgoing.message(kind, len, parts);
        self.has_appended(peer, outgoing);
        Ok(())
    }

    unsafe fn send_long(&self, to: u32, kind: u16, head: &[u8], body: &[u8]) -> Result<()> {
        if head.len() > LONGEST_HEAD {
            return Err(Error::Invalid(format!(
                "a head of {} bytes: {LONGEST_HEAD} is the most",
                head.len()
            )));
        }
        if to == self.rank || body.len() <= WORTH_COPYING {
            return self.send(to, kind, &[head, body]);
        }
        let Some(peer) = self.receiver(to, head.len() + body.len())? else { return Ok(()) };
        let mut outgoing = lock(&peer.outgoing);
        // SAFETY: the caller keeps the body unchanged until the flush.
        unsafe { outgoing.long(kind, head, body) };
        self.has_appended(peer, outgoing);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        for peer in self.shared.peers.iter().flatten() {
            if peer.has_batch.load(Ordering::Acquire) {
                self.flush_peer(peer);
            }
        }
        Ok(())
    }

    fn is_congested(&self, to: u32) -> bool {
        self.peer(to).is_ok_and(|peer| peer.is_some_and(|peer| peer.has_backlog.load(Ordering::Relaxed)))
    }

    fn fence(&self, to: u32) -> Result<()> {
        let Some(peer) = self.peer(to)? else { return Ok(()) };
        let position = self.flush_peer(peer);
        self.fence_at(peer, position)
    }

    fn poll(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        self.shared.wakeups.look();
        let mut poller = match self.poller.try_lock() {
            Ok(poller) => poller,
            Err(TryLockError::Poisoned(poller)) => poller.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        let events = poller.poll(self.rank, &self.shared, &self.own, sink);
        drop(poller);
        if events > 0 {
            self.shared.wakeups.delivered();
        }
        Ok(events)
    }

    /// Each peer says goodbye when it is through with the job's last call, for which it may need what this
    /// rank has sent: until all have, or are gone, or for a moment.
    fn part(&self) {
        let deadline = Instant::now() + FAREWELL;
        let peers = || self.shared.peers.iter().flatten();
        peers().for_each(Peer::say_goodbye);
        peers().for_each(|peer| peer.see_off(deadline));
        let mut turn = 0;
        while peers().any(|peer| peer.check().is_ok()) && Instant::now() < deadline {
            match self.poll(&mut |_| {}) {
                Ok(0) => turn += 1,
                _ => turn = 0,
            }
            self.idle(turn, LONGEST_SLEEP);
        }
    }

    fn idle(&self, turn: u32, limit: Duration) {
        self.wait(&NoCompanion, turn, limit, limit.min(LONGEST_SLEEP));
    }

    fn nap(&self, limit: Duration) -> bool {
        self.shared.nap.sleep(limit)
    }

    fn end_nap(&self, rank: u32) {
        match self.peer(rank) {
            Ok(Some(peer)) => peer.rouse(),
            Ok(None) => {
                self.shared.nap.end();
                self.shared.wakeups.delivered();
            }
            Err(_) => {}
        }
    }

    fn is_asleep(&self, rank: u32) -> bool {
        matches!(self.peer(rank), Ok(Some(peer)) if peer.is_asleep())
    }

    fn waits_for(&self, rank: u32) -> Option<u64> {
        self.shared.peers.get(rank as usize)?.as_ref()?.awaits()
    }

    fn hold_still(&self) -> Option<Stillness<'_>> {
        // A rank without peers has no thread, and no other waits for one.
        Some(self.thread.as_ref().map_or_else(Stillness::default, |_| self.shared.service.hold_still()))
    }

    fn misses(&self) -> bool {
        self.shared.peers.iter().flatten().any(|peer| peer.check().is_err())
    }

    fn abandon(self: Box<Self>) {
        let this = ManuallyDrop::new(*self);
        *lock(&this.own) = Delivery::empty();
        *lock(&this.poller) = Poller::empty();
        // SAFETY: the thread that shared it is not in this process, and what is left of the endpoint, its
        // reference among it, is never used or dropped.
        let shared = unsafe { std::ptr::read(Arc::as_ptr(&this.shared)) };
        shared.abandon();
    }

    fn cut(&self, rank: u32) -> Option<String> {
        self.shared.peers.get(rank as usize)?.as_ref()?.cut().map(str::to_owned)
    }

    fn give_up(&self, rank: u32, why: &str) {
        if let Some(Some(peer)) = self.shared.peers.get(rank as usize) {
            peer.lose(LossReason::Lost(why.to_owned()));
        }
    }

    fn traffic(&self) -> Traffic {
        self.traffic.read()
    }
}

impl Drop for TcpEndpoint {
    /// Says goodbye: what was flushed reaches the peers' hosts, if that takes no longer than a moment, and
    /// the peers can tell this from a crash.
    fn drop(&mut self) {
        // It is not for a child to leave in the rank's name; and it has not the rank's threads.
        if crate::forked::is_child() {
            return std::mem::forget(self.thread.take());
        }
        let deadline = Instant::now() + FAREWELL;
        for peer in self.shared.peers.iter().flatten() {
            peer.say_goodbye();
        }
        for peer in self.shared.peers.iter().flatten() {
            peer.see_off(deadline);
        }
        self.shared.service.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported on stderr; there is nothing to add.
            let _ = thread.join();
        }
        for peer in self.shared.peers.iter().flatten() {
            peer.close(&self.shared);
        }
    }
}

/// Starts the background thread. It takes no signals: they are for the application's threads.
fn start_service(shared: &Arc<Shared>) -> Result<JoinHandle<()>> {
    use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
    for peer in shared.peers.iter().flatten() {
        shared.service.listen(peer).map_err(no_resources)?;
    }
    let shared = Arc::clone(shared);
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before)).map_err(no_resources)?;
    let thread = std::thread::Builder::new()
        .name("scash/tcp".into())
        .stack_size(256 << 10)
        .spawn(move || shared.service.run(&shared));
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None).map_err(no_resources)?;
    thread.map_err(|source| Error::Io { what: "starting the service thread".into(), source })
}

fn no_resources(error: nix::Error) -> Error {
    Error::Io { what: "setting up the tcp endpoint (see `ulimit -n`)".into(), source: error.into() }
}

/// A segment's number on the wire.
fn wire_segment(segment: SegmentId) -> u16 {
    u16::try_from(segment.0).expect("registered segments have small numbers")
}

fn unequal(rank: u32, id: SegmentId, len: usize, theirs: &[u8]) -> Error {
    let theirs = theirs
        .split_first_chunk::<4>()
        .and_then(|(id, len)| Some((u32::from_le_bytes(*id), u64::from_le_bytes(len.try_into().ok()?))));
    let theirs = match theirs {
        Some((id, len)) => format!("segment {id} of {len} bytes"),
        None => "something else".into(),
    };
    let why = format!(
        "it registers {theirs} where this rank registers segment {} of {len} bytes: \
         all ranks must register the same segments in the same order",
        id.0
    );
    Error::Protocol { rank, why }
}

/// Locks, also after a panic elsewhere: no value here is left half-changed by code that can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says one line.
fn log(what: Arguments<'_>) {
    crate::say::say(format!("scash: tcp: {what}\n"));
}

#[cfg(test)]
mod tests;
