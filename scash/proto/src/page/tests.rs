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
    page.fetched(0x1ff, 99, Some(CopyMode::Update));
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
    copy.fetched(7, 3, Some(CopyMode::Update));
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
    page.fetched(7, 0, Some(CopyMode::Update));
    page.end_interval();
    page.want();
    page.end();
    assert!(page.is_wanted(), "its home has not been told");
    assert_eq!(page.view(), View::Outdated);
}

#[test]
fn a_page_that_is_given_up_is_left_and_what_is_outdated_is_looked_at() {
    let mut page = unclaimed().learn(Rank(1));
    page.fetched(7, 0, Some(CopyMode::Update));
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

/// A subscription in update mode, in view.
fn updated() -> CachedPage {
    let mut page = unclaimed().learn(Rank(1));
    page.fetched(7, 0, Some(CopyMode::Update));
    page.end_interval();
    page.fetched(8, 0, None);
    page.end_interval();
    page
}

#[test]
fn who_is_asked_whether_a_copy_is_read_says_so_once_when_it_is() {
    let mut page = updated();
    assert!(page.ask() && page.is_hidden() && !page.is_wanted());
    assert!(!page.ask(), "it is out of view already");
    assert!(page.show() && page.is_wanted(), "it subscribes once more");
    assert_eq!(page.end_interval().subscribed, Some(false));
    page.hide();
    assert!(!page.show(), "nobody has asked");
}

#[test]
fn what_is_written_here_shows_by_itself_that_it_is_used() {
    let mut page = updated();
    page.write(false);
    assert!(!page.ask());
    assert_eq!(page.access(), Access::Write);
}

#[test]
fn doubt_grows_when_a_copy_is_brought_in_vain_and_goes_when_it_is_fetched_soon_or_read_when_asked() {
    let mut page = updated();
    page.home_wrote(9);
    assert_eq!((page.doubt(), page.told(11)), (0, Some(2)), "nobody had asked");
    for doubt in [4, 7, 7] {
        let before = page.doubt();
        page = updated();
        page.set_doubt(before);
        page.ask();
        page.home_wrote(20);
        page.end_interval();
        assert_eq!(page.doubt(), doubt);
    }
    page.fetched_soon();
    assert_eq!(page.doubt(), 7, "it had been brought until then");
    page.fetched(21, 0, Some(CopyMode::Invalidate));
    page.fetched_soon();
    assert_eq!((page.doubt(), page.told(22)), (6, None));
    page.end_interval();
    page.fetched(22, 0, None);
    page.ask();
    page.show();
    assert_eq!(page.doubt(), 0);
}
