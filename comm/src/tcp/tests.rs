//! Whole endpoints, where the conformance suite cannot reach: behind the backs of the connections.

mod idle;

use super::sending::MOST_BACKLOG;
use super::sys::CALLS;
use super::*;
use crate::Rmw;
use crate::conformance::SharedMemory;
use crate::mem_exchange::MemExchange;
use nix::sys::socket::{Shutdown, shutdown};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

/// A test that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(120);
const SEGMENT: usize = 1 << 20;

/// A rank of a test. The endpoint is dropped before the memory.
struct Rank {
    endpoint: TcpEndpoint,
    segment: SegmentId,
    memory: SharedMemory,
    exchange: MemExchange,
}

impl Rank {
    fn new(mut exchange: MemExchange, options: &TcpOptions) -> Self {
        let endpoint = TcpEndpoint::new(&mut exchange, options).unwrap();
        let memory = SharedMemory::new(SEGMENT).unwrap();
        // SAFETY: the memory outlives the endpoint, and gives no references.
        let segment = unsafe { endpoint.register(&mut exchange, memory.segment()) }.unwrap();
        Self { endpoint, segment, memory, exchange }
    }

    fn peer(&self, rank: usize) -> &Peer {
        self.endpoint.shared.peers[rank].as_ref().unwrap()
    }

    /// Polls until something comes: the messages, and the ranks that are gone.
    fn poll(&self) -> (Vec<Vec<u8>>, Vec<u32>) {
        let (mut messages, mut downs, mut turn) = (Vec::new(), Vec::new(), 0);
        let sink = &mut |event: Event<'_>| match event {
            Event::Message { payload, .. } => messages.push(payload.to_vec()),
            Event::Part { .. } => panic!("nothing long is sent"),
            Event::Down { rank } => downs.push(rank),
        };
        while self.endpoint.poll(sink).unwrap() == 0 {
            self.endpoint.idle(turn, Duration::from_millis(50));
            turn += 1;
        }
        (messages, downs)
    }

    fn put(&self, to: u32, len: usize) {
        let range = PutRange { offset: 0, len, src: self.memory.at(0) };
        // SAFETY: the memory is not written before the flush.
        unsafe { self.endpoint.put(to, self.segment, &[range]) }.unwrap();
    }

    fn get(&self, from: u32, len: usize) -> Result<()> {
        let range = GetRange { offset: 0, len, dst: self.memory.at(SEGMENT / 2) };
        // SAFETY: the tests do not rely on these bytes meanwhile.
        unsafe { self.endpoint.get(from, self.segment, &[range]) }
    }

    fn stop_service(&mut self) {
        self.endpoint.shared.service.stop();
        self.endpoint.thread.take().unwrap().join().unwrap();
    }

    /// All ranks come here.
    fn meet(&mut self) {
        self.exchange.all_gather(&[], &[]).unwrap();
    }
}

/// Plays `body` at `n` ranks, within the time limit.
fn cluster(n: u32, body: impl Fn(Rank) + Send + Sync + 'static) {
    crowd(n, n, body);
}

