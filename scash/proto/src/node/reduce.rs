//! Reductions: all ranks' values become one, without a memory barrier.
//!
//! Values go up a binomial tree whose root is rank 0, and the result comes down. In round k of the way up
//! rank r, if its k lowest bits are zero, takes what rank r + 2ᵏ has, or, if bit k is set, gives what it has
//! to rank r − 2ᵏ. So nobody sends or takes more than log₂ n + 1 messages each way. A rank combines its value
//! with those of its children in the order of their numbers, whichever arrives first: floating-point sums
//! have the same bits at every rank (there is one that is computed) and in every run on as many ranks.
//!
//! **Disagreement.** What ranks came for goes up and down with the values, so that ranks that came for
//! different reductions learn it in place of a result. A rank that came for a memory barrier instead sends
//! none of these messages; but it sends a token to the rank behind it (rank r + 1, modulo n), which tells how
//! many reductions it has passed, and some rank behind one that came for a barrier came for a reduction. Who
//! finds that out tells everybody. (Where barriers take no tokens, [`agreement`](super::agreement) sees to it
//! that this one does.)
//!
//! **Announcements.** Before objects are destroyed, ranks say by a reduction whether they use one
//! ([`destroy`](super::destroy)).
//!
//! Nobody leaves a reduction before all have come. So of the next one at most one message a child can be here
//! before this rank comes, or before it leaves the memory barrier in between.

use super::{Node, Outcome, Output, Phase, Violation};
use crate::Rank;
use crate::wire::reduce::{Combine, Direction, NumberKind, ReduceMessage, Reduction};
use crate::wire::{Attendance, Purpose, Token};
use std::collections::BTreeMap;

/// The reductions of a rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Reductions {
    /// Passed since the last memory barrier.
    passed: u64,
    /// The one that this rank is in.
    now: Option<Reducing>,
    /// What children have sent for it, or for the next one.
    from_children: BTreeMap<Rank, ReduceMessage>,
    /// How the last one ended, until that is asked for.
    outcome: Option<Outcome>,
    /// Ranks came for different things: nothing can be done any more.
    disagreement: Option<[Attendance; 2]>,
    /// They did so after the call that this rank is in, which goes well.
    ahead: Option<[Attendance; 2]>,
}

#[derive(Clone, Debug)]
struct Reducing {
    what: Reduction,
    me: Attendance,
    /// How many values the result has.
    count: usize,
    values: Vec<u64>,
    /// What this rank says before it destroys objects, if that is what it came for.
    announced: Option<u64>,
    /// Its values have gone up.
    gone: bool,
}

impl Reductions {
    /// A memory barrier is over.
    pub(super) fn barrier(&mut self) {
        self.passed = 0;
        self.catch_up();
    }

    /// The call is over that went well, although ranks came for different things after it.
    pub(super) fn catch_up(&mut self) {
        self.disagreement = self.disagreement.or(self.ahead.take());
    }

    /// Whether nothing of one is here.
    pub(super) fn are_at_rest(&self) -> bool {
        self.now.is_none() && self.from_children.is_empty()
    }

    /// This rank has come back: what ranks had on its way is gone.
    pub(super) fn reborn(&mut self) {
        self.from_children.clear();
    }

    /// Keeps how a reduction ended until that is asked for.
    pub(super) fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// How many this rank has passed since the last memory barrier.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }
}

/// Both spans as one.
fn join(a: [Attendance; 2], b: [Attendance; 2]) -> [Attendance; 2] {
    [a[0].min(b[0]), a[1].max(b[1])]
}

fn agree(span: [Attendance; 2]) -> bool {
    span[0].purpose == span[1].purpose
}

impl Node {
    /// This rank comes to a reduction.
    pub(super) fn reduce(&mut self, what: Reduction, mut values: Vec<u64>) {
        assert!(
            self.sync.reductions.now.is_none() && self.meetings.phase == Phase::Running,
            "one collective call at a time"
        );
        if let Some(span) = self.sync.reductions.disagreement {
            self.sync.reductions.outcome = Some(Outcome::Mismatch(span));
            return;
        }
        let me = Attendance { purpose: what.purpose(values.len()), rank: self.cfg.rank };
        if matches!(what, Reduction::From(rank) if rank != self.cfg.rank) {
            values.fill(0);
        }
        let count = values.len();
        self.begin(Reducing { what, me, count, values, announced: None, gone: false });
    }

