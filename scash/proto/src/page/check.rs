//! Which words a page may have.
//!
//! [`Word::broken_rule`] compares a word with the rules below, and names the first that it breaks. The simulator asks after each input of each node; the runtime never does.

use super::{Access, Word, flag};

/// What a word's rules depend on besides the word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// What this rank is to the page.
    pub(crate) role: Role,
    /// The application runs: this rank is in no memory barrier.
    pub(crate) runs: bool,
    /// Intervals end between memory barriers, too: what was written and what is leased is on lists.
    pub(crate) keeps_back: bool,
}

/// What a rank is to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nobody is known to be its home.
    Unclaimed,
    /// This rank is its home.
    Home,
    /// Another rank is its home.
    Copy,
}

/// What is over with the next memory barrier, so that this one must look at the page.
const OF_THIS_INTERVAL: u64 = flag::DIRTY
    | flag::LEASE
    | flag::CLAIMED
    | flag::REPORTED
    | flag::WANTED
    | flag::STALE
    | flag::FRESH
    | flag::AHEAD
    | flag::QUIET;

/// What only a home has.
const OF_HOMES: u64 = flag::CLAIMED
    | flag::TRACKED
    | flag::TWINNED
    | flag::PREDICTED
    | flag::MESSAGED
    | flag::MESSAGED_BEFORE
    | flag::ASYNC;

/// What only a copy has. (An acquire may also have ended what was read of a page that was nobody's.)
const OF_COPIES: u64 = flag::SUBSCRIBED
    | flag::ARMED
    | flag::WATCHED
    | flag::WANTED
    | flag::REPORTED
    | flag::FETCHED
    | flag::FRESH
    | flag::AHEAD
    | flag::BEHIND
    | flag::QUIET;

/// A rule and whether it is kept.
type Rule = (&'static str, bool);

impl Word {
    /// The first rule that this word breaks, if it breaks one.
    pub(crate) fn broken_rule(self, place: Place) -> Option<&'static str> {
        let own = match place.role {
            Role::Unclaimed => self.rules_of_nobodys(),
            Role::Home => self.rules_of_homes(place),
            Role::Copy => self.rules_of_copies(place),
        };
        let broken = |rules: &[Rule]| rules.iter().find(|rule| !rule.1).map(|rule| rule.0);
        broken(&self.rules_of_all()).or_else(|| broken(&own))
    }

    /// Whether one of the first flags means that one of the others is there.
    fn implies(self, these: u64, those: u64) -> bool {
        !self.has(these) || self.has(those)
    }

    fn rules_of_all(self) -> [Rule; 3] {
        [
            (
                "what ends with this interval is on the list of the barrier",
                self.implies(OF_THIS_INTERVAL, flag::LISTED),
            ),
            (
                "a twin is on the list of the barrier, unless the page is predicted",
                self.implies(flag::TWIN, flag::LISTED | flag::PREDICTED),
            ),
            (
                "what was opened ahead, or was quiet, counts as written",
                self.implies(flag::AHEAD | flag::QUIET, flag::DIRTY),
            ),
        ]
    }

    fn rules_of_nobodys(self) -> [Rule; 9] {
        let none = ("", true);
        [
            ("a page of nobody has no facts of homes or copies", !self.has(OF_HOMES | OF_COPIES)),
            (
                "a page of nobody is not written",
                !self.has(flag::DIRTY | flag::TWIN) && self.access() != Access::Write,
            ),
            ("a page of nobody is read as a lease", self.has(flag::LEASE) == (self.access() == Access::Read)),
            ("a page of nobody does not become stale", !self.has(flag::STALE)),
            none,
            none,
            none,
            none,
            none,
        ]
    }

    fn rules_of_homes(self, place: Place) -> [Rule; 9] {
        let (access, moved_in) = (self.access(), self.has(flag::STALE));
        let noticed = flag::DIRTY | flag::ASYNC | flag::PREDICTED;
        let unseen =
            access == Access::Write && self.has(flag::TRACKED) && !self.has(flag::PREDICTED | flag::ASYNC);
        [
            ("a home has no facts of copies", !self.has(OF_COPIES | flag::LEASE)),
            ("a page has moved here in a barrier only", !(moved_in && place.runs)),
            ("sharers that get updates are sharers", self.implies(flag::TWINNED, flag::TRACKED)),
            (
                "a predicted page is compared with its twin",
                !self.has(flag::PREDICTED) || self.has(flag::TWIN) && self.has(flag::TWINNED),
            ),
            (
                "only a page with sharers that get updates has a twin",
                moved_in || self.implies(flag::TWIN, flag::TWINNED),
            ),
            (
                "a tracked page is writable only if it is known to be written",
                moved_in || access != Access::Write || self.implies(flag::TRACKED, noticed),
            ),
            (
                "an untracked page is not protected",
                moved_in || access != Access::Read || self.has(flag::TRACKED),
            ),
            (
                "a page whose writes the system notices is writable and has no twin",
                !self.has(flag::ASYNC) || access == Access::Write && !self.has(flag::TWIN | flag::TWINNED),
            ),
            (
                "what was written at home is open until the interval ends",
                !(unseen && place.runs && place.keeps_back) || self.has(flag::OPEN),
            ),
        ]
    }

    fn rules_of_copies(self, place: Place) -> [Rule; 9] {
        let access = self.access();
        let valid = flag::LEASE | flag::SUBSCRIBED | flag::STALE;
        let (opened, lists) = (access == Access::Write, place.runs && place.keeps_back);
        [
            ("a copy has no facts of homes", !self.has(OF_HOMES)),
            ("a lease is no subscription", !(self.has(flag::LEASE) && self.has(flag::SUBSCRIBED))),
            (
                "what can be read, or is out of view for a while, is leased or subscribed to",
                (access == Access::None && !self.has(flag::ARMED | flag::WANTED)) || self.has(valid),
            ),
            (
                "what is out of view cannot be read",
                !self.has(flag::ARMED | flag::BEHIND) || access == Access::None,
            ),
            ("a copy that is behind is not looked at", !(self.has(flag::ARMED) && self.has(flag::BEHIND))),
            (
                "only a subscription is looked at, behind or fresh",
                self.implies(flag::WATCHED, flag::SUBSCRIBED)
                    && self.implies(flag::BEHIND | flag::FRESH, flag::SUBSCRIBED | flag::STALE),
            ),
            (
                "a copy is written with a twin, and is writable exactly if it counts as written",
                (opened && self.has(flag::STALE) && !place.runs)
                    || opened == self.has(flag::DIRTY) && self.implies(flag::DIRTY, flag::TWIN),
            ),
            (
                "what was written away from home is open until the interval ends",
                !(opened && lists) || self.has(flag::OPEN),
            ),
            ("a lease is on the list of leases", !lists || self.implies(flag::LEASE, flag::LEASED)),
        ]
    }
}
