//! A link alone, without libfabric: what it hears and keeps.

use super::*;
use scash_comm::{Event, Secret};

/// Slots that a peer's queue may hold.
const SHARE: usize = 4;
const CREDITS: u32 = 4;

fn link() -> PeerLink {
    let secret = Secret::random().unwrap();
    let (to, from) = (Token::new(&secret, 0, 1), Token::new(&secret, 1, 0));
    PeerLink::new(1, Identity { address: 0, to, from, line: RemoteAddress { address: 0, key: 0 } })
}

/// The frames of a message of one piece.
fn message(kind: u16, bytes: &[u8]) -> Vec<u8> {
    let head = piece_head(kind, true, u32::try_from(bytes.len()).unwrap());
    [&head[..], bytes].concat()
}

fn said(word: PacketItem) -> Vec<u8> {
    let (bytes, len) = word.encode();
    bytes[..len].to_vec()
}

fn hear(link: &mut PeerLink, inbox: &mut Inbox, frames: &[u8]) -> Result<(), LossReason> {
    link.hear(frames, &Segments::default(), inbox)
}

/// What an inbox holds: a message's kind and length, or nothing for a death.
fn events(inbox: &mut Inbox) -> Vec<Option<(u16, usize)>> {
    let mut events = Vec::new();
    inbox.deliver(&mut |event| {
        events.push(match event {
            Event::Message { kind, payload, .. } => Some((kind, payload.len())),
            Event::Part { .. } => panic!("messages come whole"),
            Event::Down { .. } => None,
        });
    });
    events
}

#[test]
fn packets_are_heard_by_their_numbers() {
    let (mut link, mut slots) = (link(), Slots::new(4));
    let [first, second, third] = [(); 3].map(|()| slots.claim().unwrap());
    link.arrive(2, second, 20, CREDITS).unwrap();
    assert_eq!(link.next_arrived(), None);
    link.arrive(3, third, 30, CREDITS).unwrap();
    link.arrive(1, first, 10, CREDITS).unwrap();
    let heard: Vec<_> = std::iter::from_fn(|| link.next_arrived()).collect();
    assert_eq!(heard, [(first, 10), (second, 20), (third, 30)]);
}

#[test]
fn a_packet_that_comes_twice_or_beyond_all_credits_breaks_the_protocol() {
    let (mut link, mut slots) = (link(), Slots::new(4));
    let slot = slots.claim().unwrap();
    link.arrive(2, slot, 20, CREDITS).unwrap();
    for number in [0, 2, CREDITS + 1, u32::MAX] {
        assert!(
            matches!(link.arrive(number, slot, 20, CREDITS), Err(LossReason::Broke(_))),
            "packet {number}"
        );
    }
}

#[test]
fn a_peer_takes_no_more_packets_than_were_sent() {
    let mut link = link();
    link.sent = 3;
    link.acknowledge(2).unwrap();
    // A packet that was overtaken says what is known.
    link.acknowledge(1).unwrap();
    assert_eq!(link.acknowledged, 2);
    assert!(matches!(link.acknowledge(4), Err(LossReason::Broke(_))));
}

#[test]
fn a_message_in_pieces_is_one_message() {
    let (mut link, mut inbox) = (link(), Inbox::default());
    let mut packet = message(5, b"abc");
    packet[1] = 0;
    hear(&mut link, &mut inbox, &packet).unwrap();
    assert_eq!(events(&mut inbox), []);
    hear(&mut link, &mut inbox, &message(5, b"de")).unwrap();
    assert_eq!(events(&mut inbox), [Some((5, 5))]);
}

#[test]
fn what_a_peer_said_is_heard_before_its_death_and_not_after_its_goodbye() {
    let (mut link, mut slots, mut inbox) = (link(), Slots::new(4), Inbox::default());
    hear(&mut link, &mut inbox, &message(1, b"last words")).unwrap();
    let goodbye = hear(&mut link, &mut inbox, &said(PacketItem::Goodbye));
    assert_eq!(goodbye, Err(LossReason::Left));
    link.lose(LossReason::Left, &mut slots);
    link.tell_down(&mut inbox);
    link.tell_down(&mut inbox);
    hear(&mut link, &mut inbox, &message(2, b"a ghost's")).unwrap();
    assert_eq!(events(&mut inbox), [Some((1, 10)), None]);
}

