//! Arrays that the workers of a program share, each of which owns ranges from one barrier to the next.
//!
//! An [`Array`] is to the programs here what [`scash::Split`] is to those that have a [`scash::Dsm`] at hand:
//! who writes what is a [`Division`], and what has no owner is read by all. The same code runs in private
//! memory, where the workers are threads, and in that of a job.
//!
//! **Why this is sound.** Workers turn to other divisions together ([`Worker::turn`]), and threads and ranks
//! compare what they turn to before any goes on. Slices are borrowed from a worker, which a turn takes
//! mutably. A worker takes its own elements once in an interval. And a crew that works on an array keeps all
//! others away from it (`CrewHold`).

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use scash::Division;

use crate::Result;
use crate::crew::Worker;
use crate::life::Life;
use crate::lock::{Guard, Lock};
use crate::shared::{Element, KeepAlive, Shared};
use crate::turn::{Owned, Turn};

/// An array that all workers can reach.
pub struct Array<T> {
    memory: Shared<T>,
    /// Keeps private memory.
    _keep: KeepAlive,
    /// Written between the arrival of all threads of a process and their leaving.
    owners: RwLock<Owners>,
    holder: CrewHold,
}

/// Who owns the elements of an array.
#[derive(Clone, Default)]
enum Owners {
    /// Nobody may use them before the first turn.
    #[default]
    Unknown,
    /// The sessions that a division says; what has none is read by all.
    Divided(Division),
    /// Whoever has an element's lock, or has taken it.
    Holders,
}

/// Which crew works on an array, and what its threads have taken.
#[derive(Default)]
struct CrewHold {
    /// The crew's number.
    crew: AtomicU64,
    life: Mutex<Option<Arc<Life>>>,
    /// For each thread, the interval in which it has taken what it owns.
    taken: RwLock<Vec<AtomicU64>>,
}

impl CrewHold {
    /// Sees to it that this crew alone works on the array.
    ///
    /// # Panics
    /// If another one does.
    fn is_for(&self, life: &Arc<Life>) {
        if self.crew.load(Ordering::Acquire) == life.number() {
            return;
        }
        let mut held = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_some_and(|held| held.number() == life.number()) {
            return;
        }
        let free = held.as_ref().is_none_or(|held| held.is_over());
        assert!(free, "two crews work on one array");
        let taken = (0..life.threads()).map(|_| AtomicU64::new(0)).collect();
        *self.taken.write().unwrap_or_else(PoisonError::into_inner) = taken;
        *held = Some(Arc::clone(life));
        self.crew.store(life.number(), Ordering::Release);
    }

    /// Notes that a thread takes what it owns in this interval.
    ///
    /// # Panics
    /// If it has.
    fn take(&self, thread: usize, interval: u64) {
        let taken = self.taken.read().unwrap_or_else(PoisonError::into_inner);
        let before = taken[thread].swap(interval, Ordering::Relaxed);
        assert!(before != interval, "a worker takes its elements of an array twice in an interval");
    }
}

/// What a worker may use of an [`Array`] until the next turn.
pub struct View<'a, T> {
    /// The ranges that it owns, as the [`Division`] names them.
    pub mine: Vec<&'a mut [T]>,
    /// What nobody owns.
    pub unowned: Unowned<'a, T>,
}

/// The elements of an [`Array`] that nobody owns in an interval.
pub struct Unowned<'a, T> {
    memory: Shared<T>,
    owners: Division,
    _interval: PhantomData<&'a [T]>,
}

impl<'a, T: Element> Unowned<'a, T> {
    /// Some of them, to read.
    ///
    /// # Panics
    /// If somebody owns one of them.
    pub fn get(&self, range: Range<usize>) -> &'a [T] {
        assert!(self.owners.is_unowned(&range), "elements {range:?} of an array of which some have an owner");
        // SAFETY: nobody writes before the next turn, for which the worker is borrowed mutably.
        unsafe { self.memory.get(range) }
    }
}

impl<T: Element> Owned for Array<T> {
    fn address(&self) -> usize {
        self.memory.address()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }

    fn claim(&self, life: &Arc<Life>) {
        self.holder.is_for(life);
    }

    fn set(&self, owners: Option<&Division>) {
        let owners = owners.map_or(Owners::Holders, |owners| Owners::Divided(owners.clone()));
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
    }
}

