//! What one worker does alone: branches of partial tours, and the search through all that one becomes.

use super::MOST_CITIES;
use crate::shared::Element;

/// A way from the first city on; one through all cities is a tour, and leads back to the first.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Tour {
    length: u32,
    /// How many cities there are on it.
    count: u32,
    cities: [u8; MOST_CITIES],
}

impl Element for Tour {
    fn same_bits(&self, other: &Self) -> bool {
        self == other
    }
}

impl Tour {
    /// The way on which every tour begins.
    pub(super) const FIRST_CITY: Self = Self { length: 0, count: 1, cities: [0; MOST_CITIES] };

    /// Longer than every tour.
    pub(super) const NONE: Self = Self { length: u32::MAX, count: 0, cities: [0; MOST_CITIES] };

    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// How many cities there are on it.
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn cities(&self) -> &[u8] {
        &self.cities[..self.len()]
    }

    fn last(&self) -> u8 {
        self.cities[self.len() - 1]
    }

    fn extended(&self, city: u8, distance: u32) -> Self {
        let mut longer = Self { length: self.length + distance, count: self.count + 1, ..*self };
        longer.cities[self.len()] = city;
        longer
    }
}

/// The distances, and what follows from them.
pub(super) struct Map<'a> {
    distances: &'a [u32],
    /// For each city, how far it is to the nearest other.
    nearest: Vec<u32>,
}

impl<'a> Map<'a> {
    pub(super) fn new(distances: &'a [u32], cities: usize) -> Self {
        let nearest = |(city, row): (usize, &[u32])| {
            let others = row.iter().enumerate().filter(|&(other, _)| other != city);
            others.map(|(_, &distance)| distance).min().unwrap_or(0)
        };
        Self { distances, nearest: distances.chunks_exact(cities).enumerate().map(nearest).collect() }
    }

    pub(super) fn cities(&self) -> usize {
        self.nearest.len()
    }

    fn distance(&self, from: u8, to: u8) -> u32 {
        self.distances[usize::from(from) * self.cities() + usize::from(to)]
    }

    fn not_on<'t>(&self, tour: &'t Tour) -> impl Iterator<Item = u8> + 't {
        let all = u8::try_from(self.cities()).expect("there are at most MOST_CITIES");
        (0..all).filter(|city| !tour.cities().contains(city))
    }

    /// What no tour that begins so is shorter than: its last city and all that are not on it will be left for
    /// another, and none of them for one that is nearer than the nearest.
    pub(super) fn least(&self, tour: &Tour) -> u32 {
        let left = self.not_on(tour).chain([tour.last()]);
        tour.length + left.map(|city| self.nearest[usize::from(city)]).sum::<u32>()
    }

    /// The partial tours that are one city longer, the one to the nearest city first.
    pub(super) fn branches(&self, tour: &Tour) -> Vec<Tour> {
        let extend = |city| tour.extended(city, self.distance(tour.last(), city));
        let mut branches: Vec<Tour> = self.not_on(tour).map(extend).collect();
        branches.sort_by_key(|branch| branch.length);
        branches
    }

    /// The shortest tour that begins so, if it is shorter than `bound`.
    pub(super) fn shortest(&self, tour: Tour, mut bound: u32) -> Option<Tour> {
        if tour.len() == self.cities() {
            let length = tour.length + self.distance(tour.last(), tour.cities[0]);
            return (length < bound).then_some(Tour { length, ..tour });
        }
        let mut best = None;
        for branch in self.branches(&tour) {
            if self.least(&branch) >= bound {
                continue;
            }
            if let Some(found) = self.shortest(branch, bound) {
                bound = found.length;
                best = Some(found);
            }
        }
        best
    }
}
