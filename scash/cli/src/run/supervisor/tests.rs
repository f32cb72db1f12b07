use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn death(rank: u32, status: u8) -> JobFailure {
    JobFailure { rank: Some(rank), why: format!("exited with status {status}"), status }
}

fn order(signal: Signal) -> SignalOrder {
    SignalOrder { signal, from_terminal: false }
}

fn signals(actions: &[Action]) -> Vec<Signal> {
    let signal = |action: &Action| match action {
        Action::Signal(signal) => Some(*signal),
        _ => None,
    };
    actions.iter().filter_map(signal).collect()
}

/// Lets time pass to the next deadline, and returns what is done then.
fn next(supervisor: &mut Supervisor) -> Vec<Signal> {
    let at = supervisor.deadline().expect("something is due");
    signals(&supervisor.tick(at))
}

const TERMINATE: [Signal; 2] = [Signal::SIGTERM, Signal::SIGCONT];

#[test]
fn a_job_whose_ranks_all_end_in_order_has_status_0() {
    let mut supervisor = Supervisor::new(2, None, Instant::now());
    assert!(supervisor.deadline().is_none());
    supervisor.exited();
    assert!(!supervisor.is_over());
    supervisor.exited();
    assert!(supervisor.is_over());
    assert_eq!(supervisor.verdict(), 0);
}

#[test]
fn after_a_failure_the_others_get_a_grace_then_sigterm_then_sigkill() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(3, None, now);
    supervisor.exited();
    let actions = supervisor.failed(&death(1, 3), Some("pid 4711"), now);
    let line = "rank 1 (pid 4711) exited with status 3; ending the other ranks";
    assert_eq!(actions, [Action::Say(line.into())]);
    assert_eq!(supervisor.deadline(), Some(now + AFTER_FAILURE));
    assert!(supervisor.tick(now).is_empty());
    assert_eq!(next(&mut supervisor), TERMINATE);
    assert_eq!(next(&mut supervisor), [Signal::SIGKILL]);
    assert!(supervisor.deadline().is_none());
}

#[test]
fn the_first_failure_is_the_verdict_and_the_only_one_reported() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    supervisor.exited();
    assert_eq!(supervisor.failed(&death(1, 3), Some("pid 1"), now).len(), 1);
    supervisor.exited();
    assert!(supervisor.failed(&death(0, 143), Some("pid 2"), now).is_empty());
    assert_eq!(supervisor.verdict(), 3);
}

#[test]
fn nobody_is_said_to_be_ended_when_nobody_is_left() {
    let mut supervisor = Supervisor::new(1, None, Instant::now());
    supervisor.exited();
    let actions = supervisor.failed(&death(0, 1), Some("pid 5"), Instant::now());
    assert_eq!(actions, [Action::Say("rank 0 (pid 5) exited with status 1".into())]);
}

#[test]
fn a_signal_that_the_terminal_has_sent_is_not_sent_again() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    let pressed = |signal| SignalOrder { signal, from_terminal: true };
    assert!(supervisor.ordered(pressed(Signal::SIGTSTP), now).is_empty());
    assert!(supervisor.ordered(pressed(Signal::SIGINT), now).is_empty());
    assert!(supervisor.is_hurried());
}

#[test]
fn a_death_by_ctrl_c_is_reported_only_if_the_front_knows_of_none() {
    for pressed in [true, false] {
        let now = Instant::now();
        let mut supervisor = Supervisor::new(1, None, now);
        supervisor.exited();
        assert!(supervisor.failed(&death(0, 130), Some("pid 7"), now).is_empty());
        assert!(!supervisor.is_over(), "there may be something to say");
        if pressed {
            supervisor.ordered(SignalOrder { signal: Signal::SIGINT, from_terminal: true }, now);
            assert!(supervisor.is_over());
        }
        let said = supervisor.tick(now + WORD_OF_FRONT);
        assert_eq!(said.is_empty(), pressed);
        assert!(supervisor.is_over());
        assert_eq!(supervisor.verdict(), 130);
    }
}

