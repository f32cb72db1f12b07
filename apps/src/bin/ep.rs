//! EP on ranks, threads, or one thread; see [`scash_apps::ep`].

use std::process::ExitCode;

use clap::Parser;
use scash_apps::ep::Ep;
use scash_apps::npb::Class;
use scash_apps::options::Options;
use scash_apps::run::main as run;

/// Gaussian deviates, added up and counted (NAS Parallel Benchmarks).
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The size of the problem: 2²⁴, 2²⁵ or 2²⁸ pairs
    #[arg(long, value_name = "C", allow_negative_numbers = true, ignore_case = true, default_value = "S")]
    class: Class,

    /// Batches of 2¹⁶ pairs instead of the class's; the result is then not verified
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    batches: Option<usize>,

    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(Ep::new(arguments.class, arguments.batches), &arguments.options)
}
