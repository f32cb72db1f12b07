use super::*;
use scash_ft::Incarnation;
use std::time::Duration;

const KILL: Exit = Exit::Signal(9);
const INTERRUPT: Exit = Exit::Signal(2);

fn loss(rank: u32, exit: Exit) -> Loss {
    Loss { rank, exit, host: None, hint: "", with_host: None }
}

/// A job of four ranks at a time that is given, which may be started again so often.
struct Story {
    recovery: Recovery,
    now: Instant,
    may_go_on: bool,
}

impl Story {
    fn new(limit: u32) -> Story {
        Story { recovery: Recovery::new(4, limit, Base::default()), now: Instant::now(), may_go_on: true }
    }

    fn later(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    fn exits(&mut self, rank: u32, exit: Exit) -> Option<LauncherAction> {
        self.recovery.exited(loss(rank, exit), self.may_go_on, self.now)
    }

    fn tick(&mut self, any_run: bool) -> Option<LauncherAction> {
        self.recovery.tick(any_run, self.may_go_on, true, self.now)
    }

    /// A rank is killed, and then all are; the stores have this epoch.
    fn loses(&mut self, rank: u32, epoch: u64) -> Result<Base, JobFailure> {
        assert_eq!(self.exits(rank, KILL), Some(LauncherAction::Kill));
        (0..4).filter(|other| *other != rank).for_each(|other| assert_eq!(self.exits(other, KILL), None));
        assert_eq!(self.tick(false), Some(LauncherAction::Find));
        let base = self.recovery.found(Epoch(epoch), 10 * epoch, self.now)?;
        assert!(self.recovery.starting().is_some());
        Ok(base)
    }
}

fn base(incarnation: u64, epoch: u64) -> Base {
    Base { incarnation: Incarnation(incarnation), epoch: Epoch(epoch) }
}

#[test]
fn a_rank_that_is_killed_has_all_killed_and_started_again_when_they_are_gone() {
    let mut story = Story::new(10);
    assert_eq!(story.exits(2, KILL), Some(LauncherAction::Kill));
    assert!(story.recovery.is_ending());
    assert_eq!(story.tick(true), None, "some still run");
    for rank in [0, 1, 3] {
        assert_eq!(story.exits(rank, KILL), None);
    }
    assert_eq!(story.tick(false), Some(LauncherAction::Find));
    assert_eq!(story.recovery.found(Epoch(17), 170, story.now), Ok(base(1, 17)));
    assert!(story.recovery.awaits_joining() && !story.recovery.is_ending());
    story.later(240);
    let news = "rank 2 was killed by SIGKILL; all 4 ranks go on from barrier 170 (epoch 17, incarnation 1) after 0.24 s";
    assert_eq!(story.recovery.resumed(story.now).as_deref(), Some(news));
    assert_eq!(story.recovery.resumed(story.now), None, "it is said once");
    assert_eq!(story.tick(true), None);
}

#[test]
fn any_signal_is_a_loss_and_any_status_is_the_programs_own() {
    for signal in [4, 6, 7, 9, 11, 13, 40] {
        assert_eq!(Story::new(1).exits(0, Exit::Signal(signal)), Some(LauncherAction::Kill), "{signal}");
    }
    for status in [0, 1, 74, 137] {
        let exit = Exit::Status(status);
        assert_eq!(Story::new(1).exits(3, exit), Some(LauncherAction::ReportExits(vec![(3, exit)])));
    }
}

#[test]
fn how_ranks_end_that_are_killed_for_anothers_loss_does_not_matter() {
    let mut story = Story::new(1);
    story.exits(0, KILL);
    for exit in [Exit::Status(0), Exit::Status(74), Exit::Signal(11), INTERRUPT] {
        assert_eq!(story.exits(1, exit), None);
    }
    story.tick(false);
    story.recovery.found(Epoch(0), 0, story.now).unwrap();
    assert!(story.recovery.resumed(story.now).unwrap().starts_with("rank 0 was killed by SIGKILL; "));
}

#[test]
fn when_somebody_wants_the_job_to_end_exits_mean_what_they_always_mean() {
    let mut story = Story::new(1);
    story.may_go_on = false;
    for exit in [KILL, INTERRUPT, Exit::Status(0)] {
        assert_eq!(story.exits(1, exit), Some(LauncherAction::ReportExits(vec![(1, exit)])));
    }
}

#[test]
fn an_end_that_is_wanted_while_ranks_are_killed_is_the_end() {
    let mut story = Story::new(1);
    story.exits(1, KILL);
    story.may_go_on = false;
    assert_eq!(story.tick(true), None);
    assert_eq!(story.tick(false), Some(LauncherAction::End));
    assert_eq!(story.tick(false), None);
}

#[test]
fn a_job_that_the_user_has_stopped_is_started_again_when_it_is_continued() {
    let mut story = Story::new(1);
    story.exits(1, KILL);
    assert_eq!(story.recovery.tick(false, true, false, story.now), None);
    assert_eq!(story.tick(false), Some(LauncherAction::Find));
}

#[test]
fn ctrl_c_may_have_killed_a_rank_until_the_front_has_had_time_to_say_so() {
    let mut story = Story::new(1);
    assert_eq!(story.exits(1, INTERRUPT), None);
    assert_eq!((story.exits(0, INTERRUPT), story.exits(3, Exit::Status(5))), (None, None));
    assert_eq!(story.tick(true), None);
    story.may_go_on = false;
    let judged = vec![(1, INTERRUPT), (0, INTERRUPT), (3, Exit::Status(5))];
    assert_eq!(story.tick(true), Some(LauncherAction::ReportExits(judged)));
    assert_eq!(story.exits(2, INTERRUPT), Some(LauncherAction::ReportExits(vec![(2, INTERRUPT)])));
}

#[test]
fn a_signal_that_was_not_the_users_is_a_loss_a_moment_later() {
    let mut story = Story::new(1);
    story.exits(1, Exit::Signal(15));
    let due = story.recovery.deadline().unwrap();
    assert_eq!(due, story.now + WORD_OF_FRONT);
    story.now = due;
    assert_eq!(story.tick(true), Some(LauncherAction::Kill));
    assert_eq!(story.tick(false), Some(LauncherAction::Find));
    story.recovery.found(Epoch(0), 0, story.now).unwrap();
    let news = story.recovery.resumed(story.now).unwrap();
    assert!(news.starts_with("rank 1 was killed by SIGTERM; all 4 ranks go on from the beginning"), "{news}");
}

#[test]
fn a_signal_that_is_never_the_users_ends_the_doubt() {
    let mut story = Story::new(1);
    story.exits(1, INTERRUPT);
    assert_eq!(story.exits(2, Exit::Signal(11)), Some(LauncherAction::Kill));
    assert_eq!(story.recovery.deadline(), None);
}

#[test]
fn a_loss_while_ranks_join_begins_anew_and_is_told_of_with_the_first() {
    let mut story = Story::new(5);
    assert_eq!(story.loses(2, 3), Ok(base(1, 3)));
    story.later(100);
    assert_eq!(story.loses(0, 3), Ok(base(2, 3)));
    story.later(150);
    let news = story.recovery.resumed(story.now).unwrap();
    let expected = "rank 0 was killed by SIGKILL; all 4 ranks go on from barrier 30 (epoch 3, incarnation 2) after 0.25 s and 2 restarts";
    assert_eq!(news, expected);
}

#[test]
fn restarts_are_counted_from_the_last_new_epoch_on() {
    let mut story = Story::new(2);
    for (incarnation, epoch) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 9)] {
        assert_eq!(story.loses(1, epoch), Ok(base(incarnation, epoch)));
    }
    assert_eq!(story.loses(1, 9), Ok(base(6, 9)));
    let failure = story.loses(3, 9).unwrap_err();
    let why = "was killed by signal 9 (SIGKILL), after 2 restarts from epoch 9 without a new checkpoint (--restarts)";
    assert_eq!(failure, JobFailure { rank: Some(3), why: why.into(), status: 137 });
    assert!(!story.recovery.is_ending() && !story.recovery.awaits_joining());
}

