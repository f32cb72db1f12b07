//! RELAY on ranks, threads, or one thread; see [`scash_apps::relay`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::options::Options;
use scash_apps::relay::Relay;
use scash_apps::run::main as run;

/// A block of numbers that one worker writes and all read, until another one writes it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Numbers of the block
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 65_536)]
    size: usize,

    /// How often the block is written
    #[arg(long, value_name = "T", allow_negative_numbers = true, default_value_t = 64)]
    turns: usize,

    /// Turns of a producer
    #[arg(long, value_name = "P", allow_negative_numbers = true, default_value_t = 16)]
    period: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { size, turns, period, options } = Arguments::parse();
    run(Relay::new(size, turns, period), &options)
}
