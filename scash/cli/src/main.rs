//! The command `scash`.
//!
//! `scash run` starts a job, on this machine or on several hosts, and ends it properly; `scash rank` stays
//! with a rank that another launcher starts; `scash resume` goes on with a job; `scash status`, `migrate`,
//! `drain` and `rejoin` are for one that runs; `scash info` says what this machine offers; `scash bench`
//! starts the benchmarks, which are programs of their own. Each subcommand is a module with its arguments and
//! one function that returns the command's exit status.

mod bench;
mod info;
mod jobs;
mod run;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
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
    Run(Box<run::Args>),
    Resume(run::ResumeArgs),
    Rank(run::RankArgs),
    Status(jobs::StatusArgs),
    Migrate(jobs::MigrateArgs),
    Drain(jobs::DrainArgs),
    Rejoin(jobs::RejoinArgs),
    Info(info::Args),
    Bench(bench::Args),
    /// Serve a launcher on another host (scash run starts it there)
    #[command(hide = true)]
    Agent(run::AgentArgs),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        if error.kind() == ErrorKind::InvalidUtf8 {
            run::VARIABLES.into_iter().for_each(tell_unreadable);
        }
        error.exit()
    });
    ExitCode::from(match cli.command {
        Command::Run(args) => run::run(*args),
        Command::Resume(args) => run::resume(args),
        Command::Rank(args) => run::rank(args),
        Command::Status(args) => jobs::status(&args),
        Command::Migrate(args) => jobs::migrate(&args),
        Command::Drain(args) => jobs::drain(&args),
        Command::Rejoin(args) => jobs::rejoin(&args),
        Command::Info(args) => info::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Agent(args) => run::agent(&args),
    })
}

/// Names an environment variable that stands for an option, if it is not text: clap does not.
fn tell_unreadable(variable: &str) {
    if let Some(value) = std::env::var_os(variable).filter(|value| value.to_str().is_none()) {
        say(&format!("{variable}={value:?} is not readable as text (UTF-8): set it anew, or unset it"));
    }
}

/// Says something to the user: one line on stderr, in one write, which does not break a line of a rank's.
fn say(text: &str) {
    run::say(&format!("scash: {text}\n"));
}
