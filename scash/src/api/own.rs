//! Objects of synchronisation that one rank makes and one destroys, in the typed interface.

use crate::api::mutex::Lock;
use crate::api::session::{Session, job};
use crate::api::signals::{Condvar, Flag, Semaphore};
use crate::error::Result;
use crate::runtime::ObjectKind;

// SAFETY: a number, any of which is a handle: whether there is such an object is looked at in each call.
unsafe impl bytemuck::Zeroable for Lock {}
// SAFETY: as above; it is transparent.
unsafe impl bytemuck::Pod for Lock {}
// SAFETY: as `Lock`.
unsafe impl bytemuck::Zeroable for Semaphore {}
// SAFETY: as `Lock`.
unsafe impl bytemuck::Pod for Semaphore {}
// SAFETY: as `Lock`.
unsafe impl bytemuck::Zeroable for Condvar {}
// SAFETY: as `Lock`.
unsafe impl bytemuck::Pod for Condvar {}
// SAFETY: as `Lock`.
unsafe impl bytemuck::Zeroable for Flag {}
// SAFETY: as `Lock`.
unsafe impl bytemuck::Pod for Flag {}

impl Lock {
    /// A lock that this rank makes by itself, at any time, also while it has locks. Nobody has it. The handle
    /// is plain data: other ranks find it in shared memory, beside what the lock is for.
    ///
    /// ```no_run
    /// # fn main() -> scash::Result<()> {
    /// use scash::{Lock, SharedBox, SharedHandle};
    ///
    /// /// Part of a table, which a rank adds while others use it.
    /// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    /// #[repr(C)]
    /// struct Part {
    ///     entries: SharedHandle<[u64; 100]>,
    ///     lock: Lock,
    ///     _unused: u32,
    /// }
    ///
    /// let mut dsm = scash::Dsm::init()?;
    /// let part: scash::DsmMutex<Part> = dsm.mutex(bytemuck::Zeroable::zeroed())?;
    /// if dsm.rank() == 0 {
    ///     let entries = SharedBox::new(&dsm, [0; 100])?.park(&dsm)?;
    ///     *part.lock(&dsm)? = Part { entries, lock: Lock::make(&dsm)?, _unused: 0 };
    /// }
    /// dsm.barrier()?;
    /// let Part { entries, lock, .. } = *part.lock(&dsm)?;
    /// let held = lock.hold(&dsm)?;
    /// let mut mine = entries.adopt(&dsm)?;
    /// mine.get_mut(&dsm)[dsm.rank()] += 1;
    /// mine.park(&dsm)?;
    /// drop(held);
    /// dsm.finalize()
    /// # }
    /// ```
    ///
    /// # Errors
    /// All ranks have made no object together before ([`Dsm::locks`](crate::Dsm::locks) or the like), which
    /// they must have done once; the rank can make no more (of 2²⁴ at a time, each can have made an even
    /// part); another thread of this rank is in a collective call; a rank is gone.
    pub fn make(session: &(impl Session + ?Sized)) -> Result<Lock> {
        job(session).make_object(ObjectKind::Lock).map(Lock)
    }

    /// Destroys a lock that some rank has made by itself, as soon as nobody has it. Whoever uses it later is
    /// told that there is none; after the next memory barrier its number may mean another object.
    ///
    /// # Errors
    /// [`Error::InUse`](crate::Error::InUse): a thread waits for it that came after this call; the lock is as
    /// it was. There is no such lock; this thread has it; all ranks have made it together; a rank is gone.
    pub fn delete(self, session: &(impl Session + ?Sized)) -> Result<()> {
        job(session).destroy_object(ObjectKind::Lock, self.0)
    }
}

impl Semaphore {
    /// A semaphore with that count, which this rank makes by itself; see [`Lock::make`].
    ///
    /// # Errors
    /// As those of [`Lock::make`].
    pub fn make(session: &(impl Session + ?Sized), count: u32) -> Result<Semaphore> {
        job(session).make_object(ObjectKind::Semaphore(count)).map(Semaphore)
    }

    /// Destroys a semaphore that some rank has made by itself, whatever its count; see [`Lock::delete`].
    ///
    /// # Errors
    /// [`Error::InUse`](crate::Error::InUse): a thread waits for it. As those of [`Lock::delete`].
    pub fn delete(self, session: &(impl Session + ?Sized)) -> Result<()> {
        job(session).destroy_object(ObjectKind::Semaphore(0), self.0)
    }
}

impl Condvar {
    /// A condition variable that this rank makes by itself; see [`Lock::make`].
    ///
    /// # Errors
    /// As those of [`Lock::make`].
    pub fn make(session: &(impl Session + ?Sized)) -> Result<Condvar> {
        job(session).make_object(ObjectKind::Condition).map(Condvar)
    }

    /// Destroys a condition variable that some rank has made by itself; see [`Lock::delete`].
    ///
    /// # Errors
    /// [`Error::InUse`](crate::Error::InUse): a thread waits for it. As those of [`Lock::delete`].
    pub fn delete(self, session: &(impl Session + ?Sized)) -> Result<()> {
        job(session).destroy_object(ObjectKind::Condition, self.0)
    }
}

impl Flag {
    /// A flag, whose number is 0, that this rank makes by itself; see [`Lock::make`].
    ///
    /// # Errors
    /// As those of [`Lock::make`].
    pub fn make(session: &(impl Session + ?Sized)) -> Result<Flag> {
        job(session).make_object(ObjectKind::Flag).map(Flag)
    }

    /// Destroys a flag that some rank has made by itself; see [`Lock::delete`].
    ///
    /// # Errors
    /// [`Error::InUse`](crate::Error::InUse): a thread waits for it. As those of [`Lock::delete`].
    pub fn delete(self, session: &(impl Session + ?Sized)) -> Result<()> {
        job(session).destroy_object(ObjectKind::Flag, self.0)
    }
}
