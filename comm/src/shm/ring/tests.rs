use super::*;
use crate::shm::inbox::Layout;
use std::hint::spin_loop;
use std::thread;

const RING: usize = MIN_RING;
const KIND: u16 = 0xA55A;

fn inbox() -> Arc<Inbox> {
    let layout = Layout::new(2, Some(RING));
    Arc::new(Inbox::open(Inbox::create(layout).unwrap(), None, layout, 0).unwrap())
}

/// Both ends of the ring of rank 1 in a new inbox of rank 0.
fn ends() -> (Producer, Consumer, Arc<Inbox>) {
    let inbox = inbox();
    (Producer::new(Arc::clone(&inbox), 1), Consumer::new(Arc::clone(&inbox), 1), inbox)
}

fn push(producer: &mut Producer, bytes: &[u8]) -> bool {
    let fits = producer.begin(bytes.len()).unwrap();
    if fits {
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        producer.append(head);
        producer.append(tail);
        producer.publish(KIND, FramePart::Whole);
    }
    fits
}

fn pop(consumer: &mut Consumer) -> Option<Vec<u8>> {
    let frame = consumer.peek().unwrap()?;
    assert_eq!((frame.kind, frame.part), (KIND, FramePart::Whole));
    let mut bytes = Vec::new();
    consumer.take(frame, &mut bytes);
    assert_eq!(bytes.len(), frame.len);
    Some(bytes)
}

/// A length and a first byte for the `i`th frame; every length there can be is among the first 4,097.
fn sample(i: usize) -> Vec<u8> {
    (0..(i * 1_471) % (RING / 4 + 1)).map(|at| u8::try_from((i + at) % 251).unwrap()).collect()
}

#[test]
fn frames_of_every_length_come_out_as_they_went_in_however_often_the_ring_wraps() {
    let (mut producer, mut consumer, _) = ends();
    assert_eq!(pop(&mut consumer), None);
    for i in 0..5_000 {
        assert!(push(&mut producer, &sample(i)));
        assert_eq!(pop(&mut consumer), Some(sample(i)));
        assert!(consumer.is_empty());
    }
}

#[test]
fn a_full_ring_takes_nothing_and_an_emptied_one_takes_the_longest_frame() {
    let (mut producer, mut consumer, _) = ends();
    for round in 0..200 {
        let mut count = 0;
        while push(&mut producer, &sample(round)) {
            count += 1;
        }
        assert!(!push(&mut producer, &sample(round)));
        assert!(count >= 2, "the ring takes {count} frames of {} bytes", sample(round).len());
        for _ in 0..count {
            assert_eq!(pop(&mut consumer), Some(sample(round)));
        }
        assert_eq!(pop(&mut consumer), None);
        assert!(push(&mut producer, &[7; RING / 4]), "an empty ring refused a frame");
        assert_eq!(pop(&mut consumer), Some(vec![7; RING / 4]));
    }
}

#[test]
fn a_payload_that_looks_like_headers_is_never_mistaken_for_a_frame() {
    let (mut producer, mut consumer, _) = ends();
    let header = Frame { len: 1, kind: KIND, part: FramePart::Whole }.encode().to_le_bytes();
    let trap: Vec<u8> = header.iter().copied().cycle().take(RING / 4).collect();
    for i in 0..300 {
        assert!(push(&mut producer, &trap[..trap.len() - i % 50 * 8]));
        assert_eq!(pop(&mut consumer), Some(trap[..trap.len() - i % 50 * 8].to_vec()));
        assert_eq!(pop(&mut consumer), None, "an old payload was taken for a frame");
    }
}

#[test]
fn two_threads_at_the_two_ends_lose_and_change_nothing() {
    const COUNT: usize = 30_000;
    let (mut producer, mut consumer, _) = ends();
    let sender = thread::spawn(move || {
        for i in 0..COUNT {
            while !push(&mut producer, &sample(i)) {
                thread::yield_now();
            }
        }
    });
    for i in 0..COUNT {
        let mut looks = 0;
        let bytes = loop {
            match pop(&mut consumer) {
                Some(bytes) => break bytes,
                None if sender.is_finished() && consumer.is_empty() => panic!("frame {i} never came"),
                None if looks % 100 == 99 => thread::yield_now(),
                None => spin_loop(),
            }
            looks += 1;
        };
        assert!(bytes == sample(i), "frame {i} was changed");
    }
    sender.join().unwrap();
}

#[test]
fn a_header_that_no_correct_sender_writes_is_refused() {
    let good = Frame { len: 5, kind: KIND, part: FramePart::Further };
    assert_eq!(Frame::decode(good.encode(), RING / 4), Ok(good));
    let too_long = Frame { len: RING / 4 + 1, ..good }.encode();
    let of_no_part = good.encode() | 0xFF << 48;
    let unmarked = good.encode() & !(0xFF << 56);
    for bad in [too_long, of_no_part, unmarked, 1, u64::MAX] {
        let (_, consumer, _) = ends();
        consumer.ring.header(0).store(bad, Ordering::Relaxed);
        assert!(consumer.peek().unwrap_err().contains("header"));
    }
}

#[test]
fn a_head_that_no_correct_receiver_writes_is_refused() {
    for bad in [u64::MAX, 1 << 40, 3] {
        let (mut producer, mut consumer, inbox) = ends();
        while push(&mut producer, &[1; 1_000]) {}
        while pop(&mut consumer).is_some() {}
        while push(&mut producer, &[1; 1_000]) {}
        inbox.head(1).store(bad, Ordering::Relaxed);
        assert!(producer.begin(1_000).unwrap_err().contains("has read"));
    }
}

#[test]
fn messages_of_one_cache_line_come_out_as_they_went_in_in_whatever_two_parts() {
    let (mut producer, mut consumer, _) = ends();
    let all: Vec<u8> = (1..=56).collect();
    assert_eq!(all.len(), FEW);
    for len in 0..=FEW {
        for head in 0..=len {
            let (head, body) = all[..len].split_at(head);
            assert!(producer.put_few(KIND, head, body).unwrap());
            let frame = consumer.peek().unwrap().unwrap();
            assert_eq!(frame, Frame { len, kind: KIND, part: FramePart::Whole });
            assert_eq!(consumer.read_few(frame)[..len], all[..len]);
            consumer.pass(frame);
            assert!(consumer.is_empty());
        }
    }
}

#[test]
fn a_full_ring_takes_no_message_of_a_cache_line_either() {
    let (mut producer, mut consumer, _) = ends();
    while producer.put_few(KIND, &[1; 10], &[2; 8]).unwrap() {}
    assert!(!producer.put_few(KIND, &[], &[]).unwrap());
    let mut count = 0;
    while let Some(message) = pop(&mut consumer) {
        assert_eq!(message, [vec![1; 10], vec![2; 8]].concat());
        count += 1;
    }
    assert!(count > 200, "{count} fill a ring of {RING} bytes");
    assert!(producer.put_few(KIND, &[], &[3]).unwrap());
    assert_eq!(pop(&mut consumer), Some(vec![3]));
}
