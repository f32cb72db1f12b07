//! What drives an engine on an endpoint, for all threads of a rank.

mod orders;
mod pause;
mod stall;
mod wait;

pub(super) use stall::Goal;

use super::Options;
use super::active::Handlers;
use super::barrier::Groups;
use super::cores::Cores;
use super::engine::{COPIED_PIECE, Engine, SILENT_TICKS};
use super::reading::{self, Memories};
use super::registered::Heap;
use scash_comm::biased::{Biased, Guard};
use scash_comm::{Caps, Endpoint, Error, Event, Exchange, Mark, Renewable, Result, SharedMemory};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of copied pieces that are handed over before it is asked again whether the way is free,
const BURST: usize = 8 * COPIED_PIECE;
/// and of a piece that is not copied. Shorter ones keep a connection less busy; of longer ones more is
/// copied, which is what the way does not take at once.
const LONG_PIECE: usize = 512 << 10;
/// Looks at what has arrived until a thread that waits lets others look, and spins or sleeps as the endpoint
/// advises.
const LOOKS: u32 = 4;
/// Looks at the board in each of these: it takes a few nanoseconds, and whoever waits for it wants to know at
/// once.
const LOOKS_AT_BOARD: u32 = 8;
/// A turn of waiting at which every endpoint sleeps.
pub(super) const SLEEPY: u32 = u32::MAX;
/// The longest sleep of a thread that waits,
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// and where something has not left, of whose way nothing tells when it is free.
const BUSY_SLEEP: Duration = Duration::from_micros(100);
/// The shortest time between two ticks: less than a thread sleeps says nothing of a rank.
const SHORTEST_TICK: Duration = Duration::from_millis(20);
/// The time between them where silence says nothing.
const LONE_TICK: Duration = Duration::from_secs(1);

/// The endpoint is dropped before the memory that is registered there.
pub(super) struct Shared {
    /// This rank, and how many there are: of what threads may ask for while the endpoint is replaced.
    pub(super) rank: u32,
    pub(super) size: u32,
    endpoint: Renewable<Box<dyn Endpoint>>,
    heap: Renewable<Option<Arc<Heap>>>,
    pub(super) handlers: Handlers,
    engine: Biased<Engine>,
    memories: Renewable<Memories>,
    /// What registered memory there is, and whether no message is read out of a process: it may be another
    /// one by then.
    registered: usize,
    window: usize,
    comes_back: bool,
    pub(super) cores: Cores,
    /// Times that application threads have made progress.
    drives: AtomicU64,
    /// Application threads that wait.
    waiting: AtomicU32,
    /// Threads in a call that use the endpoint without the engine; not counted where ranks do not come back.
    outside: AtomicU32,
    /// How long a rank may say nothing that somebody waits for; zero: for ever.
    silence: Duration,
    /// How long a thread waits until it says what for; zero: for ever.
    stall: Duration,
    /// Looks of a thread that waits before it spins or sleeps: one where another rank wants the core, and
    /// each look is a system call.
    looks: u32,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl Shared {
    /// What the threads of a rank share, after ranks have told each other what is needed. Collective.
    pub(super) fn meet(
        endpoint: Box<dyn Endpoint>,
        exchange: &mut dyn Exchange,
        options: Options,
        comes_back: bool,
    ) -> Result<Self> {
        let links = Links::meet(endpoint, exchange, &options, comes_back)?;
        let Links { endpoint, heap, memories, groups } = links;
        let registered = addresses(heap.as_ref());
        let engine = Biased::new(Engine::new(
            endpoint.rank(),
            options,
            &memories.reads,
            &memories.readable,
            registered,
            groups,
        ));
        let (drives, waiting, outside) = (AtomicU64::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let Options { silence, stall, registered, window, .. } = options;
        let (handlers, cores) = (Handlers::default(), Cores::new());
        let looks = if endpoint.shares_cores() { 1 } else { LOOKS };
        let (rank, size) = (endpoint.rank(), endpoint.size());
        let (endpoint, heap, memories) =
            (Renewable::new(endpoint), Renewable::new(heap), Renewable::new(memories));
        Ok(Self {
            rank,
            size,
            endpoint,
            heap,
            handlers,
            engine,
            memories,
            registered,
            window,
            comes_back,
            cores,
            drives,
            waiting,
            outside,
            silence,
            stall,
            looks,
        })
    }

    /// The rank's endpoint. For who has the engine or a window, or is the helper: it may be replaced
    /// otherwise.
    pub(super) fn endpoint(&self) -> &dyn Endpoint {
        &**self.endpoint
    }

    /// Its registered memory, if it has some.
    pub(super) fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
    }

    /// The engine, for one thread at a time.
    pub(super) fn engine(&self) -> Guard<'_, Engine> {
        // An engine is consistent wherever its owner can panic.
        self.engine.lock()
    }

    /// Times that application threads have made progress.
    pub(super) fn drives(&self) -> u64 {
        self.drives.load(Ordering::Relaxed)
    }

