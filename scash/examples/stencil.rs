//! stencil: heat spreads on a plate, of which each rank owns some rows.
//!
//! In each step a point becomes the mean of its four neighbours. A `Matrix`, like a `Partition`, is there
//! twice: ranks read the plate as it is, edge rows of other ranks included, and write their rows of the next
//! one. `publish` makes the next one the present one: one memory barrier a step.
//!
//! All numbers are exact: of 4^20 in the middle C(20,10)^2 are there again after 20 steps.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

const ROWS: usize = 64;
const COLUMNS: usize = 512; // a row is as long as a page, so each page has one writer
const STEPS: i32 = 20;

fn main() -> scash::Result<()> {
    let mut dsm = scash::Dsm::init()?;
    let mut plate = dsm.matrix::<f64>(ROWS, COLUMNS)?;
    for (row, points) in plate.parts(&dsm).mine {
        if row == ROWS / 2 {
            points[COLUMNS / 2] = 4_f64.powi(STEPS);
        }
    }
    plate.publish(&mut dsm)?;

    for _ in 0..STEPS {
        let parts = plate.parts(&dsm);
        // The border stays cold.
        for (row, points) in parts.mine.filter(|(row, _)| (1..ROWS - 1).contains(row)) {
            let [above, here, below] = [row - 1, row, row + 1].map(|row| parts.present.row(row));
            for c in 1..COLUMNS - 1 {
                points[c] = (above[c] + below[c] + here[c - 1] + here[c + 1]) / 4.0;
            }
        }
        plate.publish(&mut dsm)?;
    }

    if dsm.rank() == 0 {
        let plate = plate.present(&dsm);
        let heat: f64 = plate.all().iter().sum();
        println!("after {STEPS} steps the middle has {} of {heat}", plate.row(ROWS / 2)[COLUMNS / 2]);
    }
    dsm.finalize()
}
