//! Pages whose home is another rank.

use super::word::{Word, flag as common};
use super::{Access, BarrierEnd};
use crate::copyset::CopyMode;

/// Facts of copies.
pub(super) mod flag {
    /// With [`CHANGED`]: stays writable at the end of the barrier, and has a twin: it is written in every
    /// interval. Without: it did so, and was not written then.
    pub(in crate::page) const PREDICTED: u64 = 1 << 31;
    /// Its home has asked whether it is read.
    pub(in crate::page) const ASKED: u64 = 1 << 36;
    /// The home is told at the next barrier how this copy is to be kept: a lease becomes a subscription, a
    /// subscription gets another mode.
    pub(in crate::page) const WANTED: u64 = 1 << 37;
    /// Written back early in this interval: the barrier must tell its home even if nothing more changed.
    pub(in crate::page) const REPORTED: u64 = 1 << 38;
    /// A subscribed page that was fetched in this interval, in which its home may have been writing it.
    pub(in crate::page) const FRESH: u64 = 1 << 39;
    /// Made writable without having been written, since pages before it were.
    pub(in crate::page) const AHEAD: u64 = 1 << 40;
    /// Found unchanged when it was last brought home: to be protected if it is again.
    pub(in crate::page) const QUIET: u64 = 1 << 41;
    /// An acquire has ended this copy, or that it is to be read from home, and it was not fetched since.
    pub(in crate::page) const ENDED: u64 = 1 << 42;
    /// The number of the last fetch's interval is there.
    pub(in crate::page) const FETCHED: u64 = 1 << 43;
    /// From a record on that this rank has applied, those of the home name the page if it has written it.
    pub(in crate::page) const EXACT: u64 = 1 << 44;
    /// Held, or wanted, in update mode: its home brings what it writes.
    pub(in crate::page) const UPDATED: u64 = 1 << 54;
    /// Had changed when it was compared with its twin the last time.
    pub(in crate::page) const CHANGED: u64 = 1 << 55;
    /// Its home told that it was written, and it was not fetched since.
    pub(in crate::page) const TOLD: u64 = 1 << 60;
}

const HOLD_SHIFT: u32 = 32;
const VIEW_SHIFT: u32 = 34;
const VAIN_SHIFT: u32 = 45;
const FETCHED_SHIFT: u32 = 48;
/// Of the number of the last fetch's interval, so many bits are kept.
const FETCHED: u64 = 0x3f;
const RENEWALS_SHIFT: u32 = 56;
const DOUBT_SHIFT: u32 = 61;
const MOST_DOUBT: u64 = 0b111;
/// What a copy that was brought up to date in vain adds to its doubt. With so much it is not brought again.
pub(crate) const VAIN_DOUBT: u64 = 4;

/// In place of a number of renewals in vain: the home was asked to track the page.
const TRACKED: u64 = 0b111;

pub(super) const NAMES: [(u64, &str); 13] = [
    (flag::ASKED, "asked"),
    (flag::WANTED, "wanted"),
    (flag::REPORTED, "reported"),
    (flag::FRESH, "fresh"),
    (flag::AHEAD, "ahead"),
    (flag::QUIET, "quiet"),
    (flag::ENDED, "ended"),
    (flag::FETCHED, "fetched"),
    (flag::EXACT, "exact"),
    (flag::PREDICTED, "predicted"),
    (flag::UPDATED, "updated"),
    (flag::CHANGED, "changed"),
    (flag::TOLD, "told"),
];

/// By what right this rank has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It has none.
    Nothing = 0,
    /// Valid in this interval only: its home does not know of it.
    Lease = 1,
    /// The home has this rank in the page's copyset.
    Subscription = 2,
    /// The same, but the frame was given back: this rank leaves at the next barrier.
    GivenUp = 3,
}

/// Why a copy that is held is not in view, if it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Its access says all.
    Plain = 0,
    /// Valid, but taken out of the view to see whether it is read.
    Hidden = 1,
    /// Older than an acquire: to be fetched again, unless its home brings it at a barrier.
    Outdated = 2,
}

/// What is left to be done about a copy that an acquire ends, or that is given up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gone {
    /// It was in view.
    pub(crate) mapped: bool,
    /// It had a twin.
    pub(crate) twin: bool,
    /// What was written in it goes home.
    pub(crate) dirty: bool,
}

