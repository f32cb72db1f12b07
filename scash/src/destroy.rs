//! The end of objects of synchronisation, in the typed interface.

use crate::dsm::Dsm;
use crate::error::{Error, Result};
use crate::mutex::{DsmMutex, Lock};
use crate::runtime::ObjectKind;
use crate::rwlock::DsmRwLock;
use crate::shared::{Plain, SharedSlice};
use crate::signals::{Condvar, Flag, Semaphore};

/// What [`Dsm::destroy`] destroys: the handles of locks, mutexes, reader–writer locks, semaphores, condition variables and flags.
pub trait SyncObject: Handle {}

impl<T: Handle> SyncObject for T {}

/// What a handle is to its object. Not for other crates: it cannot be named there.
pub trait Handle {
    /// What is in shared memory beside the object.
    type Value: Plain;

    /// What the object is.
    const KIND: ObjectKind;

    /// Its number.
    fn number(&self) -> u32;

    /// The values of all objects that were made together, and which of them is this one's.
    fn value(&self) -> Option<(SharedSlice<Self::Value>, usize)> {
        None
    }
}

impl Handle for Lock {
    type Value = u8;
    const KIND: ObjectKind = ObjectKind::Lock;

    fn number(&self) -> u32 {
        self.0
    }
}

impl Handle for Semaphore {
    type Value = u8;
    const KIND: ObjectKind = ObjectKind::Semaphore(0);

    fn number(&self) -> u32 {
        self.0
    }
}

impl Handle for Condvar {
    type Value = u8;
    const KIND: ObjectKind = ObjectKind::Condition;

    fn number(&self) -> u32 {
        self.0
    }
}

impl Handle for Flag {
    type Value = u8;
    const KIND: ObjectKind = ObjectKind::Flag;

    fn number(&self) -> u32 {
        self.0
    }
}

impl<T: Plain> Handle for DsmMutex<T> {
    type Value = T;
    const KIND: ObjectKind = ObjectKind::Lock;

    fn number(&self) -> u32 {
        self.lock.0
    }

    fn value(&self) -> Option<(SharedSlice<T>, usize)> {
        Some((self.values, self.index))
    }
}

impl<T: Plain> Handle for DsmRwLock<T> {
    type Value = T;
    const KIND: ObjectKind = ObjectKind::RwLock;

    fn number(&self) -> u32 {
        self.number
    }

    fn value(&self) -> Option<(SharedSlice<T>, usize)> {
        Some((self.values, self.index))
    }
}

impl Dsm {
    /// Destroys objects of synchronisation, in the order in which they were made; with mutexes and reader–writer locks their values are freed. Collective: all ranks name the same objects.
    /// No copy of their handles can be used any more: whoever does is told that they were destroyed.
    ///
    /// ```no_run
    /// # fn main() -> scash::Result<()> {
    /// let mut dsm = scash::Dsm::init()?;
    /// let locks = dsm.locks(8)?;
    /// let count = dsm.mutex(0u64)?;
    /// // …
    /// dsm.destroy(&locks)?;
    /// dsm.destroy(&[count])?;
    /// dsm.finalize()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InUse`]: a thread of some rank has one of the objects or waits for it; all ranks are told so, and nothing was done. Objects that do not follow one another, or are only some
    /// of those that share an allocation; objects that were destroyed; ranks made different collective calls; a rank is gone.
    pub fn destroy<O: SyncObject>(&mut self, objects: &[O]) -> Result<()> {
        let first = run(objects)?;
        let values = all_values(objects)?;
        self.untyped().destroy_objects(O::KIND, first, u32::try_from(objects.len()).unwrap_or(u32::MAX))?;
        values.map_or(Ok(()), |values| self.free(values))
    }
}

/// The number of the first of some objects, whose numbers must follow one another.
fn run<O: SyncObject>(objects: &[O]) -> Result<u32> {
    let Some(first) = objects.first().map(Handle::number) else {
        return Err(Error::Argument("no object is to be destroyed: name at least one".to_owned()));
    };
    match objects.windows(2).find(|two| two[0].number().checked_add(1) != Some(two[1].number())) {
        None => Ok(first),
        Some(two) => Err(Error::Argument(format!(
            "objects {} and {} are to be destroyed together, and were not made one after the other: destroy them by two calls",
            two[0].number(),
            two[1].number()
        ))),
    }
}

/// The values of objects that have some, all of which must be named: they are one allocation.
fn all_values<O: SyncObject>(objects: &[O]) -> Result<Option<SharedSlice<O::Value>>> {
    let Some((values, index)) = objects.first().and_then(Handle::value) else { return Ok(None) };
    if index == 0 && objects.len() == values.len() {
        return Ok(Some(values));
    }
    Err(Error::Argument(format!(
        "{} of {} objects that were made together are to be destroyed: destroy all of them, for their values are one allocation",
        objects.len(),
        values.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_that_were_made_one_after_the_other_are_destroyed_together() {
        assert_eq!(run(&[Flag(7), Flag(8), Flag(9)]).ok(), Some(7));
        assert_eq!(run(&[Flag(u32::MAX)]).ok(), Some(u32::MAX));
        for (flags, words) in [
            (&[][..], "at least one"),
            (&[Flag(3), Flag(3)], "objects 3 and 3"),
            (&[Flag(3), Flag(4), Flag(6)], "objects 4 and 6"),
            (&[Flag(u32::MAX), Flag(0)], "destroy them by two calls"),
        ] {
            let told = run(flags).unwrap_err().to_string();
            assert!(told.contains(words), "{told}");
        }
    }
}
