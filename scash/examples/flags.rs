//! flags: ranks work one behind the other, as in a pipeline.
//!
//! Each rank owns some columns of a table, and needs of each row what the rank to its left has in it. A flag
//! has a number that only grows: here, how many rows its rank has done. A rank that waits for a number sees
//! all that was written before the flag was raised to it. There is no barrier.
//!
//! An entry is the sum of those above and to the left: the number of shortest ways to it.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const SIDE: usize = 30;

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    let (rank, size) = (dsm.rank(), dsm.size());
    let ways = dsm.alloc::<u64>((SIDE + 1) * (SIDE + 1))?;
    let done = dsm.flags(size)?;

    let at = |column: usize, row: usize| column * (SIDE + 1) + row;
    let first = |rank: usize| (SIDE + 1) * rank / size;
    for row in 0..=SIDE {
        if rank > 0 {
            done[rank - 1].wait(&dsm, row as u64 + 1)?;
        }
        for column in first(rank)..first(rank + 1) {
            let sum = match (row, column) {
                (0, _) | (_, 0) => 1,
                _ => ways.get(&dsm, at(column, row - 1)) + ways.get(&dsm, at(column - 1, row)),
            };
            ways.set(&dsm, at(column, row), sum);
        }
        done[rank].raise(&dsm, row as u64 + 1)?;
    }

    if rank == size - 1 {
        println!("a grid of {SIDE} by {SIDE} has {} shortest ways", ways.get(&dsm, at(SIDE, SIDE)));
    }
    dsm.finalize()
}
