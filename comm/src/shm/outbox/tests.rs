use super::*;
use crate::shm::inbox::{Inbox, Layout, MIN_RING};
use crate::shm::ring::Consumer;
use std::sync::Arc;

fn ends() -> (Outbox, Consumer) {
    let layout = Layout::new(2, Some(MIN_RING));
    let inbox = Arc::new(Inbox::open(Inbox::create(layout).unwrap(), None, layout, 0).unwrap());
    (Outbox::new(Producer::new(Arc::clone(&inbox), 1)), Consumer::new(inbox, 1))
}

/// Takes frames until a message is complete.
fn receive(outbox: &mut Outbox, consumer: &mut Consumer) -> (u16, Vec<u8>) {
    let (mut bytes, mut total) = (Vec::new(), None);
    loop {
        outbox.drain().unwrap();
        let frame = consumer.peek().unwrap().expect("a frame is there after a drain");
        consumer.take(frame, &mut bytes);
        match frame.part {
            FramePart::Whole => return (frame.kind, bytes),
            FramePart::First => {
                total = Some(usize::from_le_bytes(bytes[..TOTAL].try_into().unwrap()));
                bytes.drain(..TOTAL);
            }
            FramePart::Further => {}
            FramePart::Long => {
                bytes.drain(..FRONT);
                return (frame.kind, bytes);
            }
        }
        if Some(bytes.len()) == total {
            return (frame.kind, bytes);
        }
    }
}

#[test]
fn what_has_no_room_waits_and_leaves_in_order() {
    let (mut outbox, mut consumer) = ends();
    let lengths = [10, 0, 4_096, 4_097, 0, 100_000, 3, 5_000, 0];
    let message = |i: usize| vec![u8::try_from(i % 200).unwrap(); lengths[i % lengths.len()]];
    for i in 0..90 {
        let bytes = message(i);
        let (head, tail) = bytes.split_at(bytes.len() / 3);
        outbox.send(u16::try_from(i).unwrap(), &[head, &[], tail, &[]], bytes.len()).unwrap();
    }
    assert!(outbox.has_backlog());
    for i in 0..90 {
        assert_eq!(receive(&mut outbox, &mut consumer), (u16::try_from(i).unwrap(), message(i)));
    }
    assert!(!outbox.has_backlog());
    assert!(consumer.is_empty());
}

#[test]
fn a_short_message_that_has_room_does_not_overtake_one_that_waits() {
    let (mut outbox, mut consumer) = ends();
    let long = vec![1; 100_000];
    outbox.send(1, &[&long], long.len()).unwrap();
    assert!(outbox.has_backlog());
    // Behind the last frame that fits there is room for a cache line.
    outbox.send_long(2, b"he", b"ad").unwrap();
    assert_eq!(receive(&mut outbox, &mut consumer), (1, long));
    assert_eq!(receive(&mut outbox, &mut consumer), (2, b"head".to_vec()));
}

#[test]
fn a_long_message_goes_in_one_frame_or_waits_like_others() {
    let (mut outbox, mut consumer) = ends();
    let body = [7; 3_000];
    for _ in 0..10 {
        outbox.send_long(1, b"head", &body).unwrap();
    }
    assert!(outbox.has_backlog());
    let received: Vec<Vec<u8>> = (0..10).map(|_| receive(&mut outbox, &mut consumer).1).collect();
    assert_eq!(received[0], body, "its head is in the front");
    assert_eq!(received[9], [&b"head"[..], &body].concat());
    let short = [4; OFFERED - 1];
    let others = [(&[1; 64][..], &[2; 300][..]), (b"head", b""), (b"head", &short), (b"head", &[3; 8_000])];
    for (head, body) in others {
        outbox.send_long(2, head, body).unwrap();
        assert_eq!(receive(&mut outbox, &mut consumer), (2, [head, body].concat()));
    }
}

#[test]
fn a_backlog_that_was_given_up_is_gone() {
    let (mut outbox, _consumer) = ends();
    outbox.send(1, &[&[0; 100_000]], 100_000).unwrap();
    assert!(outbox.has_backlog());
    outbox.give_up();
    assert!(!outbox.has_backlog());
}
