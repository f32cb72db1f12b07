use super::*;
use crate::shm::inbox::{Layout, MIN_RING};
use crate::shm::ring::Producer;
use proptest::prelude::*;

/// Rank 0 as a receiver, and rank 1 as a sender that may write what it likes.
struct Pair {
    intake: Intake,
    peers: Peers,
    producer: Producer,
    inbox: Arc<Inbox>,
}

fn pair() -> Pair {
    let layout = Layout::new(2, Some(MIN_RING));
    let inbox = || Arc::new(Inbox::open(Inbox::create(layout).unwrap(), None, layout, 0).unwrap());
    let (mine, theirs) = (inbox(), inbox());
    let peers = Peers::new(0, vec![(Arc::clone(&mine), None), (theirs, None)], None);
    let producer = Producer::new(Arc::clone(&mine), 1);
    Pair { intake: Intake::new(&mine, 2), peers, producer, inbox: mine }
}

impl Pair {
    fn write(&mut self, part: FramePart, bytes: &[u8]) {
        assert!(self.producer.begin(bytes.len()).unwrap());
        self.producer.append(bytes);
        self.producer.publish(5, part);
    }

    fn poll(&mut self) -> (Vec<String>, Result<usize>) {
        let mut events = Vec::new();
        let verdict = self.intake.poll(&self.peers, &mut |event| {
            events.push(match event {
                Event::Message { from, kind, payload } => format!("{from}/{kind}: {}", payload.len()),
                Event::Part { from, kind, head, at, left, bytes } => {
                    let mut taken = [0; 7];
                    // SAFETY: as many bytes are there.
                    let count = unsafe { bytes.take(taken.as_mut_ptr(), taken.len()) };
                    format!("{from}/{kind}: {count} of {left} behind {at}, {}", head.len())
                }
                Event::Down { rank } => format!("down {rank}"),
            });
        });
        (events, verdict)
    }
}

#[test]
fn a_message_in_frames_arrives_when_its_last_frame_does() {
    let mut pair = pair();
    pair.write(FramePart::First, &[&10u64.to_le_bytes()[..], &[1; 4]].concat());
    pair.write(FramePart::Further, &[2; 5]);
    assert_eq!(pair.poll().0, Vec::<String>::new());
    pair.write(FramePart::Further, &[3; 1]);
    pair.write(FramePart::Whole, &[]);
    assert_eq!(pair.poll().0, ["1/5: 10", "1/5: 0"]);
}

#[test]
fn all_that_a_rank_has_sent_arrives_before_it_is_reported_gone() {
    let mut pair = pair();
    for len in 1..=20 {
        pair.write(FramePart::Whole, &vec![0; len]);
    }
    pair.peers.inbox(1).unwrap().bell().leave();
    pair.peers.look();
    let mut events = Vec::new();
    while events.last().is_none_or(|last| last != "down 1") {
        let (more, verdict) = pair.poll();
        assert!(verdict.unwrap() > 0, "it says nothing more, and is not reported: {events:?}");
        events.extend(more);
    }
    let sent = (1..=20).map(|len| format!("1/5: {len}"));
    assert_eq!(events, sent.chain(["down 1".to_owned()]).collect::<Vec<_>>());
}

#[test]
fn a_long_message_is_offered_until_all_of_it_is_taken() {
    let mut pair = pair();
    let mut front = [0; FRONT];
    (front[0], front[HEAD]) = (1, 9);
    pair.write(FramePart::Long, &[&front[..], &[1; 10]].concat());
    pair.write(FramePart::Whole, &[]);
    assert_eq!(pair.poll().0, ["1/5: 7 of 10 behind 0, 1", "1/5: 3 of 3 behind 7, 1"]);
    assert_eq!(pair.poll().0, ["1/5: 0"], "what was waited for comes alone");
}

