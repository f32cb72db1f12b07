//! `scash-micro`: measures one thing that shared memory does, on the ranks of a job.
//!
//! `SCASH_SHARE=off scash run -n N [--provider P] scash-micro WHAT [--json]` prints one line, or one for each
//! rank where they differ. What is measured is said where each is: [`barrier`], [`update`], [`read`],
//! [`rewrite`], [`fault`], [`diff`], [`memory`], [`lock`], [`image`], [`restart`], [`stall`].
//! [`engine`], [`network`] and [`hold`] need no job.
//!
//! **All ranks do the same calls in the same order**, whatever they find. So the work of a measurement is
//! fixed by its options, and only one rank, which took the time, has an [`Outcome`] to print.

mod area;
mod barrier;
mod diff;
mod engine;
mod fault;
mod hold;
mod image;
mod lock;
mod memory;
mod network;
mod outcome;
mod read;
mod restart;
mod rewrite;
mod stall;
mod update;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use outcome::{Outcome, Setting};
use scash::Dsm;

/// Measure one thing that shared memory does, on the ranks of a job: `SCASH_SHARE=off scash run -n 2
/// scash-micro read`. Without SCASH_SHARE=off ranks of one host share frames, and nothing faults or is
/// fetched.
#[derive(Parser)]
#[command(name = "scash-micro", version)]
struct Arguments {
    #[command(subcommand)]
    what: Command,

    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    Engine(engine::Options),
    Network(network::Options),
    Hold(hold::Options),
    #[command(flatten)]
    OfAJob(OfAJob),
}

/// What the ranks of a job measure together.
#[derive(Subcommand)]
enum OfAJob {
    Barrier(barrier::Options),
    Update(update::Options),
    Read(read::Options),
    Rewrite(rewrite::Options),
    Fault(fault::Options),
    Diff(diff::Options),
    Memory(memory::Options),
    Lock(lock::Options),
    Image(image::Options),
    Restart(restart::Options),
    Stall(stall::Options),
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Dsm(#[from] scash::Error),
    #[error("{0}")]
    Endpoint(#[from] scash_comm::Error),
    #[error("{0}")]
    Engine(#[from] scash::fault::EngineError),
    #[error("this is measured between two ranks, and there is one: start it with `scash run -n 2`")]
    OneRank,
    #[error("{0}")]
    NotMeasured(String),
    #[error("a bare connection: {0}")]
    Bare(std::io::Error),
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
    match &arguments.what {
        Command::Engine(options) => print("engine", engine::measure(options)?, arguments.json),
        Command::Network(options) => print("network", network::measure(options)?, arguments.json),
        Command::Hold(options) => hold::hold(options),
        Command::OfAJob(what) => run_in_job(what, arguments.json),
    }
}

fn print(name: &str, (place, outcome): (Setting, Outcome), json: bool) -> Result<bool> {
    outcome.print(&place, name, json)?;
    Ok(outcome.is_right())
}

fn run_in_job(what: &OfAJob, json: bool) -> Result<bool> {
    let mut dsm = Dsm::init()?;
    let (name, outcome) = match what {
        OfAJob::Barrier(options) => ("barrier", barrier::measure(&mut dsm, options)?),
        OfAJob::Update(options) => ("update", update::measure(&mut dsm, options)?),
        OfAJob::Read(options) => ("read", read::measure(&mut dsm, options)?),
        OfAJob::Rewrite(options) => ("rewrite", rewrite::measure(&mut dsm, options)?),
        OfAJob::Fault(options) => ("fault", fault::measure(&mut dsm, options)?),
        OfAJob::Diff(options) => ("diff", diff::measure(&mut dsm, options)?),
        OfAJob::Memory(options) => ("memory", memory::measure(&mut dsm, options)?),
        OfAJob::Lock(options) => ("lock", lock::measure(&mut dsm, options)?),
        OfAJob::Image(options) => ("image", image::measure(&mut dsm, options)?),
        OfAJob::Restart(options) => ("restart", restart::measure(&mut dsm, options)?),
        OfAJob::Stall(options) => ("stall", stall::measure(&mut dsm, options)?),
    };
    let right = match outcome {
        Some(outcome) => {
            outcome.print(&Setting::of(&dsm), name, json)?;
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
