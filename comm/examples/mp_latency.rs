//! Measures message passing between two threads, each a rank on a core of its own: `cargo run --release -p scash-comm --example mp_latency [shm|tcp]`.
//! Prints, for each protocol and length, the median time of a message one way (µs) and the rate of messages sent one after the other (MB/s).

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use scash_comm::mem_exchange::MemExchange;
use scash_comm::mp::{Communicator, Large, Options};
use scash_comm::shm::{ShmEndpoint, ShmOptions};
use scash_comm::tcp::{TcpEndpoint, TcpOptions};
use scash_comm::{Endpoint, Exchange};
use std::thread;
use std::time::Instant;

const LENGTHS: [usize; 8] = [8, 256, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20, 4 << 20];
const ROUNDS: usize = 60;
/// Messages that are under way at once when the rate is measured.
const WINDOW: usize = 16;

fn main() {
    let provider = std::env::args().nth(1).unwrap_or_else(|| "shm".to_owned());
    let always = usize::MAX / 4;
    let ways = [
        ("eager", Options { eager: 8 << 20, push: 0, window: 64 << 20, ..Options::default() }),
        (
            "push",
            Options { eager: 0, push: 8 << 20, window: 64 << 20, large: Large::Push, ..Options::default() },
        ),
        (
            "rendezvous",
            Options { eager: 0, push: 0, large: Large::Rendezvous, window: always, ..Options::default() },
        ),
        ("get", Options { eager: 0, push: 0, large: Large::Get, window: always, ..Options::default() }),
        ("registered", Options::default()),
        ("default", Options::default()),
    ];
    for (name, options) in ways {
        if name == "get" && provider == "tcp" {
            continue;
        }
        thread::scope(|scope| {
            for mut exchange in MemExchange::ranks(2) {
                let provider = &provider;
                scope.spawn(move || {
                    pin(exchange.rank() as usize);
                    let endpoint: Box<dyn Endpoint> = if provider == "tcp" {
                        Box::new(
                            TcpEndpoint::new(
                                &mut exchange,
                                &TcpOptions { ranks_here: 2, ..TcpOptions::default() },
                            )
                            .unwrap(),
                        )
                    } else {
                        Box::new(ShmEndpoint::new(&mut exchange, &ShmOptions::default()).unwrap())
                    };
                    measure(name, &Communicator::new(endpoint, &mut exchange, options).unwrap());
                });
            }
        });
    }
}

fn measure(name: &str, communicator: &Communicator) {
    let peer = 1 - communicator.rank();
    for len in LENGTHS {
        let mut registered = communicator.allocate(len).unwrap();
        registered.fill(1);
        let own = vec![1u8; len];
        let mine: &[u8] = if name == "registered" { &registered } else { &own };
        let mut theirs = vec![0u8; len];
        let repeats = (200_000 / (len + 400)).clamp(4, 300);
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..repeats {
                if peer == 1 {
                    communicator.send(peer, 1, mine).unwrap();
                    communicator.receive(Some(peer), Some(1), &mut theirs).unwrap();
                } else {
                    communicator.receive(Some(peer), Some(1), &mut theirs).unwrap();
                    communicator.send(peer, 1, mine).unwrap();
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / 2.0 / repeats as f64);
        }
        let mut rates = Vec::new();
        let mut room = vec![0u8; len * WINDOW];
        for _ in 0..ROUNDS / 3 {
            let start = Instant::now();
            for _ in 0..(repeats / WINDOW).max(1) {
                communicator
                    .scope(|scope| {
                        if peer == 1 {
                            (0..WINDOW).try_for_each(|_| scope.send(peer, 2, mine).map(drop))
                        } else {
                            room.chunks_mut(len)
                                .try_for_each(|into| scope.receive(Some(peer), Some(2), into).map(drop))
                        }
                    })
                    .unwrap();
            }
            if peer == 1 {
                communicator.receive(Some(peer), Some(3), &mut []).unwrap();
            } else {
                communicator.send(peer, 3, &[]).unwrap();
            }
            let bytes = (repeats / WINDOW).max(1) * WINDOW * len;
            rates.push(bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
        }
        if peer == 1 {
            println!("{name:>10} {len:>8} B {:>9.2} us {:>9.0} MB/s", median(&mut times), median(&mut rates));
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pin(core: usize) {
    // SAFETY: a set of processors is plain data.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number of a processor is below the set's size.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is as long as we say. If there is no such core, the thread stays where it is.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}
