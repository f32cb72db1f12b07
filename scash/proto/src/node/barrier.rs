//! The memory barrier.
//!
//! 1. **Flush** (on the way in). Pages written away from home: their diffs go to the home. Home pages with
//!    sharers that were written: what changed goes to the sharers, or a notice does. Only bytes that this
//!    rank wrote ever move here, so a sharer that is still computing (and perhaps writing other bytes of the
//!    same page) is not disturbed: a data-race-free program cannot see them before the barrier.
//! 2. **First meeting**, by [dissemination](super::dissemination): in round k rank r sends a token to rank
//!    r + 2ᵏ and waits for that of rank r − 2ᵏ. After ⌈log₂ n⌉ rounds everyone has come. (So in base 2; a
//!    small job whose ranks share memory has one round, in which all send to all.) Tokens carry who came for
//!    what, whether anybody wrote away from home, first touches, and, routed towards each rank, the number of
//!    items that were sent to it; the meeting is over when these have arrived, too. Where ranks have words
//!    that all see, and none has anything to say, no token is sent: see [`agreement`](super::agreement).
//! 3. If nobody wrote away from home or operated on a word there, and nobody fetched a page of which its home
//!    pushes changes (and no first touch was disputed, no home moves): **done**, after one meeting.
//! 4. Otherwise homes **pass on** the pages that others wrote, whole: everybody is in the barrier now, so
//!    nobody is disturbed. Then a **second meeting**. They also bring the pages that subscribers fetched in
//!    this very interval once more: the fetch may have seen a byte that its home wrote and then wrote back,
//!    which no comparison with a twin finds.
//! 5. Where a first touch was disputed or a home moves, pages come to their homes only now, so nobody may
//!    fetch them before a **third meeting**.
//! 6. A broadcast takes a last meeting of its own: see [`broadcast`](super::broadcast).
//! 7. **End**: leases end, stale copies are taken out of view, written pages are protected again (all by
//!    range) unless they are predicted to be written, subscriptions take effect. If the barrier is a
//!    [checkpoint](super::checkpoint), ranks save what they have now, and hold one more meeting before they
//!    go on.
//!
//! A peer is at most one meeting ahead, so what arrives early is kept in one of two slots, by the parity of
//! the meeting's number.
//!
//! **Invariant:** no rank's work grows with the number of ranks, but for the log₂ of it, and for first
//! touches, which everyone must learn.

use super::arrivals::Slot;
use super::atomics::Operated;
use super::broadcast::Parcels;
use super::collective::purpose;
use super::dissemination::Dissemination;
use super::intervals::After;
use super::{Collective, MeetingStage, Node, Outcome, Output, Phase, Transfer, Violation, runs};
use crate::page::{Access, CachedPage, Hold, Page};
use crate::wire::{Attendance, Control, Notice, Token};
use crate::{Pages, Rank};
use std::collections::BTreeMap;

/// The meeting that this rank is in.
#[derive(Clone, Debug, Default)]
pub(super) struct Meeting {
    /// Step whose token is awaited.
    step: u32,
    /// Items that this rank is to get.
    expected: u64,
    /// A second meeting follows.
    pub(super) away: bool,
    /// Some rank says that the barrier is to be a checkpoint.
    pub(super) due: bool,
    /// Some rank has left the checkpoint out.
    pub(super) left_out: bool,
    span: [Attendance; 2],
    /// Items sent, by receiver; later only those whose tokens pass here.
    pub(super) counts: BTreeMap<Rank, u64>,
    /// This rank has come without words, and waits for all to agree (`agreement`).
    pub(super) without_words: bool,
    /// What this rank still says to each peer before the meeting.
    controls: BTreeMap<Rank, Control>,
    pub(super) notices: Vec<Notice>,
}

impl Meeting {
    /// The next meeting of the same barrier.
    pub(super) fn next(&self) -> Meeting {
        Meeting { span: self.span, ..Meeting::default() }
    }

    /// Notes that items were sent.
    pub(super) fn sent(&mut self, to: Rank, items: u64) {
        *self.counts.entry(to).or_default() += items;
    }

    /// Adds to what is said to a peer. Saying nothing in particular says that what was put is complete.
    pub(super) fn say(&mut self, to: Rank, what: impl FnOnce(&mut Control)) {
        what(self.controls.entry(to).or_default());
    }
}

