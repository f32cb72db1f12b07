//! Application threads: accesses, the faults they take, and calls.

mod accesses;

use super::{Progress, Result, Task, World, number};
use crate::program::{Change, Op, Program, Word};
use crate::report::output_number;
use scash_proto::diff::PageBytes;
use scash_proto::interpreter::{Answer, Claim, Step, WordPlace};
use scash_proto::node::{ObjectKind, Outcome};
use scash_proto::wire::reduce::{Combine, NumberKind, Reduction};
use scash_proto::{Access, Input, Output, PAGE_SIZE, Pages, Rank, Strided};
use std::collections::VecDeque;

/// An application thread in one interval.
pub(super) struct Thread {
    ops: Vec<Op>,
    /// Index of the operation it is at.
    at: usize,
    /// What a flicker will put back, or what a word was that is about to be changed.
    before: Option<Vec<u8>>,
    /// The number that it loaded last.
    seen: u64,
    /// Orders of its fault or call that are not carried out yet.
    orders: VecDeque<Output>,
    state: State,
    /// What it waits for when these are.
    then: Option<Then>,
}

/// What the end of a call waits for.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// That all puts of the rank have landed.
    Fence,
    /// This lock or other object.
    Lock(u32),
    /// The end of an object.
    End,
    /// That it has its lock again. It looks then whether the event has happened.
    Again,
}

#[derive(Debug)]
enum State {
    Ready,
    /// Another thread is fetching the page.
    Waiting(u32),
    Copying(Box<Copy>),
    /// Asks whose the pages of a block are.
    Claiming {
        page: u32,
        key: u32,
        take: bool,
    },
    /// Its keeper has said whose they are, and others may know it before this rank does.
    Claimed {
        page: u32,
        home: Option<Rank>,
    },
    /// Is about to mark a page, or to execute its atomic operation.
    Operating {
        page: u32,
        at: Rank,
        mark: bool,
    },
    /// Waits for a sum, which must be this.
    Reducing(u64),
    Arrived,
}

/// A get that is under way.
#[derive(Debug)]
struct Copy {
    from: Rank,
    pages: Strided,
    /// Pages stored.
    stored: u32,
    /// Bytes read of the next page.
    have: usize,
    bytes: PageBytes,
}

impl Thread {
    pub(super) fn new(ops: Vec<Op>) -> Self {
        let (orders, state) = (VecDeque::new(), State::Ready);
        Thread { ops, at: 0, before: None, seen: 0, orders, state, then: None }
    }

    /// Goes on behind the end of a critical section.
    fn leave_out(&mut self, lock: u32) {
        let section = self.ops[self.at..].iter().position(|&op| op == Op::Unlock(lock));
        self.at += section.map_or(0, |end| end + 1);
    }

    pub(super) fn describe(&self) -> String {
        let state = match &self.state {
            State::Copying(copy) => format!("copying {:?} from {}", copy.pages, copy.from),
            other => format!("{other:?}"),
        };
        format!("{state} at {} of {}", self.at, self.ops.len())
    }
}

impl<P: Program> World<P> {
    /// What goes on while a rank is in the middle of an order: plain accesses of all threads, gets that are
    /// under way, and puts that land. Nothing that needs the rank's node, and nothing at all in jobs that are
    /// not torn.
    pub(super) fn meanwhile(&mut self, rank: usize) -> Result<()> {
        while self.setup.tears > 0 && self.tears.chance(self.setup.tears) {
            self.report.steps += 1;
            let task = if self.tears.chance(50) {
                let threads = number(self.ranks[rank].threads.len()).max(1);
                Task::Thread(rank, self.tears.below(threads) as usize)
            } else {
                let n = number(self.tasks.len()).max(1);
                let Some(&task) = self.tasks.get(self.tears.below(n) as usize) else { return Ok(()) };
                task
            };
            self.step_aside(task)?;
        }
        Ok(())
    }

