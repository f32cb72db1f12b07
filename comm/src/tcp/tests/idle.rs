//! What connections cost that are idle: no system call, and no thread that is called for nothing.

use super::super::sys::CALLS;
use super::*;

/// Calls to send and to receive that rank 0 of `n` makes: in looks in vain, to take what one peer has sent,
/// and to take what it has said to itself.
fn calls_of_rank_0(n: u32) -> [u32; 3] {
    let (counts, told) = mpsc::channel();
    cluster(n, move |mut rank| {
        rank.meet();
        let endpoint = &rank.endpoint;
        if endpoint.rank() == 1 {
            await_bytes(rank.peer(0).asks(), &mut [0]);
            endpoint.send(0, 1, &[b"one"]).unwrap();
            endpoint.flush().unwrap();
        }
        if endpoint.rank() == 0 {
            let count = |work: &dyn Fn()| {
                let before = CALLS.get();
                work();
                CALLS.get() - before
            };
            let vain = count(&|| {
                for _ in 0..100 {
                    assert_eq!(endpoint.poll(&mut |_| panic!("nobody has said anything")).unwrap(), 0);
                }
            });
            inject(rank.peer(1).serves(), &[0]);
            sys::wait(&mut [sys::awaited(rank.peer(1).stream(), libc::POLLIN)], LIMIT);
            let from_peer = count(&|| assert_eq!(rank.poll().0, [b"one"]));
            endpoint.send(0, 1, &[b"two"]).unwrap();
            let from_itself = count(&|| assert_eq!(rank.poll().0, [b"two"]));
            counts.send([vain, from_peer, from_itself]).unwrap();
        }
        rank.meet();
    });
    told.recv().unwrap()
}

#[test]
fn idle_connections_cost_the_thread_that_polls_no_system_call() {
    let few = calls_of_rank_0(4);
    assert_eq!(few, [0, 1, 0]);
    assert_eq!(calls_of_rank_0(12), few);
}

/// A helper slept on the stream while its rank only got. Denied the stream once, it was called after every
/// get to look what the get had left, found the stream held by the next one, and was denied again: a get took
/// twice its time.
#[test]
fn who_was_denied_the_stream_by_a_get_is_called_only_if_the_next_one_finds_something_there() {
    cluster(2, |mut rank| {
        let is_called_after_a_get = |rank: &Rank| {
            let mut incoming = lock(&rank.peer(1).incoming);
            incoming.hold();
            assert!(!incoming.may_pull());
            assert!(!incoming.release());
            drop(incoming);
            rank.get(1, 64).unwrap();
            rank.endpoint.shared.wakeups.take()
        };
        rank.meet();
        if rank.endpoint.rank() == 0 {
            assert!(!is_called_after_a_get(&rank), "there is nothing");
        }
        rank.meet();
        if rank.endpoint.rank() == 1 {
            rank.endpoint.send(0, 1, &[b"news"]).unwrap();
            rank.endpoint.flush().unwrap();
        } else {
            sys::wait(&mut [sys::awaited(rank.peer(1).stream(), libc::POLLIN)], LIMIT);
            assert!(is_called_after_a_get(&rank), "there is a message");
            assert_eq!(rank.poll().0, [b"news"]);
        }
        rank.meet();
    });
}

/// The service thread naps while a thread that waits serves in its place; when that one leaves, requests are
/// the service thread's again.
#[test]
fn gets_are_served_while_their_owner_waits_and_after_it_has_stopped_waiting() {
    cluster(2, |mut rank| {
        rank.meet();
        for _ in 0..20 {
            if rank.endpoint.rank() == 0 {
                (0..50).for_each(|_| rank.get(1, 4096).unwrap());
                rank.endpoint.send(1, 0, &[b"go"]).unwrap();
                rank.endpoint.flush().unwrap();
                (0..50).for_each(|_| rank.get(1, 4096).unwrap());
            } else {
                assert_eq!(rank.poll().0, [b"go"]);
            }
            // Rank 1 waits here without its endpoint.
            rank.meet();
        }
    });
}
