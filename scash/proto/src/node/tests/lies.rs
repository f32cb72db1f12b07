//! What no correct peer sends.

use super::*;
use crate::wire::reduce::{Direction, ReduceMessage};
use crate::wire::{Control, News, Notice, Purpose};
use proptest::prelude::*;

#[test]
fn what_no_correct_peer_sends_is_refused_and_changes_nothing() {
    let mut job = Job::with(4, 4, at(1, Protocol::Update));
    let meeting = job.nodes[0].meeting();
    let attendance = Attendance::default();
    let token = |meeting, step| Token {
        meeting,
        step,
        away: false,
        due: false,
        left_out: false,
        span: [attendance; 2],
        counts: Vec::new(),
        notices: Vec::new(),
    };
    let wild = Pages { first: PAGES - 1, count: 2 };
    let notice = Notice { origin: Rank(2), pages: wild, news: News::FirstTouch };
    let subscribe = Control { leave: vec![wild], ..Control::default() };
    let wrong = vec![
        Input::Token(Rank(2), token(meeting, 0)),
        Input::Token(Rank(3), token(meeting, 2)),
        Input::Token(Rank(3), token(meeting, 200)),
        Input::Token(Rank(3), token(meeting + 2, 0)),
        Input::Token(Rank(3), token(meeting.wrapping_sub(1), 0)),
        Input::Token(Rank(3), Token { counts: vec![(Rank(4), 1)], ..token(meeting, 0) }),
        Input::Token(Rank(3), Token { due: true, ..token(meeting, 0) }),
        Input::Token(Rank(3), Token { left_out: true, ..token(meeting, 0) }),
        Input::Token(Rank(3), Token { notices: vec![notice], ..token(meeting, 0) }),
        Input::Control(Rank(1), meeting, subscribe),
        Input::Control(Rank(9), meeting, Control::default()),
        Input::Diff(Rank(1), meeting, 0),
        Input::Diff(Rank(1), meeting, PAGES),
        Input::Update(Rank(1), meeting, PAGES),
        Input::Parcel(Rank(1), meeting, Rank(0)),
        Input::Parcel(Rank(1), meeting, Rank(77)),
    ];
    for input in wrong {
        let text = format!("{input:?}");
        assert!(job.nodes[0].handle(input).is_err(), "{text}");
    }
    job.give(0, Input::Token(Rank(3), token(meeting, 0)));
    let again = job.nodes[0].handle(Input::Token(Rank(3), token(meeting, 0)));
    assert_eq!(again.unwrap_err().to_string(), "rank 3 broke the protocol: the same token twice");
}

/// Anything that a peer can say about a job of four ranks, sensible or not.
fn lie() -> impl Strategy<Value = Input> {
    let rank = || (0..6u32).prop_map(Rank);
    let page = || prop_oneof![0..PAGES + 2, any::<u32>()];
    let pages = || (0..PAGES, 0..5u32).prop_map(|(first, count)| Pages { first, count });
    let meeting = || 0..6u32;
    let moves = (rank(), any::<bool>()).prop_map(|(to, placed)| News::Moves { to, placed });
    let notice = (rank(), pages(), prop_oneof![Just(News::FirstTouch), moves])
        .prop_map(|(origin, pages, news)| Notice { origin, pages, news });
    let attendance =
        (rank(), 0..2u64).prop_map(|(rank, n)| Attendance { purpose: Purpose([n, 0, 0, 0]), rank });
    let counts = proptest::collection::vec((rank(), prop_oneof![0..3u64, any::<u64>()]), 0..4);
    let notices = proptest::collection::vec(notice, 0..4);
    let token = (meeting(), 0..4u8, any::<[bool; 3]>(), [attendance.clone(), attendance], counts, notices)
        .prop_map(|(meeting, step, [away, due, left_out], span, counts, notices)| Token {
            meeting,
            step,
            away,
            due,
            left_out,
            span,
            counts,
            notices,
        });
    let list = || proptest::collection::vec(pages(), 0..3);
    let mode = || {
        any::<bool>().prop_map(|u| {
            if u { crate::copyset::CopyMode::Update } else { crate::copyset::CopyMode::Invalidate }
        })
    };
    let control = (list(), proptest::collection::vec((pages(), mode()), 0..3), list()).prop_map(
        |(stale, subscribe, leave)| Control {
            fresh: stale.clone(),
            operated: leave.clone(),
            ask: leave.clone(),
            stale,
            subscribe,
            leave,
        },
    );
    prop_oneof![
        (rank(), token).prop_map(|(from, t)| Input::Token(from, t)),
        (rank(), meeting(), control).prop_map(|(from, m, c)| Input::Control(from, m, c)),
        (rank(), meeting(), page()).prop_map(|(from, m, p)| Input::Diff(from, m, p)),
        (rank(), meeting(), page()).prop_map(|(from, m, p)| Input::Update(from, m, p)),
        (rank(), meeting(), rank()).prop_map(|(from, m, h)| Input::Parcel(from, m, h)),
    ]
}

