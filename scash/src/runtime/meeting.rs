//! Collective calls: the protocol's meetings, seen from the thread that waits in one.

use super::checks::may_come;
use super::stall::WaitTimer;
use super::{Runtime, lock};
use crate::error::{Error, Result, mismatch};
use crate::runtime::core::Core;
use crate::runtime::frame_sharing::FrameSharing;
use crate::runtime::stats::BarrierTime;
use scash_comm::Event;
use scash_ft::inject::Point;
use scash_join::boot::RankState;
use scash_proto::interpreter::Step;
use scash_proto::node::{Collective, Input, Outcome, Output};
use scash_proto::wire::reduce::Reduction;
use std::cell::OnceCell;
use std::hint::spin_loop;
use std::sync::{MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How long a meeting goes on in which a rank was found to be gone.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Turns of waiting in which a rank that came without words looks at the board so many times before it looks
/// for anything else: together for some µs.
const PATIENT_TURNS: u32 = 8;
const LOOKS: u32 = 30;

/// Which part of the memory barrier an order belongs to; `None` for those that belong to wherever they come
/// up.
fn part_of(order: &Output) -> Option<BarrierPart> {
    match order {
        Output::Diff { .. } | Output::DiffZero { .. } | Output::CompareToZeros(_) => Some(BarrierPart::Diff),
        Output::Push(_) | Output::PushWhole { .. } | Output::Hand { .. } => Some(BarrierPart::Update),
        Output::Protect(..) | Output::Unmap(_) | Output::Discard(_) => Some(BarrierPart::Update),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BarrierPart {
    Sync,
    Diff,
    Update,
}

/// A stop watch over the barrier's parts that looks at the clock only when the part changes.
struct Laps {
    part: BarrierPart,
    since: Instant,
    time: BarrierTime,
}

impl Laps {
    fn start(part: BarrierPart) -> Laps {
        Laps { part, since: Instant::now(), time: BarrierTime::default() }
    }

    fn enter(&mut self, part: BarrierPart) {
        if part != self.part {
            self.stop();
            self.part = part;
        }
    }

    fn stop(&mut self) {
        let now = Instant::now();
        let lap = now - self.since;
        self.since = now;
        match self.part {
            BarrierPart::Sync => self.time.sync += lap,
            BarrierPart::Diff => self.time.diff += lap,
            BarrierPart::Update => self.time.update += lap,
        }
    }
}

impl Runtime {
    /// Makes a collective call, together with all other ranks.
    pub(super) fn collective(&self, call: Collective) -> Result<Outcome> {
        self.collective_then(call, Ok)
    }

    /// Makes a collective call, and concludes from its outcome before another thread can make the next one.
    pub(super) fn collective_then<T>(
        &self,
        call: Collective,
        conclude: impl FnOnce(Outcome) -> Result<T>,
    ) -> Result<T> {
        let _alone = self.alone()?;
        conclude(self.meet(call)?)
    }

    /// One thread at a time makes a collective call.
    fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        self.crew_is_free()?;
        match self.meeting.try_lock() {
            Ok(alone) => Ok(alone),
            Err(TryLockError::Poisoned(e)) => Ok(e.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::Argument(
                "another thread of this rank is in a collective call: let one thread make them all, or let them take turns; \
                 a barrier of all threads of all ranks is dsm_barrier_threads (Worker::barrier)"
                    .to_owned(),
            )),
        }
    }

    fn meet(&self, call: Collective) -> Result<Outcome> {
        self.guarded(|| {
            self.check_engine(call)?;
            let mut meeting = Meeting::new(self, call == Collective::Finalize);
            let result = meeting.hold(Input::Arrive(call));
            meeting.laps.stop();
            let time = &meeting.laps.time;
            let mut clock = lock(&self.clock);
            clock.sync += time.sync;
            clock.diff += time.diff;
            clock.update += time.update;
            drop(clock);
            match result? {
                Outcome::Mismatch(span) => Err(mismatch(span)),
                outcome => Ok(outcome),
            }
        })
    }
}

impl Runtime {
    /// Makes a call together with all other ranks that is no memory barrier.
    pub(super) fn reduce_together(&self, what: Reduction, values: Vec<u64>) -> Result<Vec<u64>> {
        let _alone = self.alone()?;
        self.guarded(|| match Meeting::new(self, false).hold(Input::Reduce(what, values))? {
            Outcome::Reduced(values) => Ok(values),
            Outcome::Mismatch(span) => Err(mismatch(span)),
            _ => Err(Error::Broken("the reduction had no outcome".to_owned())),
        })
    }
}

/// One collective call of this rank.
///
/// A rank that finds out that the ranks came for different things says so to those that wait for it, and may
/// then end. Its end can be noticed before its last words have come round by way of others. So when a rank is
/// gone, the meeting goes on for [`LAST_WORDS`]: what it comes to in that time may be the better explanation.
struct Meeting<'a> {
    runtime: &'a Runtime,
    ends_job: bool,
    laps: Laps,
    /// Ranks whose connections ended while the job ends: those that have met all others may have left
    /// already.
    left: Vec<u32>,
    /// That the first rank is gone, and when it was noticed.
    lost: Option<(Error, Instant)>,
}

/// How far a call has come.
enum Progress {
    /// Something must arrive.
    Waits,
    /// This rank is to save what it has.
    Stage,
    Over(Outcome),
}

/// That objects, and the heap, are not for use, because this rank is in a collective call.
struct Closed<'a>(&'a Runtime);

