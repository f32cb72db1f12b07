//! What no correct peer says of locks.

use super::*;
use crate::PAGE_SIZE;
use crate::wire::sync::{
    Brought, Follower, KnownIntervals, QueuePlace, Record, Request, SyncBody, SyncMessage,
};
use proptest::prelude::*;

/// Locks of the job: each rank manages one.
const LOCKS: u32 = 4;

/// A job with locks, the lock that rank 0 manages, and the one that rank 1 does.
fn job() -> (Job, u32, u32) {
    let mut job = Job::new(4);
    job.all(Collective::Make(ObjectKind::Lock, LOCKS));
    let managed_by = |rank| (0..LOCKS).find(|&lock| job.nodes[0].manager(lock) == Rank(rank)).unwrap();
    let (here, there) = (managed_by(0), managed_by(1));
    (job, here, there)
}

/// Rank 0 waits for a lock. Returns its place.
fn wait_for(job: &mut Job, lock: u32) -> u32 {
    job.give(0, Input::Acquire { lock, who: 7 });
    asked_for(job)
}

/// The place that rank 0 has asked for.
fn asked_for(job: &mut Job) -> u32 {
    let mut ordered = job.ordered(0).into_iter();
    ordered
        .find_map(|order| match order {
            Output::Sync(_, SyncMessage { body: SyncBody::Ask { ticket, .. }, .. }) => Some(ticket),
            _ => None,
        })
        .unwrap()
}

fn follower(rank: u32) -> Follower {
    Follower {
        place: QueuePlace { rank: Rank(rank), ticket: 1 },
        known: KnownIntervals::new(),
        patient: true,
        wants: Vec::new(),
    }
}

fn say(job: &mut Job, epoch: u32, object: u32, body: SyncBody) -> Result<(), Violation> {
    job.nodes[0].handle(Input::Sync(Rank(1), SyncMessage { epoch, object, body }))
}

#[test]
fn a_message_of_another_epoch_is_refused_outside_of_a_barrier() {
    let (mut job, here, _) = job();
    let now = job.nodes[0].epoch();
    let ask = || SyncBody::Ask { ticket: 1, known: KnownIntervals::new(), patient: true, wants: Vec::new() };
    for epoch in [now + 1, now + 2, now.wrapping_sub(1)] {
        assert!(say(&mut job, epoch, here, ask()).is_err(), "epoch {epoch} in epoch {now}");
    }
    assert_eq!(say(&mut job, now, here, ask()), Ok(()));
}

#[test]
fn what_is_said_of_places_that_do_not_exist_is_refused() {
    let (mut job, here, there) = job();
    let now = job.nodes[0].epoch();
    let before = QueuePlace { rank: Rank(2), ticket: 1 };
    let wrong = [
        (there, SyncBody::Ask { ticket: 1, known: KnownIntervals::new(), patient: true, wants: Vec::new() }),
        (here, SyncBody::Follow { ticket: 77, next: follower(2) }),
        (here, SyncBody::Follow { ticket: 0, next: follower(4) }),
        (here, SyncBody::Refused { ticket: 0, before }),
        (here, SyncBody::Grant { ticket: 0, records: Vec::new(), brought: Brought::default() }),
        (there, SyncBody::Grant { ticket: 1, records: Vec::new(), brought: Brought::default() }),
        (here, SyncBody::Queued { ticket: 0 }),
    ];
    for (lock, body) in wrong {
        let text = format!("{body:?}");
        assert!(say(&mut job, now, lock, body).is_err(), "{text}");
    }
}

#[test]
fn a_lock_is_granted_to_the_place_that_waits_for_it_with_records_of_what_exists() {
    let record = |rank, first, count| Record {
        rank: Rank(rank),
        number: 1,
        pages: vec![Pages { first, count }],
        tracked: vec![],
    };
    for wrong in [record(4, 0, 1), record(2, PAGES, 1), record(2, PAGES - 1, 2), record(2, 3, 0)] {
        let (mut job, _, there) = job();
        let (now, ticket) = (job.nodes[0].epoch(), wait_for(&mut job, there));
        let text = format!("{wrong:?}");
        let grant = SyncBody::Grant { ticket, records: vec![wrong], brought: Brought::default() };
        assert!(say(&mut job, now, there, grant).is_err(), "{text}");
    }
    let (mut job, _, there) = job();
    let (now, ticket) = (job.nodes[0].epoch(), wait_for(&mut job, there));
    let grant = |ticket| SyncBody::Grant {
        ticket,
        records: vec![record(2, PAGES - 1, 1)],
        brought: Brought::default(),
    };
    assert!(say(&mut job, now, there, grant(ticket + 1)).is_err(), "another place");
    assert_eq!(say(&mut job, now, there, grant(ticket)), Ok(()));
    assert_eq!(job.nodes[0].holder(there), Some(7));
    assert!(say(&mut job, now, there, grant(ticket)).is_err(), "it has the lock already");
}