/// What peers say of the objects that are to be destroyed: about the right call, or another one.
fn announcement() -> impl Strategy<Value = Input> {
    let rank = || (0..5u32).prop_map(Rank);
    let purpose = prop_oneof![4 => Just([7, 2, 0, 0]), 1 => Just([7, 1, 0, 0]), 1 => Just([0; 4])];
    let span = (purpose.clone(), rank(), purpose, rank()).prop_map(|(a, x, b, y)| {
        [(a, x), (b, y)].map(|(purpose, rank)| Attendance { purpose: Purpose(purpose), rank })
    });
    let step =
        prop_oneof![4 => Just(Direction::Up), 1 => Just(Direction::Down), 1 => Just(Direction::Disagree)];
    let word = prop_oneof![3 => Just(u64::MAX), 1 => any::<u64>()];
    let values = proptest::collection::vec(word, 0..3);
    (rank(), 0..4u32, 0..4u64, step, span, values).prop_map(
        |(from, epoch, number, direction, span, values)| {
            Input::Reducing(from, ReduceMessage { epoch, number, direction, span, values })
        },
    )
}

/// Lets a node carry out what it ordered, as far as that takes nobody else.
pub(super) fn serve(node: &mut Node) {
    while let Some(order) = node.poll_output() {
        let answer = match order {
            Output::Flushed => Input::Flushed,
            Output::Closed { .. } => Input::Closed { behind: false },
            Output::Stage => Input::Staged,
            Output::Diff { page, .. } | Output::DiffZero { page, .. } | Output::Push(page) => {
                Input::Compared { page, changed: page.is_multiple_of(2) }
            }
            Output::Get { pages, .. } => Input::Fetched(pages),
            _ => continue,
        };
        let _ = node.handle(answer);
    }
}

proptest! {
    #[test]
    fn no_peer_can_make_a_node_panic(
        lies in proptest::collection::vec((lie(), 0..8u32, 0..PAGES), 1..60),
        placed in any::<bool>(),
        replicas in 0..2u32,
    ) {
        let options = if placed { at(0, Protocol::Update) } else { AllocOptions::default() };
        let mut job = Job::of(4, Sharing::Off, replicas);
        job.all(Collective::Alloc(u64::from(PAGES - 4) * crate::PAGE_SIZE as u64, options));
        let node = &mut job.nodes[0];
        for (lie, act, page) in lies {
            let _ = node.handle(lie);
            let _ = node.batch_taken();
            match act {
                0 if node.meetings.phase == Phase::Running => {
                    let _ = node.handle(Input::Arrive(Collective::Barrier));
                }
                1 if node.meetings.phase == Phase::Running => {
                    let _ = node.handle(Input::Arrive(Collective::Broadcast(Pages { first: 0, count: 5 })));
                }
                2 | 3 if node.meetings.phase == Phase::Running => {
                    let want = if act == 2 { Access::Read } else { Access::Write };
                    let _ = node.handle(Input::Fault { page, want });
                }
                4 => {
                    let _ = node.handle(Input::CheckpointDue);
                }
                _ => {}
            }
            serve(node);
        }
    }

    #[test]
    fn no_peer_can_make_a_node_panic_that_destroys_objects(
        lies in proptest::collection::vec((prop_oneof![lie(), announcement(), announcement()], 0..4u32), 1..60),
        me in 0..4usize,
    ) {
        let mut job = Job::new(4);
        job.all(Collective::Make(ObjectKind::Lock, 2));
        let node = &mut job.nodes[me];
        // One of the two is managed here, if any is.
        let lock = u32::try_from(me % 2).unwrap();
        for (lie, act) in lies {
            let free = node.meetings.phase == Phase::Running && node.reduces().is_none();
            let there = node.kind(lock).is_some();
            match (act, node.holder(lock)) {
                (0, _) if free => {
                    let _ = node.handle(Input::Arrive(Collective::Destroy { kind: ObjectKind::Lock, first: 0, count: 2 }));
                }
                (1, None) if free && there && node.awaited().is_none() => {
                    let _ = node.handle(Input::Acquire { lock, who: 7 });
                }
                (2, Some(_)) if free => {
                    let _ = node.handle(Input::Release(lock));
                }
                _ => {}
            }
            serve(node);
            let _ = node.handle(lie);
            let _ = node.batch_taken();
            let _ = node.take_reduced();
            serve(node);
        }
    }
}
