//! Ranks that another launcher has started: `srun`, MPICH's `mpiexec`, Open MPI's `mpirun`. They become a job
//! by themselves.
//!
//! Such a launcher tells each process its number, and keeps words for all of them ([`space`]): by the PMI
//! wire protocol ([`pmi`]), or by the library PMIx ([`pmix`]). Through these words the ranks learn who shares
//! a host with whom ([`discovery`]). Then the lowest rank of each host, its **lead**, does what an agent of
//! `scash run` does there, and rank 0 what the launcher does, too:
//!
//! ```text
//!   host a                                   host b
//!   rank 0: Trunk, Branch ◀── TCP, [link] ──▶ rank 2: Branch        (a thread of the lead, the [lead])
//!      ▲ line      ▲ line                       ▲ line     ▲ line   (Unix socket, the [local_socket])
//!   rank 0      rank 1                        rank 2     rank 3     (each but a lead has a [watch])
//! ```
//!
//! From there on all is as under `scash run`: nothing above [`Member`](super::Member) notices.
//!
//! # A thread, not a process
//! The lead's duties are done by a thread of it, which dies with it. A process of its own would outlive the
//! lead, but it would have to be forked in the middle of a program with threads and memory, and be kept from
//! holding what the launcher waits for. That a lead is dead, the others find out by themselves: each has a
//! thread that waits for the end of the lead's process, and then writes into the job page, which these ranks
//! may write for that reason; and the other leads notice the end of the connection. A lead that is *stopped*
//! does not serve: who dies meanwhile on its host is missed when it goes on.
//!
//! # Who ends what
//! How a process ended is known to the launcher that started it, and not here:
//! [`Exit::Unseen`](super::Exit::Unseen). After a failure ranks have [`GRACE`] to end by themselves; then the
//! launcher is asked to end the job. Leads leave last: [`Member::finalized`](super::Member::finalized)
//! returns at a lead when all ranks that it serves are done.
//!
//! # Whom is trusted
//! The job's secret stands in the launcher's words. Only processes of the job can ask for them, but they go
//! as the launcher sends them: Slurm's daemons authenticate each other and do not encrypt, nor do MPICH's or
//! Open MPI's between hosts. Anyone who can read their traffic, or be this user on one of the hosts, can
//! join. `scash run` through ssh has no such gap.
//!
//! # Checkpoints
//! A process that a launcher has started can keep a rank as its child instead of being one ([`keeper`]): then
//! it speaks with the launcher, and its rank has a line, as under `scash run`.
//!
//! # Numbers
//! Ranks are numbered along hosts ([`Layout`](super::Layout)). Where the launcher has dealt its numbers
//! otherwise (`srun -m cyclic`), a rank's number is not the launcher's.

mod arrivals;
mod discovery;
mod hex;
mod keeper;
mod lead;
mod link;
mod local_socket;
mod pmi;
mod pmix;
mod space;
mod watch;

use super::Settings;
use super::io;
use super::vars;
use crate::setting::setting;
use discovery::Standing;
pub use keeper::{Gathering, Keeper};
use pmi::Pmi;
use pmix::Pmix;
use scash_comm::{Error, Result};
use space::Space;
use std::ffi::OsString;
use std::fmt::Arguments;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long ranks may take to end by themselves when one has failed.
const GRACE: Duration = Duration::from_secs(1);
/// How long a launcher has to pass on what was said before it is asked to end the job: MPICH's forgets what
/// it has not.
const HEARING: Duration = Duration::from_millis(200);
/// How long ranks may take to find each other, if the user says nothing else (`SCASH_JOIN`).
const TIMEOUT: Duration = Duration::from_secs(60);
/// The variable by which the user says it, in seconds.
const JOIN: &str = "SCASH_JOIN";

/// The launcher's words, as the threads of a rank share them.
type SharedSpace = Arc<Mutex<Box<dyn Space>>>;

/// A rank that has found the others of its host, and has its line.
pub(super) struct External {
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) line: OwnedFd,
    /// An address of this host that other hosts reach.
    pub(super) address: Option<IpAddr>,
    pub(super) service: Service,
}

/// What serves a rank in place of the launcher.
#[derive(Debug)]
pub(super) struct Service {
    space: SharedSpace,
    /// The rank that serves this host.
    pub(super) lead: u32,
    /// At a lead: says that nobody needs it any more. Behind a lock only because threads may share a member.
    settled: Option<Mutex<Receiver<()>>>,
    /// At other ranks: the lead's process.
    lead_process: Option<OwnedFd>,
}

/// What the environment says to ranks that `scash run` has not started.
pub(super) fn settings(var: &dyn Fn(&str) -> Option<OsString>) -> Result<Settings> {
    let text = |name: &str| setting(name, var(name));
    let threads = match text(vars::THREADS)? {
        None => 1,
        Some(value) => value.parse().ok().filter(|threads| *threads > 0).ok_or_else(|| {
            Error::Invalid(format!("{}={value}: a number from 1 on is expected", vars::THREADS))
        })?,
    };
    Ok(Settings { threads, provider: text(vars::PROVIDER)?.unwrap_or_else(|| "auto".to_owned()) })
}

