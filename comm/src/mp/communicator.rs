//! A communicator: an engine on an endpoint.

use super::collective::Collective;
use super::engine::{Engine, Order, REGISTERED, Reading};
use super::matching::Pattern;
use super::progress::Helper;
use super::reading::{self, Memories};
use super::registered::{Buffer, Heap};
use super::requests::{Ended, Into, Number, Outcome};
use super::span::{Place, Source};
use super::{Options, Status};
use crate::{Endpoint, Error, Event, Exchange, Result, SharedMemory};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The context of the program's messages.
const PROGRAM: u16 = 0;
/// Bytes of a piece of a long message: few enough to stay in a processor's cache between its copies.
const PIECE: usize = (16 << 10) - 64;
/// Pieces that are handed over before it is asked again whether the way is free.
const BURST: usize = 8;
/// Looks at what has arrived until a thread that waits lets others look, and spins or sleeps as the endpoint advises.
const LOOKS: u32 = 4;
/// The longest sleep of a thread that waits,
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// and where something has not left, of whose way nothing tells when it is free.
const BUSY_SLEEP: Duration = Duration::from_micros(100);

/// An operation that was begun. It must be given to [`Communicator::wait`] or its relatives: until then it occupies memory.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "an operation that nobody waits for is never known to be over"]
pub struct Request(pub(super) Option<Number>);

/// What an operation has brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Of the message that was received. Of a send: its tag and length, and as its source the rank that it went to.
    pub status: Status,
    /// The message, if its receive had brought no memory for it; empty otherwise.
    pub bytes: Vec<u8>,
}

/// A rank's messages.
///
/// May be used by several threads at once. When none of them waits or tests, a background thread makes progress in their stead.
#[derive(Debug)]
pub struct Communicator {
    shared: Arc<Shared>,
    _helper: Helper,
}

/// The endpoint is dropped before the memory that is registered there.
pub(super) struct Shared {
    endpoint: Box<dyn Endpoint>,
    heap: Option<Arc<Heap>>,
    engine: Mutex<Engine>,
    memories: Memories,
    /// Times that application threads have made progress.
    drives: AtomicU64,
    /// Application threads that wait.
    waiting: AtomicU32,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("rank", &self.endpoint.rank()).finish_non_exhaustive()
    }
}

impl Communicator {
    /// Message passing on an endpoint, which is used for nothing else from now on. Collective.
    ///
    /// # Errors
    /// Options that make no sense or differ between ranks, or no thread to be had.
    pub fn new(endpoint: Box<dyn Endpoint>, exchange: &mut dyn Exchange, options: Options) -> Result<Self> {
        if options.window < 2 * options.eager.max(options.push) {
            return Err(Error::Invalid(format!(
                "a window of {} bytes for messages of {} that are sent unasked: let it be twice as large at least",
                options.window,
                options.eager.max(options.push)
            )));
        }
        let heap = register(&*endpoint, exchange, options.registered)?;
        let is_mapped = |rank| {
            let look = |heap: &Arc<Heap>| endpoint.read_peer(rank, heap.segment(), 0, 1, &mut |_| {});
            heap.as_ref().is_some_and(|heap| look(heap).is_ok_and(|is_mapped| is_mapped))
        };
        let memories = reading::meet(exchange, options.window, is_mapped)?;
        let registered = heap.as_ref().map_or(0..0, |heap| heap.addresses());
        let engine = Mutex::new(Engine::new(
            endpoint.rank(),
            options,
            &memories.reads,
            &memories.readable,
            registered,
        ));
        let (drives, waiting) = (AtomicU64::new(0), AtomicU32::new(0));
        let shared = Arc::new(Shared { endpoint, heap, engine, memories, drives, waiting });
        let helper = Helper::start(Arc::clone(&shared))?;
        Ok(Self { shared, _helper: helper })
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.shared.endpoint.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.shared.endpoint.size()
    }

    /// Memory in which long messages travel within a host in one copy that needs no system call. No other rank has to do likewise.
    ///
    /// # Errors
    /// There is not so much of it ([`Options::registered`]).
    pub fn allocate(&self, len: usize) -> Result<Buffer> {
        match &self.shared.heap {
            Some(heap) => Buffer::new(heap, len),
            None => Err(Error::Invalid(
                "this communicator has no registered memory: choose how much in its options".to_owned(),
            )),
        }
    }