/// The collective call that this rank is in, and its meetings with all others.
#[derive(Clone, Debug)]
pub(super) struct Meetings {
    pub(super) phase: Phase,
    /// Number of the meeting that this rank is in, or will be in next.
    pub(super) meeting: u32,
    /// The last one to which this rank came with words (`agreement`).
    pub(super) spoken: Option<u32>,
    /// Who sends tokens to whom.
    pub(super) topology: Dissemination,
    /// What has arrived for this meeting and the next one, by parity.
    pub(super) slots: [Slot; 2],
    pub(super) now: Meeting,
    /// What this rank came for.
    pub(super) collective: Collective,
    /// In this barrier pages come to new homes, so that it takes a third meeting.
    settling: bool,
    /// Pages that this rank first touched, and another one that has become their home.
    pub(super) lost: Vec<u32>,
    /// What peers said in the meetings of this barrier, for its end.
    pub(super) kept: Vec<(Rank, Control)>,
    /// What is broadcast.
    pub(super) parcels: Parcels,
}

impl Meetings {
    pub(super) fn new(topology: Dissemination) -> Meetings {
        Meetings {
            phase: Phase::Running,
            meeting: 0,
            spoken: None,
            topology,
            slots: [Slot::new(topology), Slot::new(topology)],
            now: Meeting::default(),
            collective: Collective::Barrier,
            settling: false,
            lost: Vec::new(),
            kept: Vec::new(),
            parcels: Parcels::default(),
        }
    }

    /// Nothing has come from anybody.
    pub(super) fn forget_messages(&mut self) {
        self.slots = [Slot::new(self.topology), Slot::new(self.topology)];
        self.kept.clear();
        self.parcels = Parcels::default();
        self.spoken = None;
    }
}

impl Node {
    /// All threads of this rank are in the barrier.
    pub(super) fn arrive(&mut self, collective: Collective) {
        let free = self.meetings.phase == Phase::Running && self.reduces().is_none();
        assert!(free, "one collective call at a time");
        self.meetings.collective = collective;
        match collective {
            Collective::Destroy { first, count, .. } => self.announce_use(first..first.saturating_add(count)),
            _ => self.come(),
        }
    }

    /// Comes to the memory barrier.
    pub(super) fn come(&mut self) {
        self.meetings.phase = Phase::Flushing(MeetingStage::Flush);
        if self.may_meet() {
            self.flush_when_answered();
        }
    }

    /// Nothing that this rank has asked peers for is on its way any more: it ends its interval, and flushes.
    pub(super) fn begin_flush(&mut self) {
        if self.keeps_back() {
            self.close(After::Barrier);
        } else {
            self.flush();
        }
    }

    /// Orders the flush.
    pub(super) fn flush(&mut self) {
        let collective = self.meetings.collective;
        let mut due = std::mem::take(&mut self.scratch);
        self.table.take_touched(&mut due);
        self.meetings.now = Meeting::default();
        self.announce_signals();
        let purpose = purpose(collective).after(self.sync.reductions.passed());
        let me = Attendance { purpose, rank: self.cfg.rank };
        self.meetings.now.span = [me; 2];
        self.meetings.now.notices = self.take_moves();
        self.doubt_claims(&due);
        self.claims(&due);
        self.report_operations();
        for &page in &due {
            // Stays on the list for the end of the barrier.
            self.table.touch(page);
            self.flush_page(page);
        }
        due.clear();
        self.scratch = due;
        self.push_predicted();
        self.scan_watched();
        self.close_what_is_freed();
        self.out.push_back(Output::Flushed);
    }

    fn flush_page(&mut self, page: u32) {
        match self.table.get(page).page() {
            Page::Home(home) if home.is_dirty() => self.flush_home_page(page),
            Page::Home(home) if home.is_ahead() => self.push(page),
            Page::Copy(copy) => self.flush_copy(page, copy),
            Page::Home(_) | Page::Unclaimed(_) => {}
        }
    }