#[test]
fn a_death_is_told_when_a_hold_is_over() {
    let (mut link, mut slots, mut inbox) = (link(), Slots::new(4), Inbox::default());
    link.hold();
    let slot = slots.claim().unwrap();
    assert!(link.park(slot, 10));
    link.lose(LossReason::Lost("gone".into()), &mut slots);
    link.tell_down(&mut inbox);
    assert_eq!((events(&mut inbox), link.unpark()), (vec![], None));
    link.release();
    assert_eq!(link.unpark(), Some((slot, 10)));
    link.tell_down(&mut inbox);
    assert_eq!(events(&mut inbox), [None]);
}

#[test]
fn answers_that_nobody_asked_for_and_questions_without_end_break_the_protocol() {
    let (mut peer, mut inbox) = (link(), Inbox::default());
    for word in [PacketItem::Fenced(1), PacketItem::Was(1)] {
        assert!(matches!(hear(&mut peer, &mut inbox, &said(word)), Err(LossReason::Broke(_))), "{word:?}");
    }
    let endless =
        (0..1_000).find_map(|number| hear(&mut peer, &mut inbox, &said(PacketItem::Fence(number))).err());
    assert!(matches!(endless, Some(LossReason::Broke(_))));
    let operation = Operation { offset: 0, op: scash_comm::Atomic::U64(scash_comm::Rmw::Load) };
    let word = PacketItem::Atomic { segment: 0, operation };
    assert!(
        matches!(hear(&mut link(), &mut inbox, &said(word)), Err(LossReason::Broke(_))),
        "no segment is registered"
    );
}

#[test]
fn a_queue_takes_no_more_than_its_share_and_gives_it_back_when_the_peer_is_lost() {
    let (mut link, mut slots) = (link(), Slots::new(8));
    let long = vec![7; 10 * SLOT];
    let parts: [&[u8]; 1] = [&long];
    let mut rest = UnsentParts::new(&parts, long.len());
    while link.say_piece(&mut slots, SHARE, 1, &mut rest) {}
    assert_eq!((link.slots, link.queue.len()), (SHARE, SHARE));
    assert_eq!(rest.left, long.len() - SHARE * (SLOT - HEADER - FRAME));
    link.lose(LossReason::Lost("gone".into()), &mut slots);
    assert_eq!((link.slots, std::iter::from_fn(|| slots.claim()).count()), (0, 8));
}

#[test]
fn messages_that_find_no_room_wait_and_are_heard_in_their_order() {
    let (mut link, mut peer) = (link(), link());
    let (mut slots, mut inbox) = (Slots::new(8), Inbox::default());
    let long = vec![7; 10 * SLOT];
    let lens = [100, long.len(), 3, SLOT, 0, 5];
    for (kind, len) in (0..).zip(lens) {
        let (head, tail) = long[..len].split_at(len / 3);
        link.say_message(&mut slots, SHARE, kind, &[head, tail], len);
        assert_eq!(link.is_late(), kind > 0, "after message {kind}");
    }
    assert!(link.late() > 5 * SLOT);
    while link.has_work() {
        link.seal();
        assert!(link.slots <= SHARE);
        for step in std::mem::take(&mut link.queue) {
            let Queued::Packet { slot, len } = step else { panic!("nothing was put") };
            // SAFETY: no operation is under way.
            let bytes = unsafe { slots.bytes(slot, len) };
            hear(&mut peer, &mut inbox, &bytes[HEADER..]).unwrap();
            slots.release(slot);
            link.slots -= 1;
        }
        link.answer(&mut slots, SHARE);
    }
    assert_eq!((link.late(), link.is_late()), (0, false));
    let heard: Vec<_> = (0..).zip(lens).map(Some).collect();
    assert_eq!(events(&mut inbox), heard);
}

#[test]
fn what_waits_for_room_is_forgotten_with_the_peer() {
    let (mut link, mut slots) = (link(), Slots::new(8));
    let long = vec![7; 10 * SLOT];
    link.say_message(&mut slots, SHARE, 1, &[&long], long.len());
    link.lose(LossReason::Lost("gone".into()), &mut slots);
    assert_eq!((link.late(), link.has_work(), link.slots), (0, false, 0));
}
