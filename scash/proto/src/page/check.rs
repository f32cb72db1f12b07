//! Which words a page may have.
//!
//! [`Word::broken_rule`] compares a word with the rules, and names the first that it breaks. The simulator
//! asks after each input of each node; the runtime never does.

use super::cached::{Hold, View, flag as copies};
use super::word::{Word, flag};
use super::{Access, CachedPage, HomePage, List, Page, PageTable, Tracking, UnclaimedPage};

/// What a word's rules depend on besides the word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The application runs: this rank is in no memory barrier.
    pub(crate) runs: bool,
    /// Intervals end between memory barriers, too: what was written and what is leased is on lists.
    pub(crate) keeps_back: bool,
}

/// A rule and whether it is kept.
type Rule = (&'static str, bool);

fn broken(rules: &[Rule]) -> Option<&'static str> {
    rules.iter().find(|rule| !rule.1).map(|rule| rule.0)
}

impl Word {
    /// The first rule that this word breaks, if it breaks one.
    pub(crate) fn broken_rule(self, moment: Moment) -> Option<&'static str> {
        match self.page() {
            Page::Unclaimed(page) => page.broken_rule(),
            Page::Home(page) => page.broken_rule(moment),
            Page::Copy(page) => page.broken_rule(moment),
        }
    }

    /// Whether the next barrier looks at the page.
    fn is_listed(self) -> bool {
        self.has(flag::LISTED)
    }
}

impl PageTable {
    /// A page that is on a list and does not say so, or the other way round, if there is one.
    pub(crate) fn misplaced_page(&self) -> Option<u32> {
        [List::Touched, List::Open, List::Leased].into_iter().find_map(|list| self.misplaced(list))
    }
}

impl UnclaimedPage {
    fn broken_rule(self) -> Option<&'static str> {
        let (hold, access) = (super::cached::hold(self.0), self.access());
        broken(&[
            (
                "a page of nobody is not written",
                !self.has_twin() && !self.is_dirty() && access != Access::Write,
            ),
            (
                "a page of nobody is read as a lease",
                (hold, access) == (Hold::Nothing, Access::None)
                    || (hold, access) == (Hold::Lease, Access::Read),
            ),
            (
                "what ends with this interval is on the list of the barrier",
                hold == Hold::Nothing || self.is_listed(),
            ),
            ("a page of nobody does not become stale", !self.0.has(flag::STALE)),
        ])
    }
}

impl HomePage {
    fn broken_rule(self, moment: Moment) -> Option<&'static str> {
        let (access, tracking, moved_in) = (self.access(), self.tracking(), self.0.has(flag::STALE));
        let noticed = self.is_dirty() || self.is_watched() || self.is_predicted() || self.is_ahead();
        let by_fault =
            access == Access::Write && self.is_tracked() && !self.is_predicted() && !self.is_watched();
        let ends =
            self.is_dirty() || self.is_claimed() || moved_in || self.has_twin() && !self.is_predicted();
        let lists = moment.runs && moment.keeps_back;
        broken(&[
            ("what ends with this interval is on the list of the barrier", !ends || self.is_listed()),
            ("a page moves here in a barrier only", !(moved_in && moment.runs)),
            ("a page that has just moved here has no sharers", !moved_in || tracking == Tracking::No),
            ("a predicted page has a twin", !self.is_predicted() || self.has_twin()),
            (
                "a page that was opened ahead has a twin, or was zeros",
                !self.is_ahead() || self.has_twin() || self.is_claimed(),
            ),
            (
                "only a page with sharers that get updates has a twin",
                moved_in || !self.has_twin() || self.is_twinned(),
            ),
            (
                "a page is claimed before anybody has a copy",
                !self.is_claimed() || access == Access::Write && tracking == Tracking::No,
            ),
            (
                "a tracked page is writable only if its write is noticed",
                access != Access::Write || !self.is_tracked() || noticed,
            ),
            ("an untracked page is not protected", moved_in || access != Access::Read || self.is_tracked()),
            (
                "a watched page is writable and has no twin",
                !self.is_watched() || access == Access::Write && !self.has_twin() && !self.is_twinned(),
            ),
            (
                "what was written at home is open until the interval ends",
                !(by_fault && lists) || self.0.has(flag::OPEN),
            ),
        ])
    }
}