    fn flush_copy(&mut self, page: u32, copy: CachedPage) {
        let Some(home) = copy.home() else { return };
        if self.keeps_back() {
            // What was written is at home already.
            if copy.is_reported() {
                self.meetings.now.away = true;
                self.meetings.now.sent(home, 1);
                self.out.push_back(Output::Report { page, to: home });
            }
        } else if copy.is_dirty() {
            self.out.push_back(Output::Diff { page, to: home, force: copy.is_reported() });
        }
        if copy.hold() == Hold::GivenUp {
            self.table.change_copy(page, CachedPage::leave_given_up);
            self.meetings.now.say(home, |c| Pages::append(&mut c.leave, page));
            return;
        }
        if copy.is_fresh() {
            // Its home brings it again, which takes a second meeting.
            self.meetings.now.away = true;
            self.meetings.now.say(home, |c| Pages::append(&mut c.fresh, page));
        }
        if copy.is_wanted() {
            let mode = self.wanted_mode(page, copy);
            self.meetings.now.say(home, |c| match c.subscribe.last_mut() {
                Some((run, m)) if run.end() == page && *m == mode => run.count += 1,
                _ => c.subscribe.push((Pages::one(page), mode)),
            });
        }
    }

    /// The result of a comparison that the flush ordered.
    pub(super) fn compared(&mut self, page: u32, changed: bool, by: Transfer) {
        if let Some(home) = self.table.at_home(page) {
            self.pushed(page, home, changed, by);
            return;
        }
        let Some(mut copy) = self.table.cached(page) else { return };
        self.counters.predicted += u64::from(changed && (copy.is_ahead() || copy.is_predicted()));
        let written = changed || copy.is_reported();
        copy.compared(written, self.predicts_writes(page));
        self.table.put(page, copy);
        if let Some(home) = self.home(page).filter(|_| written) {
            self.wrote(page);
            self.counters.diffs += 1;
            self.meetings.now.away = true;
            self.meetings.now.sent(home, 1);
        }
    }

    /// The flush is done: says what is to be said, and opens the meeting.
    pub(super) fn flushed(&mut self) -> Result<(), Violation> {
        let Phase::Flushing(part) = self.meetings.phase else { return Ok(()) };
        self.meetings.phase = Phase::Meeting(part);
        // From its first token on, what a rank says of this must not change.
        self.meetings.now.due = part == MeetingStage::Flush && self.wants_checkpoint();
        for (to, control) in std::mem::take(&mut self.meetings.now.controls) {
            self.meetings.now.sent(to, 1);
            self.out.push_back(Output::Control(to, self.meetings.meeting, control));
        }
        self.meetings.now.step = 0;
        self.meetings.now.expected = 0;
        if part == MeetingStage::Flush && self.comes_without_words() {
            return Ok(());
        }
        self.meet_by_tokens()
    }

    /// Begins the meeting by messages.
    pub(super) fn meet_by_tokens(&mut self) -> Result<(), Violation> {
        self.send_tokens();
        self.advance()
    }

    /// Sends the tokens of the round that begins now, if one does.
    fn send_tokens(&mut self) {
        for step in self.meetings.topology.round(self.meetings.now.step) {
            let Some(distance) = self.meetings.topology.distance(step) else { break };
            self.send_token(step, distance);
        }
    }

    /// One step: everything whose way leads over the rank at this distance, and all that this rank has learnt
    /// and that one cannot know.
    fn send_token(&mut self, step: u32, distance: u32) {
        let (topology, me) = (self.meetings.topology, self.cfg.rank);
        let mut counts = Vec::new();
        self.meetings.now.counts.retain(|&to, n| {
            let goes = topology.leads(step, me, to);
            if goes {
                counts.push((to, *n));
            }
            !goes
        });
        let notices = self.meetings.now.notices.iter();
        let notices = notices.filter(|n| topology.tells(distance, n.origin, me)).copied().collect();
        let token = Token {
            meeting: self.meetings.meeting,
            step: u8::try_from(step).unwrap_or(u8::MAX),
            away: self.meetings.now.away,
            due: self.meetings.now.due,
            left_out: self.meetings.now.left_out,
            span: self.meetings.now.span,
            counts,
            notices,
        };
        self.out.push_back(Output::Token(Rank((me.0 + distance) % self.cfg.size), token));
    }