/// Most seconds that ranks may take: no clock ends before.
const LONGEST: u64 = 10_000_000;

/// How long ranks may take to find each other.
fn timeout(var: &dyn Fn(&str) -> Option<OsString>) -> Result<Duration> {
    let Some(value) = setting(JOIN, var(JOIN))? else { return Ok(TIMEOUT) };
    let seconds = value.parse().ok().filter(|seconds| (1..=LONGEST).contains(seconds));
    let why =
        || Error::Invalid(format!("{JOIN}={value}: a number of seconds from 1 to {LONGEST} is expected"));
    seconds.map(Duration::from_secs).ok_or_else(why)
}

impl External {
    /// Joins the job of another launcher, if `var`, which looks up environment variables, tells of any.
    pub(super) fn from_vars(
        var: &dyn Fn(&str) -> Option<OsString>,
        settings: &Settings,
    ) -> Result<Option<External>> {
        let deadline = Instant::now() + timeout(var)?;
        let interface = setting("SCASH_INTERFACE", var("SCASH_INTERFACE"))?;
        let Some(space) = find_space(var, deadline)? else { return Ok(None) };
        External::join(space, settings, interface.as_deref(), deadline).map(Some)
    }

    fn join(
        mut space: Box<dyn Space>,
        settings: &Settings,
        interface: Option<&str>,
        deadline: Instant,
    ) -> Result<External> {
        let place = discovery::meet(&mut *space, interface, deadline)?;
        let space = Arc::new(Mutex::new(space));
        let joined = match place.is_lead() {
            true => lead::begin(place, settings, Arc::clone(&space), None, deadline),
            false => enter(&place, &space, deadline),
        };
        // Not by all who could not join: the others learn it by the end of this process, or of its
        // connections.
        let (line, address, service, rank, size) = joined?;
        Ok(External { rank, size, line, address, service })
    }
}

type Joined = (OwnedFd, Option<IpAddr>, Service, u32, u32);

/// Connects to the lead's socket.
fn enter(place: &Standing, space: &SharedSpace, deadline: Instant) -> Result<Joined> {
    let (line, address, lead_process) =
        local_socket::enter(&place.socket, place.rank, place.lead(), deadline)?;
    let service = Service {
        space: Arc::clone(space),
        lead: place.lead(),
        settled: None,
        lead_process: Some(lead_process),
    };
    Ok((line, address, service, place.rank, place.layout.size()))
}

impl Service {
    /// The job page has come: has it written when the lead dies.
    pub(super) fn watch(&mut self, page: &OwnedFd, size: u32) -> Result<()> {
        let Some(lead_process) = self.lead_process.take() else { return Ok(()) };
        let page = page.try_clone().map_err(|source| Error::Io {
            what: "duplicating the job page's descriptor (raise `ulimit -n`)".to_owned(),
            source,
        })?;
        let page = super::page::PageWriter::adopt(page, size).map_err(io("mapping the job page"))?;
        watch::begin(lead_process, self.lead, page, Arc::clone(&self.space))
    }

    /// This rank is done: waits until nobody needs it, and says so to its launcher.
    pub(super) fn leave(&mut self) -> Result<()> {
        if let Some(settled) = self.settled.take() {
            // An error is the lead thread's end, which is as good.
            let _ = settled.into_inner().unwrap_or_else(PoisonError::into_inner).recv();
        }
        lock(&self.space).finalize()
    }
}

/// Starts a thread that takes no signals: they are for the application's.
fn start_thread(what: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let named = std::thread::Builder::new().name("scash/boot".into()).stack_size(256 << 10);
    let thread = without_signals(|| named.spawn(what))?;
    thread.map_err(|source| Error::Io { what: "starting a thread (see `ulimit -u`)".into(), source })
}

/// Runs `what` with all signals blocked, as threads that it starts keep them.
fn without_signals<T>(what: impl FnOnce() -> T) -> Result<T> {
    use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
    let mut before = SigSet::empty();
    let blocked = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before));
    blocked.map_err(io("blocking signals"))?;
    let done = what();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None).map_err(io("unblocking signals"))?;
    Ok(done)
}

/// Locks, also after a panic elsewhere: no value here is left half-changed by code that can panic.
fn lock(space: &SharedSpace) -> MutexGuard<'_, Box<dyn Space>> {
    space.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes one line on stderr, in one piece. If that is closed, nobody wants to know.
fn say(what: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("scash: {what}\n").as_bytes());
}

/// The space that the environment tells of. `None`: no launcher that we know has started this process.
fn find_space(var: &dyn Fn(&str) -> Option<OsString>, deadline: Instant) -> Result<Option<Box<dyn Space>>> {
    if let Some(pmi) = Pmi::find(var, deadline)? {
        return Ok(Some(Box::new(pmi)));
    }
    Ok(Pmix::find(var)?.map(|pmix| Box::new(pmix) as Box<dyn Space>))
}

#[cfg(test)]
mod tests;
