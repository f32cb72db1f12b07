//! The page table: one word a page, and three lists of pages: those that the next memory barrier must look
//! at, those that were written since they were last brought home, and the copies that their homes do not know
//! of and do not track for them.
//!
//! The table is as large as the region but costs only what is touched: all arrays are zero-filled lazily by
//! the system, 20 bytes a page in use (0.5 %). Nothing here allocates after [`PageTable::new`], because
//! faults are served inside a signal handler.
//!
//! # What a rank is to a page
//!
//! A page is [`Unclaimed`](Page::Unclaimed), at [`Home`](Page::Home) here, or a [`Copy`](Page::Copy) of
//! another rank's. Each of these has facts that only it has; what is done to them is a method of
//! [`UnclaimedPage`], [`HomePage`] or [`CachedPage`], and nothing else changes a word. From one role to
//! another (all in `unclaimed.rs`):
//!
//! | from | to | by | when |
//! |---|---|---|---|
//! | unclaimed | home | [`claim`](UnclaimedPage::claim) | this rank touches it first |
//! | unclaimed | home | [`place`](UnclaimedPage::place) | its allocation has placed it here, and it is used, or others have it |
//! | unclaimed | copy | [`learn`](UnclaimedPage::learn) | another rank touched it first, or it is placed there and used here |
//! | home | copy | [`lose`](HomePage::lose) | in a barrier: a lower rank touched it first, too |
//! | home | copy | [`hand_over`](HomePage::hand_over) | in a barrier: it moves away |
//! | copy | home | [`take_over`](CachedPage::take_over) | in a barrier: it moves here |
//! | copy | copy | [`follow`](CachedPage::follow) | in a barrier: it moves from another rank to another one |
//! | any | unclaimed | [`forget`](PageTable::forget) | it is freed |
//!
//! # Home
//!
//! | `Tracking` | access | twin | a write is noticed by |
//! |---|---|---|---|
//! | `No`: nobody has copies | none (not used yet), write | no | nobody: it never faults |
//! | `Told`: sharers hear that it was written | none, read; write once it is dirty | no | a fault, or the system if it is *watched* (then it is writable) |
//! | `Updated`: some sharer gets what changed | none, read; write once it is dirty or *ahead* | while writable | a fault, or the comparison at the barrier if it was opened ahead |
//! | `Predicted`: written in barrier after barrier | write; read at the end of an interval | yes | the comparison at the barrier |
//!
//! | transition | from → to |
//! |---|---|
//! | [`track`](HomePage::track) | any → at least `Told` or `Updated`; protects the page if it was writable and is not watched |
//! | [`write`](HomePage::write), [`noticed`](HomePage::noticed) | dirty, by a fault or by the system |
//! | [`write_ahead`](HomePage::write_ahead) | ahead: writable along with a page before it |
//! | [`found_written`](HomePage::found_written) | `Updated` → `Predicted`, the second time |
//! | [`end_prediction`](HomePage::end_prediction) | `Predicted` → `Updated`, after barriers without a change |
//! | [`untrack`](HomePage::untrack) | any → `No`; writable without faults |
//! | [`watch`](HomePage::watch), [`unwatch`](HomePage::unwatch) | `Told` by faults ↔ by the system (a watched run may have untracked pages) |
//! | [`close`](HomePage::close) | an interval ends: protected, unless it is written in interval after interval |
//! | [`end_interval`](HomePage::end_interval) | the barrier ends: not dirty, no twin unless predicted, protected if tracked by faults |
//!
//! # Copy
//!
//! | `Hold` | `View` | access |
//! |---|---|---|
//! | `Nothing` | plain | none |
//! | `Lease`: its home does not know of it | plain | read, write |
//! | | hidden: out of view, to see whether it is read | none |
//! | `Subscription`: its home has this rank in the copyset | plain | none (to be fetched yet), read, write |
//! | | hidden: out of view, to see whether it is read | none |
//! | | outdated: older than an acquire | none |
//! | `GivenUp`: its home still does, but its frame was given back | as a subscription | |
//!
//! A copy is writable if and only if it is dirty, and then has a twin. A twin without that is of a page that
//! was found *quiet* and protected again.
//!
//! | transition | what happens |
//! |---|---|
//! | [`fetched`](CachedPage::fetched), [`broadcast`](CachedPage::broadcast) | readable; `Nothing` → `Lease`. A lease that is *wanted* becomes a subscription at the barrier |
//! | [`write`](CachedPage::write) | read → write, with a twin |
//! | [`close`](CachedPage::close), [`put_back`](CachedPage::put_back) | an interval ends: compared; quiet if unchanged, read again if it is twice |
//! | [`hide`](CachedPage::hide), [`show`](CachedPage::show) | plain ↔ hidden |
//! | [`ask`](CachedPage::ask) | hidden, if it was in view; who is asked says so once it reads it |
//! | [`end`](CachedPage::end) | an acquire: `Lease` → `Nothing`; a subscription is outdated |
//! | [`renew`](CachedPage::renew) | the same, of a page that is used again and again: it stays as it is |
//! | [`renewed_in_vain`](CachedPage::renewed_in_vain), [`becomes_exact`](CachedPage::becomes_exact) | its home is asked to name its writes; it does |
//! | [`evict`](CachedPage::evict) | `Lease` → `Nothing`, `Subscription` → `GivenUp` |
//! | [`home_wrote`](CachedPage::home_wrote), [`leave_given_up`](CachedPage::leave_given_up) | in a barrier: → `Nothing`, and stale |
//! | [`end_interval`](CachedPage::end_interval) | the barrier ends: `Lease` → `Nothing`, wanted → `Subscription`, outdated → hidden, stale goes out of view, write → read |
//!
//! # The word
//!
//! ```text
//! bits  0..20  home + 1        0: none that this rank has met
//! bits 20..22  access          0 none, 1 read, 2 write
//! bits 22..24  role            0 unclaimed, 1 home, 2 copy
//! bits 24..31  common facts    on which lists it is, fetching, twin, dirty, stale
//! bits 32..64  facts of the role:
//!   home       32 claimed, 33 watched, 34 messaged, 35 messaged before, 36 ahead;
//!              40..42 tracking; 42..49 times brought, 49..52 trust; 56..60 score; 60..64 patience
//!   copy       32..34 hold, 34..36 view;
//!              36..45 asked, wanted, reported, fresh, ahead, quiet, ended, fetched, exact;
//!              45..48 renewals in vain (7: the home was asked);
//!              48..54 interval (mod 64) of the last fetch, or of the home's write if 60, told;
//!              54 updated, 55 changed; 56..60 renewals left; 61..64 doubt
//!   unclaimed  31 asked for; 32..34 hold (nothing or lease), 40 opened in vain, 42 ended
//! ```
//!
//! `check.rs` has the rules that a word keeps between two inputs of a node; the simulator checks them.
//!
//! **Invariant:** a page is on a list if and only if that list's flag is set.

