use super::*;
use proptest::prelude::*;

fn identity(build: u8, version: &str) -> Identity {
    Identity { path: format!("/bin/p{build}"), build: vec![build; 20], version: version.into(), abi: 1 }
}

fn hello(build: u8) -> Message {
    Message::plain(LineKind::Hello, identity(build, "1.0").encode())
}

fn gather(sequence: u32, blob: &[u8]) -> Message {
    Message { kind: LineKind::Gather, sequence, bytes: blob.to_vec(), fds: Vec::new() }
}

fn finalized() -> Message {
    Message::plain(LineKind::Finalized, Vec::new())
}

/// A roster whose ranks have all joined.
fn joined(size: u32) -> Roster {
    let mut roster = Roster::new(size);
    (0..size).for_each(|rank| roster.message(rank, hello(1)));
    assert!(matches!(roster.take_outputs()[..], [Output::Tell(Message { kind: LineKind::Welcome, .. })]));
    roster
}

fn failure(roster: &mut Roster) -> Option<JobFailure> {
    roster.take_outputs().into_iter().find_map(|output| match output {
        Output::Fail(failure) => Some(failure),
        _ => None,
    })
}

/// Why the roster ends the job, with the rank that it names.
fn complaint(mut roster: Roster) -> (Option<u32>, String) {
    let failure = failure(&mut roster).expect("a failure");
    assert_ne!(failure.status, 0);
    (failure.rank, failure.why)
}

#[test]
fn ranks_are_welcomed_when_the_last_has_said_hello() {
    let mut roster = Roster::new(3);
    roster.message(2, hello(1));
    roster.message(0, hello(1));
    assert!(roster.take_outputs().is_empty());
    roster.message(1, hello(1));
    assert!(matches!(roster.take_outputs()[..], [Output::Tell(Message { kind: LineKind::Welcome, .. })]));
}

#[test]
fn two_programs_in_one_job_are_refused_with_all_names() {
    let mut roster = Roster::new(5);
    for (rank, build) in [(0, 1), (1, 1), (2, 2), (3, 1), (4, 1)] {
        roster.message(rank, hello(build));
    }
    let (rank, why) = complaint(roster);
    assert_eq!(rank, None);
    assert_eq!(
        why,
        "two different programs or versions in one job: ranks 0-1, 3-4 run /bin/p1 (build 01010101, scash 1.0, ABI 1); \
         rank 2 runs /bin/p2 (build 02020202, scash 1.0, ABI 1)"
    );
}

#[test]
fn two_versions_of_scash_in_one_job_are_refused() {
    let mut roster = Roster::new(2);
    roster.message(0, hello(1));
    roster.message(1, Message::plain(LineKind::Hello, identity(1, "2.0").encode()));
    let (_, why) = complaint(roster);
    assert!(why.contains("scash 1.0") && why.contains("scash 2.0"), "{why}");
}

#[test]
fn many_different_programs_do_not_make_an_endless_message() {
    let mut roster = Roster::new(200);
    (0..200).for_each(|rank| roster.message(rank, hello(u8::try_from(rank).unwrap())));
    let (_, why) = complaint(roster);
    assert!(why.ends_with("and 196 more") && why.len() < 500, "{why}");
}

