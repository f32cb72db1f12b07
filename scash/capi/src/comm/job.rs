//! The process's communicator: joining, leaving, and how an answer of it becomes one for C.

use super::types::code;
use crate::{call, error};
use scash::runtime::{MessageJob, Runtime, as_of_messages};
use scash_comm::{Error, Result, forked};
use scash_mp::{Communicator, Options};
use std::ffi::c_int;
use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::thread;
use std::time::Duration;

/// Read by every call for as long as it lasts, so that nobody leaves while another thread is in one.
static JOB: RwLock<Job> = RwLock::new(Job::Before);

enum Job {
    Before,
    /// Joined.
    Open(OpenJob),
    Over,
}

/// The communicator, and the job if nobody else has joined it.
pub(super) enum OpenJob {
    Own(Box<MessageJob>),
    /// In a process that has joined by `dsm_init`.
    Beside(Communicator, &'static Runtime),
}

impl OpenJob {
    fn join(options: Options) -> Result<OpenJob> {
        let Some(runtime) = call::runtime() else {
            return Ok(OpenJob::Own(Box::new(MessageJob::from_env(options)?)));
        };
        let communicator = runtime.communicator(options).map_err(|e| Error::Invalid(e.to_string()))?;
        Ok(OpenJob::Beside(communicator, runtime))
    }

    fn leave(self) -> Result<()> {
        match self {
            OpenJob::Own(job) => job.finalize(),
            OpenJob::Beside(communicator, _) => communicator.barrier(),
        }
    }

    /// Waits for all ranks, and is a place for a checkpoint.
    pub(super) fn checkpoint(&self) -> Result<()> {
        match self {
            OpenJob::Own(job) => job.checkpoint(),
            OpenJob::Beside(_, runtime) => runtime.barrier().map_err(as_of_messages),
        }
    }

    /// Application threads that this rank should run.
    pub(super) fn threads(&self) -> u32 {
        match self {
            OpenJob::Own(job) => job.threads(),
            OpenJob::Beside(_, runtime) => runtime.threads(),
        }
    }
}

impl Deref for OpenJob {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        match self {
            OpenJob::Own(job) => job,
            OpenJob::Beside(communicator, _) => communicator,
        }
    }
}

fn job() -> RwLockReadGuard<'static, Job> {
    // A panic ends the process.
    JOB.read().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the process passes messages now.
pub(crate) fn is_open() -> bool {
    matches!(*job(), Job::Open(_))
}

/// An error in a child that the rank has forked. Before any lock: another thread of the rank may have had it
/// when the child was made.
pub(super) fn refuse_children(name: &str) -> Result<()> {
    if forked::is_child() { invalid(&forked::refusal(name)) } else { Ok(()) }
}

/// Joins the job.
pub(super) fn join(options: Options) -> Result<()> {
    refuse_children("scomm_init")?;
    let mut job = loop {
        match JOB.try_write() {
            Ok(job) => break job,
            Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        // A call of a process that has joined may wait for what this thread is to send: it is not waited for.
        if let Ok(job) = JOB.try_read() {
            may_join(&job)?;
        }
        thread::sleep(Duration::from_millis(1));
    };
    may_join(&job)?;
    *job = Job::Open(OpenJob::join(options)?);
    Ok(())
}

/// An error if the process has joined before.
fn may_join(job: &Job) -> Result<()> {
    match job {
        Job::Before => Ok(()),
        Job::Open(_) => invalid("scomm_init was called before: it is called once"),
        Job::Over => invalid("scomm_init was called after scomm_finalize: it is called once"),
    }
}

/// Leaves it.
pub(super) fn leave() -> Result<()> {
    refuse_children("scomm_finalize")?;
    let mut job = match JOB.try_write() {
        Ok(job) => job,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            return invalid(
                "scomm_finalize was called while another thread is in a function of scash_comm.h",
            );
        }
    };
    if let Job::Open(open) = &*job {
        check_finished(open)?;
    }
    match std::mem::replace(&mut *job, Job::Over) {
        Job::Open(open) => {
            // Handlers of active messages may run meanwhile, in this thread too, and call functions.
            drop(job);
            open.leave()
        }
        before @ Job::Before => {
            *job = before;
            invalid(&too_early("scomm_finalize"))
        }
        Job::Over => invalid(&too_late("scomm_finalize")),
    }
}

/// An error if operations of this rank are under way: messages would be lost.
fn check_finished(open: &OpenJob) -> Result<()> {
    let (operations, them) = match open.unfinished() {
        0 => return Ok(()),
        1 => ("1 operation".to_owned(), "it"),
        more => (format!("{more} operations"), "them"),
    };
    invalid(&format!(
        "scomm_finalize: this rank has begun {operations} and not waited for {them}: wait for {them} (scomm_wait, scomm_test and their \
         relatives), or take {them} back (scomm_cancel), and call it again; nothing was ended"
    ))
}

/// Gives back the memory of a message, for the next one if there is to be one.
pub(super) fn recycle(message: Vec<u8>) {
    if let Job::Open(open) = &*job() {
        open.recycle(message);
    }
}

/// What `run` says for the function `name`: 0 or more, or an error's number and a text for `scomm_error`.
pub(super) fn call(name: &str, run: impl FnOnce(&OpenJob) -> Result<c_int>) -> c_int {
    if let Err(refused) = refuse_children(name) {
        return told(Err(refused));
    }
    let job = job();
    told(match &*job {
        Job::Open(open) => run(open),
        Job::Before => invalid(&too_early(name)),
        Job::Over => invalid(&too_late(name)),
    })
}

/// The same for what has nothing to say.
pub(super) fn done(name: &str, run: impl FnOnce(&OpenJob) -> Result<()>) -> c_int {
    call(name, |open| run(open).map(|()| 0))
}

/// An answer for C.
pub(super) fn told(answer: Result<c_int>) -> c_int {
    answer.unwrap_or_else(|e| {
        error::set(&e);
        code(&e)
    })
}

/// A mistake of the program's.
pub(super) fn invalid<T>(why: &str) -> Result<T> {
    Err(Error::Invalid(why.to_owned()))
}

fn too_early(name: &str) -> String {
    format!("{name} was called before scomm_init, or scomm_init failed")
}

fn too_late(name: &str) -> String {
    format!("{name} was called after scomm_finalize")
}