    /// Lets a task take a step that needs no node, if its next one is such a step.
    fn step_aside(&mut self, task: Task) -> Result<()> {
        match task {
            Task::Thread(rank, t) => {
                let is_there = t < self.ranks[rank].threads.len() && !self.is_dead(rank);
                if is_there && self.thread_is_able(rank, t) && !self.needs_lock(rank, t) {
                    self.step_thread(rank, t)?;
                }
            }
            Task::Driver(rank) => drop(self.land_own(rank)?),
            Task::Channel(from, to) => drop(self.land_next(from, to)?),
        }
        Ok(())
    }

    /// Whether what a thread does next needs its rank's lock.
    fn needs_lock(&self, rank: usize, thread: usize) -> bool {
        let me = &self.ranks[rank];
        let thread = &me.threads[thread];
        match (&thread.state, thread.ops.get(thread.at)) {
            (State::Copying(copy), _) => copy.have == PAGE_SIZE && copy.stored + 1 == copy.pages.count(),
            // The operation itself: the home's frame is free to all.
            (State::Operating { mark: false, .. }, _) => false,
            // The keeper is asked without it.
            (State::Claiming { .. }, _) => false,
            (State::Ready, _) if !thread.orders.is_empty() || thread.then.is_some() => true,
            (State::Ready, Some(op)) => {
                op.access().is_none_or(|(want, span)| me.frames.rights(span.page) < want)
            }
            _ => true,
        }
    }

    /// The rank with which a thread has to do in its next step.
    pub(super) fn peer_of(&self, rank: usize, thread: usize) -> Option<usize> {
        match &self.ranks[rank].threads.get(thread)?.state {
            State::Copying(copy) if copy.have < PAGE_SIZE => Some(copy.from.0 as usize),
            State::Claiming { key, .. } => Some(*key as usize % self.ranks.len()),
            State::Operating { at, .. } => Some(at.0 as usize),
            _ => None,
        }
    }

    pub(super) fn thread_is_able(&self, rank: usize, thread: usize) -> bool {
        if self.peer_of(rank, thread).is_some_and(|peer| !self.reaches(rank, peer)) {
            return false;
        }
        let me = &self.ranks[rank].threads[thread];
        match &me.state {
            State::Ready if me.orders.is_empty() => match me.then {
                Some(Then::Fence) => self.have_landed(rank),
                Some(Then::Lock(_) | Then::End | Then::Again) => {
                    self.ranks[rank].answers.contains_key(&(thread as u64))
                }
                None => true,
            },
            State::Waiting(page) => !self.ranks[rank].node.is_fetching(*page),
            State::Reducing(_) => self.ranks[rank].node.has_reduced(),
            // A rank reads what it put.
            State::Copying(copy) => copy.have > 0 || self.have_landed_at(rank, copy.from),
            State::Ready
            | State::Claiming { .. }
            | State::Claimed { .. }
            | State::Operating { .. }
            | State::Arrived => true,
        }
    }

    pub(super) fn step_thread(&mut self, rank: usize, t: usize) -> Result<Progress> {
        if !self.thread_is_able(rank, t) {
            return Ok(Progress::Blocked);
        }
        let thread = &mut self.ranks[rank].threads[t];
        match std::mem::replace(&mut thread.state, State::Ready) {
            State::Copying(copy) => {
                self.step_copy(rank, t, copy)?;
                return Ok(Progress::Moved);
            }
            State::Claiming { page, key, take } => {
                let home = self.claim(rank, page, key, take);
                self.ranks[rank].threads[t].state = State::Claimed { page, home };
                return Ok(Progress::Moved);
            }
            State::Claimed { page, home } => {
                self.tell(rank, Input::Claimed { page, home })?;
                self.take_orders(rank, t)?;
                return Ok(Progress::Moved);
            }
            State::Operating { page, at, mark } => {
                self.step_operation(rank, t, page, at, mark)?;
                return Ok(Progress::Moved);
            }
            State::Reducing(sum) => self.check_sum(rank, sum)?,
            State::Ready | State::Waiting(_) | State::Arrived => {}
        }
        if let Some(order) = self.ranks[rank].threads[t].orders.pop_front() {
            self.thread_order(rank, t, order)?;
            return Ok(Progress::Moved);
        }
        self.conclude_call(rank, t)?;
        let thread = &self.ranks[rank].threads[t];
        if let Some(&op) = thread.ops.get(thread.at) {
            self.operate(rank, t, op)?;
            return Ok(Progress::Moved);
        }
        self.come_to_barrier(rank, t)?;
        Ok(Progress::Idle)
    }

