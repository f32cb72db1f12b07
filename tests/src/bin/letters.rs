//! Ranks whose messages lie across memory barriers: sent and not received, offered, asked for. Each prints a
//! sum over all that it got, in its order.
//!
//! `letters threads`: two more threads in each rank pass messages meanwhile: one waits for a message that
//! is sent behind the barrier, the other one sends and receives all the time. `letters handlers`: active
//! messages are under way, too, and handlers run. `letters flood`: rank 0 sends more before the barrier than
//! is on its way at once. `letters window`, `buffer`, `collective`: besides, rank 1
//! has what no checkpoint can have, at the first eight barriers.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::runtime::{Runtime, init};
use scash_mp::{Buffer, Collective, Communicator, Options, Request, Window};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Rounds, each of which ends with a memory barrier.
const ROUNDS: u64 = 24;
/// Rounds in which there is something that no checkpoint can have.
const HINDERED: u64 = 8;
/// Bytes of messages: eager ones, one that is pushed, one that waits to be asked for.
const LENGTHS: [usize; 4] = [8, 3_000, 40_000, 9 << 20];
/// Of the tags of a round: the message that is sent behind the barrier, and the one for the thread that
/// waits.
const LATE: u64 = 7;
const FOR_THREAD: u64 = 6;
/// Tags of the thread that is busy, and messages that it sends in a round.
const BUSY: u64 = 1 << 32;
const TIMES: u64 = 200;
/// Tags of a flood, how many messages it has in a round, and their bytes.
const FLOOD: u64 = 1 << 33;
const DROPS: u64 = 3000;
const A_DROP: usize = 1000;
/// The handler, and active messages of a round to each rank.
const HANDLER: u16 = 1;
const CALLS: u64 = 50;

/// By words, as some messages are long.
fn mix(sum: &mut u64, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks();
    let words =
        words.iter().map(|word| u64::from_le_bytes(*word)).chain(rest.iter().map(|byte| (*byte).into()));
    *sum = words.fold(*sum, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
}

/// The message that a rank sends in a round.
fn letter(rank: u32, round: u64, kind: usize) -> Vec<u8> {
    let seed = round.wrapping_mul(31).wrapping_add(u64::from(rank) * 7 + kind as u64).to_le_bytes();
    let mut bytes = seed.repeat(LENGTHS[kind].div_ceil(seed.len()));
    bytes.truncate(LENGTHS[kind]);
    bytes
}

/// A rank, and those whose messages it gets and that get its own.
struct Post<'a> {
    runtime: &'static Runtime,
    messages: &'a Communicator,
    next: u32,
    previous: u32,
    /// The round that has begun.
    round: AtomicU64,
    /// Messages of a flood.
    drops: u64,
}

impl Post<'_> {
    fn begin(&self, round: u64, letters: &[Vec<u8>]) -> Vec<Request> {
        let tagged = (0..).zip(letters);
        // SAFETY: the caller keeps the letters until these are over.
        let send = |(kind, bytes): (u64, &Vec<u8>)| unsafe {
            self.messages.start_send(self.next, round * 8 + kind, bytes.as_ptr(), bytes.len()).unwrap()
        };
        tagged.map(send).collect()
    }

    fn receive(&self, tag: u64) -> Vec<u8> {
        self.messages.receive_owned(Some(self.previous), Some(tag)).unwrap().bytes
    }

    /// A round, of which this is in the sum.
    fn play(&self, round: u64, sum: &mut u64) -> scash::Result<()> {
        let (messages, tag) = (self.messages, |kind: u64| round * 8 + kind);
        let letters: Vec<_> = (0..LENGTHS.len()).map(|kind| letter(messages.rank(), round, kind)).collect();
        // Posted before the barrier, for what is sent behind it.
        let posted = messages.start_receive_owned(Some(self.previous), Some(tag(LATE))).unwrap();
        let sends = self.begin(round, &letters);
        let drops =
            |rank: u32| (0..self.drops).filter(move |_| rank == 0).map(|drop| FLOOD + round * DROPS + drop);
        drops(messages.rank()).for_each(|tag| messages.send(self.next, tag, &[1; A_DROP]).unwrap());
        self.round.store(round + 1, Ordering::Release);
        self.runtime.barrier()?;
        for late in [LATE, FOR_THREAD] {
            messages.send(self.next, tag(late), &tag(late).to_le_bytes()).unwrap();
        }
        drops(self.previous).for_each(|tag| mix(sum, &self.receive(tag)));
        for kind in [3, 1, 0, 2] {
            mix(sum, &self.receive(tag(kind)));
        }
        mix(sum, &messages.wait(posted).unwrap().bytes);
        messages.wait_all(sends).unwrap();
        let mut all = vec![0_u64; messages.size() as usize];
        messages.all_gather(&[*sum], &mut all).unwrap();
        all.iter().for_each(|one| mix(sum, &one.to_le_bytes()));
        let again =
            (0..4).chain([LATE]).find(|&kind| messages.probe(None, Some(tag(kind))).unwrap().is_some());
        assert_eq!(again, None, "nothing comes twice");
        Ok(())
    }

    /// What the thread gets that waits: in each round behind the barrier.
    fn wait_for_all(&self) -> u64 {
        let mut sum = 0;
        (0..ROUNDS).for_each(|round| mix(&mut sum, &self.receive(round * 8 + FOR_THREAD)));
        sum
    }

    /// What the thread gets that sends and receives while others are in the barrier.
    fn be_busy(&self) -> u64 {
        let mut sum = 0;
        for time in 0..ROUNDS * TIMES {
            while self.round.load(Ordering::Acquire) < time / TIMES + 1 {
                thread::sleep(Duration::from_micros(50));
            }
            self.messages.send(self.next, BUSY + time, &time.to_le_bytes()).unwrap();
            mix(&mut sum, &self.receive(BUSY + time));
        }
        sum
    }

    /// Active messages to all, of which some are under way at the barrier.
    fn call_all(&self) {
        for to in (0..CALLS).flat_map(|_| 0..self.messages.size()) {
            self.messages.call(to, HANDLER, &[1; 100]).unwrap();
        }
    }
}

