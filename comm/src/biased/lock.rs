//! The lock.
//!
//! A thread that has taken the lock often without another one between becomes its **favourite**, and has a
//! **flag** that nobody else writes. It locks so:
//! 1. Stores that it is in.
//! 2. A light fence.
//! 3. Looks whether it is the favourite still. If not, it stores that it is out, and does as others do.
//!
//! Others:
//! 4. Take the mutex, as long as they have the lock.
//! 5. If there is a favourite, there is none any more; a heavy fence.
//! 6. Wait until nobody is in.
//!
//! **Why never two are in.** Between 1 and 3, and in 5, one thread stores and then looks at what the other
//! one stores. By the fences at least one of the two looks sees the other's store (the heavy fence makes an
//! instant at which the favourite's stores before it are seen, and after which its looks see the others'). So
//! either 6 waits, until the favourite's store in leaving (release, pairs with 6) has shown all it did; or 3
//! turns it away. A thread that becomes the favourite has the mutex then, and so has seen what others did.
//!
//! **Why flags are many, and change no owner.** A thread that is turned away in 3 may be so late that there
//! is another favourite. It must not undo that one's flag: it has its own.
//!
//! A thread that turns a favourite away pays for a system call, so that becomes rarer the more often it
//! happens.

use super::sync::{
    AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, has_heavy_fence, heavy_fence, light_fence,
    this_thread, wait,
};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

/// Threads that can ever be favourites.
pub(super) const FAVOURITES: usize = 4;
/// Times in a row that a thread takes the lock until it is the favourite: at first,
const FEW: u32 = 1 << 7;
/// and at most. A thousand times the time of a heavy fence.
pub(super) const MANY: u32 = 1 << 16;

/// Something for one thread at a time. A thread that is in must not lock it again: that panics, or waits for
/// ever.
pub struct Biased<T> {
    /// The favourite's flag, counted from 1; 0: there is none.
    favourite: AtomicUsize,
    flags: [ThreadFlag; FAVOURITES],
    value: UnsafeCell<T>,
    others: Mutex<BiasHistory>,
}

/// A thread's flag.
struct ThreadFlag {
    /// The thread: written once, by itself.
    thread: AtomicUsize,
    is_in: AtomicBool,
}

/// Who takes the lock.
struct BiasHistory {
    last: usize,
    /// How often in a row,
    times: u32,
    /// and how often makes a favourite.
    enough: u32,
}

/// The lock, taken.
pub struct Guard<'a, T> {
    lock: &'a Biased<T>,
    entry: Entry<'a>,
    /// It is shared between threads where the value may be.
    _value: PhantomData<&'a mut T>,
}