pub(super) fn hold(word: Word) -> Hold {
    match word.field(HOLD_SHIFT, 0b11) {
        0 => Hold::Nothing,
        1 => Hold::Lease,
        2 => Hold::Subscription,
        _ => Hold::GivenUp,
    }
}

pub(super) fn set_hold(word: &mut Word, hold: Hold) {
    word.set_field(HOLD_SHIFT, 0b11, hold as u64);
}

fn set_view(word: &mut Word, view: View) {
    word.set_field(VIEW_SHIFT, 0b11, view as u64);
}

/// What was known of a copy's contents is gone.
fn take_away(word: &mut Word) -> Gone {
    let gone = Gone {
        mapped: word.access() != Access::None,
        twin: word.has_twin(),
        dirty: word.has_twin() && word.is_dirty(),
    };
    word.set_access(Access::None);
    set_view(word, View::Plain);
    word.clear(common::DIRTY | common::TWIN | flag::AHEAD | flag::QUIET);
    if hold(*word) == Hold::Lease {
        set_hold(word, Hold::Nothing);
        word.clear(flag::WANTED);
    }
    gone
}

/// An acquire ends what was read, or that it is to be read from home.
pub(super) fn end(word: &mut Word) -> Gone {
    let gone = take_away(word);
    word.set(flag::ENDED);
    gone
}

/// The frame is given back.
pub(super) fn evict(word: &mut Word) -> Gone {
    let gone = take_away(word);
    word.set_field(RENEWALS_SHIFT, 0xf, 0);
    word.clear(flag::ENDED | flag::WANTED);
    gone
}

/// A page whose home is another rank, whether or not there is a copy here.
#[derive(Clone, Copy)]
pub(crate) struct CachedPage(pub(super) Word);