/// What no checkpoint can have.
enum Hindrance {
    Nothing,
    Window(Window),
    Buffer(Buffer),
    Collective(Request),
}

impl Hindrance {
    /// Of this name: at all ranks, or at rank 1.
    fn of(name: &str, messages: &Communicator) -> Hindrance {
        match name {
            "window" => Hindrance::Window(messages.window(100).unwrap()),
            "buffer" if messages.rank() == 1 => Hindrance::Buffer(messages.allocate(1).unwrap()),
            // Others begin it when it is to be over.
            "collective" if messages.rank() == 1 => {
                // SAFETY: it uses no memory.
                let begun =
                    unsafe { messages.start(&Collective::Barrier, std::ptr::null(), std::ptr::null_mut()) };
                Hindrance::Collective(begun.unwrap())
            }
            _ => Hindrance::Nothing,
        }
    }

    fn end(self, name: &str, messages: &Communicator) {
        match self {
            Hindrance::Window(window) => messages.close_window(window).unwrap(),
            Hindrance::Collective(request) => drop(messages.wait(request).unwrap()),
            Hindrance::Nothing if name == "collective" => messages.barrier().unwrap(),
            Hindrance::Buffer(buffer) => drop(buffer),
            Hindrance::Nothing => {}
        }
    }
}

fn main() -> scash::Result<()> {
    let runtime = init()?;
    let what = std::env::args().nth(1).unwrap_or_default();
    let messages = runtime.communicator(Options::from_env().unwrap())?;
    let (rank, size) = (messages.rank(), messages.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let drops = if what == "flood" { DROPS } else { 0 };
    let post = Post { runtime, messages: &messages, next, previous, round: AtomicU64::new(0), drops };
    let called = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&called);
    let count = move |_: &scash_mp::Caller<'_>, bytes: &[u8]| {
        thread::yield_now();
        counts.fetch_add(u64::from(bytes[0]), Ordering::Relaxed);
    };
    messages.register_handler(HANDLER, count).unwrap();
    let mut sum = 0xcbf2_9ce4_8422_2325;
    let sums: Vec<u64> = thread::scope(|scope| -> scash::Result<Vec<u64>> {
        let beside = if what == "threads" {
            vec![scope.spawn(|| post.wait_for_all()), scope.spawn(|| post.be_busy())]
        } else {
            Vec::new()
        };
        let mut hindrance = Some(Hindrance::of(&what, &messages));
        for round in 0..ROUNDS {
            if what == "handlers" {
                post.call_all();
            }
            if what == "collective" && round < HINDERED {
                // Nothing else that is collective may come before its end.
                runtime.barrier()?;
                continue;
            }
            if round >= HINDERED
                && let Some(hindrance) = hindrance.take()
            {
                hindrance.end(&what, &messages);
            }
            post.play(round, &mut sum)?;
        }
        Ok(beside.into_iter().map(|thread| thread.join().unwrap()).collect())
    })?;
    sums.iter().for_each(|one| mix(&mut sum, &one.to_le_bytes()));
    messages.fence(None).unwrap();
    messages.barrier().unwrap();
    println!("rank {rank}: {sum:016x}, {} calls", called.load(Ordering::Relaxed));
    drop(messages);
    runtime.finalize()
}
