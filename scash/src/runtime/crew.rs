//! The memory barrier of all application threads of all ranks.
//!
//! A rank's threads wait for each other inside the process, and the last one makes the collective call for
//! all of them.

use super::{NAP, Runtime, lock};
use crate::error::{Error, Result};
use scash_comm::say::say;
use scash_proto::node::Collective;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

/// How often a thread that waits looks before it sleeps: about as long as it takes to wake a thread up.
const LOOKS: u32 = 10_000;

/// The threads of a rank on their way to a memory barrier.
#[derive(Debug, Default)]
pub(super) struct Crew {
    state: Mutex<State>,
    /// A memory barrier is over, or has failed.
    over: Condvar,
    /// How many are.
    passed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that have come.
    come: u32,
    /// How the last one ended.
    ended: Option<Error>,
}

impl Crew {
    /// How the memory barrier ended, if it is over.
    fn outcome(&self, before: u64) -> Option<Result<()>> {
        // Acquire: with it comes all that the thread has done that made the call.
        let is_over = self.passed.load(Ordering::Acquire) != before;
        is_over.then(|| lock(&self.state).ended.clone().map_or(Ok(()), Err))
    }
}

impl Runtime {
    /// The memory barrier of all application threads: returns when all threads ([`threads`](Self::threads))
    /// of all ranks have called it.
    ///
    /// # Errors
    /// As those of [`barrier`](Self::barrier), for all threads of the rank alike; more threads come than the
    /// rank has.
    pub fn barrier_threads(&self) -> Result<()> {
        self.refuse_children()?;
        let crew = &self.crew;
        let mut state = lock(&crew.state);
        if state.come == self.threads {
            return Err(Error::Argument(format!(
                "one thread more in dsm_barrier_threads than the {} that the rank has: say how many there are by `scash run --threads`",
                self.threads
            )));
        }
        let before = crew.passed.load(Ordering::Relaxed);
        state.come += 1;
        if state.come < self.threads {
            drop(state);
            return self.wait_for_crew(before);
        }
        drop(state);
        let ended = self.collective(Collective::Barrier).map(drop);
        let mut state = lock(&crew.state);
        *state = State { come: 0, ended: ended.as_ref().err().cloned() };
        crew.passed.store(before + 1, Ordering::Release);
        drop(state);
        crew.over.notify_all();
        ended
    }

    fn wait_for_crew(&self, before: u64) -> Result<()> {
        let crew = &self.crew;
        for _ in 0..LOOKS {
            if let Some(ended) = crew.outcome(before) {
                return ended;
            }
            spin_loop();
        }
        let mut stall = self.stall.map(|normal| (normal, Instant::now()));
        let mut state = lock(&crew.state);
        while crew.passed.load(Ordering::Acquire) == before {
            // In slices, to look at the time.
            (state, _) =
                crew.over.wait_timeout(state, NAP).unwrap_or_else(std::sync::PoisonError::into_inner);
            // When all have come, they wait for other ranks, and the one that made the call tells that.
            if let Some((normal, since)) = stall
                && since.elapsed() >= normal
                && state.come < self.threads
            {
                stall = Some((normal.saturating_mul(2), since));
                say(format!(
                    "scash: rank {}: {} of its {} threads have come to dsm_barrier_threads, one of them {} s ago (SCASH_STALL)\n",
                    self.rank,
                    state.come,
                    self.threads,
                    normal.as_secs_f64()
                ));
            }
        }
        state.ended.clone().map_or(Ok(()), Err)
    }

    /// Checks that no threads of this rank wait for others: these may be about to make another call, and
    /// never come.
    pub(super) fn crew_is_free(&self) -> Result<()> {
        self.refuse_children()?;
        // One thread waits for nobody.
        if self.threads == 1 {
            return Ok(());
        }
        let come = lock(&self.crew.state).come;
        if come == 0 || come == self.threads {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "a collective call while {come} of the rank's {} threads wait in dsm_barrier_threads for the others: let all threads call that first",
            self.threads
        )))
    }
}