impl<'a> Closed<'a> {
    fn new(runtime: &'a Runtime) -> Closed<'a> {
        runtime.context.objects.meets(true);
        runtime.heap.meets(true);
        Closed(runtime)
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.context.objects.meets(false);
        self.0.heap.meets(false);
    }
}

impl<'a> Meeting<'a> {
    fn new(runtime: &'a Runtime, ends_job: bool) -> Self {
        // Where frames are shared there is nothing to compare.
        let shares = runtime.context.frames == FrameSharing::Shared;
        let part = if shares { BarrierPart::Sync } else { BarrierPart::Diff };
        Meeting { runtime, ends_job, laps: Laps::start(part), left: Vec::new(), lost: None }
    }

    /// Says what this rank came for, carries out orders and takes what arrives until the call is over.
    /// Objects are not for use meanwhile, unless this rank uses what is to be destroyed: then nothing will
    /// be.
    fn hold(&mut self, came_for: Input) -> Result<Outcome> {
        let Input::Arrive(call) = came_for else { return self.wait_for_all(came_for) };
        let closed = Closed::new(self.runtime);
        let Collective::Destroy { first, count, .. } = call else { return self.wait_for_all(came_for) };
        let doomed = first..first.saturating_add(count);
        let used = self.runtime.context.objects.in_use(self.runtime, doomed.clone())?;
        let _closed = Some(closed).filter(|_| used.is_none());
        lock(&self.runtime.core).node.handle(Input::Uses(used))?;
        let outcome = self.wait_for_all(came_for)?;
        if outcome == Outcome::Done {
            self.runtime.context.objects.forget(doomed)?;
        }
        Ok(outcome)
    }

    fn wait_for_all(&mut self, came_for: Input) -> Result<Outcome> {
        let _waiting = self.runtime.waiting();
        let mut core = lock(&self.runtime.core);
        if let Input::Arrive(call) = came_for {
            may_come(&core, &*self.runtime.context.objects, call)?;
            self.runtime.look_at_the_clock(&mut core)?;
            // Counted where checkpoints count barriers, too: both are told by these numbers.
            self.runtime.passes(Point::BarrierEnter);
        }
        // Passed once for each call that was counted above, also by a rank that has nobody to wait for.
        let mut flushed = !matches!(came_for, Input::Arrive(_));
        core.node.handle(came_for)?;
        let mut stall = WaitTimer::new(self.runtime);
        let (mut turn, mut met) = (0, false);
        // Messages stand still from before this rank is saved until all are.
        let (messages, mut paused) = (OnceCell::new(), Vec::new());
        loop {
            let progress = self.carry_out(&mut core, turn == 0)?;
            if !std::mem::replace(&mut flushed, true) {
                self.runtime.passes(Point::BarrierFlush);
            }
            match progress {
                Progress::Over(outcome) => {
                    self.runtime.passes(Point::BarrierDone);
                    return self.close(outcome);
                }
                Progress::Stage => {
                    // A handler of active messages may want shared memory before it is through.
                    drop(core);
                    let saving = messages.get_or_init(|| self.runtime.to_be_saved());
                    // Others may not be here before they have what this rank has sent in the barrier. What
                    // fails is found again by who waits there.
                    let meanwhile = || drop(self.runtime.context.endpoint.flush());
                    paused.extend(saving.iter().map(|saving| saving.pause(&meanwhile)));
                    self.runtime.await_leavers();
                    core = lock(&self.runtime.core);
                    let staged = self.runtime.stage(&mut core, &paused)?;
                    core.node.handle(if staged { Input::Staged } else { Input::NotStaged })?;
                    turn = 0;
                    continue;
                }
                Progress::Waits if !met && core.node.in_second_meeting() => {
                    met = true;
                    self.runtime.passes(Point::BarrierMeet);
                }
                Progress::Waits => {}
            }
            if core.node.waits_for_agreement() {
                drop(core);
                let agreed = self.look_at_board(turn);
                core = lock(&self.runtime.core);
                if let Some(all) = agreed {
                    core.node.handle(Input::Agreed(all))?;
                    turn = 0;
                    continue;
                }
            }
            if self.take(&mut core)? > 0 {
                turn = 0;
                continue;
            }
            if self.lost.as_ref().is_some_and(|(_, since)| self.killed() || since.elapsed() > LAST_WORDS) {
                return self.close(Outcome::Done);
            }
            // Another thread that faults is let in while this one waits.
            drop(core);
            self.runtime.idle(turn);
            turn = turn.saturating_add(1);
            core = lock(&self.runtime.core);
            let looked = stall.look(self.runtime, &mut core);
            self.or_lost(looked)?;
            // Another thread that waits may have been told what this one would wait for.
            let told = self.runtime.broken.why().map_or(Ok(()), Err);
            self.or_lost(told)?;
        }
    }