    /// What has arrived of this rank's next meeting, if it is in none.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.meetings.slots[(self.meetings.meeting % 2) as usize].tokens.iter().flatten()
    }

    pub(super) fn slot(&mut self) -> &mut Slot {
        &mut self.meetings.slots[(self.meetings.meeting % 2) as usize]
    }

    /// Something has arrived that was counted.
    pub(super) fn item_arrives(&mut self) {
        self.slot().items += 1;
    }

    /// Goes as far as what has arrived allows.
    pub(super) fn advance(&mut self) -> Result<(), Violation> {
        let Phase::Meeting(part) = self.meetings.phase else { return Ok(()) };
        if self.meetings.now.without_words {
            return Ok(());
        }
        while self.meetings.topology.distance(self.meetings.now.step).is_some() {
            let step = self.meetings.now.step as usize;
            let Some(token) = self.slot().tokens[step].take() else { return Ok(()) };
            self.absorb(token);
            self.meetings.now.step += 1;
            self.send_tokens();
        }
        let (have, want) = (self.slot().items, self.meetings.now.expected);
        if have > want {
            return Err(Violation { rank: self.cfg.rank, what: "more items came than were announced" });
        }
        if have == want && self.parcels_complete() {
            self.met(part);
        }
        Ok(())
    }

    fn absorb(&mut self, token: Token) {
        let now = &mut self.meetings.now;
        now.away |= token.away;
        now.due |= token.due;
        now.left_out |= token.left_out;
        now.span[0] = now.span[0].min(token.span[0]);
        now.span[1] = now.span[1].max(token.span[1]);
        now.notices.extend(token.notices);
        for (to, n) in token.counts {
            if to == self.cfg.rank {
                now.expected = now.expected.saturating_add(n);
            } else {
                let sum = now.counts.entry(to).or_default();
                *sum = sum.saturating_add(n);
            }
        }
    }

    /// Everybody has come, and everything for this rank has arrived.
    pub(super) fn met(&mut self, part: MeetingStage) {
        let span = self.meetings.now.span;
        if span[0].purpose != span[1].purpose {
            self.meetings.phase = Phase::Failed;
            self.out.push_back(Output::Done(Outcome::Mismatch(span)));
            return;
        }
        match part {
            MeetingStage::Flush => self.met_first(),
            MeetingStage::PassOn if self.meetings.settling => self.next_part(MeetingStage::Settle),
            MeetingStage::PassOn | MeetingStage::Settle if self.is_broadcast() => {
                self.next_part(MeetingStage::Close)
            }
            MeetingStage::PassOn | MeetingStage::Settle | MeetingStage::Close => self.end(),
            MeetingStage::Commit => self.commit(),
        }
    }

    /// Whether pages are to be brought to ranks that do not have them.
    fn is_broadcast(&self) -> bool {
        matches!(self.meetings.collective, Collective::Broadcast(_)) && !self.shares_frames()
    }

    /// The first meeting is over: passes on what others wrote here, or ends the barrier.
    fn met_first(&mut self) {
        let notices = std::mem::take(&mut self.meetings.now.notices);
        let away = self.meetings.now.away;
        self.agree_on_checkpoint(self.meetings.now.due);
        let mut merged = std::mem::take(&mut self.slot().merged);
        let (fresh, operated) = (self.slot().fresh(), self.slot().operated());
        self.note_first_touches(&notices);
        self.meetings.settling = self.settle(&notices);
        let operated = self.operated_here(&operated);
        self.note_operated(&operated);
        merged.extend(operated);
        merged.sort_unstable();
        if !(away || self.meetings.settling || self.is_broadcast()) {
            self.end();
            return;
        }
        self.counters.second_meetings += 1;
        self.meetings.now = self.meetings.now.next();
        // First: a page that moves has no sharers any more, and nothing of it is to be passed on.
        self.hand_over(&notices);
        let unseen = self.push_deferred(&merged);
        self.follow_writers(&merged);
        self.pass_on(&merged, &unseen);
        self.bring_again(&fresh);
        for page in std::mem::take(&mut self.meetings.lost) {
            if let Some(to) = self.home(page) {
                self.out.push_back(Output::DiffZero { page, to });
            }
        }
        self.send_writes();
        self.next_part(MeetingStage::PassOn);
    }

    /// Leaves a meeting for the orders that come before the next one.
    fn next_part(&mut self, part: MeetingStage) {
        self.close_slot();
        self.meetings.phase = Phase::Flushing(part);
        // Pages that come to new homes must be there before they are broadcast.
        let last = if self.meetings.settling { MeetingStage::Settle } else { MeetingStage::PassOn };
        if part == last {
            self.begin_broadcast();
        }
        self.counters.third_meetings +=
            u64::from(part == MeetingStage::Settle || part == MeetingStage::Close && !self.meetings.settling);
        self.out.push_back(Output::Flushed);
    }

    /// Leaves a meeting, keeping what peers said in it for the end of the barrier.
    pub(super) fn close_slot(&mut self) {
        let slot = &mut self.meetings.slots[(self.meetings.meeting % 2) as usize];
        slot.items = 0;
        slot.merged.clear();
        self.meetings.kept.append(&mut slot.controls);
        self.meetings.meeting = self.meetings.meeting.wrapping_add(1);
    }

    /// The end of the barrier: copies that are not good any more go out of view, what was written is
    /// protected again, and the next interval begins.
    fn end(&mut self) {
        self.close_slot();
        self.compare_writes();
        self.end_tracking_for_leases();
        let controls = std::mem::take(&mut self.meetings.kept);
        let interval = self.interval;
        for (_, control) in &controls {
            for page in control.stale.iter().flat_map(|p| p.iter()) {
                if self.table.change_copy(page, |copy| copy.home_wrote(interval)).is_some() {
                    self.table.touch(page);
                }
            }
        }
        let mut due = std::mem::take(&mut self.scratch);
        self.table.take_touched(&mut due);
        let (mut unmap, mut protect) = (Vec::new(), Vec::new());
        for &page in &due {
            self.end_page(page, &mut unmap, &mut protect);
        }
        due.clear();
        self.scratch = due;
        self.end_intervals();
        self.sync.operated = Operated::default();
        self.sync.reductions.barrier();
        for (rank, control) in controls {
            self.change_sharers(rank, &control, &mut protect);
            self.look_whether_read(&control.ask, &mut unmap);
        }
        self.bring_no_more();
        self.drop_idle_predictions(&mut protect);
        self.review_watched(&mut protect);
        self.watch_runs(&mut protect);
        unmap.sort_unstable();
        self.dismiss(&unmap);
        // The last sharer of a page may have left after the page was put on the list.
        protect.retain(|&page| self.table.get(page).access() == Access::Read);
        protect.sort_unstable();
        runs(&protect, |p| self.out.push_back(Output::Protect(p, Access::Read)));
        self.end_broadcast();
        self.forget_messages();
        self.interval = self.interval.wrapping_add(1);
        self.counters.barriers += 1;
        self.counters.avoided += self.homes.untracked();
        self.meetings.phase = Phase::Running;
        let outcome = self.conclude();
        if self.is_checkpoint() {
            self.stage(outcome);
        } else {
            self.leave_call(outcome);
        }
    }

    /// This rank leaves the call: its threads go on, and what came early is taken.
    pub(super) fn leave_call(&mut self, outcome: Outcome) {
        self.meetings.phase = Phase::Running;
        self.take_early_later();
        self.out.push_back(Output::Done(outcome));
    }

    /// What the end of the barrier means for one page that had faults.
    fn end_page(&mut self, page: u32, unmap: &mut Vec<u32>, protect: &mut Vec<u32>) {
        let mut state = self.table.get(page).page();
        let ended = state.end_interval();
        self.table.put(page, state);
        if ended.drop_twin {
            self.out.push_back(Output::DropTwin(page));
        }
        if ended.renew_twin {
            self.make_twin(page);
            self.table.touch(page);
        }
        let home = matches!(state, Page::Home(_));
        if ended.unmap {
            unmap.push(page);
            self.counters.invalidated += u64::from(!home);
        } else if ended.gone && !home && self.cache.is_limited() {
            // Its home may have brought something to a frame that had been given back.
            unmap.push(page);
        }
        if ended.protect {
            protect.push(page);
            if !home {
                self.hold(page, false);
            }
        }
        if let Some(new) = ended.subscribed {
            self.counters.subscribed += u64::from(new);
        }
    }

    /// Subscriptions and departures of one rank.
    fn change_sharers(&mut self, rank: Rank, control: &Control, protect: &mut Vec<u32>) {
        for page in control.leave.iter().flat_map(|p| p.iter()) {
            self.remove_sharer(page, rank);
        }
        for &(pages, mode) in &control.subscribe {
            for page in pages.iter() {
                if self.is_home(page) && self.add_sharer(page, rank, mode) {
                    protect.push(page);
                }
            }
        }
    }
}
