//! OCEAN on ranks, threads, or one thread; see [`scash_apps::ocean`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::ocean::Ocean;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// A current that wind drives around a square sea, by multigrid.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Points in a row and in a column of the sea, with its coast: a power of 2, and 1
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 257)]
    size: usize,

    /// How many steps of time
    #[arg(long, value_name = "S", allow_negative_numbers = true, default_value_t = 20)]
    steps: usize,

    /// At most so many multigrid cycles in a step, which ends earlier if the residual is small
    #[arg(long, value_name = "C", allow_negative_numbers = true, default_value_t = 12)]
    cycles: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, steps, cycles, options } = Arguments::parse();
    run(Ocean::new(size, steps, cycles), &options)
}