impl<T: Element> Array<T> {
    /// An array in this memory, which nothing else uses.
    ///
    /// # Safety
    /// Nobody else makes slices of the memory, which is there for as long as `keep` or, without it, the
    /// process.
    pub(crate) unsafe fn new(memory: Shared<T>, keep: KeepAlive) -> Self {
        Self { memory, _keep: keep, owners: RwLock::default(), holder: CrewHold::default() }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    fn owners(&self) -> Division {
        match &*self.owners.read().unwrap_or_else(PoisonError::into_inner) {
            Owners::Divided(owners) => owners.clone(),
            Owners::Unknown => panic!("an array is used before the first turn"),
            Owners::Holders => panic!("elements of an array are used without their locks"),
        }
    }

    /// What the worker owns, and what nobody does.
    ///
    /// # Panics
    /// If it has taken what it owns in this interval; before the first turn.
    pub fn view<'a>(&'a self, worker: &'a Worker<'_>) -> View<'a, T> {
        self.holder.is_for(worker.life());
        self.holder.take(worker.thread(), worker.interval());
        let owners = self.owners();
        // SAFETY: ranges of a division are disjoint; this worker owns these until the next turn, for which it
        // is borrowed mutably, and takes them once.
        let slice = |range: &Range<usize>| unsafe { self.memory.get_mut(range.clone()) };
        let mine = owners.of(worker.who().index).iter().map(slice).collect();
        View { mine, unowned: Unowned { memory: self.memory, owners, _interval: PhantomData } }
    }

    /// The one range that the worker owns; nothing if it owns none.
    ///
    /// # Panics
    /// As [`view`](Self::view); if it owns several.
    pub fn mine<'a>(&'a self, worker: &'a Worker<'_>) -> &'a mut [T] {
        let mut mine = self.view(worker).mine;
        assert!(mine.len() <= 1, "a worker that owns one range");
        mine.pop().unwrap_or_default()
    }

    /// What nobody owns.
    ///
    /// # Panics
    /// Before the first turn.
    pub fn unowned<'a>(&'a self, worker: &'a Worker<'_>) -> Unowned<'a, T> {
        self.holder.is_for(worker.life());
        Unowned { memory: self.memory, owners: self.owners(), _interval: PhantomData }
    }

    /// Elements that nobody owns, to read.
    ///
    /// # Panics
    /// If somebody owns one of them; before the first turn.
    pub fn get<'a>(&'a self, worker: &'a Worker<'_>, range: Range<usize>) -> &'a [T] {
        self.unowned(worker).get(range)
    }

    /// Sees to it that no division says who owns what, but locks or the like.
    ///
    /// # Panics
    /// If one does.
    pub(crate) fn check_held(&self, worker: &Worker<'_>) {
        self.holder.is_for(worker.life());
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        assert!(matches!(*owners, Owners::Holders), "an element has an owner, whoever has its lock");
    }

    /// Other owners, for [`Worker::turn`].
    pub fn to<'a>(&'a self, owners: &'a Division) -> Turn<'a> {
        Turn::new(self, Some(owners))
    }

    /// All elements, after the crew's work.
    ///
    /// # Panics
    /// If one has an owner.
    pub fn whole(&mut self) -> &[T] {
        let len = self.len();
        assert!(
            self.owners().is_unowned(&(0..len)),
            "the whole of an array of which some elements have an owner"
        );
        // SAFETY: nobody writes before a turn, for which all ranks need the array, and this one has lent it.
        unsafe { self.memory.get(0..len) }
    }

    /// The memory, for slices whose owners a division cannot say.
    pub fn raw(&self) -> Shared<T> {
        self.memory
    }
}

/// An array of which each element has a lock, its own or one that it shares with others. In some intervals
/// whoever has an element's lock uses it; in others, elements have owners as those of any [`Array`].
pub struct Locked<T> {
    array: Array<T>,
    locks: Vec<Lock>,
}

impl<T: Element> Locked<T> {
    /// The array, whose elements have these locks in turns.
    ///
    /// # Panics
    /// If there are elements and no locks.
    pub(crate) fn new(array: Array<T>, locks: Vec<Lock>) -> Self {
        assert!(array.is_empty() || !locks.is_empty(), "a lock for each element");
        Self { array, locks }
    }

    /// The array, for intervals in which elements have owners.
    pub fn array(&self) -> &Array<T> {
        &self.array
    }

    /// The same, to read as a whole.
    pub fn array_mut(&mut self) -> &mut Array<T> {
        &mut self.array
    }

    /// From now on, whoever has an element's lock uses it: for [`Worker::turn`].
    pub fn to_holders(&self) -> Turn<'_> {
        Turn::new(&self.array, None)
    }

    /// Waits until no other worker has the element, nor another one with the same lock, and gives access to
    /// it. A worker that has the lock already waits for itself.
    ///
    /// # Errors
    /// A rank is gone.
    ///
    /// # Panics
    /// If this is no interval of locks, or there is no such element.
    pub fn lock<'a>(&'a self, worker: &'a Worker<'_>, index: usize) -> Result<Guard<'a, T>> {
        self.array.check_held(worker);
        let held = self.locks[index % self.locks.len()].hold()?;
        // SAFETY: until the next turn, for which the worker is borrowed mutably, only who has the lock uses
        // the element.
        let value = unsafe { &mut self.array.memory.get_mut(index..index + 1)[0] };
        Ok(Guard::new(value, held))
    }
}

#[cfg(test)]
mod tests;
