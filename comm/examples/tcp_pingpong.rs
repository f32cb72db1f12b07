//! How fast the provider `tcp` is on this host: `cargo run --release -p scash-comm --example tcp_pingpong
//! [ROUNDS]`.
//!
//! Two ranks, as threads, over loopback; then barriers of more. Prints the first decile and the median in
//! microseconds. With `strace -f -c` it shows the system calls.

// What it prints is what it is for.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use scash_comm::conformance::SharedMemory;
use scash_comm::mem_exchange::MemExchange;
use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Event, Exchange, GetRange, PutRange, SegmentId};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const SEGMENT: usize = 16 << 20;

/// Set while rank 0 measures what rank 1 is not to take part in.
static COMPUTING: AtomicBool = AtomicBool::new(true);

fn main() {
    let rounds = std::env::args().nth(1).map_or(20_000, |text| text.parse().expect("a number of rounds"));
    job(2, move |bench| bench.pair(rounds));
    for n in [4, 8] {
        job(n, move |bench| {
            let times = bench.time(rounds / 20, || bench.barrier(0));
            bench.report(&format!("barrier of {n} ranks: everybody tells everybody"), times);
        });
    }
}

/// Plays `work` at `n` ranks.
fn job(n: u32, work: impl Fn(&Bench) + Copy + Send + 'static) {
    let ranks = MemExchange::ranks(n).into_iter();
    let threads: Vec<_> =
        ranks.map(|exchange| std::thread::spawn(move || work(&Bench::new(exchange)))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// First decile and median.
type Times = (Duration, Duration);

struct Bench {
    endpoint: TcpEndpoint,
    segment: SegmentId,
    memory: SharedMemory,
    /// By rank: messages that have come and were not awaited yet.
    unread: Vec<Cell<usize>>,
}

impl Bench {
    fn new(mut exchange: MemExchange) -> Self {
        let options = TcpOptions { ranks_here: exchange.size(), ..TcpOptions::default() };
        let endpoint = TcpEndpoint::new(&mut exchange, &options).unwrap();
        let memory = SharedMemory::new(SEGMENT).unwrap();
        (0..SEGMENT).step_by(PAGE).for_each(|at| memory.write(at, &[1]));
        // SAFETY: `SharedMemory` gives no references to its bytes, and is dropped after the endpoint.
        let segment = unsafe { endpoint.register(&mut exchange, memory.segment()) }.unwrap();
        let unread = (0..exchange.size()).map(|_| Cell::new(0)).collect();
        Self { endpoint, segment, memory, unread }
    }

    fn pair(&self, rounds: usize) {
        self.report("ping-pong of one message", self.time(rounds, || self.ping_pong()));
        self.report("barrier: one message each way", self.time(rounds, || self.barrier(0)));
        self.report("barrier with 2 pages put each way", self.time(rounds, || self.barrier(2)));
        self.report("barrier with 8 pages put each way", self.time(rounds, || self.barrier(8)));
        self.report("barrier with 64 pages put each way", self.time(rounds / 10, || self.barrier(64)));
        self.report("barrier with 1024 pages put each way", self.time(rounds / 100, || self.barrier(1024)));
        self.report("get of 4 KiB, target polls", self.gets(rounds, 1, 1, false));
        self.report("get of 4 KiB, target computes", self.gets(rounds, 1, 1, true));
        self.report("get of 32 KiB, target computes", self.gets(rounds, 1, 8, true));
        self.report("get of 64 scattered pages, target computes", self.gets(rounds / 10, 64, 1, true));
        self.report("get of 1 MiB, target computes", self.gets(rounds / 100, 1, 256, true));
        self.report("put of 4 KiB and fence, target computes", self.fences(rounds));
    }

    fn report(&self, what: &str, (decile, median): Times) {
        if self.endpoint.rank() == 0 {
            println!("{:9.2} {:9.2} µs  {what}", decile.as_secs_f64() * 1e6, median.as_secs_f64() * 1e6);
        }
    }

    /// How long `work` takes.
    fn time(&self, rounds: usize, mut work: impl FnMut()) -> Times {
        let mut times: Vec<_> = (0..rounds.max(10))
            .map(|_| {
                let start = Instant::now();
                work();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        (times[times.len() / 10], times[times.len() / 2])
    }

    /// All ranks tell each other that they are here, after `pages` pages for the next one.
    fn barrier(&self, pages: usize) {
        let (me, size) = (self.endpoint.rank(), self.endpoint.size());
        let mine = me as usize % 2 * SEGMENT / 2;
        let puts: Vec<_> = (0..pages)
            .map(|page| mine + page * PAGE)
            .map(|at| PutRange { offset: at as u64, len: PAGE, src: self.memory.at(at) })
            .collect();
        // SAFETY: nobody writes this half of this rank's memory.
        unsafe { self.endpoint.put((me + 1) % size, self.segment, &puts) }.unwrap();
        let others = (1..size).map(|distance| (me + distance) % size);
        others.clone().for_each(|peer| self.endpoint.send(peer, 1, &[&[0; 32]]).unwrap());
        self.endpoint.flush().unwrap();
        others.for_each(|peer| self.await_message(peer));
    }

    /// Rank 0 sends, rank 1 answers.
    fn ping_pong(&self) {
        let rank = self.endpoint.rank();
        if rank == 1 {
            self.await_message(0);
        }
        self.endpoint.send(1 - rank, 1, &[&[0; 32]]).unwrap();
        self.endpoint.flush().unwrap();
        if rank == 0 {
            self.await_message(1);
        }
    }

    /// Takes one message of a peer. A look may bring more: the peer may be a step ahead.
    fn await_message(&self, peer: u32) {
        let mut turn = 0;
        let unread = |rank: u32| &self.unread[rank as usize];
        while unread(peer).get() == 0 {
            let count = |event: Event<'_>| {
                if let Event::Message { from, .. } = event {
                    unread(from).set(unread(from).get() + 1);
                }
            };
            if self.endpoint.poll(&mut { count }).unwrap() == 0 {
                self.endpoint.idle(turn, Duration::from_millis(50));
                turn += 1;
            }
        }
        unread(peer).set(unread(peer).get() - 1);
    }

    /// Rank 0 works while rank 1 computes or polls.
    fn alone(&self, rounds: usize, computes: bool, work: impl FnMut()) -> Times {
        self.barrier(0);
        let mut times = Times::default();
        if self.endpoint.rank() == 0 {
            times = self.time(rounds, work);
            COMPUTING.store(false, Ordering::Release);
            self.barrier(0);
            COMPUTING.store(true, Ordering::Release);
        } else {
            while computes && COMPUTING.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            self.barrier(0);
        }
        self.barrier(0);
        times
    }

    fn gets(&self, rounds: usize, ranges: usize, pages: usize, computes: bool) -> Times {
        let ranges: Vec<_> = (0..ranges)
            .map(|range| 2 * range * pages * PAGE)
            .map(|at| GetRange { offset: at as u64, len: pages * PAGE, dst: self.memory.at(at) })
            .collect();
        self.alone(rounds, computes, || {
            // SAFETY: nobody else uses this rank's memory now.
            unsafe { self.endpoint.get(1, self.segment, &ranges) }.unwrap();
        })
    }

    fn fences(&self, rounds: usize) -> Times {
        let range = PutRange { offset: 0, len: PAGE, src: self.memory.at(0) };
        self.alone(rounds, true, || {
            // SAFETY: nobody writes this rank's memory now.
            unsafe { self.endpoint.put(1, self.segment, &[range]) }.unwrap();
            self.endpoint.fence(1).unwrap();
        })
    }
}
