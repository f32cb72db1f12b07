//! The provider `ofi`: ranks wherever libfabric reaches, by reliable datagram endpoints (`FI_EP_RDM`).
//!
//! libfabric is loaded when an endpoint is made (`library`), through declarations of our own (`sys`); 1.17
//! and newer serve. Which of its providers carries the job is libfabric's choice, or
//! [`OfiOptions::provider`]'s. A get is an RMA read, a put an RMA write, a message travels in packets to
//! receives that are posted all the time. Everything passes through buffers that are registered once
//! (`slots`).
//!
//! # The way of the bytes
//! ```text
//! put, send ──► link: queue ── engine ──► RMA write, or packet
//!               (there) engine ──► link ──► inbox ── poll ──► sink
//! get ────────► RMA read ──► slot ──► destination
//! atomic, fence ─► a word in a packet ──► (there) link: executed, answered
//! ```
//! A background thread (`service`) makes progress where nobody else does: most of libfabric's providers need
//! that, also for reads and writes of their peers.
//!
//! # Why the guarantees hold
//! 1. *Order.* Puts and messages to a rank wait in one queue and are posted in their order. Packets are
//!    numbered, and heard by their numbers. That a packet does not overtake a write: where the provider
//!    promises `FI_ORDER_SAW`, it sees to it; elsewhere a packet is posted after the writes in front of it
//!    are complete, with `FI_DELIVERY_COMPLETE`.
//! 2. *A put is never overwritten by an older get.* Writes land at any time, so nothing can keep them out;
//!    but they can be noticed. Before H writes into the memory of S it writes into a word of S, its *line*,
//!    how many puts it has issued: an announcement, which takes effect before the put does (`FI_ORDER_WAW`,
//!    or completion). Let S get from H. It reads the word, reads H's memory into a slot, copies it to its
//!    destination, and reads the word again. If the word has not changed, no put that was issued after the
//!    reading of H's memory had landed before the copy: it lands on top. If it has changed, S does it all
//!    again, and reads what H had when it put, or newer. That S has the older bytes for a moment nobody sees:
//!    until it is over, S hears nothing from H (`Link::hold`), neither messages nor fences nor operations.
//! 3. *No waiting for applications.* A packet is taken by whichever thread of the peer makes progress,
//!    copied, and acknowledged; so credits come back without the peer's application. Where all slots of a
//!    peer are taken, a put waits for its endpoint; messages wait here in a backlog, which puts go behind,
//!    and whoever sends goes on.
//! 4. *Death.* An operation that fails shows that its peer is lost. Ranks that have nothing to say to each
//!    other write a sign of life (`service`): so an operation is always under way, and a peer that gives none
//!    for [`OfiOptions::silence`] is lost, too; where the caller can tell sooner, it does
//!    ([`OfiOptions::alive`]). Operations on a lost peer that libfabric does not end keep their slots; nobody
//!    waits for them.
//! 5. *A rank reads what it wrote.* If puts were issued since the last fence, a get begins with a fence.
//! 6. *Atomic operations come one after the other.* The owner's processor executes all operations on a word,
//!    its own and, in the thread that makes progress, its peers'. libfabric's atomics are not used: the ones
//!    that a network card executes are not atomic towards the processor's.
//! 7. *A word announces what was put before it*, because an operation travels in a packet, behind the puts
//!    (1).
//!
//! # Who may take part
//! Each packet carries 16 bytes that only the two ranks of its direction can make (an HMAC of the job's
//! secret); others are dropped. Registered memory is reachable for whoever knows its key: 63 random bits
//! where the provider leaves the choice to us, but some network cards choose short keys. This keeps out
//! strangers who guess, and other jobs; it does **not** keep out who can read packets on the way, as
//! libfabric's `tcp` and `shm` encrypt nothing. Use the provider `ofi` on networks that you trust.
//!
//! # Limits
//! A network card may want to lock registered memory: then a job's region must fit into memory (`ulimit -l`).
//! A get that meets a new put of its peer each time is repeated until it does not.
//!
//! libfabric's `tcp` may try for ever to connect to a process that is gone: that it is, the launcher tells
//! ([`OfiOptions::alive`]), or the peer's silence. In libfabric's `shm` (1.17) a rank that goes may take
//! others along: operations end in the order in which they were begun, whomever they are with, so that behind
//! one on a peer that is stopped, or was killed, none ends, and the others lose each other in
//! [`OfiOptions::silence`]; and a peer that goes while it has the lock of its memory keeps it, and whoever
//! sends to it spins. Our own provider `shm` has neither fault.
//!
//! Each peer costs about 1 MiB of address space here, of which only what is used takes memory. That a
//! reliable endpoint receives what a living peer sends is libfabric's promise, and not checked. Some of
//! libfabric's providers (`psm`) install signal handlers when it is asked what there is; a handler for faults
//! must be installed after the endpoint is made.

