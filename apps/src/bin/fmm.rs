//! FMM on ranks, threads, or one thread; see [`scash_apps::fmm`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::fmm::Fmm;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Particles in the plane that attract each other, by the fast multipole method.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many particles
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 20000)]
    particles: usize,

    /// How many steps
    #[arg(long, value_name = "S", allow_negative_numbers = true, default_value_t = 10)]
    steps: usize,

    /// Terms of an expansion: the more, the more exact
    #[arg(long, value_name = "T", allow_negative_numbers = true, default_value_t = 12)]
    terms: usize,

    /// Particles that a box of the tree holds: one with more is cut into four
    #[arg(long, value_name = "B", allow_negative_numbers = true, default_value_t = 32)]
    per_box: usize,

    /// Locks for the boxes of the tree, which share them if there are fewer
    #[arg(long, value_name = "L", allow_negative_numbers = true, default_value_t = 1024)]
    locks: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { particles, steps, terms, per_box, locks, options } = Arguments::parse();
    run(Fmm::new(particles, steps, terms, per_box, locks), &options)
}
