//! The lock-free words of the `shm` provider under loom, which tries every order of events and every
//! value that the memory model allows to be read. The modules are the provider's own files; only their
//! atomics are loom's.

#![allow(clippy::unwrap_used, reason = "a model fails by panicking")]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

#[path = "../src/shm/bell.rs"]
#[allow(dead_code, reason = "the models use parts")]
mod bell;
#[path = "../src/shm/gate.rs"]
#[allow(dead_code, reason = "the models use parts")]
mod gate;
#[path = "../src/shm/window.rs"]
#[allow(dead_code, reason = "the models use parts")]
mod window;

/// What the modules take their atomics from.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use bell::Bell;
use gate::{ASLEEP, Gate, Lock, WAITED_FOR};
use sync::{AtomicU32, AtomicU64, Ordering};
use window::Window;

/// Tries all schedules with at most so many preemptions.
fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// An owner with its bell, a ring for two senders, and the kernel's side of the futex and of the eventfd,
/// whose count is behind the lock.
struct Host {
    word: AtomicU32,
    frames: [AtomicU32; 2],
    kernel: (Mutex<u32>, Condvar),
}

impl Host {
    fn new() -> Arc<Self> {
        let frames = [AtomicU32::new(0), AtomicU32::new(0)];
        Arc::new(Self { word: AtomicU32::new(0), frames, kernel: (Mutex::new(0), Condvar::new()) })
    }

    fn send(&self, sender: usize) {
        self.frames[sender].store(1, Ordering::Release);
        if Bell(&self.word).ring() {
            self.wake();
        }
    }

    fn has(&self, sender: usize) -> bool {
        self.frames[sender].load(Ordering::Acquire) == 1
    }

    /// As the provider's `idle` does it, in two turns. A thread that is never woken is a deadlock, which loom
    /// reports.
    fn sleep_until(&self, ready: impl Fn() -> bool) {
        while !ready() {
            let Some(word) = Bell(&self.word).announce() else { continue };
            if ready() {
                return;
            }
            let (lock, sleepers) = &self.kernel;
            let guard = lock.lock().unwrap();
            if self.word.load(Ordering::Relaxed) == word {
                drop(sleepers.wait(guard).unwrap());
            }
        }
    }

    /// As a thread sleeps in another provider, until the alarm is raised.
    fn sleep_by_alarm_until(&self, ready: impl Fn() -> bool) {
        while !ready() {
            let _ = Bell(&self.word).announce();
            if ready() {
                return;
            }
            let (lock, sleepers) = &self.kernel;
            let mut count = lock.lock().unwrap();
            while *count == 0 {
                count = sleepers.wait(count).unwrap();
            }
            *count = 0;
        }
    }

    /// Wakes those who wait on the word, and raises the alarm.
    fn wake(&self) {
        let (lock, sleepers) = &self.kernel;
        let mut guard = lock.lock().unwrap();
        *guard += 1;
        sleepers.notify_all();
        drop(guard);
    }
}