    /// What a call waited for has come.
    fn conclude_call(&mut self, rank: usize, t: usize) -> Result<()> {
        let me = &mut self.ranks[rank];
        let Some(then) = me.threads[t].then.take() else { return Ok(()) };
        match (then, me.answers.remove(&(t as u64))) {
            (Then::Fence, None) | (Then::Lock(_), Some(Answer::Granted)) => {}
            (Then::Lock(lock), Some(Answer::Refused)) => me.threads[t].leave_out(lock),
            (Then::Again, Some(Answer::Granted)) => me.threads[t].at -= 1,
            (Then::End, Some(Answer::Unmade(None))) => self.report.unmade += 1,
            // Who comes too late, or destroys too early.
            (Then::Lock(lock), Some(Answer::Absent(_))) if self.setup.untimely => {
                self.report.absent += 1;
                me.threads[t].leave_out(lock);
            }
            (Then::End, Some(Answer::Absent(_))) if self.setup.untimely => self.report.absent += 1,
            (Then::End, Some(Answer::Unmade(Some(_)))) if self.setup.untimely => self.report.kept += 1,
            (then, answer) => {
                return Err(self.failure(&format!("rank {rank} waits for {then:?}, and hears {answer:?}")));
            }
        }
        Ok(())
    }

    fn come_to_barrier(&mut self, rank: usize, t: usize) -> Result<()> {
        let end = self.interval(rank).end;
        let me = &mut self.ranks[rank];
        me.threads[t].state = State::Arrived;
        me.running -= 1;
        if me.running == 0 {
            self.trace(|| format!("rank {rank} arrives for {end:?}"));
            if let Some(object) = self.ranks[rank].node.awaited() {
                let what = format!(
                    "rank {rank} believes that a thread waits for object {object}, but all have arrived"
                );
                return Err(self.failure(&what));
            }
            self.perhaps_due(rank)?;
            self.tell(rank, Input::Arrive(end))?;
            self.schedule_driver(rank);
        }
        Ok(())
    }

    /// Gives something to a node that cannot be anybody's fault.
    pub(super) fn tell(&mut self, rank: usize, input: Input) -> Result<()> {
        let taken = self.ranks[rank].node.handle(input);
        taken.map_err(|v| self.failure(&format!("rank {rank}: {v}")))?;
        self.check_words(rank)
    }

    fn operate(&mut self, rank: usize, t: usize, op: Op) -> Result<()> {
        if let Some((want, span)) = op.access()
            && self.ranks[rank].frames.rights(span.page) < want
        {
            return self.fault(rank, t, span.page, want);
        }
        let thread = &mut self.ranks[rank].threads[t];
        match op {
            Op::Flicker(span, salt) => {
                self.flicker(rank, t, span, salt);
                return Ok(());
            }
            Op::Plainly(word, change) => return self.plainly(rank, t, word, change),
            Op::Until { least, back } if thread.seen < least => {
                thread.at -= back;
                return Ok(());
            }
            Op::Operate(Word { page, .. }, change) => {
                let changes = change != Change::Load;
                self.trace(|| format!("rank {rank} wants {op:?}"));
                self.tell(rank, Input::Operate { page, changes })?;
                return self.take_orders(rank, t);
            }
            Op::WaitFor { event, .. } if !self.happened.events.contains(&event) => {
                return self.make_call(rank, t, op);
            }
            Op::Read(_) | Op::Write(..) | Op::Rewrite(_) => {}
            Op::Announce(_) | Op::Until { .. } | Op::WaitFor { .. } => {}
            Op::MakeOwn(name, kind) => self.make_own(rank, name, kind)?,
            Op::ReadHome(pages) => return self.read_home(rank, t, pages),
            call => return self.make_call(rank, t, call),
        }
        self.ranks[rank].threads[t].at += 1;
        match op {
            Op::Read(span) => self.read(rank, span)?,
            Op::Write(span, salt) => self.write(rank, span, salt),
            Op::Rewrite(span) => self.rewrite(rank, span)?,
            Op::Announce(event) => drop(self.happened.events.insert(event)),
            _ => {}
        }
        Ok(())
    }

