//! FFT on ranks, threads, or one thread; see [`scash_apps::fft`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::fft::Fft;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// A complex transform of one dimension, in six steps.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Points: a power of 4
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1 << 20)]
    size: usize,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(Fft::new(arguments.size), &arguments.options)
}
