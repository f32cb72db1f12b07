//! threads: several threads in each rank share the work.
//!
//! `scash run --threads T` says how many; `crew` starts them, with a `Worker` each. All threads of all ranks
//! are workers alike: each owns a part of what they allocate together, and they meet when they publish
//! theirs.
//!
//! In Conway's game of life, a glider on a torus of 32 by 32 cells is back after 4 * 32 generations.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const SIDE: usize = 32;
const GENERATIONS: usize = 4 * SIDE;
const GLIDER: [[u8; 3]; 3] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]];

/// What becomes of a cell, from its row and the two around it.
fn lives(rows: [&[u8]; 3], column: usize) -> u8 {
    let around = [column + SIDE - 1, column, column + 1].map(|c| c % SIDE);
    let count: u8 = rows.iter().flat_map(|row| around.map(|c| row[c])).sum();
    u8::from(count == 3 || (count == 4 && rows[1][column] == 1)) // the cell itself was counted, too
}

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    dsm.crew(dsm.threads(), |worker| -> scash::Result<()> {
        let mut world = worker.matrix::<u8>(SIDE, SIDE)?; // each worker owns rows
        for (row, cells) in world.parts(worker).mine {
            if row < 3 {
                cells[..3].copy_from_slice(&GLIDER[row]);
            }
        }
        world.publish(worker)?;

        for _ in 0..GENERATIONS {
            let parts = world.parts(worker);
            for (row, cells) in parts.mine {
                let rows = [row + SIDE - 1, row, row + 1].map(|r| parts.present.row(r % SIDE));
                for (column, cell) in cells.iter_mut().enumerate() {
                    *cell = lives(rows, column);
                }
            }
            world.publish(worker)?;
        }

        if worker.index() == 0 {
            let world = world.present(worker);
            let alive = world.all().iter().filter(|&&cell| cell == 1).count();
            let back = (0..9).filter(|i| world.row(i / 3)[i % 3] & GLIDER[i / 3][i % 3] == 1).count();
            println!("after {GENERATIONS} generations {alive} cells live, {back} of them where they began");
        }
        Ok(())
    })?;
    dsm.finalize()
}