    /// Makes progress on behalf of an application thread, which goes on then.
    pub(super) fn drive(&self, engine: &mut Engine) -> usize {
        self.drive_on(engine, false)
    }

    /// The same on behalf of one that may wait.
    #[inline]
    fn drive_on(&self, engine: &mut Engine, waits: bool) -> usize {
        // Not a read-modify-write: it only has to change.
        self.drives.store(self.drives().wrapping_add(1), Ordering::Relaxed);
        let news = self.progress(engine);
        news + usize::from(engine.has_reads() && self.read_on(engine, waits))
    }

    /// Takes what has arrived, and does what follows from it, but reads no long messages. How much there was.
    fn progress(&self, engine: &mut Engine) -> usize {
        let events = self.take(engine);
        let is_met = engine.has_running() && self.look_at_board(engine);
        if is_met {
            engine.advance();
        }
        // A barrier that is over has nothing to be done after it.
        if events > 0 || engine.has_orders() || engine.busy().next().is_some() {
            self.settle(engine);
        }
        events + usize::from(is_met)
    }

    /// Tells the engine what has arrived, and does nothing that follows from it. How much there was.
    #[inline]
    fn take(&self, engine: &mut Engine) -> usize {
        let verdict = self.endpoint.poll(&mut |event| match event {
            Event::Message { from, kind, payload } => {
                if engine.arrived(from, kind, payload).is_err() {
                    engine.refuse(from);
                }
            }
            Event::Part { from, kind, head, at, left, bytes } => {
                if orders::take_part(engine, (from, kind, head), (at, left), bytes).is_err() {
                    engine.refuse(from);
                }
            }
            Event::Down { rank } => engine.down(rank),
        });
        verdict.unwrap_or_else(|error| {
            self.lose(engine, &error);
            1
        })
    }

    /// Tells the engine what it waits for on the board; whether that is there.
    fn look_at_board(&self, engine: &mut Engine) -> bool {
        let Some(board) = self.endpoint.board() else { return false };
        let mut any = false;
        for mark in Mark::ALL {
            let Some(count) = engine.awaits(mark) else { continue };
            let mut looks = (0..LOOKS_AT_BOARD).map(|_| board.reached(mark));
            any |= looks.find(|&reached| reached >= count).is_some_and(|reached| engine.saw(mark, reached));
        }
        if any && self.is_waited_for() {
            board.noticed();
        }
        any
    }

    /// Tells the endpoint what will be news on the board, for those who are to sleep there.
    fn expect(&self, engine: &Engine) {
        if let Some(board) = self.endpoint.board() {
            Mark::ALL.into_iter().for_each(|mark| board.expect(mark, engine.awaits(mark)));
        }
    }

    /// Something failed below: with whom nothing can be exchanged any more is gone.
    fn lose(&self, engine: &mut Engine, error: &Error) {
        match error {
            Error::Down { rank, .. } | Error::Protocol { rank, .. } => engine.down(*rank),
            _ => (0..self.size).for_each(|rank| engine.down(rank)),
        }
    }

    /// Does all that follows from what the engine has been told.
    #[inline]
    pub(super) fn settle(&self, engine: &mut Engine) {
        if engine.is_quiet() {
            if let Err(error) = self.endpoint.flush() {
                self.lose(engine, &error);
            }
            if engine.is_quiet() {
                return;
            }
        }
        self.settle_all(engine);
    }

    fn settle_all(&self, engine: &mut Engine) {
        loop {
            let mut any = self.carry_out(engine);
            match self.give_way(engine) {
                Ok(moved) => any |= moved,
                Err(error) => self.lose(engine, &error),
            }
            if !engine.has_running() {
                return;
            }
            // What has come or left may be what a collective operation waits for. A rank that is gone may
            // have been through with it: the board is looked at after that was known.
            any |= self.look_at_board(engine);
            engine.advance();
            if !any && !engine.has_orders() {
                // Threads may be on their way to sleep that do not know of it.
                return self.expect(engine);
            }
        }
    }

    /// Sends the next pieces of what is on its way, where the way is free, and hands everything over. Whether
    /// there were any.
    fn give_way(&self, engine: &mut Engine) -> Result<bool> {
        let mut any = false;
        let mut next = engine.busy().next();
        while let Some(to) = next {
            let is_uncopied = self.endpoint.caps_to(to).contains(Caps::UNCOPIED);
            let piece = if is_uncopied { LONG_PIECE } else { COPIED_PIECE };
            while !self.endpoint.is_congested(to) {
                let mut handed = 0;
                while handed < BURST
                    && let Some(len) = engine.next_piece(to, piece)
                {
                    handed += len;
                }
                if handed == 0 {
                    break;
                }
                self.carry_out(engine);
                self.endpoint.flush()?;
                any = true;
            }
            next = engine.busy().find(|&rank| rank > to);
        }
        // Not before: what announces a message leaves with its first piece.
        self.endpoint.flush()?;
        Ok(any)
    }