    /// This rank says something to all before a collective call, and is to hear the least that anybody says:
    /// [`announced`](Self::announced).
    pub(super) fn announce(&mut self, purpose: Purpose, word: u64) {
        if let Some(span) = self.sync.reductions.disagreement {
            return self.announced(Outcome::Mismatch(span));
        }
        self.begin(Reducing {
            what: Reduction::All(Combine::Min, NumberKind::U64),
            me: Attendance { purpose, rank: self.cfg.rank },
            count: 1,
            values: vec![word],
            announced: Some(word),
            gone: false,
        });
    }

    fn begin(&mut self, now: Reducing) {
        let me = now.me;
        // Who comes to a memory barrier instead sends tokens then.
        self.come_with_words();
        self.sync.reductions.now = Some(now);
        if let Some(other) = self.barrier_instead() {
            return self.disagree(join([me; 2], [other; 2]));
        }
        self.go_up();
    }

    /// How a reduction ended: once, when it has.
    pub fn take_reduced(&mut self) -> Option<Outcome> {
        self.sync.reductions.outcome.take()
    }

    /// Whether a reduction has ended, and nobody has asked how.
    pub fn has_reduced(&self) -> bool {
        self.sync.reductions.outcome.is_some()
    }

    /// What the reduction is that this rank is in, if it is in one.
    pub(super) fn reduces(&self) -> Option<Purpose> {
        self.sync.reductions.now.as_ref().map(|now| now.me.purpose)
    }

    fn parent(&self) -> Option<Rank> {
        let me = self.cfg.rank.0;
        (me > 0).then(|| Rank(me & (me - 1)))
    }

    /// In ascending order.
    fn children(&self) -> impl DoubleEndedIterator<Item = Rank> + use<> {
        let (me, size) = (self.cfg.rank.0, self.cfg.size);
        let most = if me == 0 { size.next_power_of_two() } else { me }.trailing_zeros();
        (0..most).map(move |k| Rank(me + (1 << k))).filter(move |child| child.0 < size)
    }

    fn say(&mut self, to: Rank, direction: Direction, span: [Attendance; 2], values: Vec<u64>) {
        let (epoch, number) = (self.interval, self.sync.reductions.passed);
        self.out.push_back(Output::Reduce(to, ReduceMessage { epoch, number, direction, span, values }));
    }

    /// Sends up what this rank and its children have, if all of that is here.
    fn go_up(&mut self) {
        let all = self.children().all(|child| self.sync.reductions.from_children.contains_key(&child));
        let Some(now) = self.sync.reductions.now.as_mut().filter(|now| all && !now.gone) else { return };
        now.gone = true;
        let (mut span, mut values) = ([now.me; 2], std::mem::take(&mut now.values));
        // A map: in the order of their numbers.
        for message in std::mem::take(&mut self.sync.reductions.from_children).into_values() {
            span = join(span, message.span);
            for (a, &b) in values.iter_mut().zip(&message.values) {
                *a = now.what.combine(*a, b);
            }
        }
        if !agree(span) {
            values.clear();
        }
        match self.parent() {
            Some(parent) => self.say(parent, Direction::Up, span, values),
            None => self.go_down(span, values),
        }
    }

    /// The result is known: sends it down.
    fn go_down(&mut self, span: [Attendance; 2], values: Vec<u64>) {
        // Those first that have the longest way before them.
        for child in self.children().rev() {
            self.say(child, Direction::Down, span, values.clone());
        }
        self.sync.reductions.passed += 1;
        let outcome = if agree(span) {
            Outcome::Reduced(values)
        } else {
            self.sync.reductions.disagreement = Some(span);
            Outcome::Mismatch(span)
        };
        self.end_reduction(outcome);
        self.sync.reductions.catch_up();
    }

    /// The reduction is over that this rank is in, if it is in one.
    fn end_reduction(&mut self, outcome: Outcome) {
        match self.sync.reductions.now.take() {
            Some(now) if now.announced.is_some() => self.announced(outcome),
            Some(_) => self.sync.reductions.end(outcome),
            None => {}
        }
    }