    fn make_own(&mut self, rank: usize, name: u32, kind: ObjectKind) -> Result<()> {
        let made = self.ranks[rank].node.make_own(kind);
        let number = made.ok_or_else(|| self.failure("there are no more numbers"))?;
        self.trace(|| format!("rank {rank} has made {kind:?} {name:#x}, which is {number}"));
        self.happened.names.insert(name, number);
        Ok(())
    }

    /// Makes the call that an operation is.
    fn make_call(&mut self, rank: usize, t: usize, op: Op) -> Result<()> {
        let (who, number) = (t as u64, |name| self.happened.number(name));
        let (then, input) = match op {
            Op::WriteBack(pages) => (Some(Then::Fence), Input::WriteBack(pages)),
            Op::Lock(lock) => (Some(Then::Lock(lock)), Input::Acquire { lock: number(lock), who }),
            Op::TryLock(lock) => (Some(Then::Lock(lock)), Input::TryAcquire { lock: number(lock), who }),
            Op::Unmake(object) => (Some(Then::End), Input::Unmake { object: number(object), who }),
            Op::Request(object, request) => {
                (Some(Then::Lock(object)), Input::Request { object: number(object), who, request })
            }
            Op::WaitFor { condition, lock, .. } => {
                let (condition, lock) = (number(condition), number(lock));
                (Some(Then::Again), Input::Wait { condition, lock, who })
            }
            Op::Signal(object, signal) => (None, Input::Signal { object: number(object), who, signal }),
            Op::Unlock(lock) => (None, Input::Release(number(lock))),
            Op::SetHome(pages, home) => (None, Input::SetHome(pages, home)),
            Op::SetProtocol(page, protocol) => (None, Input::SetProtocol(page, protocol)),
            Op::Reduce(mine, all) => {
                let what = Reduction::All(Combine::Sum, NumberKind::U64);
                self.call(rank, t, Input::Reduce(what, vec![mine]))?;
                self.ranks[rank].threads[t].state = State::Reducing(all);
                return Ok(());
            }
            access => return Err(self.failure(&format!("{access:?} is not a call"))),
        };
        self.ranks[rank].threads[t].then = then;
        self.call(rank, t, input)
    }

    fn read_home(&mut self, rank: usize, t: usize, pages: Pages) -> Result<()> {
        self.call(rank, t, Input::ReadHome(pages))?;
        let thread = &mut self.ranks[rank].threads[t];
        if let State::Waiting(page) = thread.state {
            thread.at -= 1;
            thread.ops[thread.at] = Op::ReadHome(pages.rest_from(page));
        }
        Ok(())
    }

    fn fault(&mut self, rank: usize, t: usize, page: u32, want: Access) -> Result<()> {
        self.trace(|| format!("rank {rank} faults on page {page}, wants {want:?}"));
        let before = self.ranks[rank].node.access(page);
        self.tell(rank, Input::Fault { page, want })?;
        self.take_orders(rank, t)?;
        if before >= want {
            let what = format!("a fault on page {page} by rank {rank}, which may do that");
            return Err(self.failure_about(&what, rank, page));
        }
        Ok(())
    }

    fn call(&mut self, rank: usize, t: usize, input: Input) -> Result<()> {
        self.trace(|| format!("rank {rank} calls {input:?}"));
        self.ranks[rank].threads[t].at += 1;
        self.tell(rank, input)?;
        self.take_orders(rank, t)
    }