    /// Sends a message, and returns when its bytes may be changed again: at once if it is short or pushed, else when they were received.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send(&self, to: u32, tag: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the bytes are borrowed until the wait is over.
        let request = unsafe { self.start_send(to, tag, bytes.as_ptr(), bytes.len()) }?;
        self.wait(request).map(drop)
    }

    /// Receives a message into memory that is as long as it or longer.
    ///
    /// # Errors
    /// There is no such rank, it is gone, or [`Error::TooLong`].
    pub fn receive(&self, source: Option<u32>, tag: Option<u64>, into: &mut [u8]) -> Result<Status> {
        // SAFETY: the memory is borrowed until the wait is over.
        let request = unsafe { self.start_receive(source, tag, into.as_mut_ptr(), into.len()) }?;
        Ok(self.wait(request)?.status)
    }

    /// Receives a message of any length: into the memory that was made for it when it came, if it has come.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn receive_owned(&self, source: Option<u32>, tag: Option<u64>) -> Result<Received> {
        let request = self.start_receive_owned(source, tag)?;
        self.wait(request)
    }

    /// Begins to send the `len` bytes at `bytes`.
    ///
    /// # Safety
    /// They are readable and unchanged until the operation is known to be over, or the communicator is gone.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub unsafe fn start_send(&self, to: u32, tag: u64, bytes: *const u8, len: usize) -> Result<Request> {
        self.check(Some(to))?;
        // SAFETY: the caller's promise.
        let source = unsafe { Source::new(bytes, len) };
        let mut engine = self.shared.engine();
        let request = engine.send(to, PROGRAM, tag, source)?;
        self.shared.settle(&mut engine);
        Ok(Request(request))
    }

    /// Begins to receive a message into the `len` bytes at `into`.
    ///
    /// # Safety
    /// They are writable, and used by nobody else until the operation is known to be over, was cancelled, or the communicator is gone.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub unsafe fn start_receive(
        &self,
        source: Option<u32>,
        tag: Option<u64>,
        into: *mut u8,
        len: usize,
    ) -> Result<Request> {
        // SAFETY: the caller's promise.
        let place = unsafe { Place::new(into, len) };
        self.post(source, tag, Into::Place(place))
    }

    /// Begins to receive a message of any length.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn start_receive_owned(&self, source: Option<u32>, tag: Option<u64>) -> Result<Request> {
        self.post(source, tag, Into::Own(Vec::new()))
    }

    /// Waits for the end of an operation.
    ///
    /// # Errors
    /// Why it failed.
    pub fn wait(&self, request: Request) -> Result<Received> {
        let Request(Some(number)) = request else { return Ok(Received::default()) };
        self.shared.until(|engine| engine.outcome(number)).and_then(received)
    }

    /// Makes progress; if the operation is over then, what came of it. It is not to be asked for again.
    ///
    /// # Errors
    /// Why it failed.
    pub fn test(&self, request: &mut Request) -> Result<Option<Received>> {
        let Some(number) = request.0 else { return Ok(Some(Received::default())) };
        let mut engine = self.shared.engine();
        let mut outcome = engine.outcome(number);
        if outcome.is_none() {
            self.shared.drive(&mut engine);
            outcome = engine.outcome(number);
        }
        if outcome.is_some() {
            request.0 = None;
        }
        outcome.map(received).transpose()
    }

    /// Waits until one of the operations is over, takes it out, and returns its index (in the order before) with what came of it. `None` if there are no operations.
    ///
    /// # Errors
    /// Why the one that is over failed.
    pub fn wait_any(&self, requests: &mut Vec<Request>) -> Result<Option<(usize, Received)>> {
        if requests.is_empty() {
            return Ok(None);
        }
        let (at, outcome) = self.shared.until(|engine| {
            let mut all = (0..).zip(&*requests);
            all.find_map(|(at, request)| match request.0 {
                None => Some((at, Ok(Ended::default()))),
                Some(number) => engine.outcome(number).map(|outcome| (at, outcome)),
            })
        })?;
        let _ = requests.remove(at).0;
        Ok(Some((at, received(outcome)?)))
    }

    /// Waits until all operations are over. What came of them, in their order.
    ///
    /// # Errors
    /// Why the first of those that failed did so; all are over then, too.
    pub fn wait_all(&self, requests: impl IntoIterator<Item = Request>) -> Result<Vec<Received>> {
        let all: Vec<Result<Received>> = requests.into_iter().map(|request| self.wait(request)).collect();
        all.into_iter().collect()
    }

    /// Makes progress; the first message that a receive of this kind would get now, if there is one.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn probe(&self, source: Option<u32>, tag: Option<u64>) -> Result<Option<Status>> {
        self.check(source)?;
        let mut engine = self.shared.engine();
        self.shared.drive(&mut engine);
        Ok(engine.probe(Pattern { context: PROGRAM, source, tag }))
    }

    /// Takes back a receive that no message has been matched with. Gives the request back if that is too late: it will be over.
    ///
    /// # Errors
    /// The request: a send, a receive that has its message, or one that is over.
    pub fn cancel(&self, request: Request) -> std::result::Result<(), Request> {
        match request.0 {
            Some(number) if self.shared.engine().cancel(number) => Ok(()),
            _ => Err(request),
        }
    }

    /// Begins a collective operation. All ranks begin the same ones in the same order; several may be under way.
    ///
    /// # Safety
    /// `input` is readable and unchanged, and `output` writable and used by nobody else, until the operation is known to be over or the communicator is gone: as many
    /// bytes as the operation says (see [`Collective`]). They do not overlap.
    ///
    /// # Errors
    /// Numbers that do not fit this job.
    pub unsafe fn start(
        &self,
        collective: &Collective,
        input: *const u8,
        output: *mut u8,
    ) -> Result<Request> {
        let (rank, size) = (self.rank(), self.size());
        collective.check(size).map_err(Error::Invalid)?;
        // SAFETY: the caller's promise.
        let input = unsafe { Source::new(input, collective.input_len(rank)) };
        // SAFETY: the caller's promise.
        let output = unsafe { Place::new(output, collective.output_len(rank, size)) };
        let mut engine = self.shared.engine();
        let request = engine.start(collective, input, output);
        self.shared.settle(&mut engine);
        Ok(Request(Some(request)))
    }

    fn post(&self, source: Option<u32>, tag: Option<u64>, into: Into) -> Result<Request> {
        self.check(source)?;
        let mut engine = self.shared.engine();
        let request = engine.receive(Pattern { context: PROGRAM, source, tag }, into)?;
        self.shared.settle(&mut engine);
        Ok(Request(Some(request)))
    }

    fn check(&self, rank: Option<u32>) -> Result<()> {
        match rank {
            Some(rank) if rank >= self.size() => Err(Error::Invalid(format!(
                "there is no rank {rank}: the job has {}, counted from 0",
                self.size()
            ))),
            _ => Ok(()),
        }
    }
}

