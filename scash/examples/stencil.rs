//! stencil: heat spreads on a plate, of which each rank owns some rows.
//!
//! In each step a point becomes the mean of its four neighbours. A `Partition` is there twice: ranks read the
//! plate as it is, edge rows of other ranks included, and write their rows of the next one. `publish` makes
//! the next one the present one: one memory barrier a step.
//!
//! All numbers are exact: of 4^20 in the middle C(20,10)^2 are there again after 20 steps.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const ROWS: usize = 64;
const COLUMNS: usize = 512;
const STEPS: i32 = 20;

/// As long as a page, so each page has one writer.
type Row = [f64; COLUMNS];

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    let mut plate = dsm.partition::<Row>(ROWS)?;

    let parts = plate.parts(&dsm);
    for (row, next) in (parts.start..).zip(parts.mine) {
        if row == ROWS / 2 {
            next[COLUMNS / 2] = 4_f64.powi(STEPS);
        }
    }
    plate.publish(&mut dsm)?;

    for _ in 0..STEPS {
        let parts = plate.parts(&dsm);
        let now: Vec<&Row> = [parts.before, parts.old, parts.after].into_iter().flatten().collect();
        for (row, next) in (parts.start..).zip(parts.mine) {
            if row == 0 || row == ROWS - 1 {
                continue; // the border stays cold
            }
            for c in 1..COLUMNS - 1 {
                next[c] = (now[row - 1][c] + now[row + 1][c] + now[row][c - 1] + now[row][c + 1]) / 4.0;
            }
        }
        plate.publish(&mut dsm)?;
    }

    if dsm.rank() == 0 {
        let plate = plate.all(&dsm);
        let heat: f64 = plate.as_flattened().iter().sum();
        println!("after {STEPS} steps the middle has {} of {heat}", plate[ROWS / 2][COLUMNS / 2]);
    }
    dsm.finalize()
}
