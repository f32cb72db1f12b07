//! A communicator: what applications call.

use super::collective::Collective;
use super::driver::{Goal, Shared};
use super::engine::{Engine, LONG};
use super::matching::Pattern;
use super::progress::Helper;
use super::registered::{Buffer, Heap};
use super::requests::{Destination, RequestNumber};
use super::span::{ReceiveBuffer, Source};
use super::{Options, Status};
use scash_comm::biased::Guard;
use scash_comm::{Endpoint, Error, Exchange, Result};
use std::sync::{Arc, Mutex};

/// The context of the program's messages.
const PROGRAM: u16 = 0;

/// An operation that was begun. It must be given to [`Communicator::wait`] or its relatives: until then it
/// occupies memory.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "an operation that nobody waits for is never known to be over"]
pub struct Request(pub(super) Option<RequestNumber>);

/// What an operation has brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Of the message that was received. Of a send: its tag and length, and as its source the rank that it
    /// went to.
    pub status: Status,
    /// The message, if its receive had brought no memory for it; empty otherwise.
    pub bytes: Vec<u8>,
}

/// A rank's messages.
///
/// May be used by several threads at once. When none of them waits or tests, a background thread makes
/// progress in their stead.
#[derive(Debug)]
pub struct Communicator {
    pub(super) shared: Arc<Shared>,
    /// `None` while a checkpoint is taken.
    pub(super) helper: Arc<Mutex<Option<Helper>>>,
}

impl Communicator {
    /// Message passing on an endpoint, which is used for nothing else from now on. Collective. What is to
    /// be measured ([`Options::calibrate`]) is measured here.
    ///
    /// # Errors
    /// Options that make no sense or differ between ranks, or no thread to be had.
    pub fn new(endpoint: Box<dyn Endpoint>, exchange: &mut dyn Exchange, options: Options) -> Result<Self> {
        Self::meet(endpoint, exchange, options, false)
    }

    /// The same for ranks that may come back from images.
    pub(super) fn meet(
        endpoint: Box<dyn Endpoint>,
        exchange: &mut dyn Exchange,
        options: Options,
        comes_back: bool,
    ) -> Result<Self> {
        options.check()?;
        let shared = Arc::new(Shared::meet(endpoint, exchange, options, comes_back)?);
        let helper = Helper::start(Arc::clone(&shared))?;
        let communicator = Self { shared, helper: Arc::new(Mutex::new(Some(helper))) };
        communicator.calibrate(exchange, &options)?;
        Ok(communicator)
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.shared.size
    }

    /// Memory in which long messages travel within a host in one copy that needs no system call. No other
    /// rank has to do likewise. Of memory that the program has already, nothing is gained by telling the
    /// communicator: where it may, the kernel reads messages out of it, in one copy as well.
    ///
    /// # Errors
    /// There is not so much of it ([`Options::registered`]).
    pub fn allocate(&self, len: usize) -> Result<Buffer> {
        // No checkpoint may come between the heap and its use.
        let _engine = self.shared.engine();
        Buffer::new(self.heap()?, len)
    }

    /// Its registered memory.
    pub(super) fn heap(&self) -> Result<&Arc<Heap>> {
        let none = "there is no registered memory: choose how much (SCASH_MP_REGISTERED)";
        self.shared.heap().ok_or_else(|| Error::Invalid(none.to_owned()))
    }