/// Makes and registers memory of so many bytes. Collective.
fn register(endpoint: &dyn Endpoint, exchange: &mut dyn Exchange, len: usize) -> Result<Option<Arc<Heap>>> {
    if len == 0 {
        return Ok(None);
    }
    let memory = SharedMemory::new(len)?;
    // SAFETY: the memory is dropped after the endpoint (order of declaration in `Shared`); there are references only to buffers, which peers do not write.
    let segment = unsafe { endpoint.register(exchange, memory.segment()) }?;
    Ok(Some(Arc::new(Heap::new(memory, len, segment))))
}

fn received(outcome: Outcome) -> Result<Received> {
    outcome.map(|ended| Received { status: ended.status, bytes: ended.bytes })
}

impl Shared {
    pub(super) fn engine(&self) -> MutexGuard<'_, Engine> {
        // An engine is consistent wherever its owner can panic.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Times that application threads have made progress.
    pub(super) fn drives(&self) -> u64 {
        self.drives.load(Ordering::Relaxed)
    }

    /// Makes progress until `over` gives something.
    fn until<T>(&self, mut over: impl FnMut(&mut Engine) -> Option<T>) -> Result<T> {
        let mut turn = 0u32;
        let mut waiting = None;
        loop {
            let mut engine = self.engine();
            for _ in 0..LOOKS {
                if let Some(result) = over(&mut engine) {
                    return Ok(result);
                }
                turn = if self.drive(&mut engine) > 0 { 0 } else { turn.saturating_add(1) };
            }
            if turn == 0 {
                continue;
            }
            let is_busy = engine.busy().next().is_some();
            drop(engine);
            waiting.get_or_insert_with(|| Waiting::new(&self.waiting));
            self.endpoint.idle(turn, if is_busy { BUSY_SLEEP } else { LONGEST_SLEEP });
        }
    }

