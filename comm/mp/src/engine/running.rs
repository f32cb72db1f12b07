//! Collective operations under way: schedules that are played round by round, whoever makes progress.

use super::alike::too_short;
use super::landings::LandingTarget;
use super::receive::no_memory;
use super::{Arrival, Content, Engine, Offer, Order, alike, gone};
use crate::barrier::Groups;
use crate::collective::{
    Area, AreaRange, Collective, LocalWork, Reduction, Round, Schedule, Stamp, Transfer,
};
use crate::matching::Pattern;
use crate::requests::{Completion, Destination, Request, RequestNumber};
use crate::span::{ReceiveBuffer, Source};
use crate::wire::MessageHead;
use scash_comm::{Error, Mark, Result};
use std::collections::VecDeque;

/// Memory of an operation for which the system is not asked first: so much it has.
const SURELY_THERE: usize = 64 << 20;
/// Operations given up by others, of which this rank remembers to fail when it comes to them.
const MOST_ABORTED: usize = 1 << 10;

/// A collective operation under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) request: RequestNumber,
    /// What its messages bear: how many operations there were before it, and what it is; the same at all
    /// ranks.
    pub(super) stamp: Stamp,
    pub(super) root: Option<u32>,
    rounds: VecDeque<Round>,
    memory: Memory,
    reduction: Option<Reduction>,
    /// Transfers of the first round that are not over, and their lengths; `None`: it has not begun.
    pub(super) pending: Option<Vec<(RequestNumber, usize)>>,
    failure: Option<Error>,
    /// It has failed, and what could be taken back was.
    is_given_up: bool,
    /// Ticks that it has taken.
    pub(super) ticks: u32,
}

/// What an operation works on.
#[derive(Debug)]
struct Memory {
    input: Source,
    output: ReceiveBuffer,
    temporary: Vec<u8>,
}

impl Running {
    /// How many operations there were before it.
    pub(super) fn number(&self) -> u64 {
        self.stamp.number()
    }

    /// If it is a barrier: what ranks that have come to it, or are through with it, have on the board.
    fn meeting(&self) -> u64 {
        self.number() + 1
    }

    /// A rank plays the operation of this number, and takes it for this.
    pub(super) fn compare(&mut self, from: u32, stamp: Stamp) {
        if stamp != self.stamp {
            self.failure.get_or_insert_with(|| alike::unlike(from, stamp, self.stamp));
        }
    }

    /// What it waits for on the board, if it has not been seen yet.
    pub(super) fn awaits(&self) -> Option<Mark> {
        self.pending.as_ref()?;
        self.rounds.front()?.awaits
    }
}

impl Memory {
    /// A piece to be written.
    fn place(&mut self, AreaRange { area, offset, len }: AreaRange) -> ReceiveBuffer {
        match area {
            Area::Temporary => {
                // SAFETY: the vector is as long as the schedule says, stays where it is, and goes only when
                // no transfer uses it any more.
                unsafe { ReceiveBuffer::new(self.temporary.as_mut_ptr(), self.temporary.len()) }
                    .part(offset, len)
            }
            Area::Output => self.output.part(offset, len),
            // Schedules do not write to the input.
            Area::Input => self.output.part(0, 0),
        }
    }

    /// A piece to be read.
    fn source(&mut self, piece: AreaRange) -> Source {
        match piece.area {
            Area::Input => self.input.part(piece.offset, piece.len),
            _ => self.place(piece).source(),
        }
    }

    fn work(&mut self, work: LocalWork, reduction: Option<Reduction>) {
        match work {
            LocalWork::Copy { from, to } => {
                let from = self.source(from);
                self.place(to).store(0, from.piece(0, from.len()));
            }
            LocalWork::Combine { from, into } => {
                let from = self.source(from);
                if let Some(reduction) = reduction {
                    self.place(into).change(|into| reduction.combine(from.piece(0, from.len()), into));
                }
            }
        }
    }
}

