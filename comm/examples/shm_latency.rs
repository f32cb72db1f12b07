//! Measures the `shm` provider between threads, each a rank; two of them on a core of their own each, or more: `cargo
//! run --release -p scash-comm --example shm_latency`. Prints microseconds, the least and the median of 200 batches.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use scash_comm::conformance::SharedMemory;
use scash_comm::mem_exchange::MemExchange;
use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_comm::{Endpoint, Event, Exchange, GetRange, PutRange, SegmentId};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const BATCHES: usize = 200;
const BATCH: u32 = 1_000;
const PAGE: usize = 4_096;
const PAGES: usize = 64;

/// One rank of the measurement.
struct Rank {
    endpoint: ShmEndpoint,
    memory: SharedMemory,
    segment: SegmentId,
    /// Where both ranks wait for each other, out of the endpoint's sight.
    meeting: Arc<Barrier>,
}

fn main() {
    play(2, true, Rank::measure);
    for n in [2, 4, 8] {
        play(n, false, |rank| rank.report(&format!("barrier by messages, {n} ranks"), 1.0, Rank::barriers));
    }
}

/// Lets `n` ranks do the same.
fn play(n: u32, pinned: bool, body: impl Fn(&Rank) + Send + Sync) {
    let meeting = Arc::new(Barrier::new(n as usize));
    thread::scope(|scope| {
        for mut exchange in MemExchange::ranks(n) {
            let (meeting, body) = (Arc::clone(&meeting), &body);
            scope.spawn(move || {
                if pinned {
                    pin(exchange.rank() as usize);
                }
                let endpoint = ShmEndpoint::new(&mut exchange, &ShmOptions::default()).unwrap();
                let memory = SharedMemory::new(PAGES * PAGE).unwrap();
                // SAFETY: the endpoint is dropped before the memory (order of declaration), of whose bytes there are
                // no references.
                let segment = unsafe { endpoint.register(&mut exchange, memory.segment()) }.unwrap();
                body(&Rank { endpoint, memory, segment, meeting });
            });
        }
    });
}

impl Rank {
    fn measure(&self) {
        for len in [8, 64, 1_024, PAGE, 65_536] {
            self.report(&format!("message of {len} B, one way"), 0.5, |rank| rank.ping_pong(len));
        }
        self.report("vain poll", 1.0, Self::vain_poll);
        self.report("send to oneself and poll", 1.0, Self::send_to_self);
        self.report("put of 4 KiB", 1.0, |rank| rank.alone(Self::put_page));
        self.report("get of 4 KiB", 1.0, |rank| rank.alone(Self::get_page));
        self.report("get of 4 KiB just written by its owner", 1.0, Self::get_fresh);
        self.report("put of 4 KiB just read by its owner", 1.0, Self::put_fresh);
        self.report("send to a sleeping rank, until it answers", 1.0, Self::wake_up);
    }

    fn report(&self, what: &str, share: f64, once: impl Fn(&Self) -> Duration) {
        once(self);
        let mut times: Vec<_> = (0..BATCHES).map(|_| once(self)).collect();
        times.sort();
        self.meeting.wait();
        if self.endpoint.rank() == 0 {
            let micros = |time: Duration| time.as_secs_f64() * 1e6 * share;
            println!("{what:45} {:8.3} {:8.3}", micros(times[0]), micros(times[BATCHES / 2]));
        }
    }

    /// Time of a round trip.
    fn ping_pong(&self, len: usize) -> Duration {
        let bytes = vec![7; len];
        let peer = 1 - self.endpoint.rank();
        let rounds = if len > 10_000 { BATCH / 10 } else { BATCH };
        self.meeting.wait();
        let start = Instant::now();
        for _ in 0..rounds {
            if peer == 1 {
                self.endpoint.send(peer, 0, &[&bytes]).unwrap();
                self.endpoint.flush().unwrap();
            }
            self.receive();
            if peer == 0 {
                self.endpoint.send(peer, 0, &[&bytes]).unwrap();
                self.endpoint.flush().unwrap();
            }
        }
        start.elapsed() / rounds
    }

