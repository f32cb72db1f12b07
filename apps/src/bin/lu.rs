//! LU on ranks, threads, or one thread; see [`scash_apps::lu`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::lu::{Lu, MatrixLayout};
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Blocked LU factorisation without pivoting.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Rows and columns of the matrix
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 2048)]
    size: usize,

    /// Rows and columns of a block
    #[arg(long, value_name = "B", allow_negative_numbers = true, default_value_t = 64)]
    block: usize,

    /// How the matrix lies in memory: block by block, or row by row
    #[arg(long, value_name = "HOW", default_value = "blocks")]
    layout: MatrixLayout,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let lu = Lu::new(arguments.size, arguments.block);
    run(lu.map(|lu| lu.laid_out(arguments.layout)), &arguments.options)
}
