use super::*;
use crate::memory::Heap;
use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

#[test]
fn threads_compute_what_one_worker_does_whatever_the_sizes() {
    for (size, clusters, dimensions, iterations) in
        [(1, 1, 1, 0), (1, 1, 2, 2), (BLOCK, 3, 1, 3), (BLOCK + 1, 9, 3, 2), (5000, 4, 2, 5)]
    {
        agrees_on_any_number_of_threads(KMeans::new(size, clusters, dimensions, iterations).unwrap());
    }
}

/// The points, as the definition of the input says.
fn points(size: usize, dimensions: usize) -> Vec<Vec<f64>> {
    (0..size).map(|i| (0..dimensions).map(|j| unit(i * dimensions + j)).collect()).collect()
}

/// The points of each cluster.
fn divided<'a>(points: &'a [Vec<f64>], centroids: &[Vec<f64>]) -> Vec<Vec<&'a [f64]>> {
    let square = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum() };
    let mut clusters = vec![Vec::new(); centroids.len()];
    for point in points {
        let distance = |&i: &usize| square(point, &centroids[i]);
        let nearest = (0..centroids.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        clusters[nearest.unwrap()].push(&point[..]);
    }
    clusters
}

#[test]
fn every_iteration_moves_the_centroids_to_the_means_of_their_points() {
    let (size, clusters, dimensions) = (1500, 6, 3);
    let points = points(size, dimensions);
    let mut centroids = points[..clusters].to_vec();
    for iterations in 0..8 {
        let result = result_of(&KMeans::new(size, clusters, dimensions, iterations).unwrap());
        for (x, expected) in result.iter().zip(centroids.iter().flatten()) {
            assert!((x - expected).abs() < 1e-12, "after {iterations}: {result:?} for {centroids:?}");
        }
        let divided = divided(&points, &centroids);
        for (centroid, cluster) in centroids.iter_mut().zip(divided) {
            for (j, x) in centroid.iter_mut().enumerate() {
                *x = cluster.iter().map(|point| point[j]).sum::<f64>() / cluster.len() as f64;
            }
        }
    }
}

#[test]
fn a_cluster_without_points_stays_where_it_is() {
    let kmeans = KMeans::new(3, 3, 1, 1).unwrap();
    let (mut sums, mut centroids) = ([9.0; 6], [1.5, 7.0, 99.0]);
    kmeans.add_up(&[1.0, 2.5, 8.0], &centroids, &mut sums);
    assert_eq!(sums, [2.0, 3.5, 1.0, 8.0, 0.0, 0.0]);
    for (cluster, centroid) in centroids.iter_mut().enumerate() {
        kmeans.move_centroid(cluster, &sums, std::slice::from_mut(centroid));
    }
    assert_eq!(centroids, [1.75, 8.0, 99.0]);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    assert!(matches!(KMeans::new(0, 1, 1, 1), Err(Error::Empty("--size"))));
    assert!(matches!(KMeans::new(1, 0, 1, 1), Err(Error::Empty("--clusters"))));
    assert!(matches!(KMeans::new(1, 1, 0, 1), Err(Error::Empty("--dimensions"))));
    assert!(matches!(KMeans::new(3, 4, 1, 1), Err(Error::TooManyClusters { clusters: 4, size: 3 })));
    for (size, clusters, dimensions) in
        [(usize::MAX, 1, 2), (usize::MAX, usize::MAX, 1), (1, 1, usize::MAX), (1 << 40, 1 << 40, 1)]
    {
        let huge = KMeans::new(size, clusters, dimensions, 1).unwrap();
        assert!(matches!(huge.allocate(1, &mut Heap), Err(Error::TooLarge)));
    }
}
