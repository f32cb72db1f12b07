//! Good streams, however they are cut, do what they say; bad ones are refused and touch nothing.

use super::super::outgoing::Outgoing;
use super::super::sealed::Outlet;
use super::*;
use crate::{Bytes, Event, LocalSegment, PutRange};
use proptest::prelude::*;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Bytes of the registered memory, and of the memory on each side of it that nothing may touch.
const SEGMENT: usize = 100_000;
const GUARD: usize = 4096;

/// A receiving end with registered memory, and the socket to send to it.
struct Receiver {
    incoming: Incoming,
    segments: Segments,
    memory: Box<[u8]>,
    here: UnixStream,
    there: UnixStream,
    delivery: Delivery,
    messages: Vec<(u16, Vec<u8>)>,
    /// What there is of a long message.
    long: Option<Vec<u8>>,
    /// Bytes of a long message that are taken at a time; `None`: it is kept until it is whole.
    at_a_time: Option<usize>,
}

/// Keeps a message, or a part of one.
fn hear(event: Event<'_>, messages: &mut Vec<(u16, Vec<u8>)>, long: &mut Option<Vec<u8>>) {
    match event {
        Event::Message { kind, payload, .. } => messages.push((kind, payload.to_vec())),
        Event::Part { kind, head, at, left, bytes, .. } => {
            let so_far = long.get_or_insert_with(|| head.to_vec());
            assert_eq!(so_far.len(), head.len() + at);
            so_far.reserve(left);
            // SAFETY: the room was reserved.
            let count = unsafe { bytes.take(so_far.spare_capacity_mut().as_mut_ptr().cast(), left) };
            // SAFETY: they were stored.
            unsafe { so_far.set_len(so_far.len() + count) };
            if count == left {
                messages.push((kind, long.take().unwrap()));
            }
        }
        Event::Down { .. } => panic!("a delivery has only messages"),
    }
}

struct FromSocket<'a> {
    receiver: &'a mut Receiver,
    end: u64,
    most: usize,
    pulled: Result<Pulled, LossReason>,
}

// SAFETY: `take_part` stores as many bytes as it says, which are `most` at most.
unsafe impl Bytes for FromSocket<'_> {
    unsafe fn take(&mut self, to: *mut u8, most: usize) -> usize {
        let Receiver { incoming, here, segments, .. } = &mut *self.receiver;
        // SAFETY: passed on to the caller.
        let (count, pulled) =
            unsafe { incoming.take_part(here.as_fd(), segments, self.end, to, most.min(self.most)) };
        self.pulled = pulled;
        count
    }
}

impl Receiver {
    fn new() -> Self {
        let mut memory = vec![0; GUARD + SEGMENT + GUARD].into_boxed_slice();
        let segments = Segments::default();
        let base = memory[GUARD..].as_mut_ptr();
        segments.add(&LocalSegment { base, len: SEGMENT, fd: -1 }).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let (incoming, delivery) = (Incoming::new(Inlet::default()), Delivery::new());
        let (messages, long, at_a_time) = (Vec::new(), None, None);
        Self { incoming, segments, memory, here, there, delivery, messages, long, at_a_time }
    }