mod asking;
mod bell;
mod choice;
mod engine;
mod inbox;
mod join;
mod library;
mod lines;
mod link;
mod net;
mod retired;
mod service;
mod shared;
mod slots;
mod sys;
mod waiting;
mod wire;

use engine::Engine;
use inbox::Inbox;
use link::Queued;
use scash_comm::racing;
use scash_comm::remote::{Counters, LossReason, Segments, u64_at};
use scash_comm::shm::AliveHook;
use scash_comm::{
    Atomic, Caps, Endpoint, Error, Event, Exchange, GetRange, LocalSegment, PutRange, Result, SegmentId,
    Traffic,
};
use shared::Shared;
use slots::SLOT;
use std::fmt::Arguments;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::PacketItem;

/// Longest sleep in [`Endpoint::idle`].
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Bytes of messages for a peer that wait for room, beyond which a send waits, too. Large enough never to
/// matter to a job whose ranks take what they are sent, small enough not to exhaust a host.
const MOST_LATE: usize = 64 << 20;
/// Time that dropping an endpoint gives its last words to be heard,
const FAREWELL: Duration = Duration::from_secs(5);
/// and by those who are leaving, too.
const PARTING: Duration = Duration::from_millis(200);

/// How a rank's ofi endpoint is to be made.
#[derive(Clone)]
pub struct OfiOptions {
    /// Which of libfabric's providers to use, in its spelling (`fi_info -l`); by default the one that
    /// libfabric puts first.
    pub provider: Option<String>,
    /// Address or name of the interface to use, where the provider's addresses are those of sockets; by
    /// default libfabric's choice.
    pub interface: Option<String>,
    /// Number of the agreement between ranks on what messages and segments mean. Ranks that differ do not
    /// form a job.
    pub abi: u32,
    /// Ranks of the job on this host. If the threads that they keep busy outnumber the cores, waiting threads
    /// do not spin.
    pub ranks_here: u32,
    /// Threads that each of them keeps busy; 0 counts as 1.
    pub threads: u32,
    /// Asked now and then whether a rank is still alive, besides the endpoint's own means.
    pub alive: Option<AliveHook>,
    /// How long a peer may give no sign of life before it is taken to be dead; zero: for ever.
    pub silence: Duration,
}

impl Default for OfiOptions {
    fn default() -> Self {
        Self {
            provider: None,
            interface: None,
            abi: 0,
            ranks_here: 1,
            threads: 1,
            alive: None,
            silence: Duration::from_secs(20),
        }
    }
}

impl std::fmt::Debug for OfiOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { provider, interface, abi, ranks_here, threads, alive, silence } = self;
        f.debug_struct("OfiOptions")
            .field("provider", provider)
            .field("interface", interface)
            .field("abi", abi)
            .field("ranks_here", ranks_here)
            .field("threads", threads)
            .field("alive", &alive.is_some())
            .field("silence", silence)
            .finish()
    }
}

/// Names of libfabric's providers that can carry a job on this machine, best first; or why there is no
/// libfabric.
pub fn providers() -> Result<Vec<String>> {
    choice::providers()
}

/// The version of this machine's libfabric, or why there is none.
pub fn version() -> Result<String> {
    Ok(library::Library::get()?.version())
}

