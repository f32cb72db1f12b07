//! CHOLESKY on ranks, threads, or one thread; see [`scash_apps::cholesky`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::cholesky::Cholesky;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// The sparse Cholesky factorisation of a grid's matrix.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Rows and columns of the grid
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 128)]
    size: usize,

    /// Locks for the fronts, which share them if there are fewer
    #[arg(long, value_name = "L", allow_negative_numbers = true, default_value_t = 256)]
    locks: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, locks, options } = Arguments::parse();
    run(Cholesky::new(size, locks), &options)
}
