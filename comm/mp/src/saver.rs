//! Checkpoints of a communicator: it is paused, saved with all other memory of its process, and goes on, or
//! is made anew in the process that comes back.

use super::communicator::Communicator;
use super::driver::Shared;
use super::engine::{Engine, Hindrance};
use super::progress::Helper;
use super::world::ABI;
use scash_comm::biased::Guard;
use scash_comm::{Result, Stillness};
use scash_join::boot::Member;
use scash_join::job::{self, Network};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

type Helping = Mutex<Option<Helper>>;

/// Knows a communicator, and whether there is one still.
pub struct Saver {
    shared: Weak<Shared>,
    helper: Weak<Helping>,
}

/// A communicator that is there while it is saved.
pub struct Saving {
    shared: Arc<Shared>,
    helper: Arc<Helping>,
}

/// A communicator whose messages are drained. Nothing is sent until this is dropped: at all ranks no earlier
/// than when all have been saved.
#[must_use = "messages go on when this is dropped"]
pub struct Paused<'a> {
    saving: &'a Saving,
    engine: RefCell<Option<Guard<'a, Engine>>>,
}

impl Communicator {
    /// What takes checkpoints of it.
    pub fn saver(&self) -> Saver {
        Saver { shared: Arc::downgrade(&self.shared), helper: Arc::downgrade(&self.helper) }
    }
}

impl Saver {
    /// The communicator, if it was not dropped.
    pub fn saving(&self) -> Option<Saving> {
        Some(Saving { helper: self.helper.upgrade()?, shared: self.shared.upgrade()? })
    }
}

impl Saving {
    /// Pauses it: what was sent to this rank has come. All ranks pause theirs; this waits for them, and
    /// calls `meanwhile` now and then, which sends on what they wait for besides.
    pub fn pause(&self, meanwhile: &dyn Fn()) -> Paused<'_> {
        drop(self.helper.lock().unwrap_or_else(PoisonError::into_inner).take());
        Paused { saving: self, engine: RefCell::new(Some(self.shared.drain(meanwhile))) }
    }
}

impl Paused<'_> {
    /// Why this rank cannot be saved.
    pub fn hindrance(&self) -> Option<Hindrance> {
        self.engine.borrow_mut().as_mut().and_then(|engine| self.saving.shared.hindrance(engine))
    }

    /// Its threads hold still; `None`: they do not.
    pub fn hold_still(&self) -> Option<Stillness<'_>> {
        self.saving.shared.hold_still()
    }

    /// Makes connections anew in the process that has come back. Collective.
    ///
    /// # Safety
    /// The process has come back from an image that was taken while this was paused and had no
    /// [hindrance](Self::hindrance), and it has one thread.
    ///
    /// # Errors
    /// Ranks do not reach each other.
    pub unsafe fn revive(&self, member: &mut Member, var: &dyn Fn(&str) -> Option<OsString>) -> Result<()> {
        let shared = &self.saving.shared;
        let network = Network::read(var)?.patient(shared.silence());
        let endpoint = job::endpoint(member, &network, ABI)?;
        let mut engine = self.engine.borrow_mut();
        let Some(engine) = engine.as_mut() else { return Ok(()) };
        // SAFETY: the caller's promise: those of the image's threads that had the endpoint or registered
        // memory in their hands had come for the engine, and this one has no reference to them.
        unsafe { shared.renew(engine, endpoint, member) }
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        drop(self.engine.borrow_mut().take());
        let mut helper = self.saving.helper.lock().unwrap_or_else(PoisonError::into_inner);
        // Without one there is progress only in calls.
        *helper = Helper::start(Arc::clone(&self.saving.shared)).ok();
    }
}

impl fmt::Debug for Saver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saver").finish_non_exhaustive()
    }
}