/// The same, where `n` ranks believe that `ranks_here` of them are on this host.
fn crowd(n: u32, ranks_here: u32, body: impl Fn(Rank) + Send + Sync + 'static) {
    let (body, (done, verdicts)) = (Arc::new(body), mpsc::channel());
    for exchange in MemExchange::ranks(n) {
        let (body, done) = (Arc::clone(&body), done.clone());
        std::thread::spawn(move || {
            let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                body(Rank::new(exchange, &TcpOptions { ranks_here, ..TcpOptions::default() }));
            }));
            // The receiver is gone if another rank has failed.
            let _ = done.send(verdict);
        });
    }
    for _ in 0..n {
        verdicts
            .recv_timeout(LIMIT)
            .expect("the ranks hang")
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// Writes bytes to a socket behind the endpoint's back.
fn inject(socket: std::os::fd::BorrowedFd<'_>, bytes: &[u8]) {
    // SAFETY: the piece is `bytes`.
    let sent = unsafe { sys::send(socket, &[sys::piece(bytes.as_ptr(), bytes.len())]) };
    assert_eq!(sent.unwrap(), Some(bytes.len()));
}

/// Fills `bytes` from a socket behind the endpoint's back.
fn await_bytes(socket: std::os::fd::BorrowedFd<'_>, bytes: &mut [u8]) {
    let mut pieces = [sys::piece(bytes.as_mut_ptr(), bytes.len())];
    let mut rest = &mut pieces[..];
    while !rest.is_empty() {
        sys::wait(&mut [sys::awaited(socket, libc::POLLIN)], LIMIT);
        // SAFETY: the piece is what is left of `bytes`, which is borrowed for writing.
        let count = unsafe { sys::receive(socket, rest) }.unwrap();
        rest = sys::advance(rest, count.unwrap_or(0));
    }
}

/// A process may end as soon as it has taken leave: what it has sent is with its peers by then.
#[test]
fn who_takes_leave_waits_until_peers_have_what_was_flushed() {
    const COUNT: u64 = 6_000;
    static GOT: AtomicU64 = AtomicU64::new(0);
    cluster(2, |mut rank| {
        rank.meet();
        if rank.endpoint.rank() == 0 {
            for _ in 0..COUNT {
                rank.endpoint.send(1, 0, &[&[1; 4_000]]).unwrap();
            }
            rank.endpoint.flush().unwrap();
            rank.endpoint.part();
            assert_eq!(GOT.load(Ordering::SeqCst), COUNT);
        } else {
            while GOT.load(Ordering::SeqCst) < COUNT {
                std::thread::sleep(Duration::from_millis(1));
                GOT.fetch_add(rank.poll().0.len() as u64, Ordering::SeqCst);
            }
            rank.endpoint.part();
        }
    });
}

#[test]
fn a_buffer_that_cannot_be_read_is_given_as_the_reason() {
    cluster(2, |mut rank| {
        rank.meet();
        if rank.endpoint.rank() == 0 {
            let hidden = SharedMemory::new(SEGMENT).unwrap();
            // SAFETY: the memory is used by the calls below only, which hand it to the kernel.
            let protected = unsafe { libc::mprotect(hidden.at(0).cast(), SEGMENT, libc::PROT_NONE) };
            assert_eq!(protected, 0);
            let range = PutRange { offset: 0, len: 10_000, src: hidden.at(0) };
            // SAFETY: nobody writes the source; that nobody can read it is what is tested.
            unsafe { rank.endpoint.put(1, rank.segment, &[range]) }.unwrap();
            rank.endpoint.flush().unwrap();
            let error = rank.get(1, 10).unwrap_err().to_string();
            assert!(error.contains("rank 1 is gone") && error.contains("passed a buffer"), "{error}");
        } else {
            assert_eq!(rank.poll().1, [0]);
        }
    });
}

#[test]
fn a_peer_that_crashes_is_told_from_one_that_leaves() {
    cluster(3, |mut rank| {
        rank.meet();
        match rank.endpoint.rank() {
            0 => {
                let mut downs = Vec::new();
                while downs.len() < 2 {
                    downs.extend(rank.poll().1);
                }
                let crashed = rank.get(1, 10).unwrap_err().to_string();
                assert!(
                    crashed.contains("rank 1 is gone") && crashed.contains("without a goodbye"),
                    "{crashed}"
                );
                let left = rank.endpoint.send(2, 0, &[]).unwrap_err().to_string();
                assert!(left.contains("rank 2 is gone") && left.contains("in good order"), "{left}");
            }
            1 => {
                let peer = rank.peer(0);
                for socket in [peer.stream(), peer.asks(), peer.serves()] {
                    // Rank 0 may have been faster, having lost the one before.
                    let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
                }
            }
            _ => {}
        }
    });
}

#[test]
fn a_peer_that_sends_rubbish_is_dropped_and_the_others_go_on() {
    type Send = fn(&Rank);
    let rubbish: [(&str, Send); 6] = [
        ("stream", |rank| inject(rank.peer(0).stream(), &[0x77; 50])),
        ("put", |rank| {
            let target = wire::PutTarget { segment: 0, len: 1, offset: SEGMENT as u64 };
            let frame = [&wire::FrameHead::Puts { count: 1 }.encode()[..], &target.encode(), &[1]].concat();
            inject(rank.peer(0).stream(), &frame);
        }),
        ("request", |rank| inject(rank.peer(0).asks(), &[0x77; 50])),
        ("get", |rank| {
            let head = wire::Request::Get { segment: 9, count: 1, position: 0 };
            inject(rank.peer(0).asks(), &[head.encode(), [0xff; 16]].concat());
        }),
        ("operation that is none", |rank| {
            let head = wire::Request::Atomic { segment: 0, position: 0 };
            inject(rank.peer(0).asks(), &[&head.encode()[..], &[0x77; crate::remote::OPERATION]].concat());
        }),
        ("operation at a wrong offset", |rank| {
            let head = wire::Request::Atomic { segment: 0, position: 0 };
            let operation = Operation { offset: 4, op: Atomic::U64(Rmw::Swap(1)) };
            inject(rank.peer(0).asks(), &[&head.encode()[..], &operation.encode()].concat());
        }),
    ];
    for (what, send) in rubbish {
        cluster(3, move |mut rank| {
            rank.meet();
            match rank.endpoint.rank() {
                0 => {
                    assert_eq!(rank.poll().1, [1], "{what}");
                    let error = rank.endpoint.send(1, 0, &[]).unwrap_err();
                    assert!(matches!(error, Error::Protocol { rank: 1, .. }), "{what}: {error}");
                    rank.endpoint.send(2, 0, &[b"go on"]).unwrap();
                    rank.endpoint.flush().unwrap();
                    assert_eq!(rank.poll().0, [b"me too"], "{what}");
                }
                1 => send(&rank),
                _ => {
                    while rank.poll().0 != [b"go on"] {}
                    rank.endpoint.send(0, 0, &[b"me too"]).unwrap();
                    rank.endpoint.flush().unwrap();
                }
            }
            if rank.endpoint.rank() == 1 {
                while !rank.poll().1.contains(&0) {}
            }
            rank.meet();
        });
    }
}

#[test]
fn a_get_and_an_operation_at_a_peer_that_dies_meanwhile_are_errors() {
    cluster(2, |mut rank| {
        if rank.endpoint.rank() == 1 {
            // Nobody serves any more; the get is on its way, or comes later.
            rank.stop_service();
            rank.meet();
            std::thread::sleep(Duration::from_millis(20));
            return;
        }
        rank.meet();
        let (endpoint, segment) = (&rank.endpoint, rank.segment);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(matches!(rank.get(1, 100), Err(Error::Down { rank: 1, .. }))));
            let done = endpoint.atomic(1, segment, 0, Atomic::U64(Rmw::Add(1)));
            assert!(matches!(done, Err(Error::Down { rank: 1, .. })), "{done:?}");
        });
        assert_eq!(rank.poll().1, [1]);
    });
}

