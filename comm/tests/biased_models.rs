//! The biased lock under loom, which tries every order of events and every value that the memory model allows
//! to be read. It is the crate's own file; only what it takes from the system is loom's. The two fences are
//! loom's full ones here: what the kernel's one makes of the cheap one.

#![allow(clippy::unwrap_used, reason = "a model fails by panicking")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

#[path = "../src/biased/lock.rs"]
#[allow(dead_code, unreachable_pub, reason = "the models use parts")]
mod lock;

/// What the lock takes from the system.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};
    use std::cell::Cell;

    loom::thread_local! {
        static NAME: Cell<usize> = Cell::new(1);
    }

    /// Gives this thread a name; without one it is 1.
    pub(super) fn be(name: usize) {
        NAME.with(|it| it.set(name));
    }

    pub(super) fn this_thread() -> usize {
        NAME.with(Cell::get)
    }

    pub(super) fn light_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(super) fn heavy_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(super) fn has_heavy_fence() -> bool {
        true
    }

    pub(super) fn wait(_: u32) {
        loom::thread::yield_now();
    }
}

use lock::{Biased, Guard};

/// Memory of which loom notices when two threads use it at once.
type Watched = Biased<UnsafeCell<u32>>;

/// Tries all schedules with at most so many preemptions.
fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

fn add(inside: &Guard<'_, UnsafeCell<u32>>) {
    // SAFETY: only who is in does this, if the lock is right; loom tells if it is not.
    inside.with_mut(|value| unsafe { *value += 1 });
}

fn value(lock: &Watched) -> u32 {
    // SAFETY: as above.
    lock.lock().with(|value| unsafe { *value })
}

/// A new lock, whose favourite this thread is, which has been in once.
fn favoured() -> Arc<Watched> {
    let lock = Arc::new(Watched::with_habit(UnsafeCell::new(0), 1));
    add(&lock.lock());
    lock
}

/// Another thread, which uses the lock.
fn beside<T: 'static>(
    lock: &Arc<Watched>,
    body: impl FnOnce(&Watched) -> T + 'static,
) -> thread::JoinHandle<T> {
    let lock = Arc::clone(lock);
    thread::spawn(move || {
        sync::be(2);
        body(&lock)
    })
}

#[test]
fn a_favourite_and_one_that_ousts_it_are_never_in_together() {
    model(3, || {
        let lock = favoured();
        let other = beside(&lock, |lock| add(&lock.lock()));
        add(&lock.lock());
        add(&lock.lock());
        other.join().unwrap();
        assert_eq!(value(&lock), 4);
    });
}

#[test]
fn one_favourite_after_another_keeps_to_its_own_seat() {
    model(2, || {
        let lock = favoured();
        // Ousts, is the favourite itself after twice, and is in as such.
        let other = beside(&lock, |lock| (0..3).for_each(|_| add(&lock.lock())));
        add(&lock.lock());
        other.join().unwrap();
        assert_eq!(value(&lock), 5);
    });
}

#[test]
fn who_only_tries_is_in_alone_or_not_at_all() {
    model(3, || {
        let lock = favoured();
        let other = beside(&lock, |lock| lock.try_lock().map(|inside| add(&inside)).is_some());
        let mine = lock.try_lock().map(|inside| add(&inside)).is_some();
        add(&lock.lock());
        let theirs = other.join().unwrap();
        assert_eq!(value(&lock), 2 + u32::from(mine) + u32::from(theirs));
    });
}
