//! A requester's dealings with servers good and bad.

use super::*;
use crate::{Atomic, Rmw};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Gets 4 and 3 bytes at position 9 from a server that answers with `reply` and then hangs up. Returns the
/// outcome, the 9 bytes of which 1..8 are the destinations, and the request.
fn get_from(reply: &[u8]) -> (Result<bool, LossReason>, [u8; 9], Vec<u8>) {
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(reply).unwrap();
    there.shutdown(Shutdown::Write).unwrap();
    let mut bytes = [7; 9];
    let at = bytes.as_mut_ptr();
    let ranges = [(0, 4, 1), (0, 0, 0), (100, 3, 5)].map(|(offset, len, dst)| GetRange {
        offset,
        len,
        dst: at.wrapping_add(dst),
    });
    // SAFETY: the destinations are parts of `bytes`.
    let got = unsafe {
        Requester::new(Outlet::default(), Inlet::default()).get(here.as_fd(), Pace::BLOCKING, 2, &ranges, 9)
    };
    drop(here);
    let mut request = Vec::new();
    // It ends with a reset where the requester left a part of the reply unread.
    let _ = there.read_to_end(&mut request);
    (got, bytes, request)
}

#[test]
fn a_get_asks_for_its_ranges_and_puts_the_reply_in_their_places() {
    let reply = [&Reply::Got { bytes: 7 }.encode()[..], b"abcdefg"].concat();
    let (got, bytes, request) = get_from(&reply);
    assert_eq!(got, Ok(true));
    assert_eq!(&bytes, b"\x07abcdefg\x07");
    let expected = [
        Request::Get { segment: 2, count: 2, position: 9 }.encode(),
        Range { offset: 0, len: 4 }.encode(),
        Range { offset: 100, len: 3 }.encode(),
    ];
    assert_eq!(request, expected.concat());
}

#[test]
fn a_get_that_runs_ahead_touches_nothing() {
    let (got, bytes, _) = get_from(&Reply::NotYet { position: 9 }.encode());
    assert_eq!((got, bytes), (Ok(false), [7; 9]));
}

#[test]
fn every_cut_reply_is_a_loss() {
    let reply = [&Reply::Got { bytes: 7 }.encode()[..], b"abcdefg"].concat();
    for cut in 0..reply.len() {
        assert_eq!(get_from(&reply[..cut]).0, Err(LossReason::closed()), "cut at {cut}");
    }
}

#[test]
fn a_servers_goodbye_is_its_leaving() {
    assert_eq!(get_from(&Reply::Goodbye.encode()).0, Err(LossReason::Left));
}

#[test]
fn replies_that_do_not_fit_the_request_break_the_protocol() {
    let replies = [
        Reply::Got { bytes: 6 },
        Reply::Got { bytes: 8 },
        Reply::Got { bytes: u64::MAX },
        Reply::Fenced { position: 9 },
        Reply::NotYet { position: 8 },
    ];
    for reply in replies {
        for body in [0, 7, 100] {
            let bytes = [&reply.encode()[..], &[1; 100][..body]].concat();
            assert!(matches!(get_from(&bytes).0, Err(LossReason::Broke(_))), "{reply:?} and {body} bytes");
        }
    }
}

/// Asks for an addition to a word of 4 bytes a server that answers with `reply` and then hangs up. Returns
/// the outcome and the request.
fn add_at(reply: &[u8]) -> (Result<Option<u64>, LossReason>, Vec<u8>) {
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(reply).unwrap();
    there.shutdown(Shutdown::Write).unwrap();
    let done =
        Requester::new(Outlet::default(), Inlet::default()).atomic(here.as_fd(), Pace::BLOCKING, 2, ADD, 9);
    drop(here);
    let mut request = Vec::new();
    let _ = there.read_to_end(&mut request);
    (done, request)
}

const ADD: Operation = Operation { offset: 12, op: Atomic::U32(Rmw::Add(5)) };

#[test]
fn an_operation_is_asked_for_once_and_the_word_before_is_its_answer() {
    let (done, request) = add_at(&Reply::Was { before: u32::MAX.into() }.encode());
    assert_eq!(done, Ok(Some(u32::MAX.into())));
    let expected = [&Request::Atomic { segment: 2, position: 9 }.encode()[..], &ADD.encode()].concat();
    assert_eq!(request, expected);
    let (behind, request) = add_at(&Reply::NotYet { position: 9 }.encode());
    assert_eq!((behind, request), (Ok(None), expected));
}

#[test]
fn answers_that_do_not_fit_an_operation_are_a_loss() {
    let reply = Reply::Was { before: 1 }.encode();
    for cut in 0..reply.len() {
        assert_eq!(add_at(&reply[..cut]).0, Err(LossReason::closed()), "cut at {cut}");
    }
    assert_eq!(add_at(&Reply::Goodbye.encode()).0, Err(LossReason::Left));
    for reply in [
        Reply::Was { before: 1 << 32 },
        Reply::NotYet { position: 8 },
        Reply::Fenced { position: 9 },
        Reply::Got { bytes: 0 },
        Reply::Got { bytes: 4 },
    ] {
        assert!(matches!(add_at(&reply.encode()).0, Err(LossReason::Broke(_))), "{reply:?}");
    }
}

#[test]
fn a_fence_that_was_confirmed_is_not_asked_for_again() {
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(&Reply::Fenced { position: 50 }.encode()).unwrap();
    there.shutdown(Shutdown::Write).unwrap();
    let mut requester = Requester::new(Outlet::default(), Inlet::default());
    assert_eq!(requester.fence(here.as_fd(), Pace::BLOCKING, 50), Ok(()));
    assert_eq!(requester.fence(here.as_fd(), Pace::BLOCKING, 50), Ok(()));
    assert_eq!(requester.fence(here.as_fd(), Pace::BLOCKING, 51), Err(LossReason::closed()));
}

proptest! {
    #[test]
    fn no_reply_writes_outside_of_the_destinations(
        mut rubbish in prop::collection::vec(any::<u8>(), 0..60), kind in 0..6u8,
    ) {
        if let Some(first) = rubbish.first_mut() {
            *first = kind;
        }
        let (got, bytes, _) = get_from(&rubbish);
        prop_assert!(got.is_err() || rubbish.len() >= SERVICE_HEAD);
        prop_assert_eq!((bytes[0], bytes[8]), (7, 7));
        let done = add_at(&rubbish).0;
        prop_assert!(done.is_err() || rubbish.len() >= SERVICE_HEAD);
    }
}