    /// A peer's message.
    pub(super) fn reduce_message(&mut self, from: Rank, message: ReduceMessage) -> Result<(), Violation> {
        let lie = |what| Err(Violation { rank: from, what });
        if from.0 >= self.cfg.size || message.span.iter().any(|a| a.rank.0 >= self.cfg.size) {
            return lie("a message of a reduction that names ranks that do not exist");
        }
        if self.sync.reductions.disagreement.is_some() {
            // Said before its sender heard of it. Nothing comes of it any more.
            return Ok(());
        }
        match message.direction {
            Direction::Disagree if self.is_behind(&message) => {
                self.sync.reductions.ahead.get_or_insert(message.span);
            }
            Direction::Disagree => self.break_off(message.span),
            Direction::Up if self.children().any(|child| child == from) => {
                return self.take_up(from, message);
            }
            Direction::Down if self.parent() == Some(from) => {
                let (this, passed) = (self.interval, self.sync.reductions.passed);
                let Some(now) = self.sync.reductions.now.as_ref().filter(|now| now.gone) else {
                    return lie("the result of a reduction that this rank is not in");
                };
                let sound = now.may_come_to(&message.values) || !agree(message.span);
                if (message.epoch, message.number) != (this, passed) || !sound {
                    return lie("the result of another reduction");
                }
                self.go_down(message.span, message.values);
            }
            Direction::Up | Direction::Down => {
                return lie("a message of a reduction from nowhere near in the tree");
            }
        }
        Ok(())
    }

    /// Whether this rank is in a call that the sender has passed: then all have come to it, and what it comes
    /// to is on its way.
    fn is_behind(&self, message: &ReduceMessage) -> bool {
        let reduces = self.sync.reductions.now.is_some();
        match message.epoch.wrapping_sub(self.interval) {
            0 => reduces && message.number > self.sync.reductions.passed || self.is_committing(),
            1 => self.in_memory_barrier(),
            _ => false,
        }
    }

    fn take_up(&mut self, from: Rank, message: ReduceMessage) -> Result<(), Violation> {
        let lie = |what| Err(Violation { rank: from, what });
        let meets = self.in_memory_barrier();
        let known = match message.epoch.wrapping_sub(self.interval) {
            // (If this rank is in a memory barrier, they disagree: somebody will find out by a token.)
            0 => message.number == self.sync.reductions.passed,
            1 => meets && message.number == 0,
            _ => false,
        };
        if !known || self.sync.reductions.from_children.contains_key(&from) {
            return lie("values for a reduction that is over or far away");
        }
        self.sync.reductions.from_children.insert(from, message);
        self.go_up();
        Ok(())
    }

    /// This rank comes to a memory barrier. Returns whether it may: not if it is known that ranks disagree.
    pub(super) fn may_meet(&mut self) -> bool {
        let Some(span) = self.sync.reductions.disagreement else { return true };
        self.break_off(span);
        false
    }

    /// Somebody who came for a memory barrier, while this rank is in a reduction that the other one has not
    /// passed.
    fn barrier_instead(&self) -> Option<Attendance> {
        self.tokens().find_map(|token| self.without_this(token))
    }

    fn without_this(&self, token: &Token) -> Option<Attendance> {
        let this = self.sync.reductions.passed;
        token.span.into_iter().find(|who| who.purpose.reductions() == this)
    }

    /// A token for this rank's next meeting has come.
    pub(super) fn token_in_reduction(&mut self) {
        if let Some(me) = self.sync.reductions.now.as_ref().map(|now| now.me)
            && let Some(other) = self.barrier_instead()
        {
            self.disagree(join([me; 2], [other; 2]));
        }
    }

    /// This rank has found out that ranks came for different things: tells everybody.
    fn disagree(&mut self, span: [Attendance; 2]) {
        if self.sync.reductions.disagreement.is_none() {
            let me = self.cfg.rank;
            for to in (0..self.cfg.size).map(Rank).filter(|&to| to != me) {
                self.say(to, Direction::Disagree, span, Vec::new());
            }
        }
        self.break_off(span);
    }

    /// Nothing can be done any more: ends the call that this rank is in, if it is in one.
    fn break_off(&mut self, span: [Attendance; 2]) {
        let span = *self.sync.reductions.disagreement.get_or_insert(span);
        self.end_reduction(Outcome::Mismatch(span));
        if matches!(self.meetings.phase, Phase::Flushing(_) | Phase::Meeting(_)) {
            self.meetings.phase = Phase::Failed;
            self.out.push_back(Output::Done(Outcome::Mismatch(span)));
        }
    }
}

impl Reducing {
    /// Whether that can be the result. Of all that is announced, the least is.
    fn may_come_to(&self, values: &[u64]) -> bool {
        values.len() == self.count && self.announced.is_none_or(|word| values.iter().all(|&v| v <= word))
    }
}