#[test]
fn a_host_that_is_lost_before_ranks_are_started_again_does_not_make_two_restarts_of_one() {
    let mut story = Story::new(1);
    story.exits(2, KILL);
    story.tick(false);
    assert_eq!(story.recovery.found(Epoch(3), 30, story.now), Ok(base(1, 3)));
    let why = "host b: its agent is gone".to_owned();
    let lost = Loss { with_host: Some(why), ..loss(2, KILL) };
    assert_eq!(story.recovery.lost_host(lost, story.now), Some(LauncherAction::Kill));
    assert_eq!(story.tick(false), Some(LauncherAction::Find));
    assert_eq!(story.recovery.found(Epoch(3), 30, story.now), Ok(base(2, 3)));
    assert!(story.recovery.starting().is_some());
    let expected =
        "host b: its agent is gone; all 4 ranks go on from barrier 30 (epoch 3, incarnation 2) after 0.00 s";
    assert_eq!(story.recovery.resumed(story.now).as_deref(), Some(expected));
}

#[test]
fn what_happened_can_be_told_better_later_unless_more_has_happened() {
    let mut story = Story::new(1);
    let lost = Loss { with_host: Some("a move".to_owned()), ..loss(2, KILL) };
    assert_eq!(story.recovery.lost_host(lost, story.now), Some(LauncherAction::Kill));
    story.tick(false);
    assert_eq!(story.recovery.found(Epoch(3), 30, story.now), Ok(base(1, 3)));
    story.recovery.retell("another move", "nothing".to_owned());
    story.recovery.retell("a move", "the other way".to_owned());
    assert!(story.recovery.starting().is_some());
    let expected = "the other way; all 4 ranks go on from barrier 30 (epoch 3, incarnation 1) after 0.00 s";
    assert_eq!(story.recovery.resumed(story.now).as_deref(), Some(expected));
}