#[test]
fn a_sleeper_is_woken_by_whoever_sends() {
    model(3, || {
        let host = Host::new();
        let senders = [0, 1].map(|sender| {
            let host = Arc::clone(&host);
            thread::spawn(move || host.send(sender))
        });
        host.sleep_until(|| host.has(0));
        host.sleep_until(|| host.has(1));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_sleeper_in_another_provider_is_woken_by_whoever_sends() {
    model(3, || {
        let host = Host::new();
        let senders = [0, 1].map(|sender| {
            let host = Arc::clone(&host);
            thread::spawn(move || host.send(sender))
        });
        host.sleep_by_alarm_until(|| host.has(0));
        host.sleep_by_alarm_until(|| host.has(1));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_sleeper_hears_of_what_another_thread_of_its_process_took() {
    model(3, || {
        let host = Host::new();
        let taken = Arc::new(AtomicU32::new(0));
        host.send(0);
        let other = {
            let (host, taken) = (Arc::clone(&host), Arc::clone(&taken));
            thread::spawn(move || {
                assert!(host.has(0));
                taken.store(1, Ordering::Release);
                if Bell(&host.word).ring() {
                    host.wake();
                }
            })
        };
        host.sleep_until(|| taken.load(Ordering::Acquire) == 1);
        other.join().unwrap();
    });
}

/// Rank H writes 1 to its memory and puts it to S, while `getters` threads of S fetch the same word.
fn put_against_gets(getters: usize) {
    let word = Arc::new(AtomicU64::new(0));
    let (ours, theirs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let gets: Vec<_> = (0..getters)
        .map(|_| {
            let (word, ours, theirs) = (Arc::clone(&word), Arc::clone(&ours), Arc::clone(&theirs));
            thread::spawn(move || {
                let get = Window(&word).enter();
                let bytes = theirs.load(Ordering::Relaxed);
                ours.store(bytes, Ordering::Relaxed);
                drop(get);
            })
        })
        .collect();
    theirs.store(1, Ordering::Relaxed);
    if let Some(mut wait) = Window(&word).wait() {
        while !wait.is_over(Window(&word)) {
            thread::yield_now();
        }
    }
    ours.store(1, Ordering::Relaxed);
    gets.into_iter().for_each(|get| get.join().unwrap());
    assert_eq!(ours.load(Ordering::Relaxed), 1, "a get laid old bytes over the put");
    assert_eq!(word.load(Ordering::Relaxed) << 1, 0, "gets are still counted");
}

#[test]
fn no_get_lays_old_bytes_over_a_put() {
    model(4, || put_against_gets(1));
}

#[test]
fn no_two_gets_lay_old_bytes_over_a_put() {
    model(2, || put_against_gets(2));
}

/// A word and the kernel's side of its futex, which wakes one thread at a time.
struct Futex {
    word: AtomicU32,
    kernel: (Mutex<()>, Condvar),
}

impl Futex {
    fn new() -> Futex {
        Futex { word: AtomicU32::new(0), kernel: (Mutex::new(()), Condvar::new()) }
    }

    fn wait(&self, expected: u32) {
        let guard = self.kernel.0.lock().unwrap();
        if self.word.load(Ordering::Relaxed) == expected {
            drop(self.kernel.1.wait(guard).unwrap());
        }
    }

    fn wake_one(&self) {
        let guard = self.kernel.0.lock().unwrap();
        self.kernel.1.notify_one();
        drop(guard);
    }
}

/// A thread that is never woken is a deadlock, which loom reports.
#[test]
fn threads_have_a_lock_one_after_the_other_and_none_sleeps_on() {
    model(2, || {
        let shared = Arc::new((Futex::new(), loom::cell::UnsafeCell::new(0)));
        let body = |shared: &(Futex, loom::cell::UnsafeCell<u32>)| {
            let (futex, value) = shared;
            let lock = Lock(&futex.word);
            if !(lock.is_free() && lock.take()) {
                let slept: Result<(), ()> = lock.sleep_for(|| {
                    futex.wait(WAITED_FOR);
                    Ok(())
                });
                slept.unwrap();
            }
            // SAFETY: loom checks that no other thread is at it.
            value.with_mut(|value| unsafe { *value += 1 });
            if lock.give_back() {
                futex.wake_one();
            }
        };
        let threads = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || body(&shared))
        });
        body(&shared);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: all other threads have ended.
        assert_eq!(shared.1.with(|value| unsafe { *value }), 3);
    });
}

#[test]
fn a_thread_goes_on_when_its_gate_is_opened_and_sees_what_was_written_before() {
    model(3, || {
        let shared = Arc::new((Futex::new(), AtomicU32::new(0)));
        Gate(&shared.0.word).shut();
        let opens = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(7, Ordering::Relaxed);
                if Gate(&shared.0.word).open() {
                    shared.0.wake_one();
                }
            })
        };
        let gate = Gate(&shared.0.word);
        while !gate.is_open() {
            if gate.announce() {
                shared.0.wait(ASLEEP);
            }
        }
        assert_eq!(shared.1.load(Ordering::Relaxed), 7);
        opens.join().unwrap();
    });
}