    /// Carries out the orders of a fault or call up to the first that takes time.
    fn take_orders(&mut self, rank: usize, t: usize) -> Result<()> {
        let me = &mut self.ranks[rank];
        while let Some(order) = me.node.poll_output() {
            me.threads[t].orders.push_back(order);
        }
        loop {
            let thread = &mut self.ranks[rank].threads[t];
            if !matches!(thread.state, State::Ready) {
                return Ok(());
            }
            let Some(order) = thread.orders.pop_front() else { return Ok(()) };
            self.thread_order(rank, t, order)?;
        }
    }

    fn thread_order(&mut self, rank: usize, t: usize, order: Output) -> Result<()> {
        let state = match self.carry_out(rank, order)? {
            Step::Next => return Ok(()),
            Step::Done(outcome) => return self.done(rank, &outcome),
            Step::Stage | Step::Committed(_) => {
                return Err(self.failure("a thread is to do what ends a barrier"));
            }
            Step::Denied(page) => return Err(self.failure_about("an access was denied", rank, page)),
            Step::Wait(page) => State::Waiting(page),
            Step::Claim(Claim { page, key, take, .. }) => State::Claiming { page, key, take },
            Step::Operate(WordPlace { page, at, mark }) => State::Operating { page, at, mark },
            Step::Get(from, pages) => {
                let interval = self.ranks[rank].interval;
                if self.is_counted(rank, from.0) {
                    self.report.period(interval).traffic.gets += u64::from(pages.count());
                }
                State::Copying(Box::new(Copy { from, pages, stored: 0, have: 0, bytes: [0; PAGE_SIZE] }))
            }
        };
        self.ranks[rank].threads[t].state = state;
        Ok(())
    }

    /// Marks that a kind of output occurred.
    pub(super) fn note(&mut self, rank: usize, order: &Output) {
        self.report.outputs |= 1 << output_number(order);
        self.trace(|| format!("rank {rank} carries out {order:?}"));
    }

    /// Reads a piece of a page from the home's frame, or stores what was read.
    fn step_copy(&mut self, rank: usize, t: usize, mut copy: Box<Copy>) -> Result<()> {
        let Some(page) = copy.pages.iter().nth(copy.stored as usize) else { return Ok(()) };
        if copy.have < PAGE_SIZE {
            if copy.have == 0 {
                self.ranks[rank].copying[page as usize] += 1;
            }
            let end = if copy.have == 0 && self.rng.chance(50) { self.rng.between(1, 4095) } else { 4096 };
            let piece = copy.have..end as usize;
            let home = &self.ranks[copy.from.0 as usize];
            copy.bytes[piece.clone()].copy_from_slice(&home.frames.bytes(page)[piece.clone()]);
            copy.have = piece.end;
            self.trace(|| format!("rank {rank} has read bytes {piece:?} of page {page} of {}", copy.from));
        } else {
            let me = &mut self.ranks[rank];
            *me.frames.bytes_mut(page) = copy.bytes;
            me.copying[page as usize] -= 1;
            copy.stored += 1;
            copy.have = 0;
            self.trace(|| format!("rank {rank} has stored page {page}"));
        }
        if copy.stored < copy.pages.count() {
            self.ranks[rank].threads[t].state = State::Copying(copy);
            return Ok(());
        }
        copy.pages.runs().for_each(|run| self.ranks[rank].frames.set_rights(run, Access::Read));
        self.tell(rank, Input::Fetched(copy.pages))?;
        self.take_orders(rank, t)
    }

    fn check_sum(&mut self, rank: usize, sum: u64) -> Result<()> {
        let outcome = self.ranks[rank].node.take_reduced();
        if outcome == Some(Outcome::Reduced(vec![sum])) {
            return Ok(());
        }
        Err(self.failure(&format!("rank {rank} was told {outcome:?} as the sum, which is {sum}")))
    }

    /// The keeper of a claim decides whose the pages are.
    fn claim(&mut self, rank: usize, page: u32, key: u32, take: bool) -> Option<Rank> {
        let me = Rank(number(rank));
        let home =
            if take { Some(*self.claims.entry(key).or_insert(me)) } else { self.claims.get(&key).copied() };
        self.trace(|| {
            format!("the claim of page {key} is {home:?}, says its keeper to rank {rank}, which asks for page {page}")
        });
        home
    }
}
