//! The matrix: a sum of outer products of sparse random vectors, of which NPB says every random number.

use std::ops::Range;

use crate::npb::Random;

const SEED: u64 = 314_159_265;
/// The ratio of the matrix's smallest eigenvalue to its largest.
const CONDITION: f64 = 0.1;
/// What each vector has at its own place.
const DIAGONAL: f64 = 0.5;

/// A block of the matrix, row by row.
#[derive(Debug)]
pub(super) struct Block {
    /// Where each row begins, and the end of the last.
    starts: Vec<usize>,
    /// The column of each element, within the block.
    columns: Vec<u32>,
    values: Vec<f64>,
}

/// A sparse vector: places and values.
type Sparse = Vec<(usize, f64)>;

impl Block {
    /// The block of these rows and columns of the matrix with `size` rows: the sum over i of ωⁱ·xᵢ·xᵢᵀ, where
    /// ω to the power of `size` is [`CONDITION`], plus `CONDITION - shift` in the diagonal.
    pub(super) fn make(
        size: usize,
        nonzeros: usize,
        shift: f64,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Self {
        // The first number is not used.
        let mut random = Random::after(SEED, 1);
        let ratio = CONDITION.powf(1.0 / size as f64);
        let mut scale = 1.0;
        let mut elements: Vec<Vec<(u32, f64)>> = vec![Vec::new(); rows.len()];
        for own in 0..size {
            let vector = vector(&mut random, size, nonzeros, own);
            for &(row, a) in vector.iter().filter(|(row, _)| rows.contains(row)) {
                for &(column, b) in vector.iter().filter(|(column, _)| columns.contains(column)) {
                    let diagonal = if row == own && column == own { CONDITION - shift } else { 0.0 };
                    let place = u32::try_from(column - columns.start).expect("columns are counted by a u32");
                    elements[row - rows.start].push((place, b * (scale * a) + diagonal));
                }
            }
            scale *= ratio;
        }
        Self::of_rows(elements)
    }

    /// Puts rows together, after those of their elements that are in one column.
    fn of_rows(rows: Vec<Vec<(u32, f64)>>) -> Self {
        let mut block = Self { starts: vec![0], columns: Vec::new(), values: Vec::new() };
        for mut row in rows {
            // Stable: they are added in the order in which they came.
            row.sort_by_key(|&(column, _)| column);
            for same in row.chunk_by(|a, b| a.0 == b.0) {
                block.columns.push(same[0].0);
                block.values.push(same.iter().map(|&(_, value)| value).sum());
            }
            block.starts.push(block.values.len());
        }
        block
    }

    /// `w = block·p`.
    pub(super) fn multiply(&self, p: &[f64], w: &mut [f64]) {
        for (w, ends) in w.iter_mut().zip(self.starts.windows(2)) {
            let (columns, values) = (&self.columns[ends[0]..ends[1]], &self.values[ends[0]..ends[1]]);
            *w = columns.iter().zip(values).map(|(&column, value)| value * p[column as usize]).sum();
        }
    }
}

/// The next vector: random values at as many different random places, and [`DIAGONAL`] at its own.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the place is the whole part")]
fn vector(random: &mut Random, size: usize, nonzeros: usize, own: usize) -> Sparse {
    let most = size.next_power_of_two() as f64;
    let mut vector = Sparse::with_capacity(nonzeros + 1);
    while vector.len() < nonzeros {
        let (value, place) = (random.number(), (most * random.number()) as usize);
        if place < size && vector.iter().all(|&(other, _)| other != place) {
            vector.push((place, value));
        }
    }
    match vector.iter_mut().find(|(place, _)| *place == own) {
        Some((_, value)) => *value = DIAGONAL,
        None => vector.push((own, DIAGONAL)),
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_make_up_the_matrix_which_is_symmetric() {
        let size = 60;
        let whole = Block::make(size, 5, 10.0, 0..size, 0..size);
        let times_unit = |block: &Block, width: usize, height: usize, column: usize| {
            let (mut p, mut w) = (vec![0.0; width], vec![0.0; height]);
            p[column] = 1.0;
            block.multiply(&p, &mut w);
            w
        };
        let columns: Vec<Vec<f64>> = (0..size).map(|column| times_unit(&whole, size, size, column)).collect();
        for (i, column) in columns.iter().enumerate() {
            // The shift, and a sum of squares, of which one is known.
            assert!(column[i] - (CONDITION - 10.0) >= DIAGONAL * DIAGONAL * CONDITION);
            assert!((0..size).all(|j| (column[j] - columns[j][i]).abs() < 1e-15));
        }
        let block = Block::make(size, 5, 10.0, 20..40, 30..60);
        for (at, column) in columns[30..60].iter().enumerate() {
            assert_eq!(times_unit(&block, 30, 20, at), column[20..40]);
        }
    }
}
