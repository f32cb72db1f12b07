//! Pages whose home is this rank.

use super::word::{Word, flag as common};
use super::{Access, BarrierEnd};
use crate::copyset::CopyMode;

/// Barriers in which a tracked page was found written, until it is predicted to be.
const PREDICT_AFTER: u64 = 2;
/// Barriers in a row in which a predicted page was found unwritten, until it is tracked by faults again.
const GIVE_UP_AFTER: u64 = 8;

/// Facts of homes.
pub(super) mod flag {
    /// First touched here in this interval.
    pub(in crate::page) const CLAIMED: u64 = 1 << 32;
    /// Writes are noticed without faults.
    pub(in crate::page) const WATCHED: u64 = 1 << 33;
    /// In this barrier its changes went to sharers by message, though others go by put.
    pub(in crate::page) const MESSAGED: u64 = 1 << 34;
    /// The same, in the barrier before.
    pub(in crate::page) const MESSAGED_BEFORE: u64 = 1 << 35;
    /// Opened along with a page before it that was written: only its twin tells whether it was, or its bytes
    /// if it is first touched.
    pub(in crate::page) const AHEAD: u64 = 1 << 36;
}

const TRACKING_SHIFT: u32 = 40;
const BROUGHT_SHIFT: u32 = 42;
const BROUGHT: u64 = 0x7f;
const TRUST_SHIFT: u32 = 49;
const SCORE_SHIFT: u32 = 56;
const PATIENCE_SHIFT: u32 = 60;

/// Whether writes must be noticed, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tracking {
    /// Nobody has copies.
    No,
    /// Sharers are told that the page was written.
    Told,
    /// Some sharer gets updates: a write needs a twin.
    Updated,
    /// The same, and the page stays writable over barriers, and is compared with its twin in each.
    Predicted,
}

/// What the end of all sharing asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untracked {
    /// The twin is of no use.
    pub(crate) drop_twin: bool,
    /// The page was protected, and is writable now.
    pub(crate) open: bool,
    /// It is one more of those that are writable and not tracked.
    pub(crate) free: bool,
}

/// What a new sharer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    /// It is one less of those that are writable and not tracked.
    pub(crate) was_free: bool,
    /// The page is protected now.
    pub(crate) protect: bool,
}

/// A page whose home is this rank.
#[derive(Clone, Copy)]
pub(crate) struct HomePage(pub(super) Word);