    /// Receives `bytes`, which come in pieces of the given lengths (the last one again and again).
    fn feed(&mut self, mut bytes: &[u8], pieces: &[usize]) -> Result<(), LossReason> {
        let last = pieces.last().copied().unwrap_or(usize::MAX);
        let mut pieces = pieces.iter().copied();
        while !bytes.is_empty() {
            let piece = pieces.next().unwrap_or(last).clamp(1, 60_000).min(bytes.len());
            self.there.write_all(&bytes[..piece]).unwrap();
            bytes = &bytes[piece..];
            self.pull()?;
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<(), LossReason> {
        let Some(most) = self.at_a_time else {
            let pulled = self.incoming.pull_all(self.here.as_fd(), &self.segments);
            self.take();
            return pulled.map(drop);
        };
        loop {
            let pulled = self.incoming.pull(self.here.as_fd(), &self.segments);
            self.take();
            if pulled? != Pulled::Part || !self.take_part(most)? {
                return Ok(());
            }
        }
    }

    fn take(&mut self) {
        while self.incoming.take(&mut self.delivery) {
            let (messages, long) = (&mut self.messages, &mut self.long);
            self.delivery.deliver(0, &mut |event| hear(event, messages, long));
        }
    }

    /// Takes what there is of a long message, up to `most` bytes. Whether the socket may have more.
    fn take_part(&mut self, most: usize) -> Result<bool, LossReason> {
        let Some(part) = self.incoming.part() else { return Ok(true) };
        let (mut messages, mut long) = (Vec::new(), self.long.take());
        let mut taking = FromSocket { receiver: self, end: part.end, most, pulled: Ok(Pulled::Some) };
        hear(part.event(0, &mut taking), &mut messages, &mut long);
        let pulled = taking.pulled;
        self.messages.append(&mut messages);
        self.long = long;
        self.take();
        Ok(pulled? != Pulled::All)
    }

    fn segment(&self) -> &[u8] {
        &self.memory[GUARD..GUARD + SEGMENT]
    }

    fn guards_are_intact(&self) -> bool {
        self.memory[..GUARD].iter().chain(&self.memory[GUARD + SEGMENT..]).all(|&byte| byte == 0)
    }
}

/// What a sender does.
#[derive(Clone, Debug)]
enum Action {
    Message(u16, Vec<u8>),
    Long(u16, Vec<u8>, Vec<u8>),
    Put(usize, Vec<u8>),
}

fn bytes(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    (0..=longest, any::<u8>()).prop_map(|(len, seed)| {
        (0..len).map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap_or(0).wrapping_add(seed)).collect()
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (any::<u16>(), bytes(300)).prop_map(|(kind, bytes)| Action::Message(kind, bytes)),
        (any::<u16>(), bytes(70_000)).prop_map(|(kind, bytes)| Action::Message(kind, bytes)),
        (any::<u16>(), bytes(64), bytes(70_000)).prop_map(|(kind, head, mut bytes)| {
            bytes.push(1);
            Action::Long(kind, head, bytes)
        }),
        (0..SEGMENT - 200, bytes(200)).prop_map(|(at, bytes)| Action::Put(at, bytes)),
        (0..SEGMENT - 60_000, bytes(60_000)).prop_map(|(at, bytes)| Action::Put(at, bytes)),
    ]
}

/// The stream of these actions. Some flushes come between: they must not matter.
fn stream(actions: &[Action]) -> Vec<u8> {
    let mut outgoing = Outgoing::new(Outlet::default());
    for action in actions {
        match action {
            Action::Message(kind, bytes) => outgoing.message(*kind, bytes.len(), &[bytes]),
            // SAFETY: the actions outlive `drained`, which flushes.
            Action::Long(kind, head, bytes) => unsafe { outgoing.long(*kind, head, bytes) },
            Action::Put(at, bytes) => {
                let range = PutRange { offset: *at as u64, len: bytes.len(), src: bytes.as_ptr() };
                // SAFETY: the actions outlive `drained`, which flushes.
                unsafe { outgoing.put(0, range) };
            }
        }
    }
    super::super::outgoing::tests::drained(&mut outgoing)
}

/// What these actions do to memory, and the messages that they bring.
fn effect(actions: &[Action]) -> (Vec<u8>, Vec<(u16, Vec<u8>)>) {
    let (mut memory, mut messages) = (vec![0; SEGMENT], Vec::new());
    for action in actions {
        match action {
            Action::Message(kind, bytes) => messages.push((*kind, bytes.clone())),
            Action::Long(kind, head, bytes) => messages.push((*kind, [&head[..], bytes].concat())),
            Action::Put(at, bytes) => memory[*at..at + bytes.len()].copy_from_slice(bytes),
        }
    }
    (memory, messages)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_stream_does_the_same_however_it_is_cut(
        actions in prop::collection::vec(action(), 0..30),
        pieces in prop::collection::vec(prop_oneof![1..40usize, 1..60_000usize], 1..50),
        at_a_time in prop::option::of(1..100_000usize),
    ) {
        let stream = stream(&actions);
        let mut receiver = Receiver { at_a_time, ..Receiver::new() };
        prop_assert_eq!(receiver.feed(&stream, &pieces), Ok(()));
        let (memory, messages) = effect(&actions);
        prop_assert!(receiver.segment() == memory);
        prop_assert!(receiver.messages == messages);
        prop_assert!(receiver.incoming.has_taken(stream.len() as u64));
        prop_assert!(receiver.guards_are_intact());
    }

    #[test]
    fn a_stream_with_a_flipped_bit_touches_only_registered_memory(
        actions in prop::collection::vec(action(), 1..8), at: prop::sample::Index, bit in 0..8u32,
    ) {
        let mut stream = stream(&actions);
        // A put of no bytes sends nothing.
        prop_assume!(!stream.is_empty());
        let at = at.index(stream.len());
        stream[at] ^= 1 << bit;
        let mut receiver = Receiver { at_a_time: (bit % 2 == 0).then_some(7_000), ..Receiver::new() };
        let fed = receiver.feed(&stream, &[5_000]);
        prop_assert!(matches!(fed, Ok(()) | Err(LossReason::Broke(_) | LossReason::Left)), "{fed:?}");
        prop_assert!(receiver.guards_are_intact());
    }

    #[test]
    fn random_bytes_touch_only_registered_memory(
        mut rubbish in prop::collection::vec(any::<u8>(), 0..3_000), kind in 0..5u8,
    ) {
        // Make the first byte more interesting than most.
        if let Some(first) = rubbish.first_mut() {
            *first = kind;
        }
        let mut receiver = Receiver::new();
        let fed = receiver.feed(&rubbish, &[100]);
        prop_assert!(matches!(fed, Ok(()) | Err(LossReason::Broke(_) | LossReason::Left)), "{fed:?}");
        prop_assert!(receiver.guards_are_intact());
    }
}

fn sample() -> Vec<Action> {
    vec![
        Action::Message(1, vec![1; 30]),
        Action::Put(7, vec![2; 300]),
        Action::Put(700, vec![3; 20]),
        Action::Message(2, vec![]),
        Action::Message(3, vec![4; 17_000]),
        Action::Long(4, vec![6; 16], vec![7; 20_000]),
        Action::Put(0, vec![5; 1]),
    ]
}

#[test]
fn every_prefix_of_a_stream_gives_a_prefix_of_its_messages_and_then_a_loss() {
    let stream = stream(&sample());
    let (_, messages) = effect(&sample());
    for cut in (0..1_000).chain((1_000..stream.len()).step_by(97)) {
        let mut receiver = Receiver::new();
        receiver.feed(&stream[..cut], &[cut]).unwrap();
        assert!(messages.starts_with(&receiver.messages), "cut at {cut}");
        drop(std::mem::replace(&mut receiver.there, UnixStream::pair().unwrap().0));
        let end = receiver.incoming.pull_all(receiver.here.as_fd(), &receiver.segments);
        assert_eq!(end, Err(LossReason::closed()), "cut at {cut}");
        assert!(receiver.incoming.has_ended());
    }
}

#[test]
fn puts_outside_of_registered_memory_are_refused_before_any_byte_is_written() {
    let (inside, outside) = (vec![9; 10], vec![9; 11]);
    for (segment, offset) in
        [(0, SEGMENT as u64 - 10), (0, u64::MAX), (0, u64::MAX - 10), (1, 0), (u16::MAX, 0)]
    {
        let mut outgoing = Outgoing::new(Outlet::default());
        for (segment, offset, bytes) in [(0, 0, &inside), (segment, offset, &outside)] {
            // SAFETY: the bytes live until the flush in `drained`.
            unsafe { outgoing.put(segment, PutRange { offset, len: bytes.len(), src: bytes.as_ptr() }) };
        }
        let stream = super::super::outgoing::tests::drained(&mut outgoing);
        let mut receiver = Receiver::new();
        let Err(LossReason::Broke(why)) = receiver.feed(&stream, &[3]) else {
            panic!("{segment} {offset} was accepted")
        };
        assert!(why.contains("outside of the registered memory"), "{why}");
        assert!(receiver.memory.iter().all(|&byte| byte == 0));
        assert!(receiver.feed(&stream, &[usize::MAX]).is_ok(), "after its end, a stream is ignored");
        assert!(receiver.memory.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_lying_length_costs_no_memory() {
    let mut receiver = Receiver::new();
    let mut stream = FrameHead::Message { kind: 1, len: super::super::wire::MAX_MESSAGE }.encode().to_vec();
    stream.extend([0; 100_000]);
    receiver.feed(&stream, &[50_000]).unwrap();
    let ReceivingBody::Message { bytes, .. } = &receiver.incoming.body else {
        panic!("it is a large message")
    };
    assert_eq!(bytes.len(), 100_000);
    assert!(bytes.capacity() <= 4 * 100_000, "{} bytes for 100,000", bytes.capacity());
}

#[test]
fn messages_before_a_goodbye_are_delivered() {
    let mut outgoing = Outgoing::new(Outlet::default());
    outgoing.message(5, 3, &[b"bye"]);
    outgoing.goodbye();
    let stream = super::super::outgoing::tests::drained(&mut outgoing);
    let mut receiver = Receiver::new();
    assert_eq!(receiver.feed(&stream, &[usize::MAX]), Err(LossReason::Left));
    assert_eq!(receiver.messages, [(5, b"bye".to_vec())]);
}

#[test]
fn a_long_message_that_comes_with_a_goodbye_is_taken_whole() {
    let body = vec![7; 50_000];
    let mut outgoing = Outgoing::new(Outlet::default());
    // SAFETY: the body lives to the end of the test.
    unsafe { outgoing.long(5, b"head", &body) };
    outgoing.goodbye();
    let stream = super::super::outgoing::tests::drained(&mut outgoing);
    let mut receiver = Receiver { at_a_time: Some(usize::MAX), ..Receiver::new() };
    assert_eq!(receiver.feed(&stream, &[20_000, usize::MAX]), Err(LossReason::Left));
    assert_eq!(receiver.messages, [(5, [&b"head"[..], &body].concat())]);
}

#[test]
fn a_fence_is_reached_with_the_last_byte_before_it_and_not_earlier() {
    let stream = stream(&sample());
    let mut receiver = Receiver::new();
    receiver.incoming.ask_fence(stream.len() as u64);
    receiver.feed(&stream[..stream.len() - 1], &[1_000]).unwrap();
    assert!(!receiver.incoming.fence_reached());
    receiver.feed(&stream[stream.len() - 1..], &[1]).unwrap();
    assert!(receiver.incoming.fence_reached());
}

#[test]
fn a_held_stream_may_not_be_read_until_the_last_get_is_over() {
    let mut incoming = Incoming::new(Inlet::default());
    incoming.ask_fence(1);
    incoming.hold();
    incoming.hold();
    assert!(!incoming.may_pull());
    assert!(incoming.was_denied());
    assert!(!incoming.release(), "another get is under way");
    assert!(incoming.release(), "the fence has been waiting for this");
    assert!(incoming.may_pull());
}

#[test]
fn undelivered_messages_keep_their_order_over_many_buffers() {
    let actions: Vec<_> =
        (0..400u16).map(|i| Action::Message(i, vec![u8::try_from(i % 251).unwrap(); 900])).collect();
    let stream = stream(&actions);
    let mut receiver = Receiver::new();
    for piece in stream.chunks(10_000) {
        receiver.there.write_all(piece).unwrap();
        receiver.incoming.pull(receiver.here.as_fd(), &receiver.segments).unwrap();
    }
    receiver.take();
    assert!(receiver.messages == effect(&actions).1);
}