#[test]
fn more_data_than_a_backlog_may_hold_flow_to_a_peer_that_never_polls() {
    cluster(2, |mut rank| {
        let rounds = 2 * MOST_BACKLOG / SEGMENT;
        let peer = 1 - rank.endpoint.rank();
        for _ in 0..rounds {
            rank.put(peer, SEGMENT);
            rank.endpoint.flush().unwrap();
            assert!(lock(&rank.peer(peer as usize).outgoing).backlog() <= MOST_BACKLOG + SEGMENT);
        }
        rank.meet();
    });
}

#[test]
fn a_rank_that_waits_hears_at_once_what_it_has_said_to_itself() {
    crowd(1, 1, |rank| {
        rank.endpoint.poll(&mut |_| ()).unwrap();
        for turn in [0, 20, 100] {
            rank.endpoint.send(0, 0, &[b"psst"]).unwrap();
            rank.endpoint.flush().unwrap();
            rank.endpoint.idle(turn, Duration::from_secs(3600));
            assert_eq!(rank.poll().0, [b"psst"]);
        }
    });
}

#[test]
fn a_rank_that_waits_with_a_core_of_its_own_serves_without_its_service_thread() {
    crowd(2, 1, |mut rank| {
        if rank.endpoint.rank() == 1 {
            rank.stop_service();
            rank.memory.write(0, b"mine");
            rank.meet();
            // A turn in which it spins, however long this takes.
            while rank.endpoint.poll(&mut |_| ()).unwrap() == 0 {
                rank.endpoint.idle(100, Duration::from_millis(50));
            }
        } else {
            rank.meet();
            rank.get(1, 4).unwrap();
            assert_eq!(rank.memory.read(SEGMENT / 2, 4), b"mine");
            let (last, add) = (SEGMENT as u64 - 8, Atomic::U64(Rmw::Add(1)));
            assert_eq!(rank.endpoint.atomic(1, rank.segment, last, add).unwrap(), 0);
            rank.put(1, 4);
            rank.endpoint.fence(1).unwrap();
            rank.endpoint.send(1, 0, &[]).unwrap();
            rank.endpoint.flush().unwrap();
        }
        rank.meet();
    });
}

