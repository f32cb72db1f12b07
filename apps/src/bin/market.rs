//! MARKET on ranks, threads, or one thread; see [`scash_apps::market`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::market::Market;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Accounts that trade with each other.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many accounts
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 500)]
    size: usize,

    /// How many steps
    #[arg(long, value_name = "S", allow_negative_numbers = true, default_value_t = 20)]
    steps: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, steps, options } = Arguments::parse();
    run(Market::new(size, steps), &options)
}
