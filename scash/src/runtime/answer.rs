//! Waiting for the answers of peers; and the thread that answers them while nobody here waits for anything.

use super::stall::WaitTimer;
use super::{Runtime, current, lock};
use crate::error::{Error, Result};
use crate::runtime::core::Core;
use crate::runtime::owned::Guard;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use scash_comm::give_way;
use scash_proto::interpreter::{Answer, Step};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the thread that answers peers stays away while others take what comes: how long first, and at
/// most.
const LEAST_AWAY: Duration = Duration::from_micros(50);
const MOST_AWAY: Duration = Duration::from_millis(1);
/// How long it stays away where objects are words that ranks share: peers ask for nothing there but what
/// threads wait for (`stall`).
const AWAY_FROM_WORDS: Duration = Duration::from_millis(20);

/// How long it is waited for that threads come out of the endpoint, many times what they sleep in there.
const LONGEST_IDLE: Duration = Duration::from_millis(500);

/// A number that no other thread of the process has.
pub(super) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static MINE: Cell<u64> = const { Cell::new(0) });
    MINE.with(|mine| {
        if mine.get() == 0 {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}

/// See [`Runtime::waiting`].
pub(super) struct Waiting<'a>(&'a AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Runtime {
    /// Waits for the answer to what the calling thread has asked for.
    pub(super) fn answer_to<'a>(&'a self, mut core: Guard<'a, Core>, number: u32) -> Result<Answer> {
        let mut waiting = None;
        let mut stall = WaitTimer::new(self);
        let mut turn = 0;
        loop {
            self.settle(&mut core)?;
            if let Some(answer) = core.take_answer(number, this_thread()) {
                return Ok(answer);
            }
            waiting.get_or_insert_with(|| self.waiting());
            if self.take_events(&mut core)? > 0 {
                turn = 0;
                continue;
            }
            self.idle_without(core, turn);
            turn = turn.saturating_add(1);
            core = lock(&self.core);
            stall.look(self, &mut core)?;
        }
    }

    /// Takes, now and then, what has arrived.
    pub(super) fn look_around(&self, core: &mut Core) -> Result<()> {
        if self.waiters.load(Ordering::Relaxed) == 0 && core.looks.are_due(Instant::now) {
            self.take_events(core)?;
        }
        Ok(())
    }

    /// Lets the lock go, and has nothing to do until something arrives. Whoever has the lock knows whether
    /// threads are in there ([`await_idlers`](Self::await_idlers)).
    fn idle_without(&self, core: Guard<'_, Core>, turn: u32) {
        self.idlers.fetch_add(1, Ordering::Relaxed);
        drop(core);
        self.idle(turn);
        self.idlers.fetch_sub(1, Ordering::Release);
    }

    /// For who has the lock: waits until no other thread is in the endpoint, which sleeps there for some
    /// milliseconds at a time. Returns whether that is so, after a while.
    pub(super) fn await_idlers(&self) -> bool {
        let until = Instant::now() + LONGEST_IDLE;
        let mut turn = 0;
        while self.idlers.load(Ordering::Acquire) > 0 {
            if Instant::now() > until {
                return false;
            }
            give_way(turn);
            turn += 1;
        }
        true
    }

    /// For who does not have the lock, which they may need: waits until no other thread is on its way out of
    /// a call in which it has waited for an object; not for longer than a while.
    pub(super) fn await_leavers(&self) {
        let until = Instant::now() + LONGEST_IDLE;
        let mut turn = 0;
        while self.context.objects.has_leavers() && Instant::now() < until {
            give_way(turn);
            turn += 1;
        }
    }

    /// Carries out what the protocol orders.
    pub(super) fn settle(&self, core: &mut Core) -> Result<()> {
        let mut said = false;
        while let Some(order) = core.node.poll_output() {
            said |= order.is_message();
            match core.execute(&self.context, order)? {
                Step::Next => {}
                // Orders of faults are carried out by the threads that took them, before they let the lock
                // go.
                _ => {
                    return Err(Error::Broken("an order that belongs to no fault and no meeting".to_owned()));
                }
            }
        }
        if said {
            self.context.endpoint.flush()?;
        }
        Ok(())
    }

    /// Takes what has arrived, and returns how much it was.
    fn take_events(&self, core: &mut Core) -> Result<usize> {
        let mut taken = Ok(());
        let events = self.context.endpoint.poll(&mut |event| {
            if taken.is_ok() {
                taken = core.take(&self.context, event);
            }
        })?;
        taken?;
        core.answer_inquiries(&self.context)?;
        Ok(events)
    }

    /// Notes that a thread waits for peers, and takes what they say, until the value is dropped.
    pub(super) fn waiting(&self) -> Waiting<'_> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiting(&self.waiters)
    }

    /// Starts the thread that answers peers, once: a lock that is here and that nobody has must not wait
    /// until this rank calls the library again.
    pub(super) fn attend(&self) -> Result<()> {
        if self.attends.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        // Nobody waits for one that is not there.
        self.start_to_attend().inspect_err(|_| self.attends.store(false, Ordering::Relaxed))
    }

    /// Starts that thread in the process that has come back, if there was one.
    pub(super) fn attend_again(&self) -> Result<()> {
        if self.attends.load(Ordering::Relaxed) { self.start_to_attend() } else { Ok(()) }
    }

    /// Waits until that thread, if there is one, has come to its work: before that it is being set up, and
    /// may have locks of the C library.
    pub(super) fn await_attendant(&self) {
        let mut turn = 0;
        while self.attends.load(Ordering::Relaxed) && !self.answers.load(Ordering::Acquire) {
            give_way(turn);
            turn += 1;
        }
    }

    fn start_to_attend(&self) -> Result<()> {
        self.answers.store(false, Ordering::Relaxed);
        // Signals are for the program's threads.
        let mut before = SigSet::empty();
        let blocked = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before));
        let thread = std::thread::Builder::new().name("scash/locks".into()).stack_size(256 << 10);
        let started = thread.spawn(|| {
            if let Some(runtime) = current() {
                runtime.answer();
            }
        });
        if blocked.is_ok() {
            let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
        }
        started.map(drop).map_err(|e| {
            Error::Broken(format!("cannot start the thread that answers peers (see `ulimit -u`): {e}"))
        })
    }

    /// What a thread does now and then that waits where no message comes: it hears that a rank is gone, and
    /// tells who waits for whom when it has waited for long.
    pub(super) fn look_for_news(&self, stall: &mut WaitTimer) -> Result<()> {
        if let Some(error) = self.broken.why() {
            return Err(error);
        }
        if self.is_finalized() {
            return Err(Error::Argument("shared memory is gone: dsm_finalize was called".to_owned()));
        }
        let mut core = lock(&self.core);
        self.context.endpoint.look_after_peers();
        // A thread that is in a collective call takes what comes itself.
        if !core.node.in_collective_call() {
            self.answer_once(&mut core)?;
        }
        stall.look(self, &mut core)
    }

    fn answer_once(&self, core: &mut Core) -> Result<usize> {
        let news = self.take_events(core)?;
        self.settle(core)?;
        Ok(news)
    }

    /// Whether something that was sent waits for room.
    fn is_congested(&self) -> bool {
        (0..self.size).any(|rank| rank != self.rank && self.context.endpoint.is_congested(rank))
    }

    /// What that thread does until the job ends. An error is left for the program's next call, which meets
    /// it, too.
    ///
    /// While other threads wait for peers, they take what comes, and to wake this one as well would only
    /// disturb them. So it stays away, and longer each time that it finds them waiting. Where it has next to
    /// nothing to answer, what arrives does not wake it at all: tokens would, in each memory barrier to which
    /// others come first.
    fn answer(&self) {
        let words = self.context.objects.words().is_some();
        self.answers.store(true, Ordering::Release);
        let mut away = LEAST_AWAY;
        while !self.is_finalized() {
            if self.waiters.load(Ordering::SeqCst) > 0 {
                std::thread::sleep(away);
                away = (2 * away).min(MOST_AWAY);
                continue;
            }
            let mut core = lock(&self.core);
            // Again: who waits has said so before it took the lock. What concerns the end of the job is for
            // it alone.
            if self.waiters.load(Ordering::SeqCst) > 0 {
                continue;
            }
            if words {
                // Of those who compute and use words, nobody else looks whether others live.
                self.context.endpoint.look_after_peers();
            }
            match self.answer_once(&mut core) {
                Ok(0) if words => {
                    drop(core);
                    std::thread::sleep(if self.is_congested() { MOST_AWAY } else { AWAY_FROM_WORDS });
                }
                Ok(0) => self.idle_without(core, u32::MAX),
                Ok(_) => away = LEAST_AWAY,
                Err(e) => {
                    self.broken.note(e);
                    return;
                }
            }
        }
    }
}
