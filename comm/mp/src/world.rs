//! All ranks of a job that a launcher has started, and their messages.

use super::{Communicator, Options};
use scash_comm::say::say;
use scash_comm::{Error, Exchange, Result};
use scash_join::boot::{Identity, Member};
use scash_join::job::{self, Network};
use std::ops::Deref;

/// Number of the agreement between ranks of message passing: what is sent, and what lies in shared memory.
/// Raised whenever either changes.
pub(super) const ABI: u32 = 7;

/// The ranks of a job, and a [`Communicator`] of all of them.
///
/// ```no_run
/// use scash_mp::{Options, World};
///
/// # fn main() -> scash_comm::Result<()> {
/// let world = World::from_env(Options::from_env()?)?;
/// let next = (world.rank() + 1) % world.size();
/// world.send(next, 0, b"hello")?;
/// let message = world.receive_owned(None, Some(0))?;
/// println!("{} got {:?} from {}", world.rank(), message.bytes, message.status.source);
/// world.finalize()
/// # }
/// ```
///
/// A rank that ends without [`finalize`](Self::finalize) has failed, and the job with it.
#[derive(Debug)]
pub struct World {
    communicator: Communicator,
    member: Member,
}

impl World {
    /// Joins the job that this process was started for; one that no launcher has started is a job of one
    /// rank. Once a process, and by programs that do not use the shared memory of `scash`, which joins by
    /// itself and has a communicator of its own (`scash::runtime::Runtime::communicator`). The provider is
    /// what `scash run --provider` says; `SCASH_INTERFACE`, `SCASH_PORT` and `SCASH_OFI` say more of the
    /// network.
    ///
    /// # Errors
    /// Settings that make no sense, a rank that runs another program, or ranks that do not reach each other.
    pub fn from_env(options: Options) -> Result<World> {
        // First: a process joins once, and may call again with other options.
        options.check()?;
        let mut member = Member::from_env()?;
        let identity = Identity::of_this_program(env!("CARGO_PKG_VERSION"), ABI)
            .map_err(|source| Error::Io { what: "reading this program's own file".to_owned(), source })?;
        member.hello(&identity)?;
        let communicator = Communicator::of_job(&mut member, options, false)?;
        warn_of_restarts(&member);
        member.forget_secret()?;
        Ok(World { communicator, member })
    }

    /// Application threads that this rank should run (`scash run --threads`).
    pub fn threads(&self) -> u32 {
        self.member.threads()
    }

    /// Leaves the job: waits until all ranks have come here, and says that this one is done. Collective.
    ///
    /// # Errors
    /// A rank that is gone, or the launcher.
    pub fn finalize(mut self) -> Result<()> {
        self.communicator.barrier()?;
        self.member.finalized()
    }
}

impl Communicator {
    /// A communicator of all ranks of a job that this process has joined, on an endpoint of its own.
    /// Collective. Its provider and network are those that [`World::from_env`] takes. Whoever says that it
    /// comes back has it saved at checkpoints ([`saver`](Self::saver)); then no call tells the program that a
    /// rank is gone before the process had time to be ended and started again.
    ///
    /// # Errors
    /// Settings that make no sense, or ranks that do not reach each other.
    pub fn of_job(member: &mut Member, options: Options, comes_back: bool) -> Result<Communicator> {
        options.check()?;
        let network = Network::read(|name| std::env::var_os(name))?.patient(options.silence);
        let endpoint = job::endpoint(member, &network, ABI)?;
        Communicator::meet(endpoint, member, options, comes_back)
    }
}

/// Such a program has no place for checkpoints: says so once, where ranks would come back otherwise.
fn warn_of_restarts(member: &Member) {
    if member.starts_again() && member.rank() == 0 {
        say(
            "scash: the program has no place for checkpoints (scash_mp::World): no rank can be saved, and if one dies, all begin again; with \
             scash::runtime::MessageJob it has some\n",
        );
    }
}

impl Deref for World {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}
