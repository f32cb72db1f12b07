//! LAPLACE on ranks, threads, or one thread; see [`scash_apps::laplace`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::laplace::Laplace;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Jacobi iterations with a five-point stencil on a square grid.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Inner elements in a row and in a column of the grid
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1022)]
    size: usize,

    /// How many iterations
    #[arg(long, value_name = "I", allow_negative_numbers = true, default_value_t = 50)]
    iterations: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(Laplace::new(arguments.size, arguments.iterations), &arguments.options)
}
