//! Sends that nobody waits for, and sends that are taken back, on each provider.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking; ranks are few"
)]

mod common;

use common::{Make, Rank, bytes, on_each_provider, play};
use scash_comm::{Error, Result};
use scash_mp::{ANY_SOURCE, ANY_TAG, Communicator, Large, Options, Request};

/// Lengths for each protocol.
fn len(number: usize) -> usize {
    [0, 8, 5_000, 40, 100_000, 700, 1_100_000][number % 7] + number
}

fn messages_that_are_forgotten_arrive_in_order_among_others(make: Make) {
    for large in [Large::Auto, Large::Push, Large::Rendezvous] {
        play(make, 3, Options { large, ..Options::default() }, |rank| {
            const COUNT: usize = 70;
            if rank.rank() > 0 {
                for number in 0..COUNT {
                    let message = bytes(number, len(number));
                    match number % 3 {
                        0 => rank.send_and_forget(0, 3, &message[..]).unwrap(),
                        1 => rank.send_and_forget(0, 3, message).unwrap(),
                        _ => rank.send(0, 3, &message).unwrap(),
                    }
                }
                rank.fence(Some(0)).unwrap();
            } else {
                let mut next = [0; 3];
                for _ in 0..2 * COUNT {
                    let received = rank.receive_owned(ANY_SOURCE, ANY_TAG).unwrap();
                    let number = &mut next[received.status.source as usize];
                    assert!(received.bytes == bytes(*number, len(*number)));
                    *number += 1;
                }
            }
            rank.meet();
        });
    }
}

fn after_a_fence_short_messages_that_were_forgotten_have_arrived(make: Make) {
    play(make, 2, Options::default(), |rank| {
        let peer = 1 - rank.rank();
        (0..10).for_each(|tag| rank.send_and_forget(peer, tag, [7; 100]).unwrap());
        rank.fence(None).unwrap();
        rank.meet();
        // The first look of all: nothing has to come any more.
        assert!((0..10).all(|tag| rank.probe(Some(peer), Some(tag)).unwrap().is_some()));
        rank.meet();
    });
}

fn a_flood_that_is_forgotten_waits_at_its_sender(make: Make) {
    let options = Options { eager: 1 << 10, push: 16 << 10, window: 64 << 10, ..Options::default() };
    play(make, 2, options, |rank| {
        const COUNT: usize = 1_000;
        if rank.rank() == 0 {
            (0..COUNT).for_each(|number| rank.send_and_forget(1, 0, bytes(number, 900)).unwrap());
            rank.meet();
            rank.fence(Some(1)).unwrap();
        } else {
            rank.meet();
            for number in 0..COUNT {
                assert!(rank.receive_owned(Some(0), ANY_TAG).unwrap().bytes == bytes(number, 900));
            }
        }
        rank.meet();
    });
}

fn a_fence_tells_of_messages_that_were_lost(make: Make) {
    let options = Options { large: Large::Rendezvous, ..Options::default() };
    play(make, 3, options, |rank| {
        if rank.rank() == 2 {
            let Rank { communicator, meeting } = rank;
            meeting.wait();
            drop(communicator);
            meeting.wait();
            return;
        }
        rank.send_and_forget(2, 0, vec![1; 1_000_000]).unwrap();
        rank.meet();
        let lost: Result<()> = rank.fence(None);
        assert!(matches!(lost, Err(Error::Down { rank: 2, .. })), "{lost:?}");
        let again = rank.send_and_forget(2, 0, [0; 8]);
        assert!(matches!(again, Err(Error::Down { rank: 2, .. })), "{again:?}");
        let peer = 1 - rank.rank();
        rank.send_and_forget(peer, 1, b"still here").unwrap();
        rank.fence(None).unwrap();
        assert_eq!(rank.receive_owned(Some(peer), ANY_TAG).unwrap().bytes, b"still here");
        // Not before the other's fence is over, too.
        rank.meet();
    });
}

/// Begins to send bytes that live to the end of the program.
fn start(rank: &Communicator, to: u32, tag: u64, bytes: &'static [u8]) -> Request {
    // SAFETY: the bytes live long enough, and do not change.
    unsafe { rank.start_send(to, tag, bytes.as_ptr(), bytes.len()) }.unwrap()
}

static LONG: [u8; 300_000] = [5; 300_000];

/// A message of more than 256 KiB is offered.
fn offering(large: Large) -> Options {
    Options { large, push: 256 << 10, ..Options::default() }
}

