//! atomics: ranks draw numbers from one counter, and raise one maximum, without a lock.
//!
//! `fetch_add` deals out chunks of work: no two ranks get the same one, and a rank that is faster gets more.
//! `compare_swap` replaces the best result if it is still what this rank has seen. Until the next barrier
//! such words are touched by atomic operations only; then they are plain memory again.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const LIMIT: u64 = 100_000;
const CHUNK: u64 = 1000;

fn collatz(number: u64) -> u64 {
    let next = |&n: &u64| (n != 1).then_some(if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(number), next).count() as u64 - 1
}

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    let next = dsm.alloc::<u64>(1)?;
    let best = dsm.alloc::<u64>(1)?;

    let mut mine = 0;
    loop {
        let chunk = next.fetch_add(&dsm, 0, 1)?;
        if chunk >= LIMIT / CHUNK {
            break;
        }
        for number in chunk * CHUNK + 1..=(chunk + 1) * CHUNK {
            mine = mine.max(collatz(number) << 32 | number); // the larger, the more steps
        }
    }

    let mut seen = best.atomic_load(&dsm, 0)?;
    while seen < mine {
        let expected = seen;
        seen = best.compare_swap(&dsm, 0, expected, mine)?;
        if seen == expected {
            break;
        }
    }

    dsm.barrier()?;
    if dsm.rank() == 0 {
        let best = best.get(&dsm, 0);
        let (number, steps) = (best & u64::from(u32::MAX), best >> 32);
        println!("of the numbers up to {LIMIT}, {number} takes most Collatz steps: {steps}");
    }
    dsm.finalize()
}
