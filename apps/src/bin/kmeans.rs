//! k-means on ranks, threads, or one thread; see [`scash_apps::kmeans`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::kmeans::KMeans;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Lloyd's iterations, which divide points into clusters.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many points
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 100_000)]
    size: usize,

    /// How many clusters
    #[arg(long, value_name = "K", allow_negative_numbers = true, default_value_t = 16)]
    clusters: usize,

    /// Coordinates of a point
    #[arg(long, value_name = "D", allow_negative_numbers = true, default_value_t = 8)]
    dimensions: usize,

    /// How many iterations
    #[arg(long, value_name = "I", allow_negative_numbers = true, default_value_t = 10)]
    iterations: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, clusters, dimensions, iterations, options } = Arguments::parse();
    run(KMeans::new(size, clusters, dimensions, iterations), &options)
}
