//! The end of objects of synchronisation, in the typed interface.

use crate::api::dsm::Dsm;
use crate::api::mutex::{DsmMutex, Lock};
use crate::api::rwlock::DsmRwLock;
use crate::api::shared::{Plain, SharedSlice};
use crate::api::signals::{Condvar, Flag, Semaphore};
use crate::error::{Error, Result};
use crate::runtime::ObjectKind;

/// What [`Dsm::destroy`] destroys: the handles of locks, mutexes, reader–writer locks, semaphores, condition
/// variables and flags.
///
/// A function over all of them can destroy them, and nothing else: what a handle is to its object stays in
/// this crate.
pub trait SyncObject: sealed::Handle {}

impl<T: sealed::Handle> SyncObject for T {}

mod sealed {
    use super::Object;

    /// What only this crate can make. The methods of a trait that cannot be named can still be called, by
    /// whoever has a bound on a trait above it; but not without this.
    #[derive(Clone, Copy)]
    pub struct Seal(pub(super) ());

    /// What a handle is to its object.
    pub trait Handle {
        /// The object of the handle.
        fn object(&self, seal: Seal) -> Object;
    }
}

use sealed::{Handle, Seal};

/// An object of synchronisation.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    kind: ObjectKind,
    number: u32,
    values: Option<Values>,
}

/// What is in shared memory beside an object.
#[derive(Clone, Copy, Debug)]
struct Values {
    /// The values of all objects that were made together, as bytes,
    bytes: SharedSlice<u8>,
    /// their number, and which of them is the object's.
    count: usize,
    index: usize,
}

impl Values {
    fn new<T: Plain>(values: SharedSlice<T>, index: usize) -> Option<Values> {
        Some(Values { bytes: values.bytes(), count: values.len(), index })
    }
}

macro_rules! without_value {
    ($($handle:ty, $kind:expr;)*) => { $(
        impl Handle for $handle {
            fn object(&self, _: Seal) -> Object {
                Object { kind: $kind, number: self.0, values: None }
            }
        }
    )* };
}
without_value! {
    Lock, ObjectKind::Lock;
    Semaphore, ObjectKind::Semaphore(0);
    Condvar, ObjectKind::Condition;
    Flag, ObjectKind::Flag;
}

impl<T: Plain> Handle for DsmMutex<T> {
    fn object(&self, _: Seal) -> Object {
        let values = Values::new(self.values, self.index);
        Object { kind: ObjectKind::Lock, number: self.lock.0, values }
    }
}

impl<T: Plain> Handle for DsmRwLock<T> {
    fn object(&self, _: Seal) -> Object {
        let values = Values::new(self.values, self.index);
        Object { kind: ObjectKind::RwLock, number: self.number, values }
    }
}

impl Dsm {
    /// Destroys objects of synchronisation, in the order in which they were made; with mutexes and
    /// reader–writer locks their values are freed. Collective: all ranks name the same objects. No copy of
    /// their handles can be used any more: whoever does is told that they were destroyed.
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
    /// [`Error::InUse`]: a thread of some rank has one of the objects or waits for it; all ranks are told so,
    /// and nothing was done. Objects that do not follow one another, or are only some of those that share an
    /// allocation; objects that were destroyed; ranks made different collective calls; a rank is gone.
    pub fn destroy<O: SyncObject>(&mut self, objects: &[O]) -> Result<()> {
        let objects: Vec<Object> = objects.iter().map(|handle| handle.object(Seal(()))).collect();
        let first = run(&objects)?;
        let values = all_values(&objects)?;
        let count = u32::try_from(objects.len()).unwrap_or(u32::MAX);
        self.untyped().destroy_objects(first.kind, first.number, count)?;
        values.map_or(Ok(()), |values| self.free(values))
    }
}

/// The first of some objects, whose numbers must follow one another.
fn run(objects: &[Object]) -> Result<Object> {
    let Some(&first) = objects.first() else {
        return Err(Error::Argument("no object is to be destroyed: name at least one".to_owned()));
    };
    match objects.windows(2).find(|two| two[0].number.checked_add(1) != Some(two[1].number)) {
        None => Ok(first),
        Some(two) => Err(Error::Argument(format!(
            "objects {} and {} are to be destroyed together, and were not made one after the other: destroy them by two calls",
            two[0].number, two[1].number
        ))),
    }
}

/// The values of objects that have some, all of which must be named: they are one allocation.
fn all_values(objects: &[Object]) -> Result<Option<SharedSlice<u8>>> {
    let Some(Values { bytes, count, index }) = objects.first().and_then(|first| first.values) else {
        return Ok(None);
    };
    if index == 0 && objects.len() == count {
        return Ok(Some(bytes));
    }
    Err(Error::Argument(format!(
        "{} of {count} objects that were made together are to be destroyed: destroy all of them, for their values are one allocation",
        objects.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_that_were_made_one_after_the_other_are_destroyed_together() {
        let run = |flags: &[Flag]| {
            let objects: Vec<_> = flags.iter().map(|flag| flag.object(Seal(()))).collect();
            run(&objects).map(|first| first.number)
        };
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
