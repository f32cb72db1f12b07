//! LU's owners: a grid of ranks that is laid over the blocks, and the places of blocks in memory.
//! `lu/layout.rs` in `apps` is the original; a test compares the two.

/// Who owns a block of a square matrix, and where it is.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Blocks in a row or column of the matrix.
    blocks: u64,
    rows: u64,
    columns: u64,
    /// Where each rank's blocks start, counted in blocks.
    starts: Vec<u64>,
}

impl Grid {
    /// The grid is as square as the number of ranks allows. The blocks of an owner follow one another, column
    /// by column, and the owners too.
    pub(super) fn new(blocks: u64, ranks: u32) -> Self {
        let ranks = u64::from(ranks);
        let rows = (1..=ranks.isqrt()).rev().find(|rows| ranks.is_multiple_of(*rows)).unwrap_or(1);
        let mut grid = Grid { blocks, rows, columns: ranks / rows, starts: Vec::new() };
        let mut start = 0;
        for rank in 0..ranks {
            grid.starts.push(start);
            start += grid.height(rank) * share(blocks, rank / rows, grid.columns);
        }
        grid
    }

    pub(super) fn owner(&self, i: u64, j: u64) -> u64 {
        i % self.rows + j % self.columns * self.rows
    }

    /// Where block (i, j) is, counted in blocks.
    pub(super) fn place(&self, i: u64, j: u64) -> u64 {
        let owner = self.owner(i, j);
        let start = usize::try_from(owner).ok().and_then(|owner| self.starts.get(owner));
        start.unwrap_or(&0) + j / self.columns * self.height(owner) + i / self.rows
    }

    /// The rank's blocks in rows from `from` on of column `j`: their rows.
    pub(super) fn rows_of(&self, rank: u64, j: u64, from: u64) -> impl Iterator<Item = u64> + use<> {
        let mine = j % self.columns == rank / self.rows;
        let end = if mine { self.blocks } else { 0 };
        stepped(from, end, rank % self.rows, self.rows)
    }

    /// The columns from `from` on in which the rank has blocks, if it has any in those rows.
    pub(super) fn columns_of(&self, rank: u64, from: u64) -> impl Iterator<Item = u64> + use<> {
        stepped(from, self.blocks, rank / self.rows, self.columns)
    }

    fn height(&self, rank: u64) -> u64 {
        share(self.blocks, rank % self.rows, self.rows)
    }
}

/// How many of `0..count` are `place` modulo `places`.
fn share(count: u64, place: u64, places: u64) -> u64 {
    (count + places - 1 - place) / places
}

/// The numbers of `from..end` that are `place` modulo `step`.
fn stepped(from: u64, end: u64, place: u64, step: u64) -> impl Iterator<Item = u64> {
    let first = from + (place + step - from % step) % step;
    (first..end.max(first)).step_by(usize::try_from(step).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_place_are_found_from_anywhere_on() {
        assert!(stepped(5, 20, 1, 4).eq([5, 9, 13, 17]));
        assert!(stepped(6, 20, 1, 4).eq([9, 13, 17]));
        assert!(stepped(0, 3, 3, 4).eq([0; 0]));
        assert!(stepped(7, 0, 0, 1).eq([0; 0]));
    }

    #[test]
    fn every_block_has_one_owner_and_one_place() {
        for (blocks, ranks) in [(1, 1), (5, 2), (7, 4), (6, 6), (2, 7), (32, 12), (4, 64)] {
            let grid = Grid::new(blocks, ranks);
            let mut places = Vec::new();
            for rank in 0..u64::from(ranks) {
                for j in grid.columns_of(rank, 0) {
                    for i in grid.rows_of(rank, j, 0) {
                        assert_eq!(grid.owner(i, j), rank);
                        places.push(grid.place(i, j));
                    }
                }
            }
            assert!(places.iter().copied().eq(0..blocks * blocks), "{blocks} blocks, {ranks} ranks");
        }
    }
}
