//! The command `scash`.
//!
//! `scash run` starts a job on this machine and ends it properly; `scash info` says what this machine offers; `scash bench`
//! measures. Each subcommand is a module with its arguments and one function that returns the command's exit status.

mod bench;
mod info;
mod run;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// A software distributed shared memory for Linux.
#[derive(Debug, Parser)]
#[command(name = "scash", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Info(info::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    ExitCode::from(match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Info(args) => info::run(&args),
        Command::Bench(args) => bench::run(&args),
    })
}

/// Says something to the user: one line on stderr, in one write, so that ranks' output does not break it. If nobody
/// listens, that is no reason to fail.
fn say(text: &str) {
    let line = format!("scash: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
