//! The plane: where particles are, and the squares that it is cut into.

use super::expansion::Complex;

/// How often the largest square is halved: as often as coordinates have bits here.
const BITS: u32 = 16;

/// Bits of a particle's number.
pub(super) const NUMBER_BITS: u32 = 20;

/// Digits of a key: no more cells are below each other.
pub(super) const DIGITS: u32 = BITS + NUMBER_BITS / 2;

/// Side of the largest square, in sides of the smallest.
const SIDES: u32 = 1 << BITS;

/// The reach of a plane whose particles are all near 0: that of any smaller one would leave no room for
/// the powers of distances.
const LEAST_REACH: f64 = 1.0 / 1024.0;

/// A square, whose corner and side are whole multiples of the smallest side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Square {
    corner: [u32; 2],
    side: u32,
    /// How often it was cut. Where squares are the smallest already, a quarter is the square itself.
    pub(super) depth: u32,
}

impl Square {
    /// The largest one, with all particles in it.
    pub(super) const ALL: Self = Self { corner: [0; 2], side: SIDES, depth: 0 };

    /// One of its quarters.
    pub(super) fn quarter(self, quarter: usize) -> Self {
        let side = (self.side / 2).max(1);
        let step = |half: bool| if half { self.side - side } else { 0 };
        let [x, y] = self.corner;
        let corner = [x + step(quarter & 1 != 0), y + step(quarter & 2 != 0)];
        Self { corner, side, depth: self.depth + 1 }
    }

    /// Whether it is longer than the other.
    pub(super) fn is_larger(self, other: Self) -> bool {
        self.side > other.side
    }

    /// Whether expansions lead from one to the other: the distance of their centres is the sum of their
    /// sides, or more. Of two that are equally large, there is room for a third one between them.
    pub(super) fn is_apart(self, other: Self) -> bool {
        // In halves of the smallest side.
        let centre = |square: Self, axis: usize| i64::from(2 * square.corner[axis] + square.side);
        let way = |axis: usize| centre(self, axis) - centre(other, axis);
        let sides = 2 * i64::from(self.side + other.side);
        way(0) * way(0) + way(1) * way(1) >= sides * sides
    }
}

/// Where the particles are, and the square around them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane<'a> {
    places: &'a [Complex],
    /// No coordinate is farther from 0.
    reach: f64,
}

impl<'a> Plane<'a> {
    pub(super) fn new(places: &'a [Complex], reach: f64) -> Self {
        Self { places, reach: reach.max(LEAST_REACH) }
    }

    pub(super) fn place(&self, number: usize) -> Complex {
        self.places[number]
    }

    /// The centre of a square.
    pub(super) fn centre(&self, square: Square) -> Complex {
        let unit = 2.0 * self.reach / f64::from(SIDES);
        let half = f64::from(square.side) / 2.0;
        square.corner.map(|x| unit * (f64::from(x) + half) - self.reach)
    }

    /// The key of a particle.
    #[expect(clippy::cast_possible_truncation, reason = "numbers have NUMBER_BITS")]
    pub(super) fn key(&self, number: usize) -> Key {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is limited on purpose"
        )]
        let limited = |x: f64| (x as u32).min(SIDES - 1);
        let cells = |x: f64| limited((x + self.reach) / (2.0 * self.reach) * f64::from(SIDES));
        let [x, y] = self.places[number].map(cells);
        let digits =
            (0..BITS).rev().fold(0, |key, bit| key << 2 | u64::from((y >> bit & 1) << 1 | x >> bit & 1));
        Key(digits << NUMBER_BITS | u64::from((number as u32).reverse_bits() >> (32 - NUMBER_BITS)))
    }
}

/// Says in which squares a particle is: each digit, of base 4, which quarter of the square before. The first
/// ones are made of the coordinates. The last ones are the particle's number, bit by bit from the lowest one
/// on, and tell particles apart that share the smallest square.
///
/// Particles whose keys are neighbours are neighbours in the plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    /// The particle's number.
    #[expect(clippy::cast_possible_truncation, reason = "the number is in the lowest bits")]
    pub(super) fn number(self) -> u32 {
        ((self.0 as u32) << (32 - NUMBER_BITS)).reverse_bits()
    }

    /// Which quarter of a square of that depth.
    pub(super) fn quarter(self, depth: u32) -> usize {
        (self.0 >> (2 * (DIGITS - 1 - depth)) & 3) as usize
    }
}

/// Of ascending keys in a square of that depth, those in each of its quarters.
pub(super) fn quartered(mut keys: &[Key], depth: u32) -> [&[Key]; 4] {
    [0, 1, 2, 3].map(|quarter| {
        let (these, others) = keys.split_at(keys.partition_point(|key| key.quarter(depth) <= quarter));
        keys = others;
        these
    })
}