#[test]
fn a_gather_ends_when_all_have_given_and_the_next_may_begin() {
    let mut roster = joined(2);
    for sequence in 0..3 {
        roster.message(1, gather(sequence, b"one"));
        assert!(roster.take_outputs().is_empty());
        roster.message(0, gather(sequence, b"zero"));
        match &roster.take_outputs()[..] {
            [Output::Tell(message)] => {
                assert_eq!((message.kind, message.sequence), (LineKind::Gathered, sequence));
                assert!(message.bytes.ends_with(b"zeroone"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn messages_out_of_turn_name_the_rank_that_sent_them() {
    let lies: [fn(&mut Roster); 7] = [
        |roster| roster.message(1, hello(1)),
        |roster| roster.message(1, gather(1, b"")),
        |roster| [gather(0, b""), gather(0, b"")].into_iter().for_each(|message| roster.message(1, message)),
        |roster| [gather(0, b""), finalized()].into_iter().for_each(|message| roster.message(1, message)),
        |roster| [finalized(), finalized()].into_iter().for_each(|message| roster.message(1, message)),
        |roster| [finalized(), gather(0, b"")].into_iter().for_each(|message| roster.message(1, message)),
        |roster| roster.message(1, Message::plain(LineKind::Welcome, Vec::new())),
    ];
    for (index, lie) in lies.iter().enumerate() {
        let mut roster = joined(3);
        lie(&mut roster);
        let (rank, why) = complaint(roster);
        assert_eq!(rank, Some(1), "lie {index}: {why}");
        assert!(why.starts_with("sent what no rank sends"), "lie {index}: {why}");
    }
}

#[test]
fn a_hello_that_is_rubbish_or_missing_names_the_rank() {
    let mut roster = Roster::new(2);
    roster.message(1, Message::plain(LineKind::Hello, vec![1, 2, 3]));
    assert_eq!(complaint(roster).0, Some(1));
    let mut roster = Roster::new(2);
    roster.message(1, gather(0, b""));
    assert_eq!(complaint(roster).0, Some(1));
}

#[test]
fn plain_programs_may_exit_without_a_word() {
    let mut roster = Roster::new(2);
    roster.exited(0, Exit::Status(0));
    roster.exited(1, Exit::Status(0));
    assert_eq!(failure(&mut roster), None);
}

#[test]
fn ranks_that_finalized_may_exit() {
    let mut roster = joined(2);
    for rank in 0..2 {
        roster.message(rank, finalized());
        roster.exited(rank, Exit::Status(0));
    }
    assert_eq!(failure(&mut roster), None);
}

#[test]
fn an_exit_without_finalize_is_a_failure_although_its_status_is_0() {
    let mut roster = joined(2);
    roster.exited(1, Exit::Status(0));
    let outputs = roster.take_outputs();
    assert!(matches!(outputs[0], Output::Mark(1, RankState::Exited(0))), "{outputs:?}");
    assert!(matches!(&outputs[1], Output::Tell(Message { kind: LineKind::Abort, .. })), "{outputs:?}");
    let Output::Fail(failure) = &outputs[2] else { panic!("{outputs:?}") };
    assert_eq!(failure.why, "exited with status 0 without calling dsm_finalize or scomm_finalize");
    assert_eq!((failure.rank, failure.status), (Some(1), 1));
}

#[test]
fn deaths_are_reported_as_a_shell_would() {
    let ends = [
        (Exit::Status(3), "exited with status 3", 3),
        (Exit::Signal(9), "was killed by signal 9 (SIGKILL)", 137),
        (Exit::Signal(11), "was killed by signal 11 (SIGSEGV)", 139),
        (Exit::Signal(40), "was killed by signal 40", 168),
    ];
    for (exit, why, status) in ends {
        let mut roster = joined(2);
        roster.exited(0, exit);
        assert_eq!(failure(&mut roster), Some(JobFailure { rank: Some(0), why: why.into(), status }));
    }
}

#[test]
fn a_rank_that_never_joins_does_not_keep_the_others_waiting() {
    let mut roster = Roster::new(2);
    roster.message(0, hello(1));
    roster.exited(1, Exit::Status(0));
    assert_eq!(complaint(roster), (Some(1), "exited before it had joined the others".into()));

    let mut roster = Roster::new(2);
    roster.exited(1, Exit::Status(0));
    roster.message(0, hello(1));
    assert_eq!(complaint(roster).0, Some(1));
}

#[test]
fn a_rank_that_finalized_early_does_not_keep_an_exchange_waiting() {
    let mut roster = joined(2);
    roster.message(0, gather(0, b""));
    roster.message(1, finalized());
    assert_eq!(complaint(roster).0, Some(1));

    let mut roster = joined(2);
    roster.message(1, finalized());
    roster.message(0, gather(0, b""));
    assert_eq!(complaint(roster).0, Some(1));
}

#[test]
fn after_a_failure_ranks_are_told_once_and_every_exit_is_still_recorded() {
    let mut roster = joined(3);
    roster.exited(0, Exit::Signal(9));
    roster.message(1, gather(0, b""));
    roster.exited(1, Exit::Status(1));
    roster.message(2, finalized());
    roster.exited(2, Exit::Status(1));
    let outputs = roster.take_outputs();
    let count = |pick: fn(&Output) -> bool| outputs.iter().filter(|output| pick(output)).count();
    assert_eq!(count(|output| matches!(output, Output::Tell(_))), 1);
    assert_eq!(count(|output| matches!(output, Output::Mark(..))), 3);
}

proptest! {
    #[test]
    fn no_order_of_messages_and_exits_makes_it_panic(
        steps in prop::collection::vec((0u32..3, 0u8..6, any::<u32>(), prop::collection::vec(any::<u8>(), 0..16)), 0..40)
    ) {
        let mut roster = Roster::new(3);
        for (rank, what, number, bytes) in steps {
            match what {
                0 => roster.message(rank, hello(1)),
                1 => roster.message(rank, Message::plain(LineKind::Hello, bytes)),
                2 => roster.message(rank, gather(number % 3, &bytes)),
                3 => roster.message(rank, finalized()),
                4 => roster.exited(rank, Exit::Status(number.to_le_bytes()[0])),
                _ => roster.exited(rank, Exit::Signal(number.to_le_bytes()[0])),
            }
        }
        let _ = roster.take_outputs();
    }
}