/// Guarantee 2, with rank 1 played by hand: it reads its memory for rank 0's get, and then puts newer bytes
/// to where the get stores, which arrive first.
#[test]
fn a_put_that_arrives_before_an_older_reply_lands_after_it() {
    cluster(2, |mut rank| {
        if rank.endpoint.rank() == 1 {
            rank.stop_service();
            rank.meet();
            let peer = rank.peer(0);
            let mut request = [0u8; wire::SERVICE_HEAD + wire::RANGE];
            await_bytes(peer.serves(), &mut request);
            let target = wire::PutTarget { segment: 0, len: 3, offset: 0 };
            let put = [&wire::FrameHead::Puts { count: 1 }.encode()[..], &target.encode(), b"new"].concat();
            inject(
                peer.stream(),
                &[&put[..], &wire::FrameHead::Message { kind: 0, len: 0 }.encode()].concat(),
            );
            rank.meet();
            rank.meet();
            let reply = [&wire::Reply::Got { bytes: 3 }.encode()[..], b"old"].concat();
            inject(rank.peer(0).serves(), &reply);
            rank.meet();
            return;
        }
        rank.meet();
        std::thread::scope(|scope| {
            let Rank { endpoint, segment, memory, exchange } = &mut rank;
            let (endpoint, segment, range) = (&*endpoint, *segment, (memory.at(0) as usize, 3));
            let get = scope.spawn(move || {
                let range = GetRange { offset: 0, len: range.1, dst: range.0 as *mut u8 };
                // SAFETY: the memory lives, and what is in it is what this test is about.
                unsafe { endpoint.get(1, segment, &[range]) }.unwrap();
            });
            exchange.all_gather(&[], &[]).unwrap();
            let early: usize = (0..500).map(|_| endpoint.poll(&mut |_| ()).unwrap()).sum();
            assert_eq!((early, memory.read(0, 3)), (0, vec![0; 3]), "the put did not wait for the reply");
            exchange.all_gather(&[], &[]).unwrap();
            get.join().unwrap();
            assert_eq!(memory.read(0, 3), b"old");
        });
        assert_eq!(rank.poll().0, [b""]);
        assert_eq!(rank.memory.read(0, 3), b"new");
        rank.meet();
    });
}

#[test]
fn a_backlog_leaves_while_its_rank_computes() {
    cluster(2, |mut rank| {
        if rank.endpoint.rank() == 0 {
            rank.endpoint.send(1, 0, &[&vec![5; 30 << 20]]).unwrap();
            rank.endpoint.flush().unwrap();
        } else {
            assert_eq!(rank.poll().0, [vec![5; 30 << 20]]);
        }
        // Rank 0 waits here, and not in its endpoint.
        rank.meet();
    });
}

