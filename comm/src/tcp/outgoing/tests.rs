//! What leaves, in which order, and what becomes of what the socket does not take.

use super::super::wire::{TARGET, VERSION};
use super::*;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Flushes into a socket until all is out, and returns the bytes.
pub(in super::super) fn drained(outgoing: &mut Outgoing) -> Vec<u8> {
    let (here, there) = UnixStream::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    outgoing.flush(here.as_fd()).unwrap();
    loop {
        read_all(&there, &mut bytes);
        if outgoing.backlog() == 0 {
            return bytes;
        }
        outgoing.drain(here.as_fd()).unwrap();
    }
}

fn read_all(mut from: &UnixStream, bytes: &mut Vec<u8>) {
    let _ = from.read_to_end(bytes).map_err(|error| assert_eq!(error.kind(), io::ErrorKind::WouldBlock));
}

fn put(outgoing: &mut Outgoing, offset: u64, bytes: &[u8]) {
    // SAFETY: the tests keep `bytes` until they have flushed.
    unsafe { outgoing.put(0, PutRange { offset, len: bytes.len(), src: bytes.as_ptr() }) };
}

#[test]
fn puts_in_a_row_are_one_run_with_all_targets_first() {
    let mut outgoing = Outgoing::new(Outlet::default());
    put(&mut outgoing, 5, b"one");
    put(&mut outgoing, 50, b"two");
    outgoing.message(9, 3, &[b"t", b"he"]);
    put(&mut outgoing, 500, b"end");
    let target = |offset| PutTarget { segment: 0, len: 3, offset }.encode();
    let expected = [
        &FrameHead::Puts { count: 2 }.encode()[..],
        &target(5),
        &target(50),
        b"onetwo",
        &FrameHead::Message { kind: 9, len: 3 }.encode(),
        b"the",
        &FrameHead::Puts { count: 1 }.encode(),
        &target(500),
        b"end",
    ]
    .concat();
    assert_eq!(outgoing.position(), expected.len() as u64);
    assert_eq!(drained(&mut outgoing), expected);
    assert_eq!(VERSION, 7, "another layout is another version");
}

#[test]
fn the_position_behind_the_last_put_ignores_later_messages() {
    let mut outgoing = Outgoing::new(Outlet::default());
    put(&mut outgoing, 5, b"one");
    let end = outgoing.position();
    outgoing.message(0, 0, &[]);
    assert_eq!(outgoing.puts_end(), end);
    assert_eq!(end, (HEAD + TARGET + 3) as u64);
}

#[test]
fn a_long_run_of_puts_is_split() {
    let mut outgoing = Outgoing::new(Outlet::default());
    (0..MAX_RUN as u64 + 1).for_each(|offset| put(&mut outgoing, offset, b"x"));
    let bytes = drained(&mut outgoing);
    let first = HEAD + MAX_RUN * (TARGET + 1);
    assert_eq!(FrameHead::decode(&bytes), Ok(Some(FrameHead::Puts { count: 512 })));
    assert_eq!(FrameHead::decode(&bytes[first..]), Ok(Some(FrameHead::Puts { count: 1 })));
    assert_eq!(bytes.len(), first + HEAD + TARGET + 1);
}

#[test]
fn what_the_socket_does_not_take_is_kept_and_leaves_first() {
    let (here, there) = UnixStream::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    let mut outgoing = Outgoing::new(Outlet::default());
    let mut large: Vec<u8> = (0..3_000_000u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let copy = large.clone();
    put(&mut outgoing, 0, &large);
    outgoing.flush(here.as_fd()).unwrap();
    assert!(outgoing.backlog() > 0, "no socket takes that much");
    large.fill(0);
    outgoing.message(1, 4, &[b"last"]);
    outgoing.flush(here.as_fd()).unwrap();
    let mut bytes = Vec::new();
    while outgoing.backlog() > 0 {
        read_all(&there, &mut bytes);
        outgoing.drain(here.as_fd()).unwrap();
    }
    read_all(&there, &mut bytes);
    assert!(bytes[HEAD + TARGET..].starts_with(&copy), "the source may change after the flush");
    assert!(bytes.ends_with(b"last"));
    assert_eq!(bytes.len() as u64, outgoing.position());
}

#[test]
fn more_pieces_than_one_call_takes_leave_in_order() {
    let mut outgoing = Outgoing::new(Outlet::default());
    let numbers: Vec<[u8; 4]> = (0..5_000u32).map(u32::to_le_bytes).collect();
    for number in &numbers {
        put(&mut outgoing, 0, number);
        outgoing.message(0, 4, &[number]);
    }
    let bytes = drained(&mut outgoing);
    let frames = bytes.as_chunks::<{ HEAD + TARGET + 4 + HEAD + 4 }>();
    assert!(frames.1.is_empty() && frames.0.len() == numbers.len());
    assert!(
        frames
            .0
            .iter()
            .zip(&numbers)
            .all(|(frame, number)| { frame[HEAD + TARGET..].starts_with(number) && frame.ends_with(number) })
    );
}

#[test]
fn an_abandoned_batch_sends_nothing() {
    let mut outgoing = Outgoing::new(Outlet::default());
    put(&mut outgoing, 5, b"one");
    outgoing.message(0, 3, &[b"two"]);
    outgoing.abandon();
    assert!(drained(&mut outgoing).is_empty());
}

#[test]
fn a_closed_socket_is_an_error_and_no_signal() {
    let (here, there) = UnixStream::pair().unwrap();
    drop(there);
    let mut outgoing = Outgoing::new(Outlet::default());
    outgoing.message(0, 3, &[b"two"]);
    assert_eq!(outgoing.flush(here.as_fd()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_body_is_not_copied_to_a_little_behind_where_it_lies_in_its_page() {
    let ahead = |before: usize, body: usize| before.wrapping_sub(body) % OS_PAGE;
    for body in (0..2 * OS_PAGE).step_by(8) {
        for before in [24, 34, 300, 4_000] {
            let moved = padding(before, body).map_or(before, |len| before + HEAD + usize::from(len));
            // Whatever else is there before, up to so much.
            assert!(
                [0, 100, UNCOUNTED].iter().all(|more| ahead(moved + more, body) >= NEAR),
                "{before} {body}"
            );
        }
    }
    assert_eq!(padding(24, 16), Some(112), "as allocators place long memory");
    assert_eq!(padding(24, 2_000), None);
}

#[test]
fn padding_moves_the_frame_of_a_long_message_and_is_counted() {
    let mut outgoing = Outgoing::new(Outlet::default());
    let memory = vec![7; 3 * OS_PAGE];
    let body = &memory[memory.as_ptr().align_offset(OS_PAGE)..][..OS_PAGE];
    // SAFETY: the body stays until it is flushed.
    unsafe { outgoing.long(9, b"head", body) };
    let len = padding(HEAD + 4, body.as_ptr().addr()).unwrap();
    let frame = &FrameHead::Long { kind: 9, head: 4, len: 4 + OS_PAGE }.encode()[..];
    let expected =
        [&FrameHead::Padding { len }.encode()[..], &vec![0; len.into()], frame, b"head", body].concat();
    assert_eq!(outgoing.position(), expected.len() as u64);
    assert!(drained(&mut outgoing) == expected);
}
