//! The right-hand side: charges of +1 and -1 where random numbers are greatest and least.

use scash_messages::Messages;

use super::Cube;
use super::field::Field;
use crate::Result;
use crate::npb::Random;

const SEED: u64 = 314_159_265;
/// Charges of each sign.
const CHARGES: usize = 10;

/// Places the charges on the rank's part of a grid with so many points in each dimension.
pub(super) fn place(field: &mut Field, points: usize, cube: Cube, messages: &dyn Messages) -> Result<()> {
    fill(field, points, cube);
    let last = field.shape()[0] - 1;
    let (mut greatest, mut least) = (Greatest::default(), Greatest::default());
    for (y, z) in field.own_rows() {
        for &number in &field.row_mut(y, z)[1..last] {
            greatest.add(number);
            least.add(-number);
        }
    }
    let (greatest, least) = (greatest.of_all(messages)?, -least.of_all(messages)?);
    for (y, z) in field.own_rows() {
        for number in &mut field.row_mut(y, z)[1..last] {
            *number = match *number {
                number if number >= greatest => 1.0,
                number if number <= least => -1.0,
                _ => 0.0,
            };
        }
    }
    Ok(())
}

/// Random numbers: one sequence through the whole grid.
fn fill(field: &mut Field, points: usize, cube: Cube) {
    let [x, y, z] = field.shape();
    let first: [usize; 3] = std::array::from_fn(|axis| cube.place[axis] * ([x, y, z][axis] - 2));
    for (y, z) in field.own_rows() {
        let row = first[0] + points * (first[1] + y - 1 + points * (first[2] + z - 1));
        let mut random = Random::after(SEED, row as u64);
        field.row_mut(y, z)[1..x - 1].iter_mut().for_each(|number| *number = random.number());
    }
}

/// The greatest numbers so far, in descending order.
struct Greatest([f64; CHARGES]);

impl Default for Greatest {
    fn default() -> Self {
        Self([f64::NEG_INFINITY; CHARGES])
    }
}

impl Greatest {
    fn add(&mut self, number: f64) {
        if number > self.0[CHARGES - 1] {
            let place = self.0.partition_point(|&other| other >= number);
            self.0[place..].rotate_right(1);
            self.0[place] = number;
        }
    }

    /// The least of the greatest numbers of all ranks.
    fn of_all(&self, messages: &dyn Messages) -> Result<f64> {
        let mut all = vec![0.0; CHARGES * messages.size() as usize];
        messages.all_gather(&self.0, &mut all)?;
        let mut together = Self::default();
        all.into_iter().for_each(|number| together.add(number));
        Ok(together.0[CHARGES - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_are_kept_in_order() {
        let mut greatest = Greatest::default();
        (0..30).map(|at| f64::from(at * 7 % 30)).for_each(|number| greatest.add(number));
        assert_eq!(greatest.0, [29.0, 28.0, 27.0, 26.0, 25.0, 24.0, 23.0, 22.0, 21.0, 20.0]);
    }
}
