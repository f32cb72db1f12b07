//! Messages beside shared memory, for programs without `unsafe`.
//!
//! Message passing has an endpoint of its own, and wants memory that does not fault: it is used under locks,
//! and by the kernel. Shared memory may fault, where ranks do not share frames. So where a call is given
//! some, it works on a copy that the calling thread makes, in calls that return when they are over; calls
//! that go on beside the program refuse it.

use crate::api::dsm::Dsm;
use crate::api::shared::Plain;
use crate::error::{Error, Result};
use crate::runtime::Runtime;
use scash_mp::{Communicator, Options, Received, Scope, Status};
use std::sync::Arc;

/// Messages between the ranks of a job, next to its shared memory: [`Dsm::messages`]. A handle: copies of it
/// are the same communicator.
///
/// May be used by several threads at once, workers of a [crew](Dsm::crew) among them. Of several messages
/// that a receive could get, it gets the one that came first; messages from one rank to another keep their
/// order. Slices may be of private memory, or borrowed from shared memory for the interval; messages of
/// private memory are faster, since the others are copied first.
///
/// ```no_run
/// fn main() -> scash::Result<()> {
///     let mut dsm = scash::Dsm::init()?;
///     let messages = dsm.messages()?;
///     let mut field = dsm.partition::<f64>(1 << 20)?;
///     let next = (dsm.rank() + 1) % dsm.size();
///     let parts = field.parts(&dsm);
///     let mut edge = [0.0];
///     messages.scope(|exchange| {
///         exchange.receive(None, Some(7), &mut edge)?;
///         messages.send(next, 7, &parts.mine[..1])
///     })?;
///     field.publish(&mut dsm)?;
///     dsm.finalize()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Messages {
    communicator: Arc<Communicator>,
    runtime: Shared,
}

/// Which memory is shared.
#[derive(Clone, Copy)]
struct Shared(&'static Runtime);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}", self.0.rank())
    }
}

impl Shared {
    fn is(self, bytes: &[u8]) -> bool {
        self.0.is_shared(bytes.as_ptr(), bytes.len())
    }

    /// Calls this with the bytes, or a copy of them if they are shared memory.
    fn source<R>(self, bytes: &[u8], call: impl FnOnce(&[u8]) -> R) -> R {
        if !self.is(bytes) {
            return call(bytes);
        }
        let copy = bytes.to_vec();
        call(&copy)
    }

    /// Calls this with the memory, or with a copy that is brought back if it is shared.
    fn place<R>(self, into: &mut [u8], call: impl FnOnce(&mut [u8]) -> R) -> R {
        if !self.is(into) {
            return call(into);
        }
        let mut copy = into.to_vec();
        let made = call(&mut copy);
        into.copy_from_slice(&copy);
        made
    }

    fn refuse(self, bytes: &[u8]) -> Result<()> {
        if !self.is(bytes) {
            return Ok(());
        }
        Err(Error::Argument(
            "a message that travels beside the program is not sent from or received into shared memory: \
             copy it, or use a call that returns when it is over"
                .to_owned(),
        ))
    }
}

/// Operations that are under way beside the program: [`Messages::scope`].
#[derive(Debug)]
pub struct Exchange<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    runtime: Shared,
}