#[test]
fn frames_that_no_correct_sender_writes_end_the_peer_and_nothing_else() {
    let announced = |total: u64, bytes: usize| [&total.to_le_bytes()[..], &vec![0; bytes]].concat();
    let cases: [&[(FramePart, Vec<u8>)]; 11] = [
        &[(FramePart::Long, vec![0; FRONT - 1])],
        &[(FramePart::Long, vec![255; FRONT])],
        &[(FramePart::First, announced(100, 1)), (FramePart::Long, vec![0; FRONT])],
        &[(FramePart::Further, vec![1])],
        &[(FramePart::First, announced(100, 1)), (FramePart::First, announced(100, 1))],
        &[(FramePart::First, announced(100, 1)), (FramePart::Whole, vec![1])],
        &[(FramePart::First, announced(100, 1)), (FramePart::Further, vec![])],
        &[(FramePart::First, announced(3, 1)), (FramePart::Further, vec![1; 3])],
        &[(FramePart::First, vec![1; TOTAL - 1])],
        &[(FramePart::First, announced(0, 0))],
        &[(FramePart::First, announced(u64::MAX, 8))],
    ];
    for (i, case) in cases.into_iter().enumerate() {
        let mut pair = pair();
        pair.write(FramePart::Whole, b"hi");
        for (part, bytes) in case {
            pair.write(*part, bytes);
        }
        // What was waited for comes alone.
        let (events, verdict) = pair.poll();
        assert_eq!((events, verdict.unwrap()), (vec!["1/5: 2".to_owned()], 1), "case {i}");
        let (events, verdict) = pair.poll();
        assert!(events.is_empty(), "case {i}: {events:?}");
        assert!(matches!(verdict, Err(Error::Protocol { rank: 1, .. })), "case {i}: {verdict:?}");
        let (events, verdict) = pair.poll();
        assert_eq!((events, verdict.unwrap()), (vec!["down 1".to_owned()], 1), "case {i}");
        let (events, verdict) = pair.poll();
        assert_eq!((events, verdict.unwrap()), (vec![], 0), "case {i}");
        assert!(matches!(pair.peers.alive(1), Err(Error::Down { rank: 1, .. })));
    }
}

#[test]
fn a_sink_that_panics_loses_its_message_only() {
    let mut pair = pair();
    pair.write(FramePart::First, &[&2u64.to_le_bytes()[..], &[1; 2]].concat());
    pair.write(FramePart::Whole, &[1; 3]);
    let Pair { intake, peers, .. } = &mut pair;
    let poll = std::panic::AssertUnwindSafe(|| intake.poll(peers, &mut |_| panic!("the sink's own trouble")));
    assert!(std::panic::catch_unwind(poll).is_err());
    assert_eq!(pair.poll().0, ["1/5: 3"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever bytes are in a ring: no panic, and no more than a burst of events.
    #[test]
    fn rubbish_in_a_ring_gives_messages_or_a_protocol_error(words in prop::collection::vec((0..MIN_RING / 8, any::<u64>(), 0..5u8), 1..200)) {
        let mut pair = pair();
        for (at, word, shape) in words {
            // Four of five words look like headers, or next to none would get past the first check.
            let word = if shape == 0 { word } else { word & 0x0001_FFFF_0000_0FFF | u64::from(shape - 1) << 48 | 0x5C << 56 };
            let at = if shape == 0 { at * 8 } else { (at * 8) & !63 };
            // SAFETY: `at` is inside the ring.
            let place = unsafe { pair.inbox.ring(1).add(at) };
            // SAFETY: as above, and aligned to 8 bytes.
            unsafe { place.cast::<u64>().write(word) };
        }
        for _ in 0..20 {
            let (events, verdict) = pair.poll();
            let others = events.iter().filter(|event| !event.contains(" behind ") || event.contains(" behind 0,"));
            prop_assert!(others.count() <= BURST + 1);
            let allowed = matches!(verdict, Ok(_) | Err(Error::Protocol { rank: 1, .. }));
            prop_assert!(allowed, "{:?}", verdict);
        }
    }
}