impl Engine {
    /// Begins a collective operation, which was checked and whose memory is as long as it says. Without a
    /// rank that is gone, none succeeds.
    ///
    /// # Errors
    /// The system has no memory for what comes in between. Nothing was begun.
    pub(crate) fn start(
        &mut self,
        collective: &Collective,
        input: Source,
        output: ReceiveBuffer,
    ) -> Result<RequestNumber> {
        let size = u32::try_from(self.peers.len()).unwrap_or(u32::MAX);
        let Schedule { rounds, temporary, reduction } = collective.schedule(self.rank, size, &self.groups);
        if temporary > SURELY_THERE && Vec::<u8>::new().try_reserve_exact(temporary).is_err() {
            return Err(no_memory(temporary, "a collective operation"));
        }
        let request = self.requests.add(Request::Collective);
        let memory = Memory { input, output, temporary: vec![0; temporary] };
        let number = self.collectives;
        let stamp = Stamp::new(number, collective);
        self.collectives += 1;
        let absent = (0..).zip(&self.peers).find(|(_, peer)| peer.is_absent(number));
        let absent = absent.map(|(rank, _)| gone(rank)).or_else(|| self.unlike_early(stamp));
        let aborted = self.aborted.iter().find(|(operation, ..)| *operation == number);
        let failure = absent.or_else(|| aborted.map(|&(_, from, culprit)| given_up(from, culprit)));
        self.running.push(Running {
            request,
            stamp,
            root: collective.root(),
            rounds: rounds.into(),
            memory,
            reduction,
            pending: None,
            failure,
            is_given_up: false,
            ticks: 0,
        });
        self.aborted.retain(|(operation, ..)| *operation > number);
        self.advance();
        Ok(request)
    }

    /// Whether collective operations are under way.
    pub(crate) fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Who shares a board with whom.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// What collective operations under way wait for on the board, if they do.
    pub(crate) fn awaits(&self, mark: Mark) -> Option<u64> {
        // Each has come to the board after those before it, but may be through with it earlier.
        self.running.iter().filter(|one| one.awaits() == Some(mark)).map(Running::meeting).min()
    }

    /// Takes note of what is on the board; whether that was waited for.
    pub(crate) fn saw(&mut self, mark: Mark, count: u64) -> bool {
        let is_awaited = self.awaits(mark).is_some_and(|meeting| meeting <= count);
        self.seen[mark as usize] = self.seen[mark as usize].max(count);
        is_awaited
    }

    /// Transfers of collective operations under way.
    pub(super) fn transfers(&self) -> usize {
        self.running.iter().filter_map(|one| one.pending.as_ref()).map(Vec::len).sum()
    }

    /// Goes on with collective operations as far as their transfers are over.
    pub(crate) fn advance(&mut self) {
        let mut running = std::mem::take(&mut self.running);
        running.retain_mut(|one| !self.go_on(one));
        // Nothing that goes on begins another one.
        self.running = running;
        if self.has_stale {
            self.discard_stale();
        }
    }

    /// A rank has given an operation up: this one has to, too, unless it is through with it.
    pub(super) fn aborted(&mut self, from: u32, operation: u64, culprit: u32) {
        if culprit != from && culprit != self.rank {
            // Who has seen one fail may begin no later one, so those cannot be counted on, whomever they wait
            // for now. It may still be through with earlier ones.
            let first = &mut self.peers[culprit as usize].missed_from;
            *first = Some(first.map_or(operation, |first| first.min(operation)));
            self.fail_collectives(operation, culprit);
            self.discard_stale();
        }
        if let Some(one) = self.running.iter_mut().find(|one| one.number() == operation) {
            one.failure.get_or_insert_with(|| given_up(from, culprit));
        } else if operation >= self.collectives
            && self.aborted.len() < MOST_ABORTED
            && !self.aborted.iter().any(|(known, ..)| *known == operation)
        {
            self.aborted.push((operation, from, culprit));
        }
    }

