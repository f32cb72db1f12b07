//! NBODY on ranks, threads, or one thread; see [`scash_apps::nbody`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::nbody::Nbody;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Bodies that attract each other, by the method of Barnes and Hut.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many bodies
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 4000)]
    bodies: usize,

    /// How many steps
    #[arg(long, value_name = "S", allow_negative_numbers = true, default_value_t = 10)]
    steps: usize,

    /// Cubes that look no larger count as one body: their side, in times of how far they are, from 0 to 1
    #[arg(long, value_name = "T", allow_negative_numbers = true, default_value_t = 0.6)]
    theta: f64,

    /// Locks for the cells of the tree, which share them if there are fewer
    #[arg(long, value_name = "L", allow_negative_numbers = true, default_value_t = 1024)]
    locks: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { bodies, steps, theta, locks, options } = Arguments::parse();
    run(Nbody::new(bodies, steps, theta, locks), &options)
}
