//! Programs of messages alone: ranks that pass messages and share no memory, as far as the program knows.

use super::{Runtime, comes_back, init};
use scash_comm::{Error, Result};
use scash_mp::{Communicator, Options, World};
use std::fmt;
use std::ops::Deref;

/// The ranks of a job, and a [`Communicator`] of all of them, as [`World`] is; but where ranks can come back
/// (`scash run --replicas`), these do.
///
/// There is shared memory below then, of which only memory barriers are used: they are what checkpoints are
/// taken at. In other jobs there is none, and this is a [`World`].
pub struct MessageJob(Kind);

enum Kind {
    Plain(Box<World>),
    ComesBack(Communicator, &'static Runtime),
}

impl MessageJob {
    /// Joins the job that this process was started for; see [`World::from_env`]. Once a process, and not
    /// beside [`init`].
    ///
    /// # Errors
    /// Settings that make no sense, a rank that runs another program, or ranks that do not reach each other.
    pub fn from_env(options: Options) -> Result<MessageJob> {
        if !comes_back() {
            return World::from_env(options).map(|world| MessageJob(Kind::Plain(Box::new(world))));
        }
        let runtime = init().map_err(as_of_messages)?;
        let communicator = runtime.communicator(options).map_err(as_of_messages)?;
        Ok(MessageJob(Kind::ComesBack(communicator, runtime)))
    }

    /// Whether its ranks come back.
    pub fn comes_back(&self) -> bool {
        matches!(self.0, Kind::ComesBack(..))
    }

    /// A barrier, and, where ranks come back, a place for a checkpoint: the job goes on from the newest one
    /// if a rank dies. Collective.
    ///
    /// # Errors
    /// A rank is gone, or calls another collective operation.
    pub fn checkpoint(&self) -> Result<()> {
        // In both: ranks that call something else are told so alike.
        self.barrier()?;
        match &self.0 {
            Kind::Plain(_) => Ok(()),
            Kind::ComesBack(_, runtime) => runtime.barrier().map_err(as_of_messages),
        }
    }

    /// Application threads that this rank should run (`scash run --threads`).
    pub fn threads(&self) -> u32 {
        match &self.0 {
            Kind::Plain(world) => world.threads(),
            Kind::ComesBack(_, runtime) => runtime.threads(),
        }
    }

    /// Leaves the job: waits until all ranks have come here, and says that this one is done. Collective.
    ///
    /// # Errors
    /// A rank that is gone, or the launcher.
    pub fn finalize(self) -> Result<()> {
        match self.0 {
            Kind::Plain(world) => world.finalize(),
            Kind::ComesBack(communicator, runtime) => {
                communicator.barrier()?;
                runtime.finalize().map_err(as_of_messages)
            }
        }
    }
}

impl fmt::Debug for MessageJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MessageJob").field(&**self).finish()
    }
}

impl Deref for MessageJob {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        match &self.0 {
            Kind::Plain(world) => world,
            Kind::ComesBack(communicator, _) => communicator,
        }
    }
}

/// An error of shared memory, as one of message passing.
pub fn as_of_messages(error: crate::Error) -> Error {
    match error {
        crate::Error::Lost { rank, why } => Error::Down { rank, why },
        error => Error::Invalid(error.to_string()),
    }
}
