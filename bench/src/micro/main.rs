//! `scash-micro`: measures one thing that shared memory does, on the ranks of a job.
//!
//! `scash run -n N [--provider P] scash-micro WHAT [--json]` prints one line, or one for each rank where they differ. What
//! is measured is said where each is: [`barrier`], [`update`], [`read`], [`rewrite`], [`fault`], [`diff`], [`memory`].
//!
//! **All ranks do the same calls in the same order**, whatever they find. So the work of a measurement is fixed by its
//! options, and only one rank, which took the time, has an [`Outcome`](outcome::Outcome) to print.

mod area;
mod barrier;
mod diff;
mod fault;
mod memory;
mod outcome;
mod read;
mod rewrite;
mod update;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use scash::Dsm;

/// Measure one thing that shared memory does, on the ranks of a job: `scash run -n 2 scash-micro read`.
#[derive(Parser)]
#[command(name = "scash-micro", version)]
struct Arguments {
    #[command(subcommand)]
    what: What,

    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    Barrier(barrier::Options),
    Update(update::Options),
    Read(read::Options),
    Rewrite(rewrite::Options),
    Fault(fault::Options),
    Diff(diff::Options),
    Memory(memory::Options),
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Dsm(#[from] scash::Error),
    #[error("this is measured between two ranks, and there is one: start it with `scash run -n 2`")]
    OneRank,
    #[error("{0}")]
    NotMeasured(String),
    #[error("cannot read {0}: {1}")]
    Proc(&'static str, std::io::Error),
    #[error("cannot print the figures: {0}")]
    Output(#[from] std::io::Error),
}

type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether what was read was right.
fn run(arguments: &Arguments) -> Result<bool> {
    let mut dsm = Dsm::init()?;
    let (name, outcome) = match &arguments.what {
        What::Barrier(options) => ("barrier", barrier::measure(&mut dsm, options)?),
        What::Update(options) => ("update", update::measure(&mut dsm, options)?),
        What::Read(options) => ("read", read::measure(&mut dsm, options)?),
        What::Rewrite(options) => ("rewrite", rewrite::measure(&mut dsm, options)?),
        What::Fault(options) => ("fault", fault::measure(&mut dsm, options)?),
        What::Diff(options) => ("diff", diff::measure(&mut dsm, options)?),
        What::Memory(options) => ("memory", memory::measure(&mut dsm, options)?),
    };
    let right = match outcome {
        Some(outcome) => {
            outcome.print(&dsm, name, arguments.json)?;
            outcome.is_right()
        }
        None => true,
    };
    dsm.finalize()?;
    Ok(right)
}

/// Ranks 0 and 1 have different parts in what is measured.
fn two_ranks(dsm: &Dsm) -> Result<()> {
    if dsm.size() >= 2 { Ok(()) } else { Err(Error::OneRank) }
}
