//! SHIFTING on ranks, threads, or one thread; see [`scash_apps::shifting`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::options::Options;
use scash_apps::run::main as run;
use scash_apps::shifting::Shifting;

/// Smoothing of a row of numbers whose parts change hands.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many numbers
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 262_144)]
    size: usize,

    /// How many iterations
    #[arg(long, value_name = "I", allow_negative_numbers = true, default_value_t = 64)]
    iterations: usize,

    /// Iterations until the parts change hands
    #[arg(long, value_name = "P", allow_negative_numbers = true, default_value_t = 16)]
    period: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, iterations, period, options } = Arguments::parse();
    run(Shifting::new(size, iterations, period), &options)
}
