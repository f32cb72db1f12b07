//! What is known of a factorisation before there are numbers: the order of a grid's points, and the fronts.
//!
//! Nested dissection: a line of points cuts the grid in two, and comes after both. So do the lines that cut
//! the halves, until these are small. The points of a line, or of a small part, are the columns of a *front*;
//! what their elimination changes besides are its rows, all of which are columns of fronts above it.

use std::ops::Range;

/// Columns and rows, by their places in the order, and the fronts that come before.
#[derive(Debug)]
pub(super) struct Front {
    /// What this front eliminates: places that follow one another.
    pub(super) columns: Range<usize>,
    /// What changes besides, ascending.
    pub(super) rows: Vec<usize>,
    /// Fronts whose changes come into this one.
    pub(super) below: Vec<usize>,
    /// The front that its own changes go to; the last one has none.
    pub(super) above: Option<usize>,
}

impl Front {
    /// Rows and columns together.
    pub(super) fn side(&self) -> usize {
        self.columns.len() + self.rows.len()
    }

    /// Numbers that are kept: what the factor has of the columns, and what goes to the front above.
    pub(super) fn kept(&self) -> usize {
        self.columns.len() * self.side() + self.rows.len() * self.rows.len()
    }
}

/// The order of a grid's points.
#[derive(Debug)]
pub(super) struct Order {
    side: usize,
    /// Each point at its place.
    points: Vec<usize>,
    /// Each point's place.
    places: Vec<usize>,
    /// All fronts; those below come before the one above them.
    pub(super) fronts: Vec<Front>,
}

/// Parts of the grid of so many rows and columns are not cut.
const SMALL: usize = 4;

impl Order {
    /// The order of a grid of `side × side` points.
    pub(super) fn of_grid(side: usize) -> Self {
        let mut order =
            Self { side, points: Vec::new(), places: vec![usize::MAX; side * side], fronts: Vec::new() };
        order.dissect([0..side, 0..side]);
        for number in 0..order.fronts.len() {
            order.fronts[number].rows = order.rows(number);
        }
        order
    }

    /// The rows of a front, when those below it have theirs.
    fn rows(&self, number: usize) -> Vec<usize> {
        let front = &self.fronts[number];
        let from_below = front.below.iter().flat_map(|&below| self.fronts[below].rows.iter().copied());
        let own = front.columns.clone().flat_map(|place| self.neighbours(place));
        let mut rows: Vec<usize> = from_below.chain(own).filter(|&row| row >= front.columns.end).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// How many points there are.
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// The point at a place.
    pub(super) fn point(&self, place: usize) -> usize {
        self.points[place]
    }

    /// The places of a point's neighbours in the grid.
    pub(super) fn neighbours(&self, place: usize) -> impl Iterator<Item = usize> {
        let (point, side) = (self.points[place], self.side);
        let (row, column) = (point / side, point % side);
        let all = [
            (row > 0).then(|| point - side),
            (column > 0).then(|| point - 1),
            (column + 1 < side).then(|| point + 1),
            (row + 1 < side).then(|| point + side),
        ];
        all.into_iter().flatten().map(|point| self.places[point])
    }

    /// Orders a part of the grid, and returns its last front, if it has a point.
    fn dissect(&mut self, [rows, columns]: [Range<usize>; 2]) -> Option<usize> {
        if rows.is_empty() || columns.is_empty() {
            return None;
        }
        if rows.len().max(columns.len()) <= SMALL {
            return Some(self.add([rows, columns], Vec::new()));
        }
        let (halves, line) = if rows.len() >= columns.len() {
            let middle = rows.start + rows.len() / 2;
            let halves = [rows.start..middle, middle + 1..rows.end];
            (halves.map(|rows| [rows, columns.clone()]), [middle..middle + 1, columns])
        } else {
            let middle = columns.start + columns.len() / 2;
            let halves = [columns.start..middle, middle + 1..columns.end];
            (halves.map(|columns| [rows.clone(), columns]), [rows, middle..middle + 1])
        };
        let below = halves.into_iter().filter_map(|half| self.dissect(half)).collect();
        Some(self.add(line, below))
    }

    /// Adds a front whose columns are those points.
    fn add(&mut self, [rows, columns]: [Range<usize>; 2], below: Vec<usize>) -> usize {
        let (number, first) = (self.fronts.len(), self.points.len());
        for point in rows.flat_map(|row| columns.clone().map(move |column| (row, column))) {
            let point = point.0 * self.side + point.1;
            self.places[point] = self.points.len();
            self.points.push(point);
        }
        for &front in &below {
            self.fronts[front].above = Some(number);
        }
        let columns = first..self.points.len();
        self.fronts.push(Front { columns, rows: Vec::new(), below, above: None });
        number
    }
}