impl CachedPage {
    fn broken_rule(self, moment: Moment) -> Option<&'static str> {
        let (access, hold, view, stale) = (self.access(), self.hold(), self.view(), self.0.has(flag::STALE));
        let opened = access == Access::Write;
        let of_interval = copies::WANTED | copies::REPORTED | copies::FRESH;
        let ends = stale
            || self.has_twin()
            || self.is_leased()
            || hold == Hold::GivenUp
            || self.0.has(of_interval)
            || self.is_counted_in_vain();
        let lists = moment.runs && moment.keeps_back;
        broken(&[
            ("what ends with this interval is on the list of the barrier", !ends || self.is_listed()),
            ("a copy becomes stale in a barrier only", !(stale && moment.runs)),
            (
                "what can be read, is wanted, or is out of view for a while, is held",
                stale
                    || hold != Hold::Nothing
                    || access == Access::None && view == View::Plain && !self.is_wanted(),
            ),
            ("what is out of view cannot be read", view == View::Plain || access == Access::None),
            (
                "only a subscription is outdated, asked for, or fresh",
                stale
                    || self.is_shared()
                    || view != View::Outdated && !self.0.has(copies::ASKED | copies::FRESH),
            ),
            (
                "a page that is asked for is not writable, or only out of view",
                !self.is_fetching() || access != Access::Write && view != View::Hidden,
            ),
            (
                "a copy is writable exactly if it counts as written, and then has a twin",
                stale && !self.is_dirty() || opened == self.is_dirty() && (!opened || self.has_twin()),
            ),
            (
                "what was opened ahead, or was quiet, counts as written",
                !self.0.has(copies::AHEAD | copies::QUIET) || self.is_dirty(),
            ),
            (
                "what was written away from home is open until the interval ends",
                !(opened && lists) || self.0.has(flag::OPEN),
            ),
            (
                "a lease that any record of its home ends is on the list of leases",
                !(lists && self.ends_with_any_record()) || self.0.has(flag::LEASED),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rank;
    use crate::copyset::CopyMode;

    const RUNS: Moment = Moment { runs: true, keeps_back: false };

    fn listed() -> Word {
        Word(flag::LISTED)
    }

    fn home() -> HomePage {
        UnclaimedPage(listed()).place(Rank(1))
    }

    fn copy() -> CachedPage {
        UnclaimedPage(listed()).learn(Rank(2))
    }

    fn rule(page: impl Into<Word>) -> Option<&'static str> {
        page.into().broken_rule(RUNS)
    }

    #[test]
    fn a_home_that_writes_what_others_have_must_be_seen_to_do_so() {
        let mut page = home();
        page.track(CopyMode::Update);
        assert_eq!(rule(page), None);
        page.open();
        assert_eq!(rule(page), Some("a tracked page is writable only if its write is noticed"));
        let mut page = home();
        page.track(CopyMode::Update);
        page.write(0);
        assert_eq!(rule(page), None);
        let keeps_back = Moment { keeps_back: true, ..RUNS };
        assert_eq!(
            Word::from(page).broken_rule(keeps_back),
            Some("what was written at home is open until the interval ends")
        );
    }

    #[test]
    fn a_copy_that_the_barrier_does_not_look_at_cannot_end_with_it() {
        let mut page = copy();
        page.fetched(7, 0, None);
        assert_eq!(rule(page), None);
        page.0.clear(flag::LISTED);
        assert_eq!(rule(page), Some("what ends with this interval is on the list of the barrier"));
    }

    #[test]
    fn a_copy_is_written_with_a_twin_and_read_by_some_right() {
        let mut page = copy();
        page.show();
        assert_eq!(rule(page), Some("what can be read, is wanted, or is out of view for a while, is held"));
        page.fetched(7, 0, None);
        page.write(false);
        assert_eq!(rule(page), None);
        page.0.clear(flag::TWIN);
        assert_eq!(
            rule(page),
            Some("a copy is writable exactly if it counts as written, and then has a twin")
        );
    }
}