    /// Operations under way fail, from one on, because of a rank. (That it is gone is not enough: who has
    /// done its part may leave before others are through.)
    fn fail_collectives(&mut self, first: u64, culprit: u32) {
        for one in self.running.iter_mut().filter(|one| one.number() >= first) {
            one.failure.get_or_insert_with(|| gone(culprit));
        }
    }

    /// Tells all others that an operation fails, who may wait for ranks that wait for this one.
    pub(super) fn abort(&mut self, operation: u64, error: &Error) {
        let culprit = if let Error::Down { rank, .. } = error { *rank } else { self.rank };
        let all = 0..u32::try_from(self.peers.len()).unwrap_or(u32::MAX);
        for to in all {
            if to != self.rank && !self.peers[to as usize].is_gone {
                self.say(to, MessageHead::Abort { operation, culprit: u64::from(culprit) });
            }
        }
    }

    /// A rank is gone: the next collective operation cannot succeed here, nor can any after it. Others may
    /// wait in it already, for this rank, and it may never come to it: its application learns by some other
    /// operation that a rank is gone, and ends. (Once is enough, whoever goes next.)
    pub(super) fn announce_failure(&mut self, culprit: u32) {
        if self.gone().count() == 1 {
            self.abort(self.collectives, &gone(culprit));
        }
    }

    /// Goes on with one; whether it is over.
    fn go_on(&mut self, one: &mut Running) -> bool {
        loop {
            let Some(round) = one.rounds.front() else {
                if one.failure.is_some() {
                    self.has_stale = true;
                    self.has_failed(one.number());
                }
                let outcome = one.failure.take().map_or_else(|| Ok(Completion::default()), Err);
                self.end(one.request, outcome);
                return true;
            };
            if one.pending.is_none() && one.failure.is_none() {
                // A later one that has come so far has posted for this one as well.
                if let Some(mark) = round.post
                    && self.posted[mark as usize] <= one.stamp.number()
                {
                    self.posted[mark as usize] = one.stamp.number() + 1;
                    self.orders.push_back(Order::Post(mark, one.stamp.number() + 1));
                }
                let (begun, verdict) = self.begin(round, &mut one.memory, one.stamp);
                one.pending = Some(begun);
                one.failure = verdict.err();
            }
            let is_awaited = round.awaits.filter(|&mark| self.seen[mark as usize] < one.stamp.number() + 1);
            if let Some(mark) = is_awaited
                && one.failure.is_none()
            {
                one.failure = self.absent_at(mark).map(gone);
            }
            let (pending, failure) = (one.pending.get_or_insert_default(), &mut one.failure);
            pending.retain(|&(number, len)| match self.outcome(number) {
                None => true,
                Some(Ok(Completion { status, .. })) => {
                    if status.len != len {
                        failure.get_or_insert(too_short(status.source, status.len, len));
                    }
                    false
                }
                Some(Err(error)) => {
                    failure.get_or_insert(error);
                    false
                }
            });
            if let Some(error) = failure
                && !one.is_given_up
            {
                self.abort(one.stamp.number(), error);
                // Others will not do their part either. What they have taken on goes on; the rest is taken
                // back.
                one.is_given_up = true;
                pending.retain(|&(number, _)| !self.take_back(number));
                one.rounds.truncate(1);
            }
            if !self.orders.is_empty() {
                // What they are to send must not change before they are carried out.
                return false;
            }
            if is_awaited.is_some() && one.failure.is_none()
                || one.pending.as_ref().is_some_and(|pending| !pending.is_empty())
            {
                return false;
            }
            if let Some(round) = one.rounds.pop_front().filter(|_| one.failure.is_none()) {
                round.work.into_iter().for_each(|work| one.memory.work(work, one.reduction));
            }
            one.pending = None;
        }
    }