fn a_send_that_no_receive_has_matched_can_be_taken_back(make: Make) {
    for large in [Large::Auto, Large::Rendezvous] {
        play(make, 2, offering(large), |rank| {
            if rank.rank() == 0 {
                let short = start(&rank, 1, 1, &LONG[..10]);
                let short = rank.cancel(short).unwrap_err();
                rank.wait(short).unwrap();
                let long = start(&rank, 1, 1, &LONG);
                rank.cancel(long).unwrap();
                rank.send_and_forget(1, 1, b"after it").unwrap();
                let matched = start(&rank, 1, 2, &LONG);
                rank.meet();
                rank.meet();
                let matched = rank.cancel(matched).unwrap_err();
                assert_eq!(rank.wait(matched).unwrap().status.len, LONG.len());
            } else {
                rank.meet();
                assert_eq!(rank.receive_owned(Some(0), ANY_TAG).unwrap().bytes, LONG[..10]);
                assert_eq!(rank.receive_owned(Some(0), ANY_TAG).unwrap().bytes, b"after it");
                assert!(rank.receive_owned(Some(0), ANY_TAG).unwrap().bytes == LONG);
                rank.meet();
            }
            rank.meet();
        });
    }
}

fn of_sends_that_are_taken_back_as_they_are_received_each_is_one_of_the_two(make: Make) {
    for large in [Large::Auto, Large::Rendezvous] {
        play(make, 2, offering(large), |rank| {
            const COUNT: usize = 500;
            if rank.rank() == 0 {
                let mut sent: Vec<u8> = Vec::new();
                for number in 0..COUNT {
                    let len = 270_000 + number;
                    let request = start(&rank, 1, 0, &LONG[..len]);
                    if let Err(request) = rank.cancel(request) {
                        rank.wait(request).unwrap();
                        sent.extend((number as u16).to_le_bytes());
                    }
                }
                rank.send(1, 1, &sent).unwrap();
            } else {
                let mut received: Vec<u8> = Vec::new();
                let sent = loop {
                    let message = rank.receive_owned(Some(0), ANY_TAG).unwrap();
                    if message.status.tag == 1 {
                        break message.bytes;
                    }
                    received
                        .extend((message.bytes.len() as u16).wrapping_sub(270_000u32 as u16).to_le_bytes());
                };
                assert_eq!(received, sent);
            }
            rank.meet();
        });
    }
}

fn who_takes_a_send_back_from_a_rank_that_leaves_is_told_which(make: Make) {
    let options = Options { large: Large::Rendezvous, ..Options::default() };
    play(make, 2, options, |rank| {
        if rank.rank() == 1 {
            return rank.meet();
        }
        let requests: Vec<_> = (0..10).map(|_| start(&rank, 1, 0, &LONG)).collect();
        rank.meet();
        for request in requests {
            // Taken back before the rank left, or lost with it.
            if let Err(request) = rank.cancel(request) {
                assert!(matches!(rank.wait(request), Err(Error::Down { rank: 1, .. })));
            }
        }
    });
}

fn a_message_for_which_its_receiver_has_no_memory_is_an_error_there_and_over_at_its_sender(make: Make) {
    for large in [Large::Auto, Large::Rendezvous] {
        play(make, 2, Options { large, ..Options::default() }, |rank| {
            if rank.rank() == 0 {
                // SAFETY: nobody reads any of the bytes, as there is no memory for them at the other rank.
                let request = unsafe { rank.start_send(1, 0, LONG.as_ptr(), 1 << 60) }.unwrap();
                rank.wait(request).unwrap();
            } else {
                let error = rank.receive_owned(Some(0), Some(0)).unwrap_err();
                assert!(matches!(error, Error::Io { .. }), "{error:?}");
                assert!(error.to_string().contains("1152921504606846976 bytes for a message"), "{error}");
            }
            rank.barrier().unwrap();
        });
    }
}

on_each_provider! {
    a_message_for_which_its_receiver_has_no_memory_is_an_error_there_and_over_at_its_sender
    a_send_that_no_receive_has_matched_can_be_taken_back
    of_sends_that_are_taken_back_as_they_are_received_each_is_one_of_the_two
    who_takes_a_send_back_from_a_rank_that_leaves_is_told_which
    messages_that_are_forgotten_arrive_in_order_among_others
    after_a_fence_short_messages_that_were_forgotten_have_arrived
    a_flood_that_is_forgotten_waits_at_its_sender
    a_fence_tells_of_messages_that_were_lost
}