#[test]
fn other_signals_are_forwarded_and_end_nothing() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTSTP, Signal::SIGCONT] {
        assert_eq!(signals(&supervisor.ordered(order(signal), now)), [signal]);
    }
    assert!(!supervisor.is_hurried() && supervisor.deadline().is_none());
}

#[test]
fn ranks_that_ignore_an_interrupt_are_ended_and_the_interrupt_is_the_verdict() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(1, None, now);
    assert_eq!(signals(&supervisor.ordered(order(Signal::SIGINT), now)), [Signal::SIGINT]);
    assert_eq!(next(&mut supervisor), TERMINATE);
    supervisor.exited();
    supervisor.failed(&death(0, 143), Some("pid 1"), now + 6 * SECOND);
    assert_eq!(supervisor.verdict(), 130);
}

#[test]
fn a_second_interrupt_kills() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    supervisor.ordered(order(Signal::SIGINT), now);
    let actions = supervisor.ordered(order(Signal::SIGINT), now + SECOND);
    assert_eq!(signals(&actions), [Signal::SIGINT, Signal::SIGKILL]);
    assert_eq!(supervisor.verdict(), 130);
}

#[test]
fn an_interrupt_that_arrives_in_two_ways_is_one() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    supervisor.ordered(order(Signal::SIGTERM), now);
    let actions = supervisor.ordered(order(Signal::SIGTERM), now + SAME_INTERRUPT / 2);
    assert_eq!(signals(&actions), [Signal::SIGTERM]);
}

#[test]
fn a_rank_that_fails_after_an_interrupt_gives_the_verdict_without_a_word() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    supervisor.ordered(order(Signal::SIGINT), now);
    supervisor.exited();
    assert!(supervisor.failed(&death(0, 42), Some("pid 1"), now).is_empty());
    assert_eq!(supervisor.verdict(), 42);
    assert_eq!(next(&mut supervisor), TERMINATE);
}

#[test]
fn an_interrupt_does_not_put_off_the_end_of_a_failed_job() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    supervisor.exited();
    supervisor.failed(&death(0, 1), Some("pid 1"), now);
    supervisor.ordered(order(Signal::SIGINT), now);
    assert_eq!(supervisor.deadline(), Some(now + AFTER_FAILURE));
}

#[test]
fn the_time_limit_ends_the_job_at_once() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, Some(SECOND / 2), now);
    let actions = supervisor.tick(now + SECOND);
    assert_eq!(signals(&actions), TERMINATE);
    let said = "the job has run for 0.5 s, its time limit; ending all ranks";
    assert_eq!(actions[0], Action::Say(said.into()));
    assert_eq!(supervisor.verdict(), status::TIMEOUT);
    assert_eq!(next(&mut supervisor), [Signal::SIGKILL]);
}

#[test]
fn the_time_limit_does_not_matter_to_a_job_that_is_over() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(1, Some(SECOND), now);
    supervisor.exited();
    assert!(supervisor.tick(now + 2 * SECOND).is_empty());
    assert_eq!(supervisor.verdict(), 0);
}

#[test]
fn the_time_limit_stays_while_ranks_have_ended_that_may_be_started_again() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(1, Some(SECOND), now);
    supervisor.exited();
    assert_eq!((supervisor.deadline(), supervisor.tick(now + 2 * SECOND)), (None, vec![]));
    supervisor.recovering(1);
    assert_eq!(supervisor.deadline(), Some(now + SECOND));
    assert!(!supervisor.tick(now + 2 * SECOND).is_empty());
    assert_eq!(supervisor.verdict(), status::TIMEOUT);
}

#[test]
fn a_job_that_another_launcher_saw_end_has_its_status() {
    for status in [0, 3] {
        let mut supervisor = Supervisor::new(2, None, Instant::now());
        supervisor.had_ended(status);
        assert!(supervisor.is_over());
        assert_eq!((supervisor.verdict(), supervisor.may_go_on()), (status, status == 0));
    }
}