    /// One of them that is gone.
    fn absent_at(&self, mark: Mark) -> Option<u32> {
        needed(&self.groups, mark).iter().copied().find(|&rank| self.peers[rank as usize].is_gone)
    }

    /// The ranks that are waited for on the board. Some may have come.
    pub(super) fn awaited_at_board(&self) -> impl Iterator<Item = u32> {
        let marks = Mark::ALL.into_iter().filter(|&mark| self.awaits(mark).is_some());
        marks.flat_map(|mark| needed(&self.groups, mark)).copied()
    }

    /// Begins the transfers of a round: those that are not over at once, and why not all could be begun.
    fn begin(
        &mut self,
        round: &Round,
        memory: &mut Memory,
        stamp: Stamp,
    ) -> (Vec<(RequestNumber, usize)>, Result<()>) {
        let (context, tag) = (stamp.context(), stamp.tag());
        let mut pending = Vec::with_capacity(round.transfers.len());
        for transfer in &round.transfers {
            let (begun, len) = match *transfer {
                Transfer::Send { to, piece } => {
                    (self.send(to, context, tag, memory.source(piece), false), piece.len)
                }
                Transfer::Receive { from, piece } => {
                    let pattern = Pattern { context, source: Some(from), tag: Some(tag) };
                    (self.receive(pattern, Destination::Room(memory.place(piece))).map(Some), piece.len)
                }
            };
            match begun {
                Ok(number) => pending.extend(number.map(|number| (number, len))),
                Err(error) => return (pending, Err(error)),
            }
        }
        (pending, Ok(()))
    }

    /// Whether a message is of a collective operation that has failed here, or will as soon as it begins, and
    /// its sender did not know.
    pub(super) fn is_stale(&self, stamp: Stamp) -> bool {
        let number = stamp.number();
        let is_over = || number < self.collectives || self.peers.iter().any(|peer| peer.is_absent(number));
        !self.running.iter().any(|one| one.number() == number) && is_over()
    }

    /// Forgets messages of operations that have failed: nobody will receive them.
    pub(super) fn discard_stale(&mut self) {
        self.has_stale = false;
        let stamp = |arrival: &Arrival| Stamp::of(arrival.context, arrival.status.tag);
        let is_stale = |arrival: &Arrival| stamp(arrival).is_some_and(|stamp| self.is_stale(stamp));
        let stale: Vec<u32> =
            self.unexpected.iter().filter(|(_, arrival)| is_stale(arrival)).map(|(at, _)| at).collect();
        for arrival in stale.into_iter().filter_map(|at| self.unexpected.remove(at)).collect::<Vec<_>>() {
            let from = arrival.status.source;
            match arrival.content {
                Content::Here(bytes) => self.was_received(from, bytes.len()),
                Content::Offered(Offer { send, .. }) => {
                    self.offers.remove(&(from, send));
                    self.say(from, MessageHead::Done { send });
                }
                Content::Landing { push } => {
                    if let Some(landing) = self.landings.get_mut(from, push) {
                        landing.target = LandingTarget::Nobody;
                    }
                }
            }
        }
    }

    /// Takes an operation back, or asks its receiver to forget it; whether it is over by that.
    fn take_back(&mut self, number: RequestNumber) -> bool {
        let is_over = self.cancel(number);
        if !is_over {
            self.withdraw(number);
        }
        is_over
    }
}

/// Those without whom what is waited for on the board never comes.
pub(super) fn needed(groups: &Groups, mark: Mark) -> &[u32] {
    match mark {
        Mark::Arrived => groups.mine(),
        // Others may be through with the meeting, and gone. If not, the head says so.
        Mark::Released => &groups.mine()[..1],
    }
}

/// Why an operation fails that rank `from` has given up.
fn given_up(from: u32, culprit: u32) -> Error {
    if culprit == from {
        let why = "it gave up a collective operation: was it called with the same numbers by all ranks?";
        return Error::Protocol { rank: from, why: why.to_owned() };
    }
    gone(culprit)
}
