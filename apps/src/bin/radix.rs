//! RADIX on ranks, threads, or one thread; see [`scash_apps::radix`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::options::Options;
use scash_apps::radix::Radix;
use scash_apps::run::main as run;

/// A radix sort of random 32-bit keys.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Keys
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1 << 21)]
    size: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(Radix::new(arguments.size), &arguments.options)
}