impl Messages {
    /// Sends values, and returns when they may be changed again: at once if they are few, else when they were
    /// received.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send<T: Plain>(&self, to: usize, tag: u64, values: &[T]) -> Result<()> {
        self.runtime.source(bytes(values), |bytes| self.communicator.send(rank(to), tag, bytes)).map_err(told)
    }

    /// Sends values, and forgets about them: they are copied.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn send_and_forget<T: Plain>(&self, to: usize, tag: u64, values: &[T]) -> Result<()> {
        self.communicator.send_and_forget(rank(to), tag, bytes(values)).map_err(told)
    }

    /// Receives a message into memory that is as long as it or longer, from a rank or any (`None`), with a
    /// tag or any. The status has its length in bytes.
    ///
    /// # Errors
    /// The message is longer; there is no such rank, or it is gone.
    pub fn receive<T: Plain>(
        &self,
        source: Option<usize>,
        tag: Option<u64>,
        into: &mut [T],
    ) -> Result<Status> {
        let receive = |into: &mut [u8]| self.communicator.receive(source.map(rank), tag, into);
        self.runtime.place(bytes_mut(into), receive).map_err(told)
    }

    /// Receives a message of any length, with the memory that was made for it.
    ///
    /// # Errors
    /// There is no such rank, or it is gone.
    pub fn receive_owned(&self, source: Option<usize>, tag: Option<u64>) -> Result<Received> {
        self.communicator.receive_owned(source.map(rank), tag).map_err(told)
    }

    /// The first message that such a receive would get now, if there is one.
    ///
    /// # Errors
    /// There is no such rank, or it is gone and has left no such message.
    pub fn probe(&self, source: Option<usize>, tag: Option<u64>) -> Result<Option<Status>> {
        self.communicator.probe(source.map(rank), tag).map_err(told)
    }

    /// Calls `work`, and waits for all sends and receives that it has begun. They may not be of shared
    /// memory.
    ///
    /// # Errors
    /// Why an operation failed, else what `work` returns. All are over in any case.
    pub fn scope<'env, R>(
        &'env self,
        work: impl for<'scope> FnOnce(Exchange<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        let runtime = self.runtime;
        self.communicator.scope(|scope| Ok(work(Exchange { scope, runtime }))).map_err(told)?
    }

    /// Waits for all ranks. No memory barrier.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self) -> Result<()> {
        self.communicator.barrier().map_err(told)
    }

    /// Gives the values of one rank to all. Collective.
    ///
    /// # Errors
    /// There is no such rank; memory of another length at some rank; a rank is gone.
    pub fn broadcast<T: Plain>(&self, root: usize, values: &mut [T]) -> Result<()> {
        let broadcast = |data: &mut [u8]| self.communicator.broadcast(rank(root), data);
        self.runtime.place(bytes_mut(values), broadcast).map_err(told)
    }

    /// Gives the values of all ranks to all, in the order of ranks. Collective; all have as many.
    ///
    /// # Errors
    /// Memory of another length; a rank is gone.
    pub fn all_gather<T: Plain>(&self, mine: &[T], all: &mut [T]) -> Result<()> {
        self.both(mine, all, |mine, all| self.communicator.all_gather(mine, all))
    }

    /// Gives part r of each rank's values to rank r, in the order of ranks; all parts are equally long.
    /// Collective.
    ///
    /// # Errors
    /// Memory whose length is no multiple of the number of ranks, or differs; a rank is gone.
    pub fn all_to_all<T: Plain>(&self, mine: &[T], theirs: &mut [T]) -> Result<()> {
        let size = self.communicator.size() as usize;
        if !mine.len().is_multiple_of(size) {
            let len = mine.len();
            return Err(Error::Argument(format!("{len} values cannot be shared equally by {size} ranks")));
        }
        self.both(mine, theirs, |mine, theirs| self.communicator.all_to_all(mine, theirs))
    }

    fn both<T: Plain>(
        &self,
        from: &[T],
        to: &mut [T],
        call: impl FnOnce(&[u8], &mut [u8]) -> scash_comm::Result<()>,
    ) -> Result<()> {
        let shared = self.runtime;
        shared.source(bytes(from), |from| shared.place(bytes_mut(to), |to| call(from, to))).map_err(told)
    }
}

impl<'scope> Exchange<'scope, '_> {
    /// Begins to send.
    ///
    /// # Errors
    /// The values lie in shared memory; there is no such rank, or it is gone.
    pub fn send<T: Plain>(&self, to: usize, tag: u64, values: &'scope [T]) -> Result<()> {
        let bytes = bytes(values);
        self.runtime.refuse(bytes)?;
        self.scope.send(rank(to), tag, bytes).map(drop).map_err(told)
    }

    /// Begins to receive into memory that is as long as the message or longer.
    ///
    /// # Errors
    /// The memory is shared; there is no such rank, or it is gone.
    pub fn receive<T: Plain>(
        &self,
        source: Option<usize>,
        tag: Option<u64>,
        into: &'scope mut [T],
    ) -> Result<()> {
        let into = bytes_mut(into);
        self.runtime.refuse(into)?;
        self.scope.receive(source.map(rank), tag, into).map(drop).map_err(told)
    }
}

impl Dsm {
    /// Message passing among the ranks of this job. The first call is collective; later ones return the same
    /// communicator. `SCASH_MP_*` set its thresholds.
    ///
    /// [`finalize`](Self::finalize) ends it: what was sent is to be received before.
    ///
    /// # Errors
    /// Settings that make no sense; ranks that do not reach each other.
    pub fn messages(&mut self) -> Result<Messages> {
        if let Some(messages) = &self.messages {
            return Ok(messages.clone());
        }
        let runtime = self.untyped();
        let options = Options::from_env().map_err(|e| Error::Setting(e.to_string()))?;
        let communicator = Arc::new(runtime.communicator(options)?);
        let messages = Messages { communicator, runtime: Shared(runtime) };
        Ok(self.messages.insert(messages).clone())
    }
}

/// A rank's number as message passing has it; one that there cannot be stays so.
fn rank(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn bytes<T: Plain>(values: &[T]) -> &[u8] {
    // Values without bytes have none.
    bytemuck::try_cast_slice(values).unwrap_or(&[])
}

fn bytes_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    bytemuck::try_cast_slice_mut(values).unwrap_or(&mut [])
}

/// An error of message passing. What cannot be done says nothing of the next call; a rank that is gone is
/// gone for shared memory, too.
fn told(error: scash_comm::Error) -> Error {
    match error {
        scash_comm::Error::Down { rank, why } | scash_comm::Error::OutOfReach { rank, why } => {
            Error::Lost { rank, why }
        }
        error @ scash_comm::Error::Protocol { .. } => Error::Broken(error.to_string()),
        error => Error::Argument(error.to_string()),
    }
}
