//! Images of processes: a process saves itself, and a new process of the same program becomes what was saved
//! (docs/fault-tolerance.md).
//!
//! **What is in an image.** All private memory that was written, that of the C library, of the heap and of
//! this runtime included; where the thread stands; what the kernel knows of it (`thread`); actions for
//! signals; open files, directory, mask of files (`files`). No shared mapping: whoever has some makes them
//! anew.
//!
//! **How one comes back.** The launcher starts the program as before, with the address space laid out as
//! before (no randomisation) and two variables more. Before `main` begins, `restore::start` finds them: it
//! plans what must change to turn this process into the one that was saved, moves to a stack of its own, and
//! carries the plan out by system calls and copies alone. Then [`capture`] returns for the second time, in
//! the new process.
//!
//! **Invariant:** between the moment that is saved and the end of saving nothing is allocated, and no lock of
//! the C library is taken: what changes meanwhile lies on this thread's stack, in frames that nobody returns
//! to, or in memory that is in no image (`area`).

#![allow(clippy::cast_possible_truncation, reason = "words of the machine have 64 bits")]

mod area;
mod contents;
mod context;
mod description;
mod files;
mod identity;
mod kernel;
mod limits;
mod maps;
mod owners;
mod populated;
mod restore;
mod save;
mod settings;
mod steps;
mod tasks;
mod thread;
mod threads;
mod tracking;

pub use area::STORE_AT;
pub use kernel::SyscallFailure;
pub use restore::{environment, is_linked};
pub use steps::REFUSED;
pub use tracking::Tracking;

use crate::store::Staged;
use files::Files;
use identity::Identity;
use limits::SoftLimits;
use std::ffi::c_void;
use std::fmt;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thread::Quiet;

/// Why no image can be taken of a process, or why one cannot be gone on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    why: String,
    is_passing: bool,
}

impl Refusal {
    /// With these words.
    pub fn new(why: String) -> Refusal {
        Refusal { why, is_passing: false }
    }

    /// One that may be gone the next time.
    pub fn passing(why: String) -> Refusal {
        Refusal { why, is_passing: true }
    }

    /// Whether it may be gone the next time.
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Refusal {}

impl From<SyscallFailure> for Refusal {
    fn from(failure: SyscallFailure) -> Refusal {
        Refusal::new(failure.to_string())
    }
}

/// How far [`capture`] is, for whoever watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One more thread was asked to stop; others may have stopped, or run.
    Asked,
    /// All other threads stand still.
    Stopped,
    /// The description of the process is in the store.
    Described,
    /// One more page was looked at that may have changed.
    Page,
}

/// How [`capture`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The image is in the store.
    Image {
        /// How long the kernel has looked which pages were written.
        scan: Duration,
    },
    /// This is another process, and it has come back from the image. Of what the runtime has, what lies in
    /// private memory is as it was; descriptors and shared mappings are gone, whatever the memory says.
    CameBack,
    /// Nothing was saved, as whoever was called when all threads were stopped wanted.
    Nothing,
}

/// What in a process is not the program's.
pub struct Own<'a> {
    /// Which descriptors are the runtime's.
    pub descriptors: &'a dyn Fn(RawFd) -> bool,
    /// How the names of the runtime's shared mappings begin.
    pub shared: &'a str,
}

/// What an image needs that is found out before threads are stopped, and may allocate.
#[derive(Debug)]
pub struct PreparedImage {
    /// A handler of the program's that ran while files are noted, or pages saved, would leave some before it,
    /// and some after.
    quiet: Quiet,
    /// Whether the program has no thread but this one; then nobody else changes what is found out here.
    is_alone: bool,
    identity: Arc<Identity>,
    /// Whether it was just now looked for mapped files that the identity has not.
    is_learnt: bool,
    files: Files,
}

impl PreparedImage {
    /// A file of which bytes may be overwritten that will not be taken back when the process comes back, if
    /// there is one: descriptor and name.
    pub fn overwritten(&self) -> Option<(u64, &Path)> {
        self.files.overwritten()
    }

