//! messages: a number goes from rank to rank, beside an array in shared memory.
//!
//! Each rank makes running sums of its part of the array. What the parts before it add up to, it gets in a
//! message from the rank before it. A message concerns two ranks only, and makes no other memory visible: the
//! array still takes a memory barrier.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const COUNT: usize = 1_000_000;
const CARRY: u64 = 1; // a tag

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    let messages = dsm.messages()?;
    let mut sums = dsm.partition::<u64>(COUNT)?;

    let (rank, parts) = (dsm.rank(), sums.parts(&dsm));
    let mut total = 0;
    for (i, sum) in (parts.start as u64..).zip(&mut *parts.mine) {
        total += i + 1;
        *sum = total;
    }
    let mut before = [0];
    if rank > 0 {
        messages.receive(Some(rank - 1), Some(CARRY), &mut before)?;
    }
    if rank + 1 < dsm.size() {
        messages.send(rank + 1, CARRY, &[before[0] + total])?;
    }
    for sum in parts.mine {
        *sum += before[0];
    }

    sums.publish(&mut dsm)?;
    if rank == 0 {
        let sums = sums.all(&dsm);
        let right = (1..).zip(sums).filter(|(n, sum)| n * (n + 1) / 2 == **sum).count();
        println!("{right} running sums are right, and the last is {}", sums[COUNT - 1]);
    }
    dsm.finalize()
}
