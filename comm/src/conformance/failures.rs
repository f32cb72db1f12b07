//! Ranks that leave, and arguments that make no sense.

use super::Factory;
use super::cluster::{Rank, cluster, cluster_of_leavers, pattern};
use crate::{Atomic, Endpoint, Error, GetRange, PutRange, Rmw, SegmentId};

/// One event for each rank that leaves, and a clear refusal afterwards.
pub fn a_rank_that_left_is_reported_once_and_then_refused(factory: impl Factory) {
    cluster_of_leavers(3, factory, |mut rank| {
        let (segment, _memory) = rank.register(4_096);
        assert!(!rank.endpoint.misses());
        rank.meet();
        if rank.rank() == 2 {
            return;
        }
        assert_eq!(rank.wait("rank 2 to be reported", |rank| rank.downs.pop()), 2);
        assert!(rank.endpoint.misses());
        assert!(refusals(&rank, 2, segment).iter().all(|error| matches!(error, Error::Down { rank: 2, .. })));
        let peer = 1 - rank.rank();
        rank.send(peer, 0, b"still here");
        rank.flush();
        assert_eq!(rank.receive().payload, b"still here");
        assert!(rank.downs.is_empty(), "rank 2 was reported twice");
        // Rank 2 is not there to meet: the two that are left take leave by messages.
        rank.send(peer, 0, b"bye");
        rank.flush();
        assert_eq!(rank.receive().payload, b"bye");
    });
}

/// Leaving is not losing: the last words come before the event.
pub fn what_was_flushed_before_leaving_still_arrives(factory: impl Factory) {
    const COUNT: u64 = 50;
    cluster_of_leavers(2, factory, |mut rank| {
        rank.meet();
        if rank.rank() == 1 {
            (0..COUNT).for_each(|seed| rank.send(0, 3, &pattern(seed, 100)));
            rank.flush();
            return;
        }
        rank.wait("rank 1 to leave", |rank| rank.downs.pop());
        let words: Vec<_> = rank.inbox.drain(..).map(|message| message.payload).collect();
        assert_eq!(words, (0..COUNT).map(|seed| pattern(seed, 100)).collect::<Vec<_>>());
    });
}

/// Rank 3 of 4 leaves in the middle; the traffic of the others does not stop.
pub fn the_others_go_on_when_one_leaves(factory: impl Factory) {
    cluster_of_leavers(4, factory, |mut rank| {
        for round in 0..100 {
            if rank.rank() == 3 && round == 50 {
                return;
            }
            let next = (rank.rank() + 1) % 3;
            if rank.rank() < 3 {
                rank.send(next, round, b"go on");
                rank.flush();
                assert_eq!(rank.receive().kind, round);
            }
        }
        rank.wait("rank 3 to be reported", |rank| rank.downs.contains(&3).then_some(()));
        // The three part as they went round: nobody leaves before the next one has heard.
        for word in 100..103 {
            rank.send((rank.rank() + 1) % 3, word, b"bye");
            rank.flush();
            assert_eq!(rank.receive().kind, word);
        }
    });
}

/// Wrong ranks, segments and ranges, in every call that takes them.
pub fn what_does_not_exist_is_refused_and_nothing_is_moved(factory: impl Factory) {
    cluster(2, factory, |rank| {
        let (segment, memory) = rank.register(4_096);
        let invalid = |error: &Error| matches!(error, Error::Invalid(_));
        for nobody in [2, u32::MAX] {
            assert!(refusals(rank, nobody, segment).iter().all(invalid));
        }
        let peer = 1 - rank.rank();
        let nowhere = SegmentId(segment.0 + 1);
        for (segment, offset, len) in [
            (nowhere, 0, 1),
            (segment, 4_096, 1),
            (segment, 4_000, 97),
            (segment, u64::MAX, 2),
            (segment, 8, usize::MAX),
        ] {
            assert!(
                invalid(&bad_put(&*rank.endpoint, peer, segment, offset, len)),
                "put {segment:?} {offset} {len}"
            );
            assert!(
                invalid(&bad_get(&*rank.endpoint, peer, segment, offset, len)),
                "get {segment:?} {offset} {len}"
            );
        }
        rank.meet();
        assert_eq!(memory.read(0, 4_096), [0; 4_096]);
    });
}

/// What each call says that names `peer`, who is not there.
fn refusals(rank: &Rank, peer: u32, segment: SegmentId) -> Vec<Error> {
    let endpoint = &*rank.endpoint;
    let mut errors = vec![
        endpoint.send(peer, 0, &[b"hello"]).unwrap_err(),
        endpoint.fence(peer).unwrap_err(),
        bad_put(endpoint, peer, segment, 0, 1),
        bad_get(endpoint, peer, segment, 0, 1),
        endpoint.atomic(peer, segment, 0, Atomic::U64(Rmw::Swap(1))).unwrap_err(),
    ];
    errors.extend(endpoint.read_peer(peer, segment, 0, 1, &mut |_| panic!("nobody is there")).err());
    errors
}

/// The error of a put that must be refused: of one good byte, and then `len` at `offset`.
fn bad_put(endpoint: &dyn Endpoint, to: u32, segment: SegmentId, offset: u64, len: usize) -> Error {
    let byte = [1u8];
    let good = PutRange { offset: 0, len: 1, src: byte.as_ptr() };
    let bad = PutRange { offset, len, src: byte.as_ptr() };
    // SAFETY: the call must refuse before it touches memory; a provider that does not fails the test.
    unsafe { endpoint.put(to, segment, &[good, bad]) }.unwrap_err()
}

/// The error of a get that must be refused.
fn bad_get(endpoint: &dyn Endpoint, from: u32, segment: SegmentId, offset: u64, len: usize) -> Error {
    let mut byte = [0u8];
    let bad = GetRange { offset, len, dst: byte.as_mut_ptr() };
    // SAFETY: the call must refuse before it touches memory; a provider that does not fails the test.
    unsafe { endpoint.get(from, segment, &[bad]) }.unwrap_err()
}