    /// What was set of this process since it began, or has come back, that one which comes back does not
    /// have, in words. Takes a while: reads some files of the kernel's for each thread.
    pub fn changed_settings(&self) -> Vec<&'static str> {
        settings::changed(self.files.numbers())
    }
}

/// Why a process is not saved that has threads as it begins.
const EARLY_THREADS: &str = "a library or a constructor has started threads before main, and would do so where it \
                             comes back, too (if it is OpenBLAS: try OPENBLAS_NUM_THREADS=1)";

/// Looks at what a process has that images cannot carry, and notes the rest. Until the value is dropped, this
/// thread takes no signals.
///
/// # Errors
/// The program has something that an image cannot carry.
pub fn prepare(own: &Own<'_>) -> Result<PreparedImage, Refusal> {
    area::have_scratch()?;
    // First of all: what is found out from here on is not changed by handlers, nor, if this thread is alone,
    // by anybody.
    let quiet = Quiet::now()?;
    let is_alone = !threads::has_others()?;
    if settings::has_begun_with_threads() {
        return Err(Refusal::new(EARLY_THREADS.to_owned()));
    }
    save::refuse_what_cannot_be_saved()?;
    let identity = Identity::of_this_process()?;
    let files = Files::of_this_process(own.descriptors)?;
    Ok(PreparedImage { quiet, is_alone, identity, is_learnt: false, files })
}

/// In a process that has come back: these are the files that were given to it as standard output and error.
pub fn streams_are(given: &[BorrowedFd<'_>]) {
    files::note_streams(given);
}

/// Sees to it that what the program has written to its open files is on their disks: where an image is to
/// outlive the machine's power. So it is with those that were given to it as standard output and error, in
/// whose place it may have put others.
///
/// # Errors
/// A disk has not taken it.
pub fn sync_files(own: &Own<'_>, given: &[BorrowedFd<'_>]) -> Result<(), Refusal> {
    files::sync(own.descriptors, given)
}

/// Saves this process in an epoch of its store, which gets the pages of private memory; those of shared
/// memory may follow. Returns twice: here, and in each process that comes back from it. Tells `steps` how
/// far it is; all over again if the program has mapped a file. Nothing is saved if that returns `false`
/// when all threads are stopped.
///
/// # Errors
/// Something cannot be saved; then the epoch cannot be staged.
///
/// # Safety
/// No other thread runs that could change the process's memory, but one that keeps out of what is saved.
/// After [`Took::CameBack`] nothing is used, or dropped, that holds a descriptor or a shared mapping. A
/// stopped thread may have any lock: `steps` allocates nothing, and waits for no lock.
pub unsafe fn capture(
    mut prepared: PreparedImage,
    own: &Own<'_>,
    tracking: &Tracking,
    staged: &mut Staged<'_>,
    steps: &mut dyn FnMut(Step) -> bool,
) -> Result<Took, Refusal> {
    loop {
        let mut save = save::Save::new(&prepared, own, tracking, staged, steps)?;
        if !save.comes_to(Step::Stopped) {
            return Ok(Took::Nothing);
        }
        // They are in the image, as all that lies on this stack.
        let limits = SoftLimits::now();
        let (context, with) = (save.context(), (&raw mut save).cast::<c_void>());
        // SAFETY: `save::save` uses what it is given as what it is, and returns.
        if unsafe { context::capture(context, save::save, with) } == context::CAME_BACK {
            // The others have gone on from where they were.
            std::mem::forget(save);
            limits.take_on();
            settings::note_return();
            return Ok(Took::CameBack);
        }
        let result = save.outcome();
        drop(save);
        if matches!(result, Err(save::SaveError::NewFiles)) {
            // It has mapped a file since the last time. Nothing of it is in the epoch yet.
            (prepared.identity, prepared.is_learnt) = (Identity::learn()?, true);
            continue;
        }
        return save::told(result).map(|scan| Took::Image { scan });
    }
}
