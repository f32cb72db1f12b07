//! IS on ranks, threads, or one thread; see [`scash_apps::is`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::is::Is;
use scash_apps::npb::Class;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Ranks of random keys, by counting (NAS Parallel Benchmarks).
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The size of the problem: 2¹⁶, 2²⁰ or 2²³ keys
    #[arg(long, value_name = "C", allow_negative_numbers = true, ignore_case = true, default_value = "W")]
    class: Class,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(Ok(Is::new(arguments.class)), &arguments.options)
}