#[test]
fn threads_that_get_put_operate_and_fence_both_ways_do_not_wait_for_each_other_for_ever() {
    cluster(3, |mut rank| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let rank = &rank;
                scope.spawn(move || {
                    for round in 0..150 {
                        let peer = (rank.endpoint.rank() + 1 + (thread + round) % 2) % 3;
                        match (thread + round) % 4 {
                            0 => rank.get(peer, 5_000).unwrap(),
                            1 => rank.put(peer, 20_000),
                            2 => {
                                let (last, add) = (SEGMENT as u64 - 8, Atomic::U64(Rmw::Add(1)));
                                rank.endpoint.atomic(peer, rank.segment, last, add).map(drop).unwrap();
                            }
                            _ => rank.endpoint.fence(peer).unwrap(),
                        }
                        rank.endpoint.flush().unwrap();
                        rank.endpoint.poll(&mut |_| ()).unwrap();
                    }
                });
            }
        });
        rank.meet();
    });
}

#[test]
fn messages_that_a_fence_met_wake_a_sleeper_and_come_in_order() {
    cluster(2, |mut rank| {
        if rank.endpoint.rank() == 0 {
            for round in 0..50u8 {
                rank.endpoint.send(1, 0, &[&[round]]).unwrap();
                rank.put(1, 100);
                rank.endpoint.fence(1).unwrap();
            }
        } else {
            let mut messages = Vec::new();
            while messages.len() < 50 {
                messages.extend(rank.poll().0);
            }
            assert!(messages.iter().enumerate().all(|(i, message)| usize::from(message[0]) == i));
        }
        rank.meet();
    });
}

#[test]
fn segments_of_different_lengths_are_refused_at_all_ranks() {
    cluster(2, |mut rank| {
        let memory = SharedMemory::new(4096 + rank.endpoint.rank() as usize).unwrap();
        // SAFETY: the memory is never written; the endpoint is leaked together with it below.
        let refused = unsafe { rank.endpoint.register(&mut rank.exchange, memory.segment()) };
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains("segment 1 of 4096 bytes") && error.contains("segment 1 of 4097 bytes"),
            "{error}"
        );
        rank.meet();
        std::mem::forget(memory);
    });
}

#[test]
fn ranks_of_different_abi_do_not_form_a_job() {
    let ranks = MemExchange::ranks(2).into_iter().map(|mut exchange| {
        std::thread::spawn(move || {
            let options = TcpOptions { abi: 7 + exchange.rank(), ..TcpOptions::default() };
            TcpEndpoint::new(&mut exchange, &options).map(drop).unwrap_err().to_string()
        })
    });
    let errors: Vec<_> = ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect();
    assert!(errors[0].contains("rank 1") && errors[0].contains("ABI 8"), "{}", errors[0]);
    assert!(errors[1].contains("rank 0") && errors[1].contains("ABI 7"), "{}", errors[1]);
}

#[test]
fn one_rank_alone_needs_no_connection() {
    cluster(1, |mut rank| {
        rank.put(0, 100);
        rank.get(0, 100).unwrap();
        rank.endpoint.fence(0).unwrap();
        rank.endpoint.send(0, 0, &[b"to myself"]).unwrap();
        rank.endpoint.flush().unwrap();
        assert_eq!(rank.poll().0, [b"to myself"]);
        rank.meet();
    });
}

#[test]
fn every_thread_of_every_rank_counts_as_busy() {
    let busy = |threads| TcpOptions { ranks_here: 2, threads, ..TcpOptions::default() }.busy();
    assert_eq!([0, 1, 3, u32::MAX].map(busy), [2, 2, 6, u32::MAX]);
}

#[test]
fn a_long_message_leaves_in_one_call_with_the_short_one_before_it() {
    cluster(2, |mut rank| {
        let long = vec![1; 20_000];
        if rank.endpoint.rank() == 0 {
            let before = CALLS.get();
            rank.endpoint.send(1, 0, &[b"what follows"]).unwrap();
            // SAFETY: the bytes stay until the endpoint is flushed.
            unsafe { rank.endpoint.send_long(1, 0, b"", &long) }.unwrap();
            rank.endpoint.flush().unwrap();
            assert_eq!(CALLS.get() - before, 1);
        } else {
            let mut messages = Vec::new();
            while messages.len() < 2 {
                messages.extend(rank.poll().0);
            }
            assert_eq!(messages, [b"what follows".to_vec(), long]);
        }
        rank.meet();
    });
}
