//! TSP on ranks, threads, or one thread; see [`scash_apps::tsp`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::options::Options;
use scash_apps::run::main as run;
use scash_apps::tsp::Tsp;

/// The shortest tour through random cities, by branch and bound.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many cities
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 15)]
    cities: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { cities, options } = Arguments::parse();
    run(Tsp::new(cities), &options)
}
