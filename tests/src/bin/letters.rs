//! Ranks whose messages lie across memory barriers: sent and not received, offered, asked for. Each prints a
//! sum over all that it got, in its order. `letters [window]`: besides, rank 1 has what no checkpoint can
//! have.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's program")]

use scash::runtime::init;
use scash_mp::{Communicator, Options, Request};

/// Rounds, each of which ends with a memory barrier.
const ROUNDS: u64 = 24;
/// Bytes of messages: eager ones, one that is pushed, one that waits to be asked for.
const LENGTHS: [usize; 4] = [8, 3_000, 40_000, 9 << 20];

fn mix(sum: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *sum = (*sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// The message that a rank sends in a round.
fn letter(rank: u32, round: u64, kind: usize) -> Vec<u8> {
    let seed = round.wrapping_mul(31).wrapping_add(u64::from(rank) * 7 + kind as u64).to_le_bytes();
    seed.iter().copied().cycle().take(LENGTHS[kind]).collect()
}

fn begin(to: u32, messages: &Communicator, round: u64, letters: &[Vec<u8>]) -> Vec<Request> {
    let tagged = (0..).zip(letters);
    // SAFETY: the caller keeps the letters until these are over.
    let send = |(kind, bytes): (u64, &Vec<u8>)| unsafe {
        messages.start_send(to, round * 8 + kind, bytes.as_ptr(), bytes.len()).unwrap()
    };
    tagged.map(send).collect()
}

fn main() -> scash::Result<()> {
    let runtime = init()?;
    let messages = runtime.communicator(Options::from_env().unwrap())?;
    let (rank, size) = (messages.rank(), messages.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let hindrance = std::env::args().nth(1).filter(|_| rank == 1);
    let _buffer = hindrance.as_deref().filter(|it| *it == "window").map(|_| messages.allocate(1).unwrap());
    let mut sum = 0xcbf2_9ce4_8422_2325;
    for round in 0..ROUNDS {
        let letters: Vec<Vec<u8>> = (0..LENGTHS.len()).map(|kind| letter(rank, round, kind)).collect();
        // Posted before the barrier, for what is sent behind it.
        let posted = messages.start_receive_owned(Some(previous), Some(round * 8 + 7)).unwrap();
        let sends = begin(next, &messages, round, &letters);
        runtime.barrier()?;
        messages.send(next, round * 8 + 7, &round.to_le_bytes()).unwrap();
        for kind in [3, 1, 0, 2] {
            let got = messages.receive_owned(Some(previous), Some(round * 8 + kind)).unwrap();
            mix(&mut sum, &got.bytes);
        }
        mix(&mut sum, &messages.wait(posted).unwrap().bytes);
        messages.wait_all(sends).unwrap();
        let mut all = vec![0_u64; size as usize];
        messages.all_gather(&[sum], &mut all).unwrap();
        messages.barrier().unwrap();
        all.iter().for_each(|one| mix(&mut sum, &one.to_le_bytes()));
        assert_eq!(messages.probe(None, None).unwrap(), None, "nothing comes twice");
    }
    println!("rank {rank}: {sum:016x}");
    drop((_buffer, messages));
    runtime.finalize()
}