#[test]
fn no_restarts_are_none() {
    let failure = Story::new(0).loses(0, 4).unwrap_err();
    assert!(failure.why.ends_with("and is not to be started again (--restarts)"), "{}", failure.why);
}

#[test]
fn a_rank_whose_epoch_is_of_no_use_ends_the_job_by_its_death() {
    let mut story = Story::new(3);
    story.exits(2, Exit::Signal(7));
    let failure = story.recovery.nothing_found("its output is not known");
    let why = "was killed by signal 7 (SIGBUS), and its output is not known";
    assert_eq!(failure, JobFailure { rank: Some(2), why: why.into(), status: 128 + 7 });
}

#[test]
fn a_host_whose_loss_ends_the_job_is_named_and_none_of_its_ranks() {
    let mut story = Story::new(3);
    let lost = Loss { with_host: Some("host b: its agent is gone".to_owned()), ..loss(2, KILL) };
    story.recovery.lost_host(lost, story.now);
    let failure = story.recovery.nothing_found("rank 2 is lost");
    let why = "host b: its agent is gone, and rank 2 is lost";
    assert_eq!(failure, JobFailure { rank: None, why: why.into(), status: 137 });
}

#[test]
fn programs_that_never_join_are_told_of_in_the_end() {
    let mut story = Story::new(3);
    assert_eq!(story.recovery.over(), None);
    story.loses(2, 0).unwrap();
    story.later(5000);
    assert_eq!(
        story.exits(0, Exit::Status(0)),
        Some(LauncherAction::ReportExits(vec![(0, Exit::Status(0))]))
    );
    let news = story.recovery.over().unwrap();
    assert!(news.ends_with("go on from the beginning (incarnation 1) after 0.00 s"), "{news}");
}

#[test]
fn ranks_that_fail_before_all_have_joined_do_not_go_on() {
    let mut story = Story::new(3);
    assert_eq!(story.recovery.cut_short(), None);
    story.loses(2, 7).unwrap();
    assert_eq!(
        story.exits(0, Exit::Status(74)),
        Some(LauncherAction::ReportExits(vec![(0, Exit::Status(74))]))
    );
    let news = "rank 2 was killed by SIGKILL; all 4 ranks were started again from barrier 70 (epoch 7, incarnation 1)";
    assert_eq!(story.recovery.cut_short().as_deref(), Some(news));
    assert_eq!((story.recovery.over(), story.recovery.resumed(story.now)), (None, None));
    // Ranks that are being ended are another matter.
    story.exits(1, KILL);
    assert_eq!(story.recovery.cut_short(), None);
    assert!(story.recovery.is_ending());
}

#[test]
fn want_of_memory_is_named() {
    let mut story = Story::new(3);
    let starved = Loss { hint: ", for want of memory", ..loss(0, KILL) };
    story.recovery.exited(starved, true, story.now);
    story.tick(false);
    story.recovery.found(Epoch(2), 20, story.now).unwrap();
    let news = story.recovery.resumed(story.now).unwrap();
    assert!(news.starts_with("rank 0 was killed by SIGKILL, for want of memory; all 4 "), "{news}");
}
