//! Matrix multiplication on ranks, threads, or one thread; see [`scash_apps::matmul`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::matmul::Matmul;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Multiplication of dense square matrices.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Rows and columns of the matrices
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 512)]
    size: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(Matmul::new(arguments.size), &arguments.options)
}
