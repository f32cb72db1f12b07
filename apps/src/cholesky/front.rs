//! A front in memory of its own: from what is below it to what is kept of it.

use std::ops::Deref;

use super::order::{Front, Order};
use crate::Result;
use crate::random::unit;

/// How much two neighbouring points have to do with each other: the element of the matrix that is theirs.
pub(super) fn element(a: usize, b: usize) -> f64 {
    -0.5 - unit((a.min(b) << 1) + usize::from(a.abs_diff(b) == 1))
}

/// Element (i, i) of the matrix, whose row has no other elements but those of its neighbours: it is larger
/// than the sum of these.
pub(super) fn diagonal(order: &Order, place: usize) -> f64 {
    let point = order.point(place);
    let others = order.neighbours(place).map(|other| element(point, order.point(other)));
    0.1 - others.sum::<f64>()
}

/// The front that a worker has in hand: a dense matrix, column by column, of which what is on and below the
/// diagonal counts.
pub(super) struct Dense {
    /// How many of the columns are eliminated.
    columns: usize,
    side: usize,
    elements: Vec<f64>,
    /// Which row and column of the front a place in the order is, if it is one.
    indices: Vec<usize>,
}

impl Dense {
    /// Memory for fronts of a matrix of so many rows.
    pub(super) fn new(rows: usize) -> Self {
        Self { columns: 0, side: 0, elements: Vec::new(), indices: vec![usize::MAX; rows] }
    }

    /// Makes this the front of that number: with its elements of the matrix, and what `kept` has of the
    /// fronts below it, one after the other.
    pub(super) fn gather<K: Deref<Target = [f64]>>(
        &mut self,
        order: &Order,
        number: usize,
        kept: impl Fn(usize) -> Result<K>,
    ) -> Result<()> {
        let front = &order.fronts[number];
        (self.columns, self.side) = (front.columns.len(), front.side());
        self.elements.clear();
        self.elements.resize(self.side * self.side, 0.0);
        for (index, place) in front.columns.clone().chain(front.rows.iter().copied()).enumerate() {
            self.indices[place] = index;
        }
        for (column, place) in front.columns.clone().enumerate() {
            self.elements[column * self.side + column] = diagonal(order, place);
            for other in order.neighbours(place).filter(|&other| other > place) {
                let value = element(order.point(place), order.point(other));
                self.elements[column * self.side + self.indices[other]] = value;
            }
        }
        front.below.iter().try_for_each(|&below| {
            self.add(&order.fronts[below], &kept(below)?);
            Ok(())
        })
    }

    /// Adds what a front below has changed in its rows, all of which are here.
    fn add(&mut self, below: &Front, kept: &[f64]) {
        let changes = &kept[below.columns.len() * below.side()..];
        for ((at, &column), changes) in below.rows.iter().enumerate().zip(changes.chunks(below.rows.len())) {
            let start = self.indices[column] * self.side;
            for (row, change) in below.rows[at..].iter().zip(&changes[at..]) {
                self.elements[start + self.indices[*row]] += change;
            }
        }
    }

    /// Eliminates the front's columns.
    pub(super) fn eliminate(&mut self) {
        for k in 0..self.columns {
            let (before, after) = self.elements.split_at_mut((k + 1) * self.side);
            let column = &mut before[k * self.side + k..];
            let pivot = column[0].sqrt();
            column[0] = pivot;
            column[1..].iter_mut().for_each(|x| *x /= pivot);
            for (at, other) in after.chunks_exact_mut(self.side).enumerate() {
                let (factor, from) = (column[at + 1], k + 1 + at);
                let rows = other[from..].iter_mut().zip(&column[at + 1..]);
                rows.for_each(|(x, y)| *x -= factor * y);
            }
        }
    }

    /// Stores what is kept: the columns that are eliminated, and of the others what goes to the front above.
    pub(super) fn store(&self, kept: &mut [f64]) {
        let (eliminated, others) = self.elements.split_at(self.columns * self.side);
        let (columns, changes) = kept.split_at_mut(eliminated.len());
        columns.copy_from_slice(eliminated);
        let rows = self.side - self.columns;
        for (kept, column) in changes.chunks_mut(rows.max(1)).zip(others.chunks_exact(self.side)) {
            kept.copy_from_slice(&column[self.columns..]);
        }
    }
}
