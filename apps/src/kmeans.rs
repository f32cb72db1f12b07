//! k-means: Lloyd's iterations, which divide points into clusters.
//!
//! An iteration gives every point to the cluster with the nearest centroid, and moves every centroid to the
//! mean of its points. A cluster without points stays where it is. The first points are the first centroids.
//!
//! **Who owns what:** the points are cut into blocks. Each worker owns neighbouring blocks, with the sums
//! over their points for each cluster; and neighbouring clusters, of which it computes the centroids from the
//! sums of all blocks.
//!
//! **The same bits on any number of workers**: where floating-point numbers are added, the order matters. A
//! worker's sum would depend on how many points it has. So each block, of a fixed size, has a sum of its own,
//! and the blocks' sums are added in their order.
//!
//! **Two barriers an iteration**: one before the sums are read, one before the centroids are.

use std::ops::Range;

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::{Memory, product};
use crate::owned::{Array, Division};
use crate::program::{Program, ResultRun};
use crate::random::unit;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KMeans {
    /// How many points.
    size: usize,
    clusters: usize,
    dimensions: usize,
    iterations: usize,
}

/// What the workers share.
pub struct Arrays {
    /// The coordinates of all points.
    points: Array<f64>,
    /// For each block and cluster, the number of its points, then the sums of their coordinates.
    sums: Array<f64>,
    /// The coordinates of all centroids.
    centroids: Array<f64>,
    /// Who owns what of them,
    own_points: Division,
    own_sums: Division,
    own_centroids: Division,
    /// and where nobody owns anything.
    read_sums: Division,
    read_centroids: Division,
}

/// Points of a block.
const BLOCK: usize = 512;

impl KMeans {
    /// Divides that many points into clusters.
    ///
    /// # Errors
    /// If one of the first three is 0, or there are more clusters than points.
    pub fn new(size: usize, clusters: usize, dimensions: usize, iterations: usize) -> Result<Self> {
        for (option, value) in [("--size", size), ("--clusters", clusters), ("--dimensions", dimensions)] {
            if value == 0 {
                return Err(Error::Empty(option));
            }
        }
        if clusters > size {
            return Err(Error::TooManyClusters { clusters, size });
        }
        Ok(Self { size, clusters, dimensions, iterations })
    }

    fn blocks(&self) -> usize {
        self.size.div_ceil(BLOCK)
    }

    /// The coordinates of the points of the worker's blocks.
    fn coordinates(&self, who: WorkerNumber) -> Range<usize> {
        let Range { start, end } = who.part(self.blocks());
        (start * BLOCK).min(self.size) * self.dimensions..(end * BLOCK).min(self.size) * self.dimensions
    }

    /// The coordinates of the worker's centroids.
    fn centroids(&self, who: WorkerNumber) -> Range<usize> {
        let Range { start, end } = who.part(self.clusters);
        start * self.dimensions..end * self.dimensions
    }

    /// Elements of the sums of one block.
    fn width(&self) -> usize {
        self.clusters * (1 + self.dimensions)
    }

    /// Adds the points of a block up, each in the sums of its cluster.
    fn add_up(&self, points: &[f64], centroids: &[f64], sums: &mut [f64]) {
        sums.fill(0.0);
        for point in points.chunks_exact(self.dimensions) {
            let cluster = nearest(point, centroids);
            let (count, sums) = sums
                .chunks_exact_mut(1 + self.dimensions)
                .nth(cluster)
                .and_then(<[_]>::split_first_mut)
                .expect("every cluster has sums");
            *count += 1.0;
            for (sum, x) in sums.iter_mut().zip(point) {
                *sum += x;
            }
        }
    }

    /// Moves a cluster's centroid to the mean of its points, given the sums of all blocks.
    fn move_centroid(&self, cluster: usize, sums: &[f64], centroid: &mut [f64]) {
        let mut total = vec![0.0; 1 + self.dimensions];
        for block in sums.chunks_exact(self.width()) {
            for (total, sum) in total.iter_mut().zip(&block[cluster * (1 + self.dimensions)..]) {
                *total += sum;
            }
        }
        if total[0] > 0.0 {
            for (x, sum) in centroid.iter_mut().zip(&total[1..]) {
                *x = sum / total[0];
            }
        }
    }
}

/// The cluster whose centroid is nearest to the point; of several, the first.
fn nearest(point: &[f64], centroids: &[f64]) -> usize {
    let (mut least, mut cluster) = (f64::INFINITY, 0);
    for (index, centroid) in centroids.chunks_exact(point.len()).enumerate() {
        let distance = point.iter().zip(centroid).map(|(a, b)| (a - b) * (a - b)).sum();
        if distance < least {
            (least, cluster) = (distance, index);
        }
    }
    cluster
}

impl Program for KMeans {
    const NAME: &'static str = "kmeans";
    type Arrays = Arrays;
    type Element = f64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        let sums =
            product(&[self.blocks(), self.clusters, self.dimensions.checked_add(1).ok_or(Error::TooLarge)?])?;
        let points = product(&[self.size, self.dimensions])?;
        let centroids = product(&[self.clusters, self.dimensions])?;
        let who = |index| WorkerNumber { index, count: workers };
        Ok(Arrays {
            points: memory.array(points)?,
            sums: memory.array(sums)?,
            centroids: memory.array(centroids)?,
            own_points: Division::new(points, workers, |index| [self.coordinates(who(index))])?,
            own_sums: Division::rows(self.blocks(), self.width(), workers),
            own_centroids: Division::rows(self.clusters, self.dimensions, workers),
            read_sums: Division::read_by_all(sums, workers),
            read_centroids: Division::read_by_all(centroids, workers),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        &arrays.centroids
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        &mut arrays.centroids
    }

    fn owned(&self, who: WorkerNumber, _len: usize) -> Vec<ResultRun> {
        vec![ResultRun::in_place(self.centroids(who))]
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { points, sums, centroids, .. } = arrays;
        worker.turn(&[
            points.to(&arrays.own_points),
            sums.to(&arrays.own_sums),
            centroids.to(&arrays.own_centroids),
        ])?;
        // The same numbers: the first points are the first centroids.
        let who = worker.who();
        let own = [(points, self.coordinates(who)), (centroids, self.centroids(who))];
        for (array, range) in own {
            for (at, x) in range.zip(array.mine(worker)) {
                *x = unit(at);
            }
        }
        worker.turn(&[centroids.to(&arrays.read_centroids)])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let (who, width) = (worker.who(), self.width());
        let Arrays { points, sums, centroids, .. } = arrays;
        for _ in 0..self.iterations {
            let old = centroids.get(worker, 0..centroids.len());
            let points = points.mine(worker).chunks(BLOCK * self.dimensions);
            for (points, sums) in points.zip(sums.mine(worker).chunks_exact_mut(width)) {
                self.add_up(points, old, sums);
            }
            worker.turn(&[sums.to(&arrays.read_sums), centroids.to(&arrays.own_centroids)])?;
            let all = sums.get(worker, 0..sums.len());
            let own = centroids.mine(worker).chunks_exact_mut(self.dimensions);
            for (cluster, centroid) in who.part(self.clusters).zip(own) {
                self.move_centroid(cluster, all, centroid);
            }
            worker.turn(&[centroids.to(&arrays.read_centroids), sums.to(&arrays.own_sums)])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