    /// Sends a message, and returns when its bytes may be changed again: at once if it is short or pushed,
    /// else when they were received.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send(&self, to: u32, tag: u64, bytes: &[u8]) -> Result<()> {
        self.check(Some(to))?;
        self.send_in(PROGRAM, to, tag, bytes)
    }

    /// Sends a message in a context to a rank that exists.
    #[inline]
    pub(super) fn send_in(&self, context: u16, to: u32, tag: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the bytes are borrowed until the wait is over.
        let source = unsafe { Source::new(bytes.as_ptr(), bytes.len()) };
        let request = self.begin_send(context, to, tag, source, true)?;
        self.wait(request).map(drop)
    }

    /// Receives a message into memory that is as long as it or longer.
    ///
    /// # Errors
    /// There is no such rank, it is gone, or [`Error::TooLong`].
    pub fn receive(&self, source: Option<u32>, tag: Option<u64>, into: &mut [u8]) -> Result<Status> {
        self.check(source)?;
        self.receive_in(Pattern { context: PROGRAM, source, tag }, into)
    }

    /// Receives a message of any context, from a rank that exists.
    #[inline]
    pub(super) fn receive_in(&self, pattern: Pattern, into: &mut [u8]) -> Result<Status> {
        // SAFETY: the memory is borrowed until the wait is over.
        let place = unsafe { ReceiveBuffer::new(into.as_mut_ptr(), into.len()) };
        let (engine, number) = self.posted(pattern, Destination::Room(place))?;
        Ok(self.end_of(engine, number)?.status)
    }

    /// Receives a message of any length: into the memory that was made for it when it came, if it has come.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn receive_owned(&self, source: Option<u32>, tag: Option<u64>) -> Result<Received> {
        let request = self.start_receive_owned(source, tag)?;
        self.wait(request)
    }

    /// Gives the memory of a message that was received with it back, for the next one. Nothing has to be:
    /// what is dropped goes to the allocator, which may take it from the process and have to ask for it
    /// again, page by page.
    pub fn recycle(&self, bytes: Vec<u8>) {
        self.shared.engine().recycle(bytes);
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
        self.begin_send(PROGRAM, to, tag, source, false)
    }

    #[inline]
    fn begin_send(&self, context: u16, to: u32, tag: u64, source: Source, waits: bool) -> Result<Request> {
        let request = self.shared.told(self.shared.begin_send(to, context, tag, source, waits))?;
        if !waits && request.is_some() && source.len() >= LONG {
            // The helper may have to send it beside what this thread computes.
            self.shared.cores.avoid_this_one();
        }
        Ok(Request(request))
    }

    /// Begins to receive a message into the `len` bytes at `into`.
    ///
    /// # Safety
    /// They are writable, and used by nobody else until the operation is known to be over, was cancelled, or
    /// the communicator is gone.
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
        let place = unsafe { ReceiveBuffer::new(into, len) };
        self.post(source, tag, Destination::Room(place))
    }

    /// Begins to receive a message of any length.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn start_receive_owned(&self, source: Option<u32>, tag: Option<u64>) -> Result<Request> {
        self.post(source, tag, Destination::Own(Vec::new()))
    }

    /// Sends a message and forgets about it: bytes that are borrowed are copied, owned ones are taken. They
    /// are kept until the message has left, or, past the window ([`Options::window`]) and where long messages
    /// are not pushed, until it is received. A [`fence`](Self::fence) waits for that.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send_and_forget(&self, to: u32, tag: u64, bytes: impl Into<Vec<u8>>) -> Result<()> {
        self.check(Some(to))?;
        let bytes = bytes.into();
        let mut engine = self.shared.engine();
        self.shared.told(engine.send_and_forget(to, PROGRAM, tag, bytes))?;
        self.shared.settle(&mut engine);
        Ok(())
    }

    /// Makes progress; the first message that a receive of this kind would get now, if there is one.
    ///
    /// # Errors
    /// There is no such rank, or it is gone and has left no such message.
    pub fn probe(&self, source: Option<u32>, tag: Option<u64>) -> Result<Option<Status>> {
        self.check(source)?;
        let mut engine = self.shared.engine();
        self.shared.drive(&mut engine);
        engine = self.shared.call(engine);
        let found = engine.probe(Pattern { context: PROGRAM, source, tag });
        if found.is_none() {
            engine.has_probed(source);
            self.shared.told(source.and_then(|_| engine.absent(source, &[])).map_or(Ok(()), Err))?;
        }
        Ok(found)
    }

    /// Waits until there is a message that a receive of this kind would get now.
    ///
    /// # Errors
    /// There is no such rank, or it is gone; if any rank would do, one that goes meanwhile, since it may have
    /// been this one that was waited for.
    pub fn wait_for_message(&self, source: Option<u32>, tag: Option<u64>) -> Result<Status> {
        self.check(source)?;
        let pattern = Pattern { context: PROGRAM, source, tag };
        let mut engine = self.shared.engine();
        let known: Vec<u32> = engine.gone().collect();
        engine.is_probing(source, true);
        self.shared.told(self.shared.until_from(engine, Goal::Message(source, tag), |engine| {
            let found = engine.probe(pattern).map(Ok);
            let over = found.or_else(|| engine.absent(source, &known).map(Err));
            over.inspect(|_| engine.is_probing(source, false))
        }))
    }

    /// Takes back a receive that no message was matched with, or a send that no receive was; gives the
    /// request back if that is too late: it will be over. It is always one of the two. Of a send that is not
    /// over, only the receiver's engine knows whether it has been matched: this asks it, and waits for the
    /// answer, but for no application.
    ///
    /// # Errors
    /// The request: of a receive that has its message; of a send that was matched, or whose bytes are on
    /// their way, or that is over; of any other operation.
    pub fn cancel(&self, request: Request) -> std::result::Result<(), Request> {
        let Some(number) = request.0 else { return Err(request) };
        let mut engine = self.shared.engine();
        if engine.cancel(number) {
            return Ok(());
        }
        if !engine.withdraw(number) {
            return Err(request);
        }
        self.shared.settle(&mut engine);
        drop(engine);
        let was_withdrawn = self.shared.until(Goal::Withdrawal, |engine| engine.was_withdrawn(number));
        if was_withdrawn { Ok(()) } else { Err(request) }
    }

    /// Begins a collective operation. All ranks begin the same ones in the same order; several may be under
    /// way.
    ///
    /// # Safety
    /// `input` is readable and unchanged, and `output` writable and used by nobody else, until the operation
    /// is known to be over or the communicator is gone: as many bytes as the operation says (see
    /// [`Collective`]). They do not overlap.
    ///
    /// # Errors
    /// Numbers that do not fit this job.
    pub unsafe fn start(
        &self,
        collective: &Collective,
        input: *const u8,
        output: *mut u8,
    ) -> Result<Request> {
        // SAFETY: the caller's promise is the same.
        let (engine, number) = unsafe { self.begun(collective, input, output) }?;
        self.shared.leave(engine, false);
        Ok(Request(Some(number)))
    }

    /// The same; its number, and the engine, which the caller may want to go on with.
    ///
    /// # Safety
    /// As for [`start`](Self::start).
    pub(super) unsafe fn begun(
        &self,
        collective: &Collective,
        input: *const u8,
        output: *mut u8,
    ) -> Result<(Guard<'_, Engine>, RequestNumber)> {
        let (rank, size) = (self.rank(), self.size());
        collective.check(size).map_err(Error::Invalid)?;
        let most = collective.input_len(rank).max(collective.output_len(rank, size));
        if isize::try_from(most).is_err() {
            return Err(Error::Invalid(format!(
                "a collective operation of {most} bytes: no memory is as large"
            )));
        }
        // SAFETY: the caller's promise.
        let input = unsafe { Source::new(input, collective.input_len(rank)) };
        // SAFETY: the caller's promise.
        let output = unsafe { ReceiveBuffer::new(output, collective.output_len(rank, size)) };
        let mut engine = self.shared.engine();
        let number = self.shared.told(engine.start(collective, input, output))?;
        self.shared.settle(&mut engine);
        Ok((engine, number))
    }

    fn post(&self, source: Option<u32>, tag: Option<u64>, into: Destination) -> Result<Request> {
        self.check(source)?;
        let is_long = matches!(&into, Destination::Room(place) if place.len() >= LONG);
        let (engine, number) = self.posted(Pattern { context: PROGRAM, source, tag }, into)?;
        self.shared.leave(engine, is_long);
        Ok(Request(Some(number)))
    }

    /// Posts a receive; its number, and the engine, which the caller may want to go on with.
    #[inline]
    fn posted(&self, pattern: Pattern, into: Destination) -> Result<(Guard<'_, Engine>, RequestNumber)> {
        let mut engine = self.shared.engine();
        let number = self.shared.told(engine.receive(pattern, into))?;
        self.shared.settle(&mut engine);
        Ok((engine, number))
    }

    /// An error if there is no such rank.
    pub(super) fn check(&self, rank: Option<u32>) -> Result<()> {
        match rank {
            Some(rank) if rank >= self.size() => Err(Error::Invalid(format!(
                "there is no rank {rank}: the job has {}, counted from 0",
                self.size()
            ))),
            _ => Ok(()),
        }
    }
}