    /// Makes progress on behalf of an application thread.
    fn drive(&self, engine: &mut Engine) -> usize {
        // Not a read-modify-write: it only has to change.
        self.drives.store(self.drives().wrapping_add(1), Ordering::Relaxed);
        self.progress(engine)
    }

    /// Takes what has arrived, and does what follows from it. How much there was.
    pub(super) fn progress(&self, engine: &mut Engine) -> usize {
        let verdict = self.endpoint.poll(&mut |event| match event {
            Event::Message { from, kind, payload } => {
                // Who says what no engine says is not listened to any more.
                if engine.arrived(from, kind, payload).is_err() {
                    engine.down(from);
                }
            }
            Event::Down { rank } => engine.down(rank),
        });
        let events = verdict.unwrap_or_else(|error| {
            self.lose(engine, &error);
            1
        });
        if events == 0 && engine.busy().next().is_none() {
            return 0;
        }
        self.settle(engine);
        events
    }

    /// Something failed below: with whom nothing can be exchanged any more is gone.
    fn lose(&self, engine: &mut Engine, error: &Error) {
        match error {
            Error::Down { rank, .. } | Error::Protocol { rank, .. } => engine.down(*rank),
            _ => (0..self.endpoint.size()).for_each(|rank| engine.down(rank)),
        }
    }

    /// Does all that follows from what the engine has been told.
    fn settle(&self, engine: &mut Engine) {
        loop {
            let mut any = self.carry_out(engine);
            match self.give_way(engine) {
                Ok(moved) => any |= moved,
                Err(error) => self.lose(engine, &error),
            }
            if !engine.has_running() {
                return;
            }
            // What has come or left may be what a collective operation waits for.
            engine.advance();
            if !any && !engine.has_orders() {
                return;
            }
        }
    }

    /// Carries out the engine's orders; whether there were any.
    fn carry_out(&self, engine: &mut Engine) -> bool {
        let mut any = false;
        while let Some(order) = engine.order() {
            any = true;
            match order {
                Order::Send { to, head, body } => {
                    let body = body.as_ref().map_or(&[][..], |(body, from, len)| body.piece(*from, *len));
                    if let Err(error) = self.endpoint.send(to, head.kind, &[head.bytes(), body]) {
                        self.lose(engine, &error);
                    }
                }
                Order::Read(receive) => {
                    let Some(reading) = engine.reading(receive) else { continue };
                    // SAFETY: the engine vouches for the place, under the lock until it is told that the reading is over.
                    let is_done = unsafe { self.read(reading) };
                    // SAFETY: a reading that succeeds has written all of the place.
                    unsafe { engine.was_read(receive, is_done) };
                }
            }
        }
        any
    }

    /// Reads another process's memory; whether all of the place was written.
    ///
    /// # Safety
    /// The place is writable, and nobody relies on what is in it.
    unsafe fn read(&self, reading: Reading) -> bool {
        let Reading { from, address, place } = reading;
        if address & REGISTERED == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.memories.read(reading) };
        }
        let Some(heap) = &self.heap else { return false };
        let (offset, len) = (address & !REGISTERED, place.len());
        // SAFETY: the endpoint gives the address of as many bytes; the caller vouches for the place, which is of another mapping.
        let copy = &mut |bytes: *const u8| unsafe { bytes.copy_to(place.start(), len) };
        self.endpoint.read_peer(from, heap.segment(), offset, len, copy).is_ok_and(|is_mapped| is_mapped)
    }

    /// Sends the next pieces of what is on its way, where the way is free, and hands everything over. Whether there were any.
    fn give_way(&self, engine: &mut Engine) -> Result<bool> {
        let mut any = false;
        self.endpoint.flush()?;
        let mut next = engine.busy().next();
        while let Some(to) = next {
            while !self.endpoint.is_congested(to) && engine.next_piece(to, PIECE) {
                for _ in 1..BURST {
                    if !engine.next_piece(to, PIECE) {
                        break;
                    }
                }
                self.carry_out(engine);
                self.endpoint.flush()?;
                any = true;
            }
            next = engine.busy().find(|&rank| rank > to);
        }
        Ok(any)
    }

    /// Makes progress because no application thread does. If nothing had come, how long to sleep at most.
    pub(super) fn help_out(&self) -> Option<Duration> {
        let mut engine = self.engine();
        let news = self.progress(&mut engine);
        let limit = if engine.busy().next().is_some() { BUSY_SLEEP } else { LONGEST_SLEEP };
        (news == 0).then_some(limit)
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

/// Counts a thread that waits, for as long as it lives.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