    /// Makes progress because no application thread does. If nothing had come, how long to sleep at most.
    pub(super) fn help_out(&self) -> Option<Duration> {
        let mut engine = self.engine();
        let news = self.progress(&mut engine);
        engine = self.call(engine);
        self.expect(&engine);
        let limit = if engine.busy().next().is_some() { BUSY_SLEEP } else { LONGEST_SLEEP };
        let has_work = news > 0 || engine.has_calls();
        let has_read = engine.has_reads() && self.read_aside(engine);
        (!has_work && !has_read).then_some(limit)
    }

    /// A tick of the engine's: ranks that are silent while somebody waits for them are asked for a sign of
    /// life, or given up; and what they play, if a collective operation waits for them.
    pub(super) fn tick(&self) {
        let mut engine = self.engine();
        if !self.silence.is_zero() {
            for rank in engine.tick(|rank| self.endpoint.waits_for(rank)) {
                engine.down(rank);
                self.endpoint.give_up(rank, &format!("it gave no sign of life for {:?}", self.silence));
            }
        }
        engine.ask_alike();
        self.settle(&mut engine);
    }

    /// Time between two ticks.
    pub(super) fn tick_length(&self) -> Duration {
        if self.silence.is_zero() { LONE_TICK } else { (self.silence / SILENT_TICKS).max(SHORTEST_TICK) }
    }

    /// Makes progress until nothing that was put or sent to a rank waits for room.
    pub(super) fn make_way(&self, to: u32) {
        let mut turn = 0;
        while self.endpoint.is_congested(to) {
            let mut engine = self.engine();
            self.drive(&mut engine);
            engine = self.call(engine);
            let is_outside = self.steps_outside();
            drop(engine);
            self.endpoint.idle(turn, BUSY_SLEEP);
            drop(is_outside);
            turn = turn.saturating_add(1);
        }
    }

    /// An application thread has begun an operation, perhaps of a long message, and goes on: what is to be
    /// read is the helper's.
    #[inline]
    pub(super) fn leave(&self, engine: Guard<'_, Engine>, is_long: bool) {
        if is_long || engine.has_reads() {
            self.leave_to_helper(engine);
        }
    }

    #[cold]
    fn leave_to_helper(&self, mut engine: Guard<'_, Engine>) {
        let sender = engine.next_sender();
        let _is_outside = self.steps_outside();
        drop(engine);
        self.cores.avoid_this_one();
        // One that does not sleep may be computing: then there is no core to read on. One that comes to wait
        // rouses the helper.
        if sender.is_some_and(|sender| self.endpoint.is_asleep(sender)) {
            self.endpoint.end_nap(self.endpoint.rank());
        }
    }

    /// Whether an application thread makes progress, or sleeps because there is nothing to be done.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits a turn.
    pub(super) fn idle(&self, turn: u32, limit: Duration) {
        self.endpoint.idle(turn, limit);
    }
}

/// What ranks tell each other when they meet.
struct Links {
    endpoint: Box<dyn Endpoint>,
    heap: Option<Arc<Heap>>,
    memories: Memories,
    groups: Groups,
}

impl Links {
    fn meet(
        endpoint: Box<dyn Endpoint>,
        exchange: &mut dyn Exchange,
        options: &Options,
        comes_back: bool,
    ) -> Result<Links> {
        let heap = register(&*endpoint, exchange, options.registered)?;
        let is_mapped = |rank| {
            let look = |heap: &Arc<Heap>| endpoint.read_peer(rank, heap.segment(), 0, 1, &mut |_| {});
            heap.as_ref().is_some_and(|heap| look(heap).is_ok_and(|is_mapped| is_mapped))
        };
        let mut memories = reading::meet(exchange, options, is_mapped)?;
        if comes_back {
            memories.are_left_alone();
        }
        let groups = Groups::meet(&*endpoint, exchange)?;
        Ok(Links { endpoint, heap, memories, groups })
    }
}

/// Where registered memory is.
fn addresses(heap: Option<&Arc<Heap>>) -> std::ops::Range<usize> {
    heap.map_or(0..0, |heap| heap.addresses())
}

/// Makes and registers memory of so many bytes. Collective.
fn register(endpoint: &dyn Endpoint, exchange: &mut dyn Exchange, len: usize) -> Result<Option<Arc<Heap>>> {
    if len == 0 {
        return Ok(None);
    }
    let memory = SharedMemory::new(len).map_err(|error| {
        Error::Invalid(format!("{error}: have less registered memory (SCASH_MP_REGISTERED)"))
    })?;
    // SAFETY: the memory is dropped after the endpoint (order of declaration in `Shared`); there are
    // references only to buffers, which peers do not write.
    let segment = unsafe { endpoint.register(exchange, memory.segment()) }?;
    Ok(Some(Arc::new(Heap::new(memory, len, segment))))
}
