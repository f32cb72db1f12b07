//! A lock that knows which thread has it.
//!
//! A signal handler of the program may touch shared memory while its thread is in the library. Serving that
//! fault needs the lock on the protocol's state, and if this very thread has it, it waits for itself, for
//! ever. So the lock's word *is* the thread that has it: one compare-and-swap takes the lock and says whose
//! it is, and no instruction lies between the two at which a signal could come.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | free |
//! | `t` | thread `t` has it (the system's number, less than 2³⁰) |
//! | `t` + [`WAITED_FOR`] | and others may sleep until it gives it back |
//!
//! 1. A thread that finds 0 puts its number there (acquire, pairs with 3).
//! 2. A thread that finds another number looks a few times more, then adds [`WAITED_FOR`] and sleeps as long
//!    as the word is that. A thread that was asleep takes the lock with [`WAITED_FOR`] set: others may sleep
//!    as well.
//! 3. The thread that gives the lock back swaps 0 in (release), and wakes one thread if [`WAITED_FOR`] was
//!    set.

use crate::runtime::within;
use std::cell::{Cell, UnsafeCell};
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Others may sleep until the lock is given back.
const WAITED_FOR: u32 = 1 << 31;
/// How often a thread looks before it sleeps, as the standard library's lock does.
const LOOKS: u32 = 100;

/// A value for one thread at a time.
pub(crate) struct Owned<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

/// The lock, taken.
pub(crate) struct Guard<'a, T> {
    lock: &'a Owned<T>,
    /// It is given back by the thread that took it.
    _thread: std::marker::PhantomData<*mut ()>,
}

// SAFETY: one thread at a time has the lock, and with it the value.
unsafe impl<T: Send> Sync for Owned<T> {}

/// A number of this thread's own. Not the system's: a thread that comes back from an image has another one
/// there.
fn me() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static ME: Cell<u32> = const { Cell::new(0) });
    ME.with(|me| {
        if me.get() == 0 {
            me.set(NEXT.fetch_add(1, Ordering::Relaxed) & !WAITED_FOR);
        }
        me.get()
    })
}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Owned<T> {
        Owned { word: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread has the value. If this one has it, it would wait for ever, and the process
    /// [ends](within::end).
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let me = me();
        if !self.take(0, me) {
            self.wait(me);
        }
        Guard { lock: self, _thread: std::marker::PhantomData }
    }

    /// Whether the calling thread has the lock.
    fn is_mine(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !WAITED_FOR == me()
    }

    /// Step 1, and the like.
    #[inline]
    fn take(&self, found: u32, new: u32) -> bool {
        self.word.compare_exchange(found, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Step 2.
    #[cold]
    fn wait(&self, me: u32) {
        if self.is_mine() {
            within::end();
        }
        for _ in 0..LOOKS {
            let word = self.word.load(Ordering::Relaxed);
            if word == 0 && self.take(0, me) {
                return;
            }
            if word & WAITED_FOR != 0 {
                break;
            }
            spin_loop();
        }
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word == 0 {
                if self.take(0, me | WAITED_FOR) {
                    return;
                }
            } else if word & WAITED_FOR != 0 || self.take(word, word | WAITED_FOR) {
                sleep(&self.word, word | WAITED_FOR);
            }
        }
    }

    /// Step 3.
    #[inline]
    fn give_back(&self) {
        if self.word.swap(0, Ordering::Release) & WAITED_FOR != 0 {
            wake_one(&self.word);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and this is its only guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.give_back();
    }
}

/// Sleeps as long as the word is this one, or less.
fn sleep(word: &AtomicU32, is: u32) {
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the word is borrowed for the call; the kernel only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            is,
            forever,
        )
    };
}

/// Wakes one thread that sleeps at the word.
#[cold]
fn wake_one(word: &AtomicU32) {
    // SAFETY: the kernel uses the word's address only to find who sleeps there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_that_crowd_for_a_value_have_it_one_after_the_other() {
        const TIMES: u64 = 50_000;
        let count = Owned::new((0u64, 0u64));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for time in 0..TIMES {
                        let mut both = count.lock();
                        both.0 += 1;
                        if time % 1000 == 0 {
                            thread::yield_now();
                        }
                        both.1 += 1;
                        assert_eq!(both.0, both.1);
                    }
                });
            }
        });
        assert_eq!(*count.lock(), (8 * TIMES, 8 * TIMES));
    }

    #[test]
    fn a_thread_knows_whether_it_has_the_lock_itself() {
        let value = Owned::new(());
        assert!(!value.is_mine());
        let guard = value.lock();
        assert!(value.is_mine());
        thread::scope(|scope| {
            scope.spawn(|| assert!(!value.is_mine()));
            let waits = scope.spawn(|| drop(value.lock()));
            while value.word.load(Ordering::Relaxed) & WAITED_FOR == 0 {
                thread::yield_now();
            }
            assert!(value.is_mine());
            drop(guard);
            waits.join().unwrap();
        });
        assert!(!value.is_mine());
    }
}