impl HomePage {
    pub(super) fn describe(self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ", home, tracking {:?}", self.tracking())?;
        let names = [
            (flag::CLAIMED, "claimed"),
            (flag::WATCHED, "watched"),
            (flag::MESSAGED, "messaged"),
            (flag::MESSAGED_BEFORE, "messaged before"),
            (flag::AHEAD, "ahead"),
        ];
        self.0.name(f, &names)?;
        write!(f, ", score {}, patience {}", self.score(), self.patience())
    }

    pub(crate) fn tracking(self) -> Tracking {
        match self.0.field(TRACKING_SHIFT, 0b11) {
            0 => Tracking::No,
            1 => Tracking::Told,
            2 => Tracking::Updated,
            _ => Tracking::Predicted,
        }
    }

    fn set_tracking(&mut self, tracking: Tracking) {
        self.0.set_field(TRACKING_SHIFT, 0b11, tracking as u64);
    }

    /// Whether some other rank is in the copyset, so that writes must be noticed.
    pub(crate) fn is_tracked(self) -> bool {
        self.tracking() > Tracking::No
    }

    /// Whether writes need a twin, because some sharer gets updates.
    pub(crate) fn is_twinned(self) -> bool {
        self.tracking() >= Tracking::Updated
    }

    pub(crate) fn is_predicted(self) -> bool {
        self.tracking() == Tracking::Predicted
    }

    /// Whether writes are noticed without faults.
    pub(crate) fn is_watched(self) -> bool {
        self.0.has(flag::WATCHED)
    }

    /// Whether it was first touched here in this interval.
    pub(crate) fn is_claimed(self) -> bool {
        self.0.has(flag::CLAIMED)
    }

    /// Whether it was opened in this interval along with a page before it that was touched first, and that is
    /// all that speaks for its being touched, too.
    pub(crate) fn is_claimed_ahead(self) -> bool {
        self.is_claimed() && self.is_ahead()
    }

    /// It is known to be touched.
    pub(crate) fn prove(&mut self) {
        self.0.clear(flag::AHEAD);
    }

    /// Writable without anybody being told: nobody has copies. (Not what is left here of a copy of a page
    /// that moves here in this barrier.)
    pub(crate) fn is_free(self) -> bool {
        self.access() == Access::Write && !self.is_tracked() && !self.0.has(common::STALE)
    }

    /// While it is not predicted: barriers in which it was found written.
    fn score(self) -> u64 {
        self.0.field(SCORE_SHIFT, 0xf)
    }

    fn set_score(&mut self, score: u64) {
        self.0.set_field(SCORE_SHIFT, 0xf, score.min(15));
    }

    /// If it is predicted: barriers in a row in which it was found unwritten. Otherwise: times that it is
    /// still to stay writable at the end of an interval.
    fn patience(self) -> u64 {
        self.0.field(PATIENCE_SHIFT, 0xf)
    }

    fn set_patience(&mut self, patience: u64) {
        self.0.set_field(PATIENCE_SHIFT, 0xf, patience.min(15));
    }

    /// Its changes are brought to sharers once more. Returns how often they were since they were last known
    /// to be read, or since that was last asked.
    pub(crate) fn brought(&mut self) -> u64 {
        let times = (self.0.field(BROUGHT_SHIFT, BROUGHT) + 1).min(BROUGHT);
        self.0.set_field(BROUGHT_SHIFT, BROUGHT, times);
        times
    }

    /// It begins anew to count how often its changes are brought.
    pub(crate) fn forget_brought(&mut self) {
        self.0.set_field(BROUGHT_SHIFT, BROUGHT, 0);
    }

    /// How often in a row all sharers were found to read what they are brought, at most 7.
    pub(crate) fn trust(self) -> u64 {
        self.0.field(TRUST_SHIFT, 0b111)
    }

    /// All sharers were found to, or not.
    pub(crate) fn found_read(&mut self, by_all: bool) {
        let trust = if by_all { (self.trust() + 1).min(0b111) } else { 0 };
        self.0.set_field(TRUST_SHIFT, 0b111, trust);
        self.forget_brought();
    }

    /// Used here, while nobody has copies.
    pub(crate) fn open(&mut self) {
        self.0.set_access(Access::Write);
    }

    /// Used here, while others have copies.
    pub(crate) fn read(&mut self) {
        self.0.set_access(Access::Read);
    }

    /// Whether a write needs a twin that is not there.
    pub(crate) fn lacks_twin(self) -> bool {
        self.is_twinned() && !self.has_twin()
    }

    /// A write is noticed by its fault. `renewals`: how often a page that is written in interval after
    /// interval stays writable at their ends.
    pub(crate) fn write(&mut self, renewals: u64) {
        if self.is_twinned() {
            self.0.set(common::TWIN);
        }
        // Written again since the last barrier, so an interval has ended in between.
        if self.is_dirty() {
            self.set_patience(renewals);
        }
        self.0.set(common::DIRTY);
        self.0.set_access(Access::Write);
    }

    /// Whether it may become writable along with a page before it.
    pub(crate) fn can_open_ahead(self) -> bool {
        self.access() == Access::Read && self.is_twinned()
    }

    /// It becomes writable along with a page before it.
    pub(crate) fn write_ahead(&mut self) {
        self.0.set(common::TWIN | flag::AHEAD);
        self.0.set_access(Access::Write);
    }

    /// Whether it did so in this interval.
    pub(crate) fn is_ahead(self) -> bool {
        self.0.has(flag::AHEAD)
    }

    /// A write is noticed without a fault.
    pub(crate) fn noticed(&mut self) {
        self.0.set(common::DIRTY);
    }

    /// An interval ends. Returns whether the page is protected for the next one.
    pub(crate) fn close(&mut self) -> bool {
        match self.patience().checked_sub(1) {
            Some(left) => self.set_patience(left),
            None => self.0.set_access(Access::Read),
        }
        self.access() == Access::Read
    }

    /// A barrier finds it written, with a twin. Returns whether it is predicted to be from now on.
    pub(crate) fn found_written(&mut self, predict: bool) -> bool {
        self.set_score(self.score() + 1);
        let now = predict && self.score() >= PREDICT_AFTER && !self.is_predicted();
        if now {
            self.set_tracking(Tracking::Predicted);
            self.set_patience(0);
        }
        now
    }

    /// A barrier has compared a predicted page with its twin.
    pub(crate) fn compared(&mut self, changed: bool) {
        self.set_patience(if changed { 0 } else { self.patience() + 1 });
    }

    /// Whether the prediction has not come true for long.
    pub(crate) fn is_idle(self) -> bool {
        self.patience() >= GIVE_UP_AFTER
    }

    /// It is tracked by faults again, and protected. Its twin is to be dropped.
    pub(crate) fn end_prediction(&mut self) {
        self.set_tracking(Tracking::Updated);
        self.0.clear(common::TWIN);
        self.set_score(0);
        self.0.set_access(Access::Read);
    }

    /// Somebody has a copy.
    pub(crate) fn track(&mut self, mode: CopyMode) -> Tracked {
        let was_free = self.is_free();
        // A watched page's writes are noticed without a fault.
        let protect = was_free && !self.is_watched();
        if protect {
            self.0.set_access(Access::Read);
        }
        if !self.is_tracked() {
            self.set_score(0);
            self.found_read(false);
        }
        let least = if mode == CopyMode::Update { Tracking::Updated } else { Tracking::Told };
        self.set_tracking(self.tracking().max(least));
        Tracked { was_free, protect }
    }

    /// Nobody has copies any more: what is written here is the home's own affair.
    pub(crate) fn untrack(&mut self) -> Untracked {
        let (drop_twin, open) = (self.has_twin(), self.access() == Access::Read);
        if open {
            self.0.set_access(Access::Write);
        }
        let free = self.is_tracked() && self.access() == Access::Write;
        self.set_tracking(Tracking::No);
        self.0.clear(common::TWIN | common::DIRTY | flag::AHEAD);
        Untracked { drop_twin, open, free }
    }

    /// Its writes are noticed without faults from now on.
    pub(crate) fn watch(&mut self) {
        self.0.set(flag::WATCHED);
        self.0.set_access(Access::Write);
    }

    /// They are not any more. Returns whether the page is protected now.
    pub(crate) fn unwatch(&mut self) -> bool {
        self.0.clear(flag::WATCHED);
        if self.is_tracked() {
            self.0.set_access(Access::Read);
        }
        self.is_tracked()
    }

    /// Its changes went to sharers by message.
    pub(crate) fn messaged(&mut self) {
        self.0.set(flag::MESSAGED);
    }

    /// Whether they did so in the barrier before.
    pub(crate) fn was_messaged(self) -> bool {
        self.0.has(flag::MESSAGED_BEFORE)
    }

    /// A barrier ends. Returns whether its changes went by message in it.
    pub(crate) fn forget_message(&mut self) -> bool {
        let now = self.0.has(flag::MESSAGED);
        self.0.clear(flag::MESSAGED | flag::MESSAGED_BEFORE);
        if now {
            self.0.set(flag::MESSAGED_BEFORE);
        }
        now
    }

    /// The barrier ends: what was written is protected again, and what had been a copy of a page that moved
    /// here goes out of view.
    #[inline]
    pub(crate) fn end_interval(&mut self) -> BarrierEnd {
        let mut ended =
            BarrierEnd { drop_twin: self.has_twin() && !self.is_predicted(), ..BarrierEnd::default() };
        if ended.drop_twin {
            self.0.clear(common::TWIN);
        }
        if self.0.has(common::STALE) {
            ended.unmap = self.access() != Access::None;
            self.0.set_access(Access::None);
        } else if self.access() == Access::Write
            && self.is_tracked()
            && !self.is_predicted()
            && !self.is_watched()
        {
            self.0.set_access(Access::Read);
            ended.protect = true;
        }
        self.0.clear(common::DIRTY | common::STALE | flag::CLAIMED | flag::AHEAD);
        ended
    }
}