#[test]
fn a_time_limit_beyond_all_time_is_none() {
    assert!(Supervisor::new(1, Some(Duration::MAX), Instant::now()).deadline().is_none());
}

#[test]
fn ranks_do_not_outlive_the_front() {
    let mut supervisor = Supervisor::new(2, None, Instant::now());
    assert_eq!(signals(&supervisor.front_gone()), [Signal::SIGKILL]);
    assert!(supervisor.is_hurried());
    supervisor.exited();
    assert!(
        supervisor.failed(&death(0, 137), Some("pid 1"), Instant::now()).is_empty(),
        "nobody wants to know"
    );
}

/// All ranks have ended by then, and none of them was told of: they were to be started again.
#[test]
fn a_job_whose_front_dies_while_ranks_are_ended_for_a_restart_has_not_ended_well() {
    let mut supervisor = Supervisor::new(2, None, Instant::now());
    supervisor.recovering(2);
    assert_eq!(signals(&supervisor.front_gone()), [Signal::SIGKILL]);
    supervisor.gone();
    assert_eq!((supervisor.is_over(), supervisor.verdict()), (true, 137));
}

#[test]
fn ranks_that_did_start_are_killed_when_one_does_not() {
    let mut supervisor = Supervisor::new(5, None, Instant::now());
    assert_eq!(signals(&supervisor.not_started(3, 125)), [Signal::SIGKILL]);
    supervisor.exited();
    supervisor.failed(&death(0, 137), Some("pid 1"), Instant::now());
    supervisor.exited();
    assert!(supervisor.is_over());
    assert_eq!(supervisor.verdict(), 125);
}

#[test]
fn ranks_that_are_started_again_count_as_running_whatever_had_become_of_them() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, Some(5 * SECOND), now);
    supervisor.exited();
    supervisor.recovering(2);
    assert!(supervisor.may_go_on() && !supervisor.is_over());
    assert!(supervisor.tick(now).is_empty());
    assert_eq!(supervisor.deadline(), Some(now + 5 * SECOND), "the time limit stays");
    supervisor.exited();
    assert!(!supervisor.is_over());
    supervisor.exited();
    assert!(supervisor.is_over());
    assert_eq!(supervisor.verdict(), 0);
}

#[test]
fn an_end_that_is_asked_for_while_ranks_are_started_again_has_its_own_status() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, Some(5 * SECOND), now);
    supervisor.recovering(2);
    supervisor.ordered(order(Signal::SIGINT), now);
    assert!(!supervisor.may_go_on());
    supervisor.gone();
    assert_eq!((supervisor.is_over(), supervisor.verdict()), (true, 128 + 2));

    let mut supervisor = Supervisor::new(2, Some(5 * SECOND), now);
    supervisor.recovering(2);
    supervisor.tick(now + 5 * SECOND);
    assert!(!supervisor.may_go_on());
    supervisor.gone();
    assert_eq!((supervisor.is_over(), supervisor.verdict()), (true, status::TIMEOUT));
}

#[test]
fn a_stopped_job_is_known_to_be_until_it_is_continued() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    supervisor.ordered(order(Signal::SIGTSTP), now);
    assert!(supervisor.is_stopped() && supervisor.may_go_on());
    supervisor.ordered(order(Signal::SIGCONT), now);
    assert!(!supervisor.is_stopped());
}

#[test]
fn ranks_that_cannot_notice_that_nobody_reads_are_ended_without_a_word() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(2, None, now);
    assert_eq!(signals(&supervisor.end_unread(now)), TERMINATE);
    assert_eq!(next(&mut supervisor), [Signal::SIGKILL]);
    supervisor.exited();
    supervisor.exited();
    assert_eq!(supervisor.verdict(), 128 + 13);
    assert!(supervisor.end_unread(now).is_empty());
}