enum Entry<'a> {
    Flag(&'a ThreadFlag),
    Mutex(MutexGuard<'a, BiasHistory>),
}

// SAFETY: one thread at a time uses the value (see the protocol), which may be used by several in turn.
unsafe impl<T: Send> Sync for Biased<T> {}

impl<T> Biased<T> {
    /// One whose first favourite is the thread that takes it a few times in a row.
    pub fn new(value: T) -> Self {
        Self::with_habit(value, FEW)
    }

    /// The value, of a lock that nobody else has.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// One whose first favourite is who takes it `enough` times in a row.
    pub fn with_habit(value: T, enough: u32) -> Self {
        // Early, when this is likely to be the only thread.
        has_heavy_fence();
        Self {
            favourite: AtomicUsize::new(0),
            flags: std::array::from_fn(|_| ThreadFlag {
                thread: AtomicUsize::new(0),
                is_in: AtomicBool::new(false),
            }),
            value: UnsafeCell::new(value),
            others: Mutex::new(BiasHistory { last: 0, times: 0, enough }),
        }
    }

    /// Whether there is a favourite.
    #[cfg(test)]
    pub(super) fn is_favoured(&self) -> bool {
        self.favourite.load(Ordering::Relaxed) != 0
    }

    /// Waits until nobody else is in.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let me = this_thread();
        if let Some((number, flag)) = self.flag(me) {
            // Without this a thread would have two references to one value.
            assert!(!flag.is_in.load(Ordering::Relaxed), "a thread that is in locks again");
            if let Some(guard) = self.enter((number, flag)) {
                return guard;
            }
        }
        self.lock_as_others(me)
    }

    /// `None`: another thread is in, or this one, or one is on its way.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let me = this_thread();
        if let Some((number, flag)) = self.flag(me) {
            if flag.is_in.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(guard) = self.enter((number, flag)) {
                return Some(guard);
            }
        }
        self.try_lock_as_others(me)
    }

    /// The favourite's flag and its number, if this is the favourite.
    #[inline]
    fn flag(&self, me: usize) -> Option<(usize, &ThreadFlag)> {
        let number = self.favourite.load(Ordering::Relaxed);
        let flag = self.flags.get(number.wrapping_sub(1))?;
        (flag.thread.load(Ordering::Relaxed) == me).then_some((number, flag))
    }

    /// Steps 1 to 3.
    #[inline]
    fn enter<'a>(&'a self, (number, flag): (usize, &'a ThreadFlag)) -> Option<Guard<'a, T>> {
        flag.is_in.store(true, Ordering::Relaxed); // step 1
        light_fence(); // step 2
        if self.favourite.load(Ordering::Relaxed) == number {
            return Some(Guard { lock: self, entry: Entry::Flag(flag), _value: PhantomData });
        }
        flag.is_in.store(false, Ordering::Release);
        None
    }

    #[cold]
    #[inline(never)]
    fn lock_as_others(&self, me: usize) -> Guard<'_, T> {
        let mut history = self.others.lock().unwrap_or_else(PoisonError::into_inner); // step 4
        self.oust(&mut history);
        let mut turn = 0;
        while self.is_any_in() {
            wait(turn);
            turn += 1;
        }
        self.came_as_others(history, me)
    }

    #[cold]
    #[inline(never)]
    fn try_lock_as_others(&self, me: usize) -> Option<Guard<'_, T>> {
        let mut history = match self.others.try_lock() {
            Ok(history) => history,
            Err(TryLockError::Poisoned(history)) => history.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // A thread that is inside would be ousted in vain.
        if self.is_any_in() {
            return None;
        }
        self.oust(&mut history);
        (!self.is_any_in()).then(|| self.came_as_others(history, me))
    }

    /// Step 5.
    fn oust(&self, history: &mut BiasHistory) {
        if self.favourite.load(Ordering::Relaxed) != 0 {
            self.favourite.store(0, Ordering::Relaxed);
            heavy_fence();
            history.enough = history.enough.saturating_mul(2).min(MANY);
        }
    }

    /// Step 6: whether one that is or was the favourite is in.
    fn is_any_in(&self) -> bool {
        self.flags.iter().any(|flag| flag.is_in.load(Ordering::Acquire))
    }

    fn came_as_others<'a>(&'a self, mut history: MutexGuard<'a, BiasHistory>, me: usize) -> Guard<'a, T> {
        history.times = if history.last == me { history.times.saturating_add(1) } else { 1 };
        history.last = me;
        Guard { lock: self, entry: Entry::Mutex(history), _value: PhantomData }
    }

    /// Makes a thread that has the mutex the favourite, if there is a flag for it.
    #[cold]
    fn favour(&self, me: usize) {
        if !has_heavy_fence() {
            return;
        }
        let mut flags = (1..).zip(&self.flags);
        let is_its_own = |(_, flag): &(usize, &ThreadFlag)| {
            let owner = flag.thread.load(Ordering::Relaxed);
            owner == 0 || owner == me
        };
        if let Some((number, flag)) = flags.find(is_its_own) {
            flag.thread.store(me, Ordering::Relaxed);
            self.favourite.store(number, Ordering::Relaxed);
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        match &self.entry {
            Entry::Flag(flag) => flag.is_in.store(false, Ordering::Release),
            Entry::Mutex(history) => {
                if history.times >= history.enough {
                    self.lock.favour(history.last);
                }
            }
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: whoever has a guard is the only one in.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}