    fn receive(&self) {
        let mut turn = 0;
        let sink = &mut |event: Event<'_>| {
            assert!(matches!(event, Event::Message { .. }), "the peer left: {event:?}")
        };
        while self.endpoint.poll(sink).unwrap() == 0 {
            self.endpoint.idle(turn, Duration::from_secs(1));
            turn += 1;
        }
    }

    /// Time of a dissemination barrier: in round k everybody tells the rank 2^k further on.
    fn barriers(&self) -> Duration {
        const BARRIERS: usize = 100;
        let (me, n) = (self.endpoint.rank(), self.endpoint.size());
        let rounds = n.next_power_of_two().ilog2();
        let mut heard = [0usize; 8];
        self.meeting.wait();
        let start = Instant::now();
        for barrier in 1..=BARRIERS {
            for round in 0..rounds {
                let kind = u16::try_from(round).unwrap();
                self.endpoint.send((me + (1 << round)) % n, kind, &[]).unwrap();
                self.endpoint.flush().unwrap();
                let mut turn = 0;
                while heard[round as usize] < barrier {
                    let sink = &mut |event: Event<'_>| match event {
                        Event::Message { kind, .. } => heard[usize::from(kind)] += 1,
                        Event::Down { rank } => panic!("rank {rank} left"),
                    };
                    if self.endpoint.poll(sink).unwrap() == 0 {
                        self.endpoint.idle(turn, Duration::from_secs(1));
                        turn += 1;
                    }
                }
            }
        }
        start.elapsed() / u32::try_from(BARRIERS).unwrap()
    }

    fn vain_poll(&self) -> Duration {
        self.meeting.wait();
        per_call(|| assert_eq!(black_box(self.endpoint.poll(&mut |_| ())).unwrap(), 0))
    }

    fn send_to_self(&self) -> Duration {
        self.meeting.wait();
        let me = self.endpoint.rank();
        per_call(|| {
            self.endpoint.send(me, 0, &[&[1; 8]]).unwrap();
            self.receive();
        })
    }

    /// Time of rank 0 while rank 1 does nothing.
    fn alone(&self, call: impl Fn(&Self, usize)) -> Duration {
        self.meeting.wait();
        let mut time = Duration::ZERO;
        if self.endpoint.rank() == 0 {
            let start = Instant::now();
            (0..BATCH as usize).for_each(|i| call(self, i % PAGES));
            time = start.elapsed() / BATCH;
        }
        self.meeting.wait();
        time
    }

    fn put_page(&self, page: usize) {
        let range = PutRange { offset: (page * PAGE) as u64, len: PAGE, src: self.memory.at(page * PAGE) };
        // SAFETY: the memory stays mapped, and the puts of a rank to a peer do not overlap in time.
        unsafe { self.endpoint.put(1 - self.endpoint.rank(), self.segment, &[range]) }.unwrap();
    }

    fn get_page(&self, page: usize) {
        let range = GetRange { offset: (page * PAGE) as u64, len: PAGE, dst: self.memory.at(page * PAGE) };
        // SAFETY: the memory stays mapped, and nobody relies on its contents.
        unsafe { self.endpoint.get(1 - self.endpoint.rank(), self.segment, &[range]) }.unwrap();
    }

    /// Rank 1 writes all pages, then rank 0 gets them.
    fn get_fresh(&self) -> Duration {
        self.after_the_owner(Self::get_page)
    }

    /// Rank 1 writes all pages, then rank 0 puts to them.
    fn put_fresh(&self) -> Duration {
        self.after_the_owner(Self::put_page)
    }

    fn after_the_owner(&self, call: impl Fn(&Self, usize)) -> Duration {
        self.meeting.wait();
        if self.endpoint.rank() == 1 {
            self.memory.write(0, &[9; PAGES * PAGE]);
            self.meeting.wait();
            return Duration::ZERO;
        }
        self.meeting.wait();
        let start = Instant::now();
        (0..PAGES).for_each(|page| call(self, page));
        start.elapsed() / u32::try_from(PAGES).unwrap()
    }

    /// Time from a send to the answer of a rank that sleeps.
    fn wake_up(&self) -> Duration {
        self.meeting.wait();
        let peer = 1 - self.endpoint.rank();
        if peer == 0 {
            self.receive();
            self.endpoint.send(peer, 0, &[]).unwrap();
            return Duration::ZERO;
        }
        thread::sleep(Duration::from_millis(2));
        let start = Instant::now();
        self.endpoint.send(peer, 0, &[]).unwrap();
        self.receive();
        start.elapsed()
    }
}

fn per_call(mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..BATCH).for_each(|_| call());
    start.elapsed() / BATCH
}

/// Keeps this thread on one core.
fn pin(core: usize) {
    // SAFETY: a set of processors is plain bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index is small.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is ours and as long as we say.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}