/// A rank's endpoint over libfabric. See the module's documentation.
pub struct OfiEndpoint {
    rank: u32,
    size: u32,
    shared: Arc<Shared>,
    segments: Arc<Segments>,
    /// By rank: who asks something of it and waits.
    askers: Box<[Mutex<()>]>,
    /// What the polling thread delivers.
    poller: Mutex<Inbox>,
    /// Whether ranks of its host compete with it for cores.
    shares_cores: bool,
    traffic: Counters,
    thread: Option<JoinHandle<()>>,
    /// Whether it has taken leave, and nobody uses the engine any more.
    has_parted: AtomicBool,
    /// Dropped last: it closes libfabric's objects.
    _living: retired::Living,
}

impl OfiEndpoint {
    /// Connects this rank with all others. Collective.
    pub fn new(exchange: &mut dyn Exchange, options: &OfiOptions) -> Result<Self> {
        let (rank, size) = (exchange.rank(), exchange.size());
        let segments = Arc::new(Segments::default());
        let engine = join::join(exchange, options, Arc::clone(&segments))?;
        let busy = options.ranks_here.saturating_mul(options.threads.max(1));
        let shared = Arc::new(Shared {
            engine: Mutex::new(engine),
            bell: bell::Bell::default(),
            spin_rule: waiting::SpinRule::new(busy),
            attended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let living = retired::Living::new(Arc::clone(&shared));
        let start = || service::start(&shared, options.alive.clone(), options.silence);
        let thread = (size > 1).then(start).transpose()?;
        let askers = (0..size).map(|_| Mutex::new(())).collect();
        let poller = Mutex::default();
        Ok(Self {
            rank,
            size,
            shares_cores: shared.spin_rule.is_scarce && options.ranks_here > 1,
            shared,
            segments,
            askers,
            poller,
            traffic: Counters::default(),
            thread,
            has_parted: AtomicBool::new(false),
            _living: living,
        })
    }

    /// The name of libfabric's provider.
    pub fn fabric(&self) -> String {
        self.shared.run(|engine| engine.net().provider())
    }

    /// Whether it is another rank than this one.
    fn is_other(&self, rank: u32) -> bool {
        rank < self.size && rank != self.rank
    }

    /// Whether it is another rank than this one, and there.
    fn is_peer(&self, rank: u32) -> Result<bool> {
        if rank >= self.size {
            return Err(Error::Invalid(format!("there is no rank {rank}: the job has {}", self.size)));
        }
        if rank == self.rank {
            return Ok(false);
        }
        self.shared.run(|engine| engine.peer(rank).map(|_| true))
    }

    /// Puts a piece that fits a slot into a peer's queue. `false`: there is no room now.
    ///
    /// # Safety
    /// The source is readable.
    unsafe fn queue_put(engine: &mut Engine, to: u32, segment: SegmentId, piece: PutRange) -> Result<bool> {
        let (link, slots, share) = engine.peer(to)?;
        let place = link.place(segment, piece.offset).ok_or_else(|| not_registered(segment))?;
        if link.slots >= share || link.is_late() {
            engine.start(to);
            return Ok(false);
        }
        let Some(slot) = slots.claim() else { return Ok(false) };
        // SAFETY: the slot was just claimed; the source is the caller's promise.
        unsafe { slots.fill(slot, 0, piece.src, piece.len) };
        link.slots += 1;
        link.issued += 1;
        let number = link.issued;
        link.queue.push_back(Queued::Write { slot, len: piece.len, place, number });
        Ok(true)
    }

    /// Takes leave of all peers, for so long.
    fn take_leave(&self) {
        let deadline = Instant::now() + FAREWELL;
        let parting = Instant::now() + PARTING;
        for to in (0..self.size).filter(|to| *to != self.rank) {
            // A peer that is gone, or goes meanwhile, needs none.
            let _ = self.shared.until(|engine| {
                let (link, slots, share) = engine.peer(to)?;
                let said = !link.is_late() && link.say(slots, share, PacketItem::Goodbye);
                link.seal();
                engine.start(to);
                Ok((said || Instant::now() > deadline).then_some(()))
            });
        }
        // There is no error to be had.
        let _ = self.shared.until(|engine| {
            let now = Instant::now();
            let waits = engine.links().any(|link| match link.fate {
                None => !link.heard && now < deadline,
                Some(LossReason::Left) => {
                    (!link.heard || link.has_work() || link.sending > 0) && now < parting
                }
                Some(_) => false,
            });
            Ok((!waits).then_some(()))
        });
    }
}

// SAFETY: what is lent is copied or has left before `flush` returns; a get copies what was asked for when the
// network has read all of it; ranges are checked against the registered segments. It gives no addresses of
// peers' memory.
unsafe impl Endpoint for OfiEndpoint {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn provider(&self) -> &'static str {
        "ofi"
    }

    fn caps(&self) -> Caps {
        Caps::empty()
    }

    fn shares_cores(&self) -> bool {
        self.shares_cores
    }

    unsafe fn register(&self, exchange: &mut dyn Exchange, mem: LocalSegment) -> Result<SegmentId> {
        let id = self.segments.add(&mem)?;
        let access = sys::REMOTE_READ | sys::REMOTE_WRITE;
        // SAFETY: the caller keeps the memory mapped while the endpoint lives, and has no references to it.
        let region =
            self.shared.run(|engine| unsafe { engine.net_mut().register(mem.base, mem.len, access) })?;
        let numbers = [u64::from(id.0), mem.len as u64, region.address, region.key];
        let cards = exchange.all_gather(&numbers.map(u64::to_le_bytes).concat(), &[])?;
        for (rank, (card, _)) in (0..self.size).zip(&cards).filter(|(rank, _)| *rank != self.rank) {
            let same = card.len() == 32 && (u64_at(card, 0), u64_at(card, 8)) == (numbers[0], numbers[1]);
            if !same {
                return Err(unequal(rank, id, mem.len));
            }
            let region = net::RemoteAddress { address: u64_at(card, 16), key: u64_at(card, 24) };
            self.shared.run(|engine| engine.link(rank).segments.push(region));
        }
        Ok(id)
    }

    unsafe fn put(&self, to: u32, segment: SegmentId, ranges: &[PutRange]) -> Result<()> {
        let mut bytes = 0;
        for range in ranges {
            self.segments.check(segment, range.offset, range.len)?;
            bytes += range.len;
        }
        let is_peer = self.is_peer(to)?;
        self.traffic.count(&self.traffic.puts, ranges.len(), bytes);
        for range in ranges {
            if !is_peer {
                let place = self.segments.check(segment, range.offset, range.len)?;
                // SAFETY: the source is readable (caller); the place is inside a segment, to which there are
                // no Rust references.
                unsafe { racing::copy(range.src, place, range.len) };
                continue;
            }
            for done in (0..range.len).step_by(SLOT) {
                let (offset, src) = (range.offset + done as u64, range.src.wrapping_add(done));
                let piece = PutRange { offset, src, len: SLOT.min(range.len - done) };
                self.shared.until_of(to, |engine| {
                    // SAFETY: the source is readable (caller).
                    let queued = unsafe { Self::queue_put(engine, to, segment, piece) }?;
                    Ok(queued.then_some(()))
                })?;
            }
        }
        Ok(())
    }

    unsafe fn get(&self, from: u32, segment: SegmentId, ranges: &[GetRange]) -> Result<()> {
        let mut bytes = 0;
        for range in ranges {
            self.segments.check(segment, range.offset, range.len)?;
            bytes += range.len;
        }
        let is_peer = self.is_peer(from)?;
        self.traffic.count(&self.traffic.gets, ranges.len(), bytes);
        if is_peer {
            // SAFETY: passed on to the caller.
            return unsafe { self.get_from(from, segment, ranges) };
        }
        for range in ranges {
            let place = self.segments.check(segment, range.offset, range.len)?;
            // SAFETY: the destination is writable (caller); the source is inside a segment, which is mapped.
            unsafe { racing::copy(place, range.dst, range.len) };
        }
        Ok(())
    }

    fn atomic(&self, to: u32, segment: SegmentId, offset: u64, op: Atomic) -> Result<u64> {
        let word = self.segments.word(segment, offset, op)?;
        let is_peer = self.is_peer(to)?;
        self.traffic.count(&self.traffic.atomics, 1, 0);
        if is_peer {
            return self.atomic_at(to, segment, offset, op);
        }
        // SAFETY: an aligned word inside a segment, which is mapped and to which there are no Rust
        // references.
        Ok(unsafe { op.execute(word) })
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
        if len > wire::MAX_MESSAGE {
            let most = wire::MAX_MESSAGE;
            let why = format!("a message of {len} bytes is longer than {most}: put it, or send it in pieces");
            return Err(Error::Invalid(why));
        }
        let is_peer = self.is_peer(to)?;
        self.traffic.count(&self.traffic.messages, 1, len);
        if !is_peer {
            self.shared.run(|engine| engine.inbox.message(to, kind, parts));
            return Ok(());
        }
        self.shared.until_of(to, |engine| {
            let (link, slots, share) = engine.peer(to)?;
            let has_room = link.late() <= MOST_LATE;
            if has_room {
                link.say_message(slots, share, kind, parts, len);
            }
            if link.is_late() {
                engine.start(to);
            }
            Ok(has_room.then_some(()))
        })
    }

    fn flush(&self) -> Result<()> {
        if !self.has_parted.load(Ordering::Relaxed) {
            self.shared.run(|engine| engine.flush());
        }
        Ok(())
    }

    fn is_congested(&self, to: u32) -> bool {
        self.is_other(to) && self.shared.run(|engine| engine.link(to).is_late())
    }

    fn fence(&self, to: u32) -> Result<()> {
        if self.is_peer(to)? { self.fence_at(to) } else { Ok(()) }
    }

    fn poll(&self, sink: &mut dyn FnMut(Event<'_>)) -> Result<usize> {
        if self.has_parted.load(Ordering::Relaxed) {
            return Ok(0);
        }
        self.shared.bell.look();
        let mut arrived = match self.poller.try_lock() {
            Ok(arrived) => arrived,
            Err(TryLockError::Poisoned(arrived)) => arrived.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(0),
        };
        self.shared.attended.fetch_add(1, Ordering::Relaxed);
        self.shared.run(|engine| {
            engine.progress();
            std::mem::swap(&mut engine.inbox, &mut *arrived);
        });
        let events = arrived.deliver(sink);
        drop(arrived);
        if events > 0 {
            self.shared.bell.ring();
        }
        Ok(events)
    }

    fn idle(&self, turn: u32, limit: Duration) {
        if !self.shared.spin_rule.idle(turn) {
            self.shared.bell.sleep(limit.min(LONGEST_SLEEP));
        }
    }

    fn waits_for(&self, rank: u32) -> Option<u64> {
        if !self.is_other(rank) {
            return None;
        }
        self.shared
            .run(|engine| Some(engine.link(rank)).filter(|link| link.waiting > 0).map(|link| link.moved))
    }

    fn misses(&self) -> bool {
        self.shared.run(|engine| engine.links().any(|link| link.fate.is_some()))
    }

    fn give_up(&self, rank: u32, why: &str) {
        if self.is_other(rank) {
            self.shared.run(|engine| engine.lose(rank, LossReason::Lost(why.to_owned())));
        }
    }

    fn part(&self) {
        if self.has_parted.swap(true, Ordering::Relaxed) {
            return;
        }
        self.take_leave();
        self.shared.stop.store(true, Ordering::Release);
        // Locked for ever: the process may end while a thread of it wants to make progress. libfabric's `shm`
        // has locks in memory that peers share, and one that is taken then stays taken: its owner would never
        // hear of what others sent it before.
        std::mem::forget(lock(&self.shared.engine));
    }

    fn traffic(&self) -> Traffic {
        self.traffic.read()
    }
}

impl Drop for OfiEndpoint {
    /// Says goodbye: what was flushed reaches the peers, if that takes no longer than a moment, and they can
    /// tell this from a crash.
    fn drop(&mut self) {
        if self.has_parted.load(Ordering::Relaxed) {
            return;
        }
        // It is not for a child to leave in the rank's name; and it has not the rank's threads.
        if scash_comm::forked::is_child() {
            return std::mem::forget(self.thread.take());
        }
        self.take_leave();
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported on stderr; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn not_registered(segment: SegmentId) -> Error {
    Error::Invalid(format!("segment {} is not registered by all ranks yet", segment.0))
}

fn unequal(rank: u32, id: SegmentId, len: usize) -> Error {
    let why = format!(
        "it registers something else than segment {} of {len} bytes: all ranks must register the same segments in the same order",
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
    scash_comm::say::say(format!("scash: ofi: {what}\n"));
}
