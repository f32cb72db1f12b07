//! Threads of several processes that wait for each other at words of memory that they share
//! ([`gate`](super::gate)).

use super::futex;
use super::gate::{self, Gate, Lock};
use super::wait_rule::{LONGEST_SLEEP, WaitAction, WaitRule};
use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::thread::yield_now;

/// How threads of a host wait: they spin while each has a core, and yield and sleep otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Parking(WaitRule);

impl Parking {
    /// For a host where busy threads [outnumber cores](crate::Endpoint::cores_are_scarce), or not.
    pub fn new(cores_are_scarce: bool) -> Parking {
        Parking(WaitRule::when(cores_are_scarce))
    }

    /// Takes a lock that is one word, which is 0 in the beginning: for as long as a few loads and stores
    /// take. `look` is called after sleeps that were in vain, some 10 ms apart: the thread that has the lock
    /// may be gone.
    ///
    /// # Errors
    /// What `look` returns. Then the thread does not have the lock.
    #[inline]
    pub fn lock<E>(self, word: &AtomicU32, look: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        if Lock(word).take() { Ok(()) } else { self.wait_for_lock(Lock(word), look) }
    }

    #[cold]
    fn wait_for_lock<E>(self, lock: Lock<'_>, mut look: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        for turn in 0.. {
            match self.0.step(turn) {
                WaitAction::Spin => spin_loop(),
                WaitAction::Yield => yield_now(),
                WaitAction::Sleep => break,
            }
            if lock.is_free() && lock.take() {
                return Ok(());
            }
        }
        lock.sleep_for(|| {
            futex::wait(lock.0, gate::WAITED_FOR, LONGEST_SLEEP);
            if lock.is_free() { Ok(()) } else { look() }
        })
    }

    /// Gives a lock back that the calling thread has taken.
    #[inline]
    pub fn unlock(word: &AtomicU32) {
        if Lock(word).give_back() {
            futex::wake_one(word);
        }
    }

    /// Shuts the gate that is this word: to be called by the thread that will wait there, before another one
    /// knows that it will.
    pub fn shut(word: &AtomicU32) {
        Gate(word).shut();
    }

    /// Whether a gate is open.
    pub fn is_open(word: &AtomicU32) -> bool {
        Gate(word).is_open()
    }

    /// Waits at a gate until it is open, and sees all that was written before by the thread that opened it.
    /// `look` is called after sleeps that were in vain, some 10 ms apart.
    ///
    /// # Errors
    /// What `look` returns.
    pub fn wait<E>(self, word: &AtomicU32, mut look: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let mut turn = 0;
        while !Gate(word).is_open() {
            match self.0.step(turn) {
                WaitAction::Spin => spin_loop(),
                WaitAction::Yield => yield_now(),
                WaitAction::Sleep => {
                    if Gate(word).announce() {
                        futex::wait(word, gate::ASLEEP, LONGEST_SLEEP);
                        if !Gate(word).is_open() {
                            look()?;
                        }
                    }
                }
            }
            turn = turn.saturating_add(1);
        }
        Ok(())
    }

    /// Opens a gate: the thread that waits there goes on. Nothing that belongs to the wait may be touched
    /// afterwards: it may be another one's by then.
    #[inline]
    pub fn open(word: &AtomicU32) {
        if Gate(word).open() {
            futex::wake_one(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    fn no_matter() -> Result<(), Infallible> {
        Ok(())
    }

    #[test]
    fn threads_that_crowd_for_a_lock_have_it_one_after_the_other() {
        for scarce in [false, true] {
            let (parking, word) = (Parking::new(scarce), AtomicU32::new(0));
            let both = [AtomicU64::new(0), AtomicU64::new(0)];
            thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            let Ok(()) = parking.lock(&word, no_matter);
                            let now = both.each_ref().map(|one| one.load(Ordering::Relaxed));
                            assert_eq!(now[0], now[1]);
                            both.iter().for_each(|one| one.store(now[0] + 1, Ordering::Relaxed));
                            Parking::unlock(&word);
                        }
                    });
                }
            });
            assert_eq!(both.map(AtomicU64::into_inner), [120_000; 2]);
        }
    }

    #[test]
    fn a_thread_goes_on_when_its_gate_is_opened_whether_it_sleeps_or_not() {
        for scarce in [false, true] {
            let parking = Parking::new(scarce);
            let (gates, value) = ([AtomicU32::new(0), AtomicU32::new(0)], AtomicU64::new(0));
            thread::scope(|scope| {
                for me in 0..2 {
                    let (gates, value) = (&gates, &value);
                    scope.spawn(move || {
                        for round in 0..5_000 {
                            if round % 2 == me {
                                let Ok(()) = parking.wait(&gates[me], no_matter);
                                assert_eq!(value.load(Ordering::Relaxed), round as u64);
                            } else {
                                Parking::shut(&gates[me]);
                                value.store(round as u64, Ordering::Relaxed);
                                Parking::open(&gates[1 - me]);
                            }
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_thread_that_waits_for_what_never_comes_looks_around_and_may_give_up() {
        let parking = Parking::new(true);
        let (lock, gate) = (AtomicU32::new(1), AtomicU32::new(0));
        for wait in [true, false] {
            let mut looks = 0;
            let look = || {
                looks += 1;
                if looks == 3 { Err("gone") } else { Ok(()) }
            };
            let ended = if wait { parking.wait(&gate, look) } else { parking.lock(&lock, look) };
            assert_eq!((ended, looks), (Err("gone"), 3));
        }
    }
}
