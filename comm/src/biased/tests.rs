use super::lock::{Biased, FAVOURITES, Guard, MANY};
use super::sync::has_heavy_fence;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;

/// Has this thread take the lock so often that it is the favourite.
fn come_often<T>(lock: &Biased<T>) {
    (0..MANY).take_while(|_| !lock.is_favoured()).for_each(|_| drop(lock.lock()));
    assert!(lock.is_favoured() || !has_heavy_fence());
}

#[test]
fn threads_that_come_and_go_in_any_way_never_meet_inside() {
    const THREADS: usize = FAVOURITES + 3;
    const TIMES: u64 = 20_000;
    // Two numbers that differ while one is in.
    let lock = Biased::with_habit((0u64, 0u64), 2);
    let enter = |mut inside: Guard<'_, (u64, u64)>| {
        assert_eq!(inside.0, inside.1);
        inside.0 += 1;
        std::hint::spin_loop();
        inside.1 += 1;
    };
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS as u64 {
            let (lock, start) = (&lock, &start);
            scope.spawn(move || {
                start.wait();
                for time in 0..TIMES {
                    // In runs of different lengths, so that now one is the favourite, now another.
                    if (time / 50 + number) % 5 == 0 {
                        thread::yield_now();
                    }
                    match lock.try_lock() {
                        Some(inside) if time % 3 == 0 => enter(inside),
                        other => {
                            drop(other);
                            enter(lock.lock());
                        }
                    }
                }
            });
        }
    });
    assert_eq!(*lock.lock(), (THREADS as u64 * TIMES, THREADS as u64 * TIMES));
}

#[test]
fn who_comes_often_is_the_favourite_until_another_one_comes() {
    let lock = Biased::new(0);
    drop(lock.lock());
    assert!(!lock.is_favoured(), "once is not often");
    come_often(&lock);
    *lock.lock() += 1;
    thread::scope(|scope| _ = scope.spawn(|| *lock.lock() += 1));
    assert!(!lock.is_favoured());
    come_often(&lock);
    assert_eq!(*lock.lock(), 2);
}

#[test]
fn a_favourite_that_is_in_keeps_others_out_and_is_not_ousted_in_vain() {
    let lock = Biased::new(());
    come_often(&lock);
    let inside = lock.lock();
    thread::scope(|scope| _ = scope.spawn(|| assert!(lock.try_lock().is_none())));
    assert!(lock.is_favoured() || !has_heavy_fence());
    drop(inside);
    thread::scope(|scope| _ = scope.spawn(|| assert!(lock.try_lock().is_some())));
    assert!(!lock.is_favoured());
}

#[test]
fn one_that_is_in_does_not_get_in_again() {
    let lock = Biased::new(());
    for is_favourite in [false, true] {
        if is_favourite {
            come_often(&lock);
        }
        let inside = lock.lock();
        assert!(lock.try_lock().is_none());
        if lock.is_favoured() {
            assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.lock()))).is_err());
        }
        drop(inside);
        assert!(lock.try_lock().is_some());
    }
}

#[test]
fn there_may_be_more_threads_that_come_often_than_favourites() {
    let lock = Biased::with_habit(0, 1);
    // Together, so that each has a name of its own.
    let all_there = Barrier::new(2 * FAVOURITES);
    thread::scope(|scope| {
        for _ in 0..2 * FAVOURITES {
            scope.spawn(|| {
                all_there.wait();
                (0..1_000).for_each(|_| *lock.lock() += 1);
                all_there.wait();
            });
        }
    });
    assert_eq!(*lock.lock(), 2 * FAVOURITES * 1_000);
}