impl CachedPage {
    pub(super) fn describe(self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ", cached, held by {:?}, view {:?}", self.hold(), self.view())?;
        self.0.name(f, &NAMES)?;
        if self.0.has(flag::FETCHED) {
            write!(f, " in {}", self.0.field(FETCHED_SHIFT, FETCHED))?;
        }
        write!(f, ", renewals {}, doubt {}", self.renewals(), self.doubt())
    }

    pub(crate) fn hold(self) -> Hold {
        hold(self.0)
    }

    fn set_hold(&mut self, hold: Hold) {
        set_hold(&mut self.0, hold);
    }

    pub(crate) fn view(self) -> View {
        match self.0.field(VIEW_SHIFT, 0b11) {
            0 => View::Plain,
            1 => View::Hidden,
            _ => View::Outdated,
        }
    }

    fn set_view(&mut self, view: View) {
        set_view(&mut self.0, view);
    }

    pub(crate) fn is_leased(self) -> bool {
        self.hold() == Hold::Lease
    }

    /// Whether any record of its home ends it, whatever pages that names.
    pub(crate) fn ends_with_any_record(self) -> bool {
        self.is_leased() && !self.0.has(flag::EXACT)
    }

    /// Whether the home has this rank in the page's copyset.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self.hold(), Hold::Subscription | Hold::GivenUp)
    }

    pub(crate) fn is_hidden(self) -> bool {
        self.view() == View::Hidden
    }

    pub(crate) fn is_wanted(self) -> bool {
        self.0.has(flag::WANTED)
    }

    pub(crate) fn is_reported(self) -> bool {
        self.0.has(flag::REPORTED)
    }

    pub(crate) fn is_fresh(self) -> bool {
        self.0.has(flag::FRESH)
    }

    pub(crate) fn is_ahead(self) -> bool {
        self.0.has(flag::AHEAD)
    }

    pub(crate) fn is_predicted(self) -> bool {
        self.0.has(flag::PREDICTED) && self.0.has(flag::CHANGED)
    }

    /// Whether it had changed when it was compared the last time.
    pub(crate) fn has_changed(self) -> bool {
        self.0.has(flag::CHANGED)
    }

    /// The same; or the time before, if it was writable the last time by a prediction only.
    pub(crate) fn was_written(self) -> bool {
        self.has_changed() || self.0.has(flag::PREDICTED)
    }

    /// Whether it is held, or wanted, in update mode.
    pub(crate) fn is_updated(self) -> bool {
        self.0.has(flag::UPDATED)
    }

    /// How many intervals ago it was last fetched, or its home told that it was written (mod 64).
    pub(crate) fn last_fetched(self, interval: u32) -> Option<u64> {
        let then = self.0.field(FETCHED_SHIFT, FETCHED);
        self.0.has(flag::FETCHED).then_some(u64::from(interval).wrapping_sub(then) & FETCHED)
    }

    /// Times that it is still to be renewed by acquires rather than ended.
    fn renewals(self) -> u64 {
        self.0.field(RENEWALS_SHIFT, 0xf)
    }

    /// How many intervals ago its home told that it was written (mod 64), if it was not fetched since.
    pub(crate) fn told(self, interval: u32) -> Option<u64> {
        self.last_fetched(interval).filter(|_| self.0.has(flag::TOLD))
    }

    /// The doubt whether it is worth being brought up to date: [`VAIN_DOUBT`] more each time that it was so
    /// in vain, 1 less each time that it was fetched soon after its home had written it. None once it is read
    /// when its home has asked.
    pub(crate) fn doubt(self) -> u64 {
        self.0.field(DOUBT_SHIFT, MOST_DOUBT)
    }

    pub(super) fn set_doubt(&mut self, doubt: u64) {
        self.0.set_field(DOUBT_SHIFT, MOST_DOUBT, doubt.min(MOST_DOUBT));
    }

    /// It is fetched soon after its home told that it was written. (One that had been brought until then was
    /// told of late.)
    pub(crate) fn fetched_soon(&mut self) {
        if !self.is_updated() {
            self.set_doubt(self.doubt().saturating_sub(1));
        }
    }

    /// It was fetched. `renewals`: how often it is renewed by acquires, if one had ended it. `wanted`: a
    /// lease is worth a subscription, in this mode.
    pub(crate) fn fetched(&mut self, interval: u32, renewals: u64, wanted: Option<CopyMode>) {
        if self.0.has(flag::ENDED) {
            self.0.set_field(RENEWALS_SHIFT, 0xf, renewals.min(15));
        }
        self.0.clear(common::FETCHING | flag::ENDED);
        self.set_view(View::Plain);
        self.0.set_access(Access::Read);
        if !self.is_shared() {
            self.set_hold(Hold::Lease);
            self.0.clear(flag::TOLD | flag::UPDATED);
            if wanted.is_some() {
                self.0.set(flag::WANTED);
            }
            if wanted == Some(CopyMode::Update) {
                self.0.set(flag::UPDATED);
            } else {
                // Whether it is only read is seen anew.
                self.0.clear(flag::PREDICTED | flag::CHANGED);
            }
        }
        self.answer();
        self.note_interval(interval);
    }

    fn note_interval(&mut self, interval: u32) {
        self.0.set(flag::FETCHED);
        self.0.set_field(FETCHED_SHIFT, FETCHED, u64::from(interval));
    }

    /// It was read from its home, which may have been writing it and brings its changes: the home is to bring
    /// it again.
    pub(crate) fn freshen(&mut self) {
        self.0.set(flag::FRESH);
    }

    /// It is broadcast, and readable until the next barrier at least.
    pub(crate) fn broadcast(&mut self) {
        self.0.set_access(Access::Read);
        self.set_view(View::Plain);
        if !self.is_shared() {
            self.set_hold(Hold::Lease);
        }
    }

    /// Whether its home has asked whether it is read, and is to be told.
    pub(crate) fn is_asked(self) -> bool {
        self.0.has(flag::ASKED)
    }

    /// Its home asks whether it is read. Returns whether it was in view, and is out of it to see that. What
    /// is written here shows by itself that it is used.
    pub(crate) fn ask(&mut self) -> bool {
        if self.hold() != Hold::Subscription || self.access() == Access::Write {
            return false;
        }
        self.0.set(flag::ASKED);
        let was_in_view = self.access() == Access::Read;
        if was_in_view {
            self.hide();
        }
        was_in_view
    }

    /// It is used: if its home has asked, it is told so at the next barrier, as if it began. Returns whether
    /// it is.
    fn answer(&mut self) -> bool {
        let asked = self.0.has(flag::ASKED);
        if asked {
            self.0.clear(flag::ASKED);
            self.want();
        }
        asked
    }

    /// Goes out of view to see whether it is used.
    pub(crate) fn hide(&mut self) {
        self.set_view(View::Hidden);
        self.0.set_access(Access::None);
    }

    /// It is used. Returns whether its home is to be told so at the next barrier.
    pub(crate) fn show(&mut self) -> bool {
        self.set_view(View::Plain);
        self.0.set_access(Access::Read);
        let asked = self.answer();
        if asked {
            self.set_doubt(0);
        }
        asked
    }

    /// The home is to be told at the next barrier how a subscription is to be kept.
    pub(crate) fn want(&mut self) {
        self.0.set(flag::WANTED);
    }

    /// The home does not count on this copy any more, from this barrier on.
    pub(super) fn forget_subscription(&mut self) {
        if self.is_shared() {
            self.set_hold(Hold::Nothing);
        }
        if self.is_hidden() {
            self.set_view(View::Plain);
        }
        self.0.clear(flag::ASKED | flag::FRESH | flag::TOLD);
    }

    /// This rank is a sharer no longer, from this barrier on.
    fn leave(&mut self) {
        self.forget_subscription();
        self.0.set(common::STALE);
    }

    /// In the barrier at the end of this interval, the home tells that it was written.
    pub(crate) fn home_wrote(&mut self, interval: u32) {
        if self.0.has(flag::ASKED) {
            self.set_doubt(self.doubt() + VAIN_DOUBT);
        }
        self.leave();
        self.0.set(flag::TOLD);
        self.note_interval(interval);
    }

    /// In a barrier, this rank leaves what it has given up.
    pub(crate) fn leave_given_up(&mut self) {
        self.leave();
        self.0.clear(flag::WANTED);
    }

    /// It becomes writable, with a twin. `ahead`: without having been written.
    pub(crate) fn write(&mut self, ahead: bool) {
        // It was thought to be only read here.
        if self.is_leased() && !self.has_changed() {
            self.0.clear(flag::UPDATED);
        }
        self.0.set(common::TWIN | common::DIRTY | if ahead { flag::AHEAD } else { 0 });
        self.0.set_access(Access::Write);
    }

    /// An interval ends. Returns whether the page is protected for the next one: it was not written in this
    /// one and the one before.
    pub(crate) fn close(&mut self) -> bool {
        let quiet = self.0.has(flag::QUIET);
        if quiet {
            self.0.clear(flag::QUIET | flag::AHEAD | common::DIRTY);
            self.0.set_access(Access::Read);
        }
        quiet
    }

    /// A barrier has compared it with its twin. `predicts`: if that found it changed the last time, too, it
    /// stays writable.
    pub(crate) fn compared(&mut self, changed: bool, predicts: bool) {
        let (again, was_predicted) = (self.has_changed(), self.is_predicted());
        self.0.clear(flag::CHANGED | flag::PREDICTED);
        if changed {
            self.0.set(flag::CHANGED | if again && predicts { flag::PREDICTED } else { 0 });
        } else if was_predicted {
            self.0.set(flag::PREDICTED);
        }
    }

    /// The program has it written back: the barrier tells its home.
    pub(crate) fn report(&mut self) {
        self.0.set(flag::REPORTED);
    }

    /// What was written, if anything was, is in the home's frame.
    pub(crate) fn put_back(&mut self, changed: bool) {
        if changed {
            self.0.clear(flag::QUIET | flag::AHEAD);
            // One fact only: both together would be a prediction that no barrier has made.
            if !self.is_predicted() {
                self.0.clear(flag::PREDICTED);
                self.0.set(flag::CHANGED);
            }
            self.report();
        } else if self.access() == Access::Write {
            self.0.set(flag::QUIET);
        }
    }

    /// Whether there is anything that an acquire can end. (A frame that does not hold the page is none the
    /// worse.)
    pub(super) fn can_end(self) -> bool {
        self.access() != Access::None || self.is_hidden() || self.has_twin()
    }

    /// An acquire ends it.
    pub(crate) fn end(&mut self) -> Gone {
        let gone = end(&mut self.0);
        if self.is_shared() {
            self.set_view(View::Outdated);
        }
        gone
    }

    /// An acquire may bring it up to date where it stands, for it is used again and again. Returns whether it
    /// does.
    pub(crate) fn renew(&mut self) -> bool {
        let renews = self.is_renewable();
        if renews {
            self.0.set_field(RENEWALS_SHIFT, 0xf, self.renewals() - 1);
        }
        renews
    }

    /// Whether an acquire would bring it up to date.
    pub(crate) fn is_renewable(self) -> bool {
        self.renewals() > 0 && self.access() != Access::None
    }

    /// Whether anything is known of how its home tracks it, which the barrier ends.
    pub(super) fn is_counted_in_vain(self) -> bool {
        self.0.has(flag::EXACT) || self.0.field(VAIN_SHIFT, TRACKED) > 0
    }

    /// From now on records of its home name it if the home has written it. Returns whether this spares a
    /// lease from others.
    pub(crate) fn becomes_exact(&mut self) -> bool {
        let spares = self.ends_with_any_record();
        self.0.set(flag::EXACT);
        spares
    }

    /// Whether renewals in vain are counted: not if its home was asked to track the page, or does.
    pub(crate) fn counts_in_vain(self) -> bool {
        self.ends_with_any_record() && self.0.field(VAIN_SHIFT, TRACKED) != TRACKED
    }

    /// One renewal of four.
    pub(crate) fn is_fourth_renewal(self) -> bool {
        self.renewals().is_multiple_of(4)
    }

    /// A renewal was in vain. Returns whether the home is to be asked to track the page, which it is once:
    /// when so many were in a row.
    pub(crate) fn renewed_in_vain(&mut self, enough: u64) -> bool {
        if !self.counts_in_vain() {
            return false;
        }
        let times = self.0.field(VAIN_SHIFT, TRACKED);
        let asks = times + 1 >= enough;
        self.0.set_field(VAIN_SHIFT, TRACKED, if asks { TRACKED } else { times + 1 });
        asks
    }

    /// A renewal brought something: the home writes the page now and then, and a fault for each time would
    /// cost it more than renewals in vain cost here.
    pub(crate) fn renewed_usefully(&mut self) {
        if self.0.field(VAIN_SHIFT, TRACKED) != TRACKED {
            self.0.set_field(VAIN_SHIFT, TRACKED, 0);
        }
    }

    /// Its frame is given back.
    pub(crate) fn evict(&mut self) -> Gone {
        let gone = evict(&mut self.0);
        if self.is_shared() {
            self.set_hold(Hold::GivenUp);
        }
        gone
    }

    /// Whether the barrier's end leaves it as it is, but for the twin.
    fn stays_writable(self) -> bool {
        let kept = self.hold() == Hold::Subscription && !self.is_wanted();
        kept && self.is_predicted() && self.access() == Access::Write
    }

    /// The barrier ends: leases and stale copies end, what was written is protected again, subscriptions
    /// begin.
    #[inline]
    pub(crate) fn end_interval(&mut self) -> BarrierEnd {
        if self.stays_writable() {
            self.0.clear(flag::AHEAD | flag::QUIET | flag::REPORTED | flag::FRESH);
            return BarrierEnd { renew_twin: true, ..BarrierEnd::default() };
        }
        let mut ended = BarrierEnd { drop_twin: self.has_twin(), ..BarrierEnd::default() };
        if self.0.has(common::STALE) || self.is_leased() {
            ended.gone = true;
            ended.unmap = self.access() != Access::None;
            self.0.set_access(Access::None);
            self.set_view(View::Plain);
        } else if self.access() == Access::Write {
            self.0.set_access(Access::Read);
            ended.protect = true;
        }
        if self.view() == View::Outdated {
            // The frame is up to date again: its home has brought it what was missed.
            self.set_view(View::Hidden);
        }
        if self.is_wanted() {
            ended.subscribed = Some(!self.is_shared());
            self.set_hold(Hold::Subscription);
        } else if self.is_leased() {
            self.set_hold(Hold::Nothing);
        }
        // What does not stay writable is not predicted after all. That it was so in vain stays known.
        if self.is_predicted() {
            self.0.clear(flag::PREDICTED);
        }
        self.0.clear(
            common::DIRTY
                | common::TWIN
                | common::STALE
                | flag::AHEAD
                | flag::QUIET
                | flag::WANTED
                | flag::REPORTED
                | flag::FRESH
                | flag::EXACT,
        );
        self.0.set_field(VAIN_SHIFT, TRACKED, 0);
        ended
    }
}
