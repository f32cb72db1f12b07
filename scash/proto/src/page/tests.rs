//! Words and what becomes of them.

use super::*;
use crate::Rank;
use crate::copyset::CopyMode;

fn unclaimed() -> UnclaimedPage {
    match Word::default().page() {
        Page::Unclaimed(page) => page,
        other => panic!("{other:?}"),
    }
}

#[test]
fn facts_of_a_word_do_not_disturb_each_other() {
    let mut page = unclaimed().learn(Rank(MAX_RANKS - 1));
    page.fetched(0x1ff, 99, Some(0));
    page.write(true);
    page.put_back(false);
    assert_eq!((page.home(), page.access()), (Some(Rank(MAX_RANKS - 1)), Access::Write));
    assert_eq!((page.last_fetched(0x201), page.hold(), page.view()), (Some(2), Hold::Lease, View::Plain));
    assert!(
        page.is_wanted() && page.is_ahead() && page.has_twin() && !page.is_fresh() && !page.is_reported()
    );
    page.put_back(true);
    assert!(page.is_wanted() && !page.is_ahead() && page.is_reported());
    page.end();
    assert_eq!((page.hold(), page.access(), page.is_wanted()), (Hold::Nothing, Access::None, false));
    page.fetched(3, 99, None);
    let renewed = (0..20).take_while(|_| page.renew()).count();
    assert_eq!(renewed, 15, "an acquire had ended it");
    assert_eq!((page.last_fetched(3), page.home()), (Some(0), Some(Rank(MAX_RANKS - 1))));
}

#[test]
fn a_role_takes_nothing_along_to_the_next() {
    let mut copy = unclaimed().learn(Rank(1));
    copy.fetched(7, 3, Some(0));
    copy.end_interval();
    assert_eq!(copy.hold(), Hold::Subscription);
    let home = copy.take_over(Rank(0));
    assert_eq!((home.tracking(), home.is_watched(), home.is_claimed()), (Tracking::No, false, false));
    let mut home = home;
    home.end_interval();
    home.track(CopyMode::Update);
    home.write(9);
    home.found_written(true);
    home.messaged();
    home.untrack();
    let copy = home.hand_over(Rank(2));
    assert_eq!((copy.hold(), copy.view(), copy.last_fetched(7)), (Hold::Nothing, View::Plain, None));
    assert!(!copy.is_wanted() && !copy.is_fresh() && !copy.is_reported() && !copy.is_ahead());
    assert_eq!(copy.home(), Some(Rank(2)));
}

#[test]
fn a_subscription_that_changes_its_mode_still_does_after_an_acquire() {
    let mut page = unclaimed().learn(Rank(1));
    page.fetched(7, 0, Some(0));
    page.end_interval();
    page.want();
    page.end();
    assert!(page.is_wanted(), "its home has not been told");
    assert_eq!(page.view(), View::Outdated);
}

#[test]
fn a_page_that_is_given_up_is_left_and_what_is_outdated_is_looked_at() {
    let mut page = unclaimed().learn(Rank(1));
    page.fetched(7, 0, Some(0));
    page.end_interval();
    page.fetched(8, 0, None);
    page.end();
    let mut kept = page;
    kept.end_interval();
    assert_eq!((kept.hold(), kept.view()), (Hold::Subscription, View::Hidden));
    page.evict();
    assert_eq!((page.hold(), page.view()), (Hold::GivenUp, View::Plain));
    page.leave_given_up();
    assert!(page.end_interval().gone);
    assert_eq!(page.hold(), Hold::Nothing);
}

/// A subscription of that much patience that was taken out of view, and never read again: as a look at that
/// time leaves it.
fn left_at(interval: u32, patience: u64) -> CachedPage {
    let mut page = unclaimed().learn(Rank(1));
    page.fetched(7, 0, Some(patience));
    page.end_interval();
    page.fetched(8, 0, None);
    assert_eq!(page.look(9), Look::Hidden(patience));
    assert_eq!(page.look(interval), Look::Left);
    page.end_interval();
    page
}

#[test]
fn a_copy_knows_when_it_was_left_until_it_is_fetched_again() {
    let mut page = left_at(20, 0);
    assert_eq!((page.left(20), page.left(51)), (Some(0), Some(31)));
    page.fetched(51, 0, Some(3));
    assert_eq!((page.left(51), page.patience()), (None, 3));
    assert_eq!(left_at(20, 2).left(21), None, "more time was given in vain");
}

#[test]
fn a_subscription_keeps_its_patience_as_long_as_it_is_read_in_time() {
    let mut page = unclaimed().learn(Rank(1));
    page.fetched(7, 0, Some(3));
    page.end_interval();
    page.fetched(8, 0, None);
    for looks in 0..6 {
        assert_eq!(page.look(10), Look::Hidden(3));
        page.show();
        assert_eq!(page.look(20), Look::Read(looks.min(3)));
    }
    assert_eq!((page.look(30), page.look(90)), (Look::Hidden(3), Look::Left));
    assert_eq!((page.left(91), page.patience()), (Some(1), 3), "it was read before");
}
