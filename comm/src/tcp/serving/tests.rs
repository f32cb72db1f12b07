//! A server's answers to requests good and bad.

use super::*;
use crate::{Atomic, LocalSegment, Rmw};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

const SEGMENT: usize = 4 << 20;

/// A server of one segment, and a requester's socket.
struct Server {
    serving: Serving,
    segments: Segments,
    memory: Vec<u64>,
    here: UnixStream,
    there: UnixStream,
}

impl Server {
    fn new() -> Self {
        let mut memory: Vec<u64> = (0..SEGMENT as u64 / 8).map(|i| i * 0x0101_0101_0001).collect();
        let segments = Segments::default();
        segments.add(&LocalSegment { base: memory.as_mut_ptr().cast(), len: SEGMENT, fd: -1 }).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        Self { serving: Serving::new(Outlet::default(), Inlet::default()), segments, memory, here, there }
    }

    fn bytes(&self) -> Vec<u8> {
        self.memory.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn advance(&mut self) -> Result<RequestState, LossReason> {
        self.serving.advance(self.here.as_fd(), &self.segments, |position| Ok(position <= 100))
    }

    fn ask(&mut self, request: &[u8]) -> Result<RequestState, LossReason> {
        self.there.write_all(request).unwrap();
        self.advance()
    }

    fn answer(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let end = self.there.read_to_end(&mut bytes).map_err(|error| error.kind());
        assert_eq!(end, Err(std::io::ErrorKind::WouldBlock));
        bytes
    }
}

fn get(position: u64, ranges: &[(u64, u64)]) -> Vec<u8> {
    let count = u32::try_from(ranges.len()).unwrap();
    let mut bytes = Request::Get { segment: 0, count, position }.encode().to_vec();
    ranges.iter().for_each(|&(offset, len)| bytes.extend(Range { offset, len }.encode()));
    bytes
}

fn atomic(segment: u16, position: u64, offset: u64, op: Atomic) -> Vec<u8> {
    let head = Request::Atomic { segment, position }.encode();
    [&head[..], &Operation { offset, op }.encode()].concat()
}

#[test]
fn a_get_is_answered_with_its_ranges_in_a_row() {
    let mut server = Server::new();
    assert_eq!(server.ask(&get(0, &[(1_000, 5), (0, 3)])), Ok(RequestState::Idle));
    let bytes = server.bytes();
    let expected = [&Reply::Got { bytes: 8 }.encode()[..], &bytes[1_000..1_005], &bytes[..3]].concat();
    assert_eq!(server.answer(), expected);
}

#[test]
fn a_get_that_runs_ahead_of_its_puts_is_told_so() {
    let mut server = Server::new();
    assert_eq!(server.ask(&get(101, &[(0, 3)])), Ok(RequestState::Idle));
    assert_eq!(server.answer(), Reply::NotYet { position: 101 }.encode());
}

#[test]
fn a_request_in_pieces_is_answered_once_it_is_whole() {
    let mut server = Server::new();
    let request = get(0, &[(0, 1), (1, 1)]);
    for byte in &request[..request.len() - 1] {
        assert_eq!(server.ask(&[*byte]), Ok(RequestState::Idle));
        assert!(server.answer().is_empty());
    }
    server.ask(&request[request.len() - 1..]).unwrap();
    assert_eq!(server.answer().len(), SERVICE_HEAD + 2);
}

#[test]
fn an_operation_is_executed_once_it_is_whole_and_once() {
    let mut server = Server::new();
    server.memory[3] = 40;
    let request = atomic(0, 100, 24, Atomic::U64(Rmw::Add(2)));
    for byte in &request[..request.len() - 1] {
        assert_eq!(server.ask(&[*byte]), Ok(RequestState::Idle));
        assert_eq!((server.answer(), server.memory[3]), (Vec::new(), 40));
    }
    assert_eq!(server.ask(&request[request.len() - 1..]), Ok(RequestState::Idle));
    assert_eq!((server.answer(), server.memory[3]), (Reply::Was { before: 40 }.encode().to_vec(), 42));
    assert_eq!((server.advance(), server.memory[3]), (Ok(RequestState::Nothing), 42));
}

#[test]
fn an_operation_that_runs_ahead_of_its_puts_is_told_so_and_not_executed() {
    let mut server = Server::new();
    assert_eq!(server.ask(&atomic(0, 101, 0, Atomic::U64(Rmw::Swap(7)))), Ok(RequestState::Idle));
    assert_eq!(server.answer(), Reply::NotYet { position: 101 }.encode());
    assert_eq!(server.memory[0], 0);
}

#[test]
fn an_operation_on_what_is_no_word_of_registered_memory_is_refused() {
    let end = SEGMENT as u64;
    let (narrow, wide) = (Atomic::U32(Rmw::Swap(7)), Atomic::U64(Rmw::Swap(7)));
    for (segment, offset, op) in [
        (0, 1, narrow),
        (0, 2, narrow),
        (0, 4, wide),
        (0, end, wide),
        (0, end, narrow),
        (0, end - 4, wide),
        (0, u64::MAX - 7, wide),
        (0, u64::MAX - 3, narrow),
        (0, u64::MAX, narrow),
        (1, 0, wide),
        (u16::MAX, 0, narrow),
    ] {
        let mut server = Server::new();
        let before = server.bytes();
        let Err(LossReason::Broke(why)) = server.ask(&atomic(segment, 0, offset, op)) else {
            panic!("{op:?} at {offset} of {segment}")
        };
        assert!(why.contains("it asked for the operation"), "{why}");
        assert!(server.answer().is_empty() && server.bytes() == before);
    }
    let mut unknown = atomic(0, 0, 0, wide);
    unknown[SERVICE_HEAD] = 7;
    assert!(matches!(Server::new().ask(&unknown), Err(LossReason::Broke(_))));
}

#[test]
fn a_requester_that_reads_slowly_gets_all_of_a_large_reply() {
    let mut server = Server::new();
    assert_eq!(server.ask(&get(0, &[(0, SEGMENT as u64)])), Ok(RequestState::Full));
    assert!(server.serving.is_replying());
    let mut reply = server.answer();
    while server.advance().unwrap() == RequestState::Full {
        reply.extend(server.answer());
    }
    reply.extend(server.answer());
    assert!(reply[SERVICE_HEAD..] == server.bytes());
}

#[test]
fn what_lies_outside_of_the_registered_memory_is_refused() {
    let end = SEGMENT as u64;
    for (offset, len) in [(end, 1), (0, end + 1), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        let mut server = Server::new();
        let Err(LossReason::Broke(why)) = server.ask(&get(0, &[(0, 1), (offset, len)])) else {
            panic!("{offset} {len}")
        };
        assert!(why.contains("not registered memory"), "{why}");
        assert!(server.answer().is_empty());
    }
    let mut server = Server::new();
    let mut elsewhere = get(0, &[(0, 1)]);
    elsewhere[2] = 1;
    assert!(matches!(server.ask(&elsewhere), Err(LossReason::Broke(_))));
}

#[test]
fn a_requester_that_does_not_wait_its_turn_is_refused() {
    let load = || atomic(0, 0, 0, Atomic::U64(Rmw::Load));
    for twice in [[get(0, &[(0, 1)]), load()], [load(), get(0, &[(0, 1)])], [load(), load()]] {
        assert!(matches!(Server::new().ask(&twice.concat()), Err(LossReason::Broke(_))));
    }
    let mut server = Server::new();
    assert_eq!(server.ask(&Request::Fence { position: 5 }.encode()), Ok(RequestState::Fence(5)));
    assert!(matches!(server.ask(&get(0, &[(0, 1)])), Err(LossReason::Broke(_))));
}

#[test]
fn a_rouse_has_no_answer_and_the_next_request_need_not_wait_for_one() {
    let mut server = Server::new();
    let rouse = |position| Request::Rouse { position }.encode().to_vec();
    assert_eq!(server.ask(&rouse(7)), Ok(RequestState::Idle));
    assert_eq!([server.serving.take_rouse(), server.serving.take_rouse()], [Some(7), None]);
    assert_eq!(server.ask(&[rouse(8), rouse(9), get(0, &[(0, 3)])].concat()), Ok(RequestState::Idle));
    assert_eq!(server.serving.take_rouse(), Some(9));
    assert_eq!(server.answer(), [&Reply::Got { bytes: 3 }.encode()[..], &server.bytes()[..3]].concat());
    // Not even that comes before its answer to a fence.
    assert_eq!(server.ask(&Request::Fence { position: 5 }.encode()), Ok(RequestState::Fence(5)));
    assert!(matches!(server.ask(&rouse(10)), Err(LossReason::Broke(_))));
}

#[test]
fn a_fence_is_answered_when_it_is_told_to_be() {
    let mut server = Server::new();
    assert_eq!(server.ask(&Request::Fence { position: 5 }.encode()), Ok(RequestState::Fence(5)));
    assert!(server.answer().is_empty());
    assert_eq!(server.serving.answer_fence(server.here.as_fd(), 5), Ok(RequestState::Idle));
    assert_eq!(server.answer(), Reply::Fenced { position: 5 }.encode());
    assert_eq!(server.ask(&get(0, &[(0, 1)])), Ok(RequestState::Idle));
}

#[test]
fn who_leaves_while_it_waits_for_a_reply_has_left() {
    let goodbye = Request::Goodbye.encode();
    for request in [Request::Fence { position: 7 }.encode().to_vec(), get(0, &[(0, 3)]), get(200, &[(0, 3)])]
    {
        let all = [&request[..], &goodbye].concat();
        assert_eq!(Server::new().ask(&all), Err(LossReason::Left), "{request:?}");
        let twice = [&request[..], &request].concat();
        assert!(matches!(Server::new().ask(&twice), Err(LossReason::Broke(_))), "{request:?}");
    }
}

#[test]
fn a_goodbye_and_a_hang_up_are_told_apart() {
    assert_eq!(Server::new().ask(&Request::Goodbye.encode()), Err(LossReason::Left));
    let mut server = Server::new();
    drop(std::mem::replace(&mut server.there, UnixStream::pair().unwrap().0));
    assert_eq!(server.advance(), Err(LossReason::closed()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_request_however_changed_is_served_as_what_it_says_or_refused(
        which in 0..4usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut requests = [
            get(0, &[(1_000, 5), (0, 3)]),
            atomic(0, 100, 24, Atomic::U64(Rmw::Add(2))),
            atomic(0, 0, 32, Atomic::U32(Rmw::CompareSwap { expected: 0, new: 1 })),
            Request::Fence { position: 7 }.encode().to_vec(),
        ];
        let request = &mut requests[which];
        for (at, byte) in changes {
            let at = at.index(request.len());
            request[at] = byte;
        }
        request.truncate(cut.map_or(request.len(), |cut| cut.index(request.len()) + 1));
        let mut server = Server::new();
        let step = server.ask(request);
        prop_assert!(matches!(step, Ok(_) | Err(LossReason::Broke(_) | LossReason::Left)), "{step:?}");
        let changed = server.memory.iter().zip(0..).filter(|&(&word, i)| word != i * 0x0101_0101_0001).count();
        prop_assert!(changed <= 1, "one operation at most, on one word");
    }

    #[test]
    fn no_bytes_make_a_server_do_worse_than_refuse(
        mut rubbish in prop::collection::vec(any::<u8>(), 1..600), kind in 0..6u8,
    ) {
        rubbish[0] = kind;
        rubbish[1..].iter_mut().take(1).for_each(|byte| *byte = 0);
        let mut server = Server::new();
        let step = server.ask(&rubbish);
        prop_assert!(matches!(step, Ok(_) | Err(LossReason::Broke(_) | LossReason::Left)), "{step:?}");
    }
}
