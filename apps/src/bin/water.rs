//! WATER on ranks, threads, or one thread; see [`scash_apps::water`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::options::Options;
use scash_apps::run::main as run;
use scash_apps::water::Water;

/// Molecules that attract and repel each other.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many molecules
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1000)]
    size: usize,

    /// How many steps
    #[arg(long, value_name = "S", allow_negative_numbers = true, default_value_t = 10)]
    steps: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, steps, options } = Arguments::parse();
    run(Water::new(size, steps), &options)
}