#[test]
fn a_place_has_one_follower() {
    let (mut job, _, there) = job();
    let (now, ticket) = (job.nodes[0].epoch(), wait_for(&mut job, there));
    let follow = |rank| SyncBody::Follow { ticket, next: follower(rank) };
    assert_eq!(say(&mut job, now, there, follow(2)), Ok(()));
    assert!(say(&mut job, now, there, follow(3)).is_err(), "there is one");
}

#[test]
fn the_follower_of_a_place_that_is_refused_is_sent_to_the_place_before() {
    let (mut job, _, there) = job();
    let now = job.nodes[0].epoch();
    job.give(0, Input::TryAcquire { lock: there, who: 7 });
    let ticket = asked_for(&mut job);
    let before = QueuePlace { rank: Rank(3), ticket: 5 };
    assert_eq!(say(&mut job, now, there, SyncBody::Follow { ticket, next: follower(2) }), Ok(()));
    assert_eq!(say(&mut job, now, there, SyncBody::Refused { ticket, before }), Ok(()));
    let ordered = job.ordered(0);
    assert!(ordered.contains(&Output::Refused { object: there, who: 7 }), "{ordered:?}");
    let body = SyncBody::Follow { ticket: 5, next: follower(2) };
    let message = SyncMessage { epoch: now, object: there, body };
    assert!(ordered.contains(&Output::Sync(Rank(3), message)), "{ordered:?}");
}

/// Anything that a peer can say of locks, sensible or not.
fn lie() -> impl Strategy<Value = Input> {
    let rank = || (0..6u32).prop_map(Rank);
    let ticket = || prop_oneof![4 => 0..4u32, 1 => any::<u32>()];
    let known = || proptest::collection::vec((rank(), prop_oneof![4 => 0..4u64, 1 => any::<u64>()]), 0..3);
    let place = || (rank(), ticket()).prop_map(|(rank, ticket)| QueuePlace { rank, ticket });
    let run = || (0..PAGES + 2, 0..4u32).prop_map(|(first, count)| Pages { first, count });
    let pages = move || proptest::collection::vec(run(), 0..3);
    let next = (place(), known(), any::<bool>(), pages())
        .prop_map(|(place, known, patient, wants)| Follower { place, known, patient, wants });
    let number = prop_oneof![4 => 0..4u64, 1 => any::<u64>()];
    let record = (rank(), number, pages(), pages()).prop_map(|(rank, number, pages, tracked)| Record {
        rank,
        number,
        pages,
        tracked,
    });
    let records = proptest::collection::vec(record, 0..3);
    let brought = (known(), proptest::collection::vec(0..PAGES + 2, 0..3))
        .prop_map(|(known, pages)| Brought { bytes: vec![7; pages.len() * PAGE_SIZE], known, pages });
    let body = prop_oneof![
        (ticket(), known(), any::<bool>(), pages())
            .prop_map(|(ticket, known, patient, wants)| SyncBody::Ask { ticket, known, patient, wants }),
        (ticket(), next).prop_map(|(ticket, next)| SyncBody::Follow { ticket, next }),
        (ticket(), records, brought).prop_map(|(ticket, records, brought)| SyncBody::Grant {
            ticket,
            records,
            brought
        }),
        (ticket(), place()).prop_map(|(ticket, before)| SyncBody::Refused { ticket, before }),
        pages().prop_map(|pages| SyncBody::Track { pages }),
        ticket().prop_map(|ticket| SyncBody::Queued { ticket }),
        (ticket(), known()).prop_map(|(ticket, known)| SyncBody::Request {
            ticket,
            request: Request::Take,
            known
        }),
    ];
    (rank(), 0..3u32, 0..LOCKS + 1, body)
        .prop_map(|(from, epoch, object, body)| Input::Sync(from, SyncMessage { epoch, object, body }))
}

proptest! {
    #[test]
    fn no_peer_can_make_a_node_panic_that_uses_locks(
        lies in proptest::collection::vec((lie(), 0..4u8, 0..LOCKS), 1..60),
    ) {
        let (mut job, ..) = job();
        let node = &mut job.nodes[0];
        for (lie, act, lock) in lies {
            match (act, node.holder(lock)) {
                (0, None) if node.awaited().is_none() => _ = node.handle(Input::Acquire { lock, who: 7 }),
                (1, None) if node.awaited().is_none() => _ = node.handle(Input::TryAcquire { lock, who: 7 }),
                (2, Some(_)) => _ = node.handle(Input::Release(lock)),
                _ => {}
            }
            lies::serve(node);
            let _ = node.handle(lie);
            lies::serve(node);
        }
    }
}