    /// Whether all ranks have come without words, or not, if that is decided. Looks more than once at first,
    /// if this thread has a core of its own.
    fn look_at_board(&self, turn: u32) -> Option<bool> {
        let board = self.runtime.context.board()?;
        let patient = turn < PATIENT_TURNS && !self.runtime.context.endpoint.cores_are_scarce();
        for _ in 1..if patient { LOOKS } else { 1 } {
            let agreed = board.agreed();
            if agreed.is_some() {
                return agreed;
            }
            spin_loop();
        }
        board.agreed()
    }

    /// Whether a rank was killed: that explains itself.
    fn killed(&self) -> bool {
        let page = &self.runtime.context.page;
        (0..self.runtime.size).any(|rank| matches!(page.state(rank), RankState::Killed(_)))
    }

    /// Carries out what the protocol orders now. `news`: since the last time, something has arrived.
    fn carry_out(&mut self, core: &mut Core, news: bool) -> Result<Progress> {
        let context = &self.runtime.context;
        let mut outcome = None;
        while let Some(order) = core.node.poll_output() {
            if let Some(part) = part_of(&order) {
                self.laps.enter(part);
            }
            let step = core.execute(context, order);
            match self.or_lost(step)? {
                Some(Step::Done(done)) => outcome = Some(done),
                Some(Step::Stage) => return Ok(Progress::Stage),
                Some(Step::Committed(counts)) => self.runtime.committed(counts)?,
                _ => {}
            }
        }
        outcome = outcome.or_else(|| core.node.take_reduced());
        if outcome.is_some() {
            // Tokens of the last round may still wait to leave.
            self.or_lost(context.endpoint.flush().map_err(Error::from))?;
        } else if news {
            self.or_lost(context.endpoint.flush().map_err(Error::from))?;
            self.laps.enter(if core.node.in_second_meeting() {
                BarrierPart::Update
            } else {
                BarrierPart::Sync
            });
        }
        Ok(outcome.map_or(Progress::Waits, Progress::Over))
    }

    /// Takes what has arrived, and returns how much it was.
    fn take(&mut self, core: &mut Core) -> Result<usize> {
        let (runtime, ends_job) = (self.runtime, self.ends_job);
        let mut taken = Ok(());
        let events = runtime.context.endpoint.poll(&mut |event| match event {
            Event::Down { rank } if ends_job => self.left.push(rank),
            event if taken.is_ok() => {
                let told = core.take(&runtime.context, event);
                taken = self.or_lost(told).map(drop);
            }
            _ => {}
        })?;
        taken?;
        let answered = core.answer_inquiries(&runtime.context);
        self.or_lost(answered)?;
        if let Some(&rank) = self.left.iter().find(|&&rank| self.runtime.context.page.died(rank)) {
            let told = core.take(&self.runtime.context, Event::Down { rank });
            self.or_lost(told)?;
        }
        Ok(events)
    }

    /// Notes that a rank is gone, if that is why something failed. Other failures remain.
    fn or_lost<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(e @ Error::Lost { .. }) => {
                self.lost.get_or_insert_with(|| (e, Instant::now()));
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// What the call came to, if it may end so.
    fn close(&mut self, outcome: Outcome) -> Result<Outcome> {
        match (self.lost.take(), outcome) {
            (Some((lost, _)), Outcome::Done | Outcome::Allocated(_) | Outcome::OutOfSpace(_)) => Err(lost),
            // Which says better why.
            (_, outcome @ Outcome::Mismatch(_)) => Ok(outcome),
            (lost, outcome) => {
                // The next call is told: nobody hears of it a second time.
                lost.into_iter().for_each(|(lost, _)| self.runtime.broken.note(lost));
                Ok(outcome)
            }
        }
    }
}