mod cached;
pub(crate) mod check;
mod home;
mod table;
mod unclaimed;
mod word;

#[cfg(test)]
use cached::View;
pub(crate) use cached::{CachedPage, Gone, Hold, VAIN_DOUBT};
pub(crate) use home::{HomePage, Tracked, Tracking, Untracked};
pub(crate) use table::{List, PageTable};
pub(crate) use unclaimed::UnclaimedPage;
pub use word::{Access, MAX_RANKS};
use word::{Role, Word, flag};

/// What this rank is to a page, with the facts that go with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Page {
    /// This rank has not met a home of it.
    Unclaimed(UnclaimedPage),
    /// This rank is its home.
    Home(HomePage),
    /// Another rank is.
    Copy(CachedPage),
}

impl Word {
    /// The page's state.
    pub(crate) fn page(self) -> Page {
        match self.role() {
            Role::Unclaimed => Page::Unclaimed(UnclaimedPage(self)),
            Role::Home => Page::Home(HomePage(self)),
            Role::Copy => Page::Copy(CachedPage(self)),
        }
    }
}

/// What the end of a barrier asks for at a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BarrierEnd {
    /// The twin is of no use.
    pub(crate) drop_twin: bool,
    /// It stays writable: its twin is to be what it is now.
    pub(crate) renew_twin: bool,
    /// What was here is no good any more.
    pub(crate) gone: bool,
    /// It was in view.
    pub(crate) unmap: bool,
    /// What was writable is readable.
    pub(crate) protect: bool,
    /// A subscription begins (or only gets another mode, if this says no).
    pub(crate) subscribed: Option<bool>,
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "access {:?}", self.access())?;
        let names = [
            (flag::LISTED, "listed"),
            (flag::OPEN, "open"),
            (flag::LEASED, "on the list of leases"),
            (flag::FETCHING, "fetching"),
            (flag::TWIN, "twin"),
            (flag::DIRTY, "dirty"),
            (flag::STALE, "stale"),
        ];
        self.name(f, &names)?;
        match self.page() {
            Page::Unclaimed(page) => page.describe(f),
            Page::Home(page) => page.describe(f),
            Page::Copy(page) => page.describe(f),
        }
    }
}

impl From<Page> for Word {
    fn from(page: Page) -> Word {
        match page {
            Page::Unclaimed(page) => page.0,
            Page::Home(page) => page.0,
            Page::Copy(page) => page.0,
        }
    }
}

/// Lets a page of a role be read as any page's word is.
macro_rules! a_word {
    ($($role:ident),*) => { $(
        impl std::ops::Deref for $role {
            type Target = Word;
            fn deref(&self) -> &Word {
                &self.0
            }
        }

        impl From<$role> for Word {
            fn from(page: $role) -> Word {
                page.0
            }
        }

        impl std::fmt::Debug for $role {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )* };
}

a_word!(UnclaimedPage, HomePage, CachedPage);

#[cfg(test)]
mod tests;
