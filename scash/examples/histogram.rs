//! histogram: ranks add to the same counts, one rank at a time.
//!
//! A `DsmMutex` is a value that all ranks share, with its lock. The rank that gets it sees what the rank
//! before it wrote, so no barrier is needed between them. Each rank counts for itself first, and takes the
//! lock once.
//!
//! Of the numbers of 10 bits, C(10,k) have k one bits.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const BITS: usize = 10;

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    let counts = dsm.mutex([0_u32; BITS + 1])?;

    let mut mine = [0; BITS + 1];
    for number in (dsm.rank()..1 << BITS).step_by(dsm.size()) {
        mine[number.count_ones() as usize] += 1;
    }
    for (count, mine) in counts.lock(&dsm)?.iter_mut().zip(mine) {
        *count += mine;
    }

    dsm.barrier()?; // all have added theirs
    if dsm.rank() == 0 {
        let counts = counts.lock(&dsm)?.map(|count| count.to_string()).join(" ");
        println!("numbers of {BITS} bits, by their one bits: {counts}");
    }
    dsm.finalize()
}
