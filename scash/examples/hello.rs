//! hello: ranks write parts of one array, and read all of it.
//!
//! Each rank owns a part of a `Partition`, which it writes as a slice. `publish` is a memory barrier: after
//! it, every rank reads what all ranks have written. A program of one rank does the same without a launcher,
//! and has the whole array.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    let mut squares = dsm.partition::<u64>(1_000_000)?; // every rank owns a part
    let parts = squares.parts(&dsm);
    for (i, x) in (parts.start as u64..).zip(parts.mine) {
        *x = i * i;
    }
    squares.publish(&mut dsm)?; // the memory barrier
    let sum: u64 = squares.all(&dsm).iter().sum(); // everybody's parts
    println!("rank {} of {}: the sum of all squares is {sum}", dsm.rank(), dsm.size());
    dsm.finalize()
}
